"""`stream`: payload from one end to the other, over TCP or UDP; neighbours send streams too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hypertare.base.quantities import Cpus, Dscp, Size
from hypertare.base.variables import Found, Response
from hypertare.protocol import plan
from hypertare.protocol.phase import LOAD, Phase
from hypertare.stats import line_rate
from hypertare.workloads import packet_work, stream_rates, stream_work
from hypertare.workloads.latencies import percentiles, spread
from hypertare.workloads.neighbours import NeighbourSettings
from hypertare.workloads.pair import End, Pair
from hypertare.workloads.sending import OF_LINE, OFFERED, Sending, SendingSettings, loss
from hypertare.workloads.stream_rates import goodput, packet_rate
from hypertare.workloads.workload import (
    Line,
    NodeFacts,
    TaskInputs,
)

_PORT = 5201
_WAYS: dict[str, tuple[plan.Direction, ...]] = {
    "transmit": ("out",),
    "forward": ("out",),
    "receive": ("back",),
    "both": ("out", "back"),
}
_LONGER_HEADER = line_rate.IP[6] - line_rate.IP[4]
"""Bytes that an IPv6 header has more than one of IPv4: RFC 8200 section 3, RFC 791 section 3.1."""


class StreamSettings(SendingSettings):
    type: Literal["stream"]
    protocol: Literal["tcp", "udp"] = "tcp"
    """The transport protocol; or `udp`."""
    direction: Literal["transmit", "receive", "both", "forward"] = "transmit"
    """The direction of bytes, seen from the system under test; or `receive`, `both`. Through routers:
    `forward`, `both`.
    """
    flows: Annotated[int, Field(ge=1, le=256)] = 1
    """Connections that work at once."""
    message: Annotated[Size, Field(ge=1)] | None = None
    """Bytes of one write, payload of one datagram. Default: 128K; UDP 1472."""
    socket_buffer: Annotated[Size, Field(ge=1)] | None = None
    """Bytes of SO_SNDBUF and SO_RCVBUF."""
    batch: Annotated[int, Field(ge=1)] | None = None
    """Datagrams that one system call hands over at most."""
    segmentation: bool = False
    """UDP_SEGMENT: the kernel cuts one large write into datagrams."""
    nodelay: bool = True
    """TCP_NODELAY; `false`: small messages are collected, as netperf's default."""
    sender_cpus: Cpus = ()
    """CPUs of its node to which the sender is bound, counted from 0: `[0, 2]`, or as taskset(1) has it,
    `"0,2"` or `"1-3"`; as levels of a factor or of `[tune.knobs]`: `[[1], [1, 2]]`.
    """
    receiver_cpus: Cpus = ()
    """The same for the receiver."""
    dscp: Dscp | tuple[Dscp, ...] | None = None
    """The differentiated services code point of its packets, 0 to 63; a list has each guest's."""
    start_order: Literal["forward", "reverse"] = "forward"
    """The order in which several guests' streams begin, by the order in which the guests were made; or
    `reverse`.
    """
    neighbours: NeighbourSettings | None = None
    """Only one guest is measured, the first or the one with the number `measured`. Each other burns a
    fraction of a CPU, `{ share = "90 %" }`, or moves bytes, `{ stream = "transmit" }` or `"receive"`, or
    both; `rate`, of all these streams together, and `socket_buffer` bound them.
    """

    @property
    def message_bytes(self) -> int:
        """128 KiB writes for TCP; for UDP what fills a packet of the usual MTU."""
        return self.message or (131072 if self.protocol == "tcp" else 1472)

    @model_validator(mode="after")
    def _fits(self) -> StreamSettings:
        if self.protocol == "udp" and not 32 <= self.message_bytes <= 65507:
            raise ValueError("a UDP message must have 32 to 65507 bytes")
        if self.protocol == "udp" and not self.nodelay:
            raise ValueError("'nodelay' is of TCP: a datagram never waits for others; leave it out")
        return self

    @property
    def described(self) -> str:
        return "stream over TCP" if self.protocol == "tcp" else "stream"

    @property
    def is_of_addresses(self) -> bool:
        return True

    @property
    def load(self) -> NeighbourSettings | None:
        return self.neighbours

    @property
    def starts_last_guest_first(self) -> bool:
        return self.start_order == "reverse"

    @property
    def counts_loss(self) -> bool:
        return self.protocol == "udp"

    @property
    def is_regular(self) -> bool:
        return self.protocol == "udp" and self.rate is not None

    def misfit(self, node: NodeFacts) -> str | None:
        """Routers forward, hosts do not."""
        if node.routed and self.direction not in ("forward", "both"):
            return 'routers forward; set direction = "forward" (from a-K to b-K) or "both"'
        if not node.routed and self.direction == "forward":
            return 'only routers forward; set bench.topology = "routers"'
        # What is forwarded has peers at both ends; of both ways each end has both tasks.
        under_test = {"transmit": "sender_cpus", "receive": "receiver_cpus"}.get(self.direction)
        for key, cpus in (("sender_cpus", self.sender_cpus), ("receiver_cpus", self.receiver_cpus)):
            limits: list[int | None] = []
            if self.direction == "both" or key == under_test:
                limits.append(node.cpus)
            if key != under_test:
                limits.append(node.peer_cpus)
            fits = min((limit for limit in limits if limit is not None), default=None)
            if fits is not None and max(cpus, default=0) >= fits:
                return (
                    f"{key} names CPU {max(cpus)}, and there are {fits}, counted from 0: name others, or "
                    "raise sut.cpus"
                )
        return None

    def carried_at_most(self, line: Line) -> float | None:
        """None where datagrams do not fit into a packet."""
        if self.protocol == "tcp":
            one_way, packet = line_rate.tcp(line.rate_bps, line.mtu, ip=line.ip), line.mtu
        else:
            message = self._message(ipv6=line.ip == 6)
            packet = message + line_rate.UDP + line_rate.IP[line.ip]
            try:
                one_way = line_rate.udp(line.rate_bps, message, line.mtu, ip=line.ip)
            except ValueError:
                return None
        if line.frame_mtu is not None:
            one_way *= line_rate.on_wire(packet) / line_rate.on_wire(line.frame_mtu)
        return one_way * (2 if self.direction == "both" else 1)

    def _message(self, *, ipv6: bool) -> int:
        """What fills a packet is less where the header is longer."""
        if self.protocol == "udp" and self.message is None and ipv6:
            return self.message_bytes - _LONGER_HEADER
        return self.message_bytes

    def tasks(self, pair: Pair, inputs: TaskInputs) -> list[plan.Task]:
        receivers, senders = [], []
        for index, way in enumerate(_WAYS[self.direction]):
            source, sink = (pair.near, pair.far) if way == "out" else (pair.far, pair.near)
            # Each flow has a port of its own; a baseline's node has those of all pairs.
            port = _PORT + inputs.port_offset + (2 * pair.rank + index) * self.flows
            mark = f"-{index}" if self.direction == "both" else ""
            receivers.append(
                pair.task(
                    "receive",
                    sink.node,
                    self._receiving(sink, port, inputs),
                    name=f"receive{mark}",
                    direction=way,
                    background=True,
                    cpus=self.receiver_cpus,
                )
            )
            senders.append(
                pair.task(
                    "send",
                    source.node,
                    self._sending(pair, sink, port, inputs),
                    name=f"send{mark}",
                    direction=way,
                    cpus=self.sender_cpus,
                )
            )
        return receivers + senders

    def _receiving(self, sink: End, port: int, inputs: TaskInputs) -> plan.StreamReceive:
        rate_bps = inputs.offered_bps(self.rate)
        message = self._message(ipv6=sink.is_ipv6)
        timed = inputs.gaps and self.is_regular and rate_bps
        return plan.StreamReceive(
            protocol=self.protocol,
            on=sink.everywhere(port),
            flows=self.flows,
            message=message,
            socket_buffer=self.socket_buffer,
            batch=self.batch,
            interval_s=self.interval,
            omit_s=self.omit,
            every_ns=8e9 * message * self.flows / rate_bps if timed and rate_bps else None,
        )

    def _sending(self, pair: Pair, sink: End, port: int, inputs: TaskInputs) -> plan.StreamSend:
        return plan.StreamSend(
            protocol=self.protocol,
            to=sink.at(port),
            duration_s=self.duration,
            flows=self.flows,
            message=self._message(ipv6=sink.is_ipv6),
            rate_bps=inputs.offered_bps(self.rate),
            socket_buffer=self.socket_buffer,
            batch=self.batch,
            segmentation=self.segmentation,
            nodelay=self.nodelay,
            interval_s=self.interval,
            omit_s=self.omit,
            dscp=self._mark(pair),
        )

    def _mark(self, pair: Pair) -> int | None:
        """Of a list each guest has its own, in their order; those beyond it have none."""
        if not isinstance(self.dscp, tuple):
            return self.dscp
        return self.dscp[pair.rank] if pair.rank < len(self.dscp) else None


