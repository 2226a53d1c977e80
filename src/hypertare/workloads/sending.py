"""What every workload has that sends for a while, at a rate or as fast as it goes; its share of a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import model_validator

from hypertare.base.figures import quantity
from hypertare.base.quantities import OfCapacity, OfferedRate, Waiting, Working
from hypertare.base.variables import Found, Response, Values
from hypertare.protocol.phase import Phase, sum_of_known
from hypertare.workloads import stream_rates
from hypertare.workloads.workload import SETTLE_S, Workload, WorkloadSettings

OFFERED = Response(
    "offered_share",
    "share",
    "higher",
    "of the rate that peers were asked to send, the part that they sent",
    "mean",
)


class SendingSettings(WorkloadSettings):
    rate: OfferedRate = None
    """The payload that is offered over all flows; or `"60 % of capacity"`: of its unpaced goodput on the
    slowest platform of the bench, measured first. Default: as fast as possible.
    """
    duration: Working = 2.0
    """The time in which bytes, or frames, are counted."""
    omit: Waiting = 0.2
    """The time at the start that is not counted."""
    interval: Working = 0.25
    """The interval of the time series."""

    @model_validator(mode="after")
    def _measures(self) -> SendingSettings:
        if self.omit >= self.duration:
            raise ValueError("'omit' must be shorter than 'duration'")
        return self

    @property
    def expected_s(self) -> float | None:
        return self.duration

    @property
    def limit_s(self) -> float:
        return self.duration + self.omit + SETTLE_S

    @property
    def left_out_s(self) -> float:
        return self.omit

    @property
    def has_loss_rate(self) -> bool:
        return self.counts_loss

    @property
    def is_share_of_capacity(self) -> bool:
        return isinstance(self.rate, OfCapacity)


class Sending(Workload):
    headline = "goodput"
    needs_network = True
    is_timed = True
    polls = True

    def beside_others(self, parts: dict[int, Values], phase: Phase) -> dict[int, Values]:
        """Goodput is over the common interval, where that is not too favourable."""
        return stream_rates.with_common_rates(parts, phase)

    def measure_peers(self, phase: Phase, nodes: Sequence[str]) -> Found:
        """Returns the share of the requested rate that the peers sent; None if no peer was asked for one.

        Senders under test do not count: their limit is what the trial measures.
        """
        peers = [task.values for task in phase.results_of("send") if task.node not in nodes]
        asked = sum_of_known(values.get("offered_bps") for values in peers)
        sent = sum_of_known(values.get("sent_bps") for values in peers if "offered_bps" in values)
        return {OFFERED.name: sent / asked if asked and sent is not None else None}

    def measure_together(self, parts: dict[int, Values], joined: Values, phase: Phase) -> Found:
        """Returns the responses over all pairs; goodput is the sum of the guests' own."""
        values = self.measure(phase) | {"goodput": joined.get("goodput")}
        return values | stream_rates.measure(parts, phase)

    def why_not(self, phase: Phase) -> str:
        return stream_rates.why_not(phase) or super().why_not(phase)


def loss(phase: Phase) -> float | None:
    """Returns the share of sent datagrams that the receiver did not count, wherever they were lost."""
    sent = phase.total("send", "sent_packets")
    received = phase.total("receive", "received_packets")
    return max(0.0, 1 - received / sent) if sent and received is not None else None


THEORETICAL, SHARE = "theoretical_goodput", "line_share"


OF_LINE = (
    Response(THEORETICAL, "b/s", "higher", "payload that the line carries at most"),
    Response(SHARE, "share", "higher", "goodput over what the line carries at most"),
)


_IMPOSSIBLE = 2.0
"""Of what a line carries. Whatever waited before a trial and came in it is less than that."""


def of_trial(most: float | None, values: Mapping[str, float]) -> dict[str, float]:
    """The responses that a trial has by its line, of which `most` is the theoretical goodput in b/s.

    Raises:
        ValueError: the goodput is more than a line can have carried: it was not in force.
    """
    if most is None or "goodput" not in values:
        return {}
    share = values["goodput"] / most
    if share > _IMPOSSIBLE:
        found, carried = (quantity(rate, "b/s") for rate in (values["goodput"], most))
        raise ValueError(f"a goodput of {found} on a line that carries {carried}")
    return {THEORETICAL: most, SHARE: share}
