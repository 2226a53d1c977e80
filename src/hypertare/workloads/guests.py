"""What is measured of several guests that work at once: of each, and of all of them. Pure.

Of each it is what a guest has that works alone, from the records of its own tasks and node. What is of all
of them each response says itself (`Response.of_guests`), but for round trips, whose percentiles come from
one histogram of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from hypertare.protocol.phase import Phase
from hypertare.stats import fairness
from hypertare.workloads import stream_rate
from hypertare.workloads.common_interval import Common, common, flow
from hypertare.workloads.response import OfGuests, Response

Values = dict[str, float]

OF_STREAMS = (
    Response("fair_rate", "b/s", "higher", "goodput of a guest on average"),
    Response("least_rate", "b/s", "higher", "goodput of the guest that got least"),
    Response("most_rate", "b/s", "higher", "goodput of the guest that got most"),
    Response("jain_goodput", "index", "higher", "Jain's index of the guests' goodput"),
    Response("overlap", "share", "higher", "share of the longest stream's time in which all ran"),
)

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
    Response("driver_cpu", "s", "lower", "CPU time of the driver domain"),
    Response("driver_cpu_share", "share", "lower", "share of one CPU that the driver domain took"),
)


def common_of(phase: Phase) -> Common | None:
    """Over the streams of all guests that do not only disturb."""
    told = {task: i for task, i in phase.intervals.items() if task.startswith("receive")}
    flows = {
        task: flow(intervals, stream_rate.first_bytes(phase, task))
        for task, intervals in told.items()
    }
    known = {task: pieces for task, pieces in flows.items() if pieces}
    return common(known) if len(known) == len(flows) else None


def with_common_rates(parts: Mapping[int, Values], phase: Phase, found: Common | None) -> None:
    """Puts in place of each guest's goodput the lower of that and of its rate in the common interval.

    Over its own time a stream that had the line to itself for a while looks too well. Over the common
    interval one that starves may, for that is when it came; its own rate knows its silence.
    """
    for guest, values in parts.items():
        values.pop("goodput", None)
        mine = [
            min(rate, own)
            for task, rate in (found.rates if found else {}).items()
            if task.endswith(f".{guest}")
            if (own := stream_rate.of_stream(phase, task)) is not None
        ]
        if mine:
            values["goodput"] = sum(mine)


def join(parts: Mapping[int, Values], responses: Iterable[Response]) -> Values:
    """One value of each of these responses that all have who work."""
    return {
        response.name: _JOINED[response.of_guests](
            [values[response.name] for values in parts.values()]
        )
        for response in responses
        if parts and all(response.name in values for values in parts.values())
    }


def of_streams(parts: Mapping[int, Values], found: Common | None) -> Values:
    rates = [values["goodput"] for values in parts.values() if "goodput" in values]
    if found is None or len(rates) < 2 or len(rates) < len(parts):
        return {}
    return {
        "fair_rate": sum(rates) / len(rates),
        "least_rate": min(rates),
        "most_rate": max(rates),
        "jain_goodput": fairness.jain(rates),
        "overlap": found.share,
    }


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
    """By guest, where all that work have a weight."""
    known = {g: values["outside_cpu"] for g, values in parts.items() if "outside_cpu" in values}
    if len(known) < 2 or not all(g in known and g in weights for g in parts):
        return {}
    if not sum(known.values()) > 0:
        return {}
    due = fairness.entitlements(list(known.values()), [weights[guest] for guest in known])
    return dict(zip(known, map(float, due), strict=True))


def round_trips(phase: Phase) -> dict[str, float | None]:
    """Of all requests of all guests. Jitter is within each one's succession, weighted by its replies."""
    from hypertare.stats.percentile import merge, quantiles

    asked = [r for task, r in phase.results.items() if task.startswith("request")]
    told = [r.histograms["rtt"] for r in asked if "rtt" in r.histograms]
    found: dict[str, float | None] = {}
    if told and any(count for one in told for _, count in one.buckets):
        middle, high, highest = quantiles(merge(told), (0.5, 0.99, 0.999))
        found = {"rtt_p50": middle / 1e9, "rtt_p99": high / 1e9, "rtt_p999": highest / 1e9}
    for name in ("mean", "jitter"):
        having = [r.values for r in asked if f"rtt_{name}_ns" in r.values]
        replies = [values.get("replies", 0.0) for values in having]
        if sum(replies) > 0:
            total = sum(
                values[f"rtt_{name}_ns"] * count
                for values, count in zip(having, replies, strict=True)
            )
            found[f"rtt_{name}"] = total / sum(replies) / 1e9
    requests = phase.total("request", "requests")
    lost = phase.total("request", "lost_packets")
    found["loss"] = lost / requests if requests and lost is not None else None
    return found


_JOINED: dict[OfGuests, Callable[[Sequence[float]], float]] = {
    "sum": sum,
    "mean": fmean,
    "most": max,
}