class Stream(Sending):
    name = "stream"
    settings = StreamSettings
    own_responses = (
        Response("goodput", "b/s", "higher", "payload received over time"),
        Response("packet_rate", "packets/s", "higher", "datagrams received over time"),
        Response("sent_rate", "b/s", "higher", "payload sent over time"),
        Response("loss", "share", "lower", "messages that never came back or through", "mean"),
        Response("reordered", "packets", "lower", "datagrams that came out of order"),
        Response("retransmits", "segments", "lower", "TCP segments sent again"),
        Response("tcp_rtt", "s", "lower", "TCP's smoothed round-trip time under load", "mean"),
        Response(
            "cpu_per_gigabyte", "s/GB", "lower", "CPU time of the whole machine per 10^9 bytes"
        ),
        Response("jitter", "s", "lower", "interarrival jitter of datagrams (RFC 3550)", "mean"),
        Response("gap_p50", "s", "lower", "median gap between datagrams", "mean"),
        Response("gap_p99", "s", "lower", "99th percentile of the gaps", "most"),
        Response("gap_p999", "s", "lower", "99.9th percentile of the gaps", "most"),
        Response("gap_sd", "s", "lower", "standard deviation of the gaps", "mean"),
        OFFERED,
        *OF_LINE,
        *stream_work.RESPONSES,
        *packet_work.RESPONSES,
        *stream_rates.RESPONSES,
    )

    def measure(self, phase: Phase) -> Found:
        of_datagrams = stream_work.are_datagrams(phase)
        flows = max(1, len(phase.tasks("send")))
        rtt = phase.total("send", "rtt_s")
        return {
            "goodput": goodput(phase),
            "packet_rate": packet_rate(phase) if of_datagrams else None,
            "sent_rate": phase.total("send", "sent_bps"),
            "loss": loss(phase) if of_datagrams else None,
            "reordered": phase.total("receive", "reordered_packets") if of_datagrams else None,
            "retransmits": phase.total("send", "retransmits"),
            "tcp_rtt": None if rtt is None else rtt / flows,
            **_regularity(phase),
        }

    def measure_peers(self, phase: Phase, nodes: Sequence[str]) -> Found:
        # TCP sends as much as is taken: its sender waits for the receiver.
        return super().measure_peers(phase, nodes) if stream_work.are_datagrams(phase) else {}

    def measure_node(self, phase: Phase, node: str) -> Found:
        return stream_work.measure(phase, node) | packet_work.measure(phase, node)

    def measure_machine(self, phase: Phase, machine_cpu: float) -> Found:
        received = phase.total("receive", "received_bytes")
        return {"cpu_per_gigabyte": machine_cpu / (received / 1e9)} if received else {}


