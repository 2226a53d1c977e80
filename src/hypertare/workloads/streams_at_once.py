"""Responses of streams of several guests: common ones, and each guest's goodput beside the others. Pure."""

from __future__ import annotations

from hypertare.base.response import Found, Response, Values
from hypertare.protocol.phase import Phase
from hypertare.stats import fairness
from hypertare.workloads.common_interval import Common, common, flow
from hypertare.workloads.stream_rate import first_bytes, of_stream

RESPONSES = (
    Response("fair_rate", "b/s", "higher", "goodput of a guest on average"),
    Response("least_rate", "b/s", "higher", "goodput of the guest that got least"),
    Response("most_rate", "b/s", "higher", "goodput of the guest that got most"),
    Response("jain_goodput", "index", "higher", "Jain's index of the guests' goodput"),
    Response("overlap", "share", "higher", "share of the longest stream's time in which all ran"),
)


def common_of(phase: Phase) -> Common | None:
    """Over the streams of all guests that do not only disturb."""
    intervals_of = {
        task: phase.intervals[task] for task in phase.tasks("receive") if task in phase.intervals
    }
    flows = {
        task: flow(intervals, first_bytes(phase, task)) for task, intervals in intervals_of.items()
    }
    known = {task: pieces for task, pieces in flows.items() if pieces}
    return common(known) if len(known) == len(flows) else None


def why_not(phase: Phase) -> str | None:
    """Why a trial has no goodput of guests at once, where that is why."""
    if not phase.guests or common_of(phase) is not None:
        return None
    return "its guests' streams never ran all at the same time; give them more time with 'duration'"


def with_common_rates(parts: dict[int, Values], phase: Phase) -> dict[int, Values]:
    """Returns the values of each guest, with the lower of its goodput and its rate in the common interval.

    Over its own time, a stream looks too good if it had the line to itself for a while. Over the common
    interval, a starving stream may look too good, because its bytes came then; its own rate contains its
    silence.
    """
    found = common_of(phase)
    made: dict[int, Values] = {}
    for guest, values in parts.items():
        mine = [
            min(rate, own)
            for task, rate in (found.rates if found else {}).items()
            if phase.guest_of(task) == guest
            if (own := of_stream(phase, task)) is not None
        ]
        made[guest] = {name: value for name, value in values.items() if name != "goodput"}
        if mine:
            made[guest]["goodput"] = sum(mine)
    return made


def measure(parts: dict[int, Values], phase: Phase) -> Found:
    """By response, where several guests' streams ran at the same time; `parts` are by guest."""
    found = common_of(phase)
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
