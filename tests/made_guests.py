"""Records of several guests that work at once, made up: every figure is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypertare.protocol.phase import PHASE
from hypertare.protocol.plan import ProbeName, SchedulerWeight
from hypertare.protocol.records import (
    Histogram,
    Interval,
    KnobOutcome,
    ProbeValues,
    Record,
    TaskResult,
)
from tests.made_tasks import purpose_of

STEP_S = 0.1
ELAPSED_S = 2.0
"""Of the probes' readings."""


@dataclass(frozen=True)
class Streamed:
    """What a guest's stream did: evenly `bps` from `begin_s` for `lasts_s` on the host agent's clock,
    reported after `delay_s`. It was sent for `sent_s`, if not for just as long. Of datagrams `lost` are
    missing; a stream of TCP has none to lose. `first` bytes came at the very beginning, beside that.
    """

    bps: float
    begin_s: float = 5.0
    lasts_s: float = 1.0
    delay_s: float = 0.002
    cpu_s: float = 0.5
    sent_s: float | None = None
    lost: float | None = None
    first: float = 0.0


def streams(
    guests: Sequence[Streamed],
    node: str = "xen1",
    driver_s: float = 0.8,
    weights: Sequence[int] = (),
    load_s: Sequence[float] = (),
) -> list[Record]:
    """Guests that stream, then those that only disturb, with the CPU time of each and the driver's."""
    made: list[Record] = [probe("host", driver_s)]
    for number, guest in enumerate(guests, start=1):
        made += stream(guest, f"receive.{number}")
        sent = {
            "sent_bps": guest.bps,
            "retransmits": 2.0,
            "elapsed_s": guest.lasts_s if guest.sent_s is None else guest.sent_s,
        }
        made.append(result(f"send.{number}", sent))
        made.append(probe(f"{node}-{number}", guest.cpu_s))
    for number, seconds in enumerate(load_s, start=len(guests) + 1):
        made.append(result(f"load.{number}", {"share": seconds / ELAPSED_S, "loops": 7.0}))
        made.append(probe(f"{node}-{number}", seconds))
    made += [weight(f"{node}-{number}", one) for number, one in enumerate(weights, start=1)]
    return made


def stream(one: Streamed, task: str) -> list[Record]:
    steps = round(one.lasts_s / STEP_S)
    ends = [one.lasts_s * place / steps for place in range(steps + 1)]
    reported: list[Record] = [
        Interval(
            node="peer",
            trial=1,
            phase=PHASE,
            task=task,
            purpose=purpose_of(task),
            begin_s=begin,
            end_s=end,
            values={
                "received_bytes": one.bps / 8 * (end - begin) + (one.first if place == 0 else 0.0)
            },
            # Some are held up; the quickest reports how the clocks stand.
            heard_s=one.begin_s + end + one.delay_s + (0.03 if place % 3 else 0.0),
        )
        for place, (begin, end) in enumerate(pairwise(ends))
    ]
    values = {
        "goodput_bps": one.bps,
        "received_bytes": one.bps / 8 * one.lasts_s + one.first,
        "received_packets": 1000.0,
        "elapsed_s": one.lasts_s,
    }
    if one.lost is not None:
        values["lost_packets"] = one.lost
    return [*reported, result(task, values)]


def pings(rtts_ns: Sequence[Sequence[int]], node: str = "xen1") -> list[Record]:
    made: list[Record] = [probe("host", 0.4)]
    for number, rtts in enumerate(rtts_ns, start=1):
        buckets = tuple((value, rtts.count(value)) for value in sorted(set(rtts)))
        values = {
            "requests": len(rtts) + 1.0,
            "replies": float(len(rtts)),
            "lost_packets": 1.0,
            "rtt_mean_ns": sum(rtts) / len(rtts),
            "rtt_p50_ns": float(sorted(rtts)[(len(rtts) - 1) // 2]),
            "rtt_jitter_ns": 10.0 * number,
        }
        reported = result(f"request.{number}", values)
        histogram = {"rtt": Histogram(unit="ns", buckets=buckets)}
        made.append(reported.model_copy(update={"histograms": histogram}))
        made.append(probe(f"{node}-{number}", 0.1))
    return made


def result(task: str, values: dict[str, float]) -> TaskResult:
    return TaskResult(
        node="any", trial=1, phase=PHASE, task=task, values=values, purpose=purpose_of(task)
    )


def probe(node: str, cpu_s: float, name: ProbeName = "outside") -> ProbeValues:
    return ProbeValues(
        node=node,
        trial=1,
        phase=PHASE,
        probe=name,
        elapsed_s=ELAPSED_S,
        values={"cpu_s": cpu_s},
    )


def weight(guest: str, value: int) -> KnobOutcome:
    return KnobOutcome(
        node="host",
        trial=1,
        knob=SchedulerWeight(weight=value, guest=guest),
        action="applied",
        before="256",
        after=str(value),
    )