def _regularity(phase: Phase) -> Found:
    """Of receivers that were asked to note when each datagram came."""
    noted = [
        one.values["jitter_ns"] for one in phase.results_of("receive") if "jitter_ns" in one.values
    ]
    if not noted:
        return {}
    return {
        "jitter": fmean(noted) / 1e9,
        **percentiles(phase, "receive", "gap"),
        **spread(phase, "receive", "gap"),
    }


STREAM = Stream()


def load_tasks(
    load: NeighbourSettings, pairs: Sequence[Pair], seconds: float, inputs: TaskInputs
) -> Iterator[plan.Task]:
    """The tasks of all neighbours, for as many seconds as the others may take."""
    for pair in pairs:
        if load.stream is not None:
            flow = StreamSettings(
                type="stream",
                direction=load.stream,
                rate=None if load.rate is None else load.rate / len(pairs),
                socket_buffer=load.socket_buffer,
                duration=seconds,
                omit=0.0,
            )
            for task in flow.tasks(pair, inputs):
                name = f"{LOAD}-sink" if task.background else f"{LOAD}-stream"
                yield pair.task(LOAD, task.node, task.workload, name=name, background=True)
        if load.share is not None:
            work = plan.Burn(share=load.share, duration_s=seconds)
            yield pair.task(LOAD, pair.node, work, background=True)
