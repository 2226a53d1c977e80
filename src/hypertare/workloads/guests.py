"""Responses of several guests that work at once: of each guest, and of all together. Pure.

Each guest has the responses of a guest that works alone, from the records of its own tasks and node. A
response states how its value for all guests is made (`Response.of_guests`), unless the kind of workload has
a better way (`Workload.measure_together`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from hypertare.base.variables import OfGuests, Response, Values
from hypertare.probes.outside import OUTSIDE
from hypertare.stats import fairness

OF_CPU = (
    Response("jain_cpu", "index", "higher", "Jain's index of the guests' CPU time"),
    Response("jain_weighted_cpu", "index", "higher", "Jain's index of CPU time over weight"),
    Response(
        "entitlement",
        "share",
        "higher",
        "CPU time over what the guest's weight entitles to",
        "mean",
    ),
    Response("neighbours_cpu", "s", "higher", "CPU time of the guests that are there to disturb"),
    Response(
        "neighbours_cpu_share", "share", "higher", "share of one CPU that these neighbours took"
    ),
    Response(
        "jain_neighbours_cpu",
        "index",
        "higher",
        "Jain's index of the CPU time of the guests that are there to disturb",
    ),
    *OUTSIDE.driver,
)


def join(parts: Mapping[int, Values], responses: Iterable[Response]) -> Values:
    """Returns one value for each response that all working guests have."""
    return {
        response.name: _JOINED[response.of_guests](
            [values[response.name] for values in parts.values()]
        )
        for response in responses
        if parts and all(response.name in values for values in parts.values())
    }


def evenness(cpu: Sequence[float | None]) -> float | None:
    """Jain's index of CPU times; none of less than two, or where one is not known."""
    known = [seconds for seconds in cpu if seconds is not None]
    if len(known) < 2 or len(known) < len(cpu) or not sum(known) > 0:
        return None
    return fairness.jain(known)


def of_cpu(parts: Mapping[int, Values], weights: Mapping[int, float]) -> Values:
    """How evenly CPU time went to those who work, and by their weights where all have one."""
    known = {g: values["outside_cpu"] for g, values in parts.items() if "outside_cpu" in values}
    if len(known) < 2 or len(known) < len(parts):
        return {}
    shares = list(known.values())
    found = {"jain_cpu": fairness.jain(shares)}
    if all(guest in weights for guest in known) and sum(shares) > 0:
        due = [weights[guest] for guest in known]
        found["jain_weighted_cpu"] = fairness.jain(shares, due)
    return found


def entitlements(parts: Mapping[int, Values], weights: Mapping[int, float]) -> dict[int, float]:
    """Returns CPU time over entitlement, by guest; empty unless all working guests have a weight."""
    known = {g: values["outside_cpu"] for g, values in parts.items() if "outside_cpu" in values}
    if len(known) < 2 or not all(g in known and g in weights for g in parts):
        return {}
    if not sum(known.values()) > 0:
        return {}
    due = fairness.entitlements(list(known.values()), [weights[guest] for guest in known])
    return dict(zip(known, map(float, due), strict=True))


_JOINED: dict[OfGuests, Callable[[Sequence[float]], float]] = {
    "sum": sum,
    "mean": fmean,
    "most": max,
}
