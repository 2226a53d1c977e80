"""`ping`: requests and replies, one after the other."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hypertare.base.quantities import Dscp, Size, Waiting, Working
from hypertare.base.variables import Found, Response, Values
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase
from hypertare.stats import line_rate
from hypertare.workloads import packet_work
from hypertare.workloads.capture import SHARED_MEMORY, frame_misfit, via_misfit
from hypertare.workloads.latencies import in_seconds, percentiles, spread
from hypertare.workloads.neighbours import NeighbourSettings
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import (
    SETTLE_S,
    NodeFacts,
    TaskInputs,
    Workload,
    WorkloadSettings,
)

_PORT = 7000
NEAR_SHARE, NEAR_TIME = "near_share", "near_time"
"""Of finished trials: see `hypertare.findings.nearness`."""
ROUND_TRIPS = "rtt"
"""The name of their histogram."""


class PingSettings(WorkloadSettings):
    type: Literal["ping"]
    protocol: Literal["udp", "tcp", "icmp", "frame"] = "udp"
    """The protocol; or `tcp`, `icmp`; `frame`: as a [capture program](capture.md) sees it, past both IP
    stacks.
    """
    via: plan.FrameVia | None = None
    """With `frame`: `packet`, the default, `socket`, `shared`; emulated `xdp` ([which](capture.md))."""
    direction: Literal["transmit", "receive"] = "transmit"
    """The system under test asks; or `receive`: its peer asks."""
    duration: Working = 1.0
    """The length of a trial."""
    message: Annotated[Size, Field(ge=16, le=65507)] = 64
    """Bytes of a request and of its answer; of a frame, those behind its header."""
    interval: Waiting = 0.0
    """The time from one request to the next; 0: the next one follows the answer."""
    timeout: Working = 1.0
    """An answer that takes longer than this is lost."""
    omit: Annotated[int, Field(ge=0, le=1_000_000_000)] = 20
    """Requests at the start that are not counted."""
    dscp: Dscp | None = None
    """The differentiated services code point of its requests, 0 to 63 (UDP, TCP)."""
    neighbours: NeighbourSettings | None = None
    """As for `stream`."""

    @model_validator(mode="after")
    def _comes_somehow(self) -> PingSettings:
        if self.dscp is not None and self.protocol not in ("udp", "tcp"):
            raise ValueError("'dscp' is of protocol = 'udp' and 'tcp': leave it out")
        if (self.via is not None) and self.protocol != "frame":
            raise ValueError("'via' is of protocol = 'frame': leave it out")
        return self

    def misfit(self, node: NodeFacts) -> str | None:
        if self.protocol != "frame":
            return None
        if node.routed:
            return "no router forwards frames: take another protocol than 'frame'"
        way = via_misfit(self.via, None, node)
        return way or frame_misfit("message", self.message, line_rate.HEADER, node.mtu)

    @property
    def expected_s(self) -> float | None:
        return self.duration

    @property
    def limit_s(self) -> float:
        return self.duration + self.timeout + SETTLE_S

    @property
    def is_of_addresses(self) -> bool:
        return self.protocol != "frame"

    @property
    def load(self) -> NeighbourSettings | None:
        return self.neighbours

    @property
    def shared_memory(self) -> int | None:
        return SHARED_MEMORY if self.via == "shared" else None

    @property
    def counts_loss(self) -> bool:
        return self.protocol != "tcp"

    def tasks(self, pair: Pair, inputs: TaskInputs) -> list[plan.Task]:
        out = self.direction == "transmit"
        source, sink = (pair.near, pair.far) if out else (pair.far, pair.near)
        has_port = self.protocol in ("udp", "tcp")
        # What has no machine beneath it has its kernel's own ring, and so has the peer.
        machine = pair.machine if self.via == "shared" else None
        past_card = machine is not None
        via: plan.FrameVia | None = None
        if self.protocol == "frame":
            via = "packet" if self.via in (None, "shared") else self.via
        port = _PORT + inputs.port_offset + pair.rank
        request = plan.PingRequest(
            protocol=self.protocol,
            to=sink.at(port) if has_port else sink.address,
            message=self.message,
            duration_s=self.duration,
            interval_s=self.interval,
            timeout_s=self.timeout,
            omit=self.omit,
            via="shared" if past_card and out else via,
            past_card=past_card and not out,
            dscp=self.dscp,
        )
        asks = pair.task("request", source.node, request)
        if self.protocol == "icmp":
            return [asks]
        reply = plan.PingReply(
            protocol=self.protocol,
            on=sink.everywhere(port) if has_port else sink.address,
            message=self.message,
            via="shared" if past_card and not out else via,
        )
        answers = pair.task("reply", sink.node, reply, background=True)
        if machine is None:
            return [answers, asks]
        relay = plan.FrameRelay(guest=pair.node, frame=self.message + line_rate.HEADER)
        return [pair.task("relay", machine, relay, background=True), answers, asks]


class Ping(Workload):
    name = "ping"
    settings = PingSettings
    own_responses = (
        Response("rtt_p50", "s", "lower", "median round-trip time", "mean"),
        Response("rtt_mean", "s", "lower", "mean round-trip time", "mean"),
        Response("rtt_p99", "s", "lower", "99th percentile of the round-trip time", "most"),
        Response("rtt_p999", "s", "lower", "99.9th percentile of the round-trip time", "most"),
        Response("rtt_sd", "s", "lower", "standard deviation of round-trip times", "mean"),
        Response("rtt_jitter", "s", "lower", "mean change from one round trip to the next", "mean"),
        Response(
            NEAR_SHARE,
            "share",
            "higher",
            "round trips within the 95 % quantile of the baseline in the same block",
            "mean",
        ),
        Response(
            NEAR_TIME,
            "share",
            "higher",
            "time in round trips within the mean and a deviation of the baseline in the same block",
            "mean",
        ),
        Response("loss", "share", "lower", "messages that never came back or through", "mean"),
        *packet_work.RESPONSES,
    )
    headline = "rtt_p50"
    needs_network = True
    is_timed = True

    def measure(self, phase: Phase) -> Found:
        names = ("rtt_p50", "rtt_mean", "rtt_p99", "rtt_p999", "rtt_jitter")
        return (
            in_seconds(phase, "request", names)
            | spread(phase, "request", ROUND_TRIPS)
            | _loss(phase)
        )

    def measure_together(self, parts: dict[int, Values], joined: Values, phase: Phase) -> Found:
        """Percentiles and spread come from one histogram of all requests of all guests."""
        of_all = percentiles(phase, "request", ROUND_TRIPS) | spread(phase, "request", ROUND_TRIPS)
        return of_all | _means(phase) | _loss(phase)

    def measure_node(self, phase: Phase, node: str) -> Found:
        return packet_work.measure(phase, node, "relay", ("fed_packets", "taken_packets"))


def _loss(phase: Phase) -> Found:
    requests = phase.total("request", "requests")
    lost = phase.total("request", "lost_packets")
    return {"loss": lost / requests if requests and lost is not None else None}


def _means(phase: Phase) -> Found:
    """Weighted by the replies of each. Jitter is within each one's succession."""
    asked = [result.values for result in phase.results_of("request")]
    found: Found = {}
    for name in ("mean", "jitter"):
        having = [values for values in asked if f"rtt_{name}_ns" in values]
        replies = [values.get("replies", 0.0) for values in having]
        if sum(replies) > 0:
            total = sum(
                values[f"rtt_{name}_ns"] * count
                for values, count in zip(having, replies, strict=True)
            )
            found[f"rtt_{name}"] = total / sum(replies) / 1e9
    return found


PING = Ping()
