"""`capture`: frames from the peer to a capture program, past the IP stacks of both."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from hypertare.base.quantities import Size
from hypertare.base.variables import Found, Response
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase
from hypertare.stats import line_rate
from hypertare.workloads import packet_work, stream_rates
from hypertare.workloads.pair import Pair
from hypertare.workloads.sending import OF_LINE, OFFERED, Sending, SendingSettings, loss
from hypertare.workloads.stream_rates import goodput, packet_rate
from hypertare.workloads.workload import (
    Line,
    NodeFacts,
    TaskInputs,
)

_XDP_MTU = 3822
"""A frame by XDP, with its header and the kernel's room before it, is in one page."""
_XDP_LEAST = 32 << 10
"""Bytes of a ring: 16 frames of up to 2 KB each."""

SHARED_MEMORY = 8 << 20
"""What a guest shares with its machine: a power of two, as a PCI device has it."""


def via_misfit(via: plan.FrameVia | None, ring: int | None, node: NodeFacts) -> str | None:
    """Why frames cannot come this way."""
    if via == "shared" and not node.shares_memory:
        return (
            "via = 'shared' is memory that a guest of QEMU shares with its machine: take the platform "
            "'guest', and no other that has a kernel of its own"
        )
    if via != "xdp":
        return None
    if node.sandboxed:
        return (
            "via = 'xdp' needs CAP_BPF and CAP_NET_ADMIN of the machine itself, and what is weighed on "
            "this host is in a sandbox: take machine = 'emulated', or run "
            "`hypertare-agent capture --via xdp` alone, as root"
        )
    if node.mtu > _XDP_MTU:
        return (
            f"via = 'xdp' takes frames of up to a page: with it the MTU is at most {_XDP_MTU} bytes"
        )
    if ring is not None and ring < _XDP_LEAST:
        return (
            f"via = 'xdp' needs a 'ring' of at least {_XDP_LEAST >> 10}K for each queue of the card"
        )
    return None


SHORTEST = line_rate.HEADER + line_rate.LEAST_CONTENT
"""Bytes of a frame without its FCS: IEEE 802.3, clause 3."""

_PAGE, _MOST_RING = 4096, 256 << 20
_FIRST_SESSION = 1


def _is_ring(size: int) -> int:
    if not (_PAGE <= size <= _MOST_RING and size % _PAGE == 0):
        raise ValueError(f"a ring has whole pages of {_PAGE} bytes, at most 256M, for example '4M'")
    return size


Ring = Annotated[Size, AfterValidator(_is_ring)]
"""Memory in which frames wait to be taken."""


class CaptureSettings(SendingSettings):
    type: Literal["capture"]
    via: plan.FrameVia = "packet"
    """The interface by which frames are taken; or `socket`, emulated `xdp`, `shared` ([what they
    are](capture.md)).
    """
    frame: Annotated[Size, Field(ge=SHORTEST, le=65549)] = 64
    """Bytes with the header, without FCS."""
    burst: Annotated[int, Field(ge=1, le=1024)] = 32
    """Frames handed over at once."""
    ring: Ring = 4 << 20
    """Memory in which frames wait to be taken."""

    @property
    def shared_memory(self) -> int | None:
        return SHARED_MEMORY if self.via == "shared" else None

    @property
    def counts_loss(self) -> bool:
        return True

    def misfit(self, node: NodeFacts) -> str | None:
        if node.routed:
            return "no router forwards such frames: leave bench.topology out"
        way = via_misfit(self.via, self.ring, node)
        return way or frame_misfit("frame", self.frame, 0, node.mtu)

    def carried_at_most(self, line: Line) -> float | None:
        """Frames that the MTU does not carry are refused before."""
        packet = self.frame - line_rate.HEADER
        counted = packet if line.frame_mtu is None else line.frame_mtu
        return line.rate_bps * self.frame / line_rate.on_wire(counted)

    def tasks(self, pair: Pair, inputs: TaskInputs) -> list[plan.Task]:
        # Each pair has a session of its own: a baseline's node has the frames of all.
        session = _FIRST_SESSION + inputs.port_offset + pair.rank
        # What has no machine beneath it has its kernel's own ring.
        machine = pair.machine if self.via == "shared" else None
        via = "packet" if self.via == "shared" and machine is None else self.via
        capture = plan.FrameCapture(
            on=pair.near.address,
            via=via,
            session=session,
            frame=self.frame,
            ring=self.ring,
            interval_s=self.interval,
            omit_s=self.omit,
        )
        send = plan.FrameSend(
            to=pair.near.address,
            past_card=machine is not None,
            session=session,
            frame=self.frame,
            duration_s=self.duration,
            rate_bps=inputs.offered_bps(self.rate),
            burst=self.burst,
            interval_s=self.interval,
            omit_s=self.omit,
        )
        tasks = [
            pair.task("receive", pair.near.node, capture, direction="back", background=True),
            pair.task("send", pair.far.node, send, direction="back"),
        ]
        if machine is None:
            return tasks
        feed = plan.FrameFeed(guest=pair.node, session=session, frame=self.frame, ring=self.ring)
        return [pair.task("feed", machine, feed, background=True), *tasks]


def frame_misfit(setting: str, size: int, header: int, mtu: int) -> str | None:
    """Why a link of this MTU carries no frame with so many bytes behind a header of so many."""
    least, most = SHORTEST - header, mtu + line_rate.HEADER - header
    if least <= size <= most:
        return None
    return f"'{setting}' is {size}: with an MTU of {mtu} bytes it must be from {least} to {most}"


class Capture(Sending):
    name = "capture"
    settings = CaptureSettings
    own_responses = (
        Response("goodput", "b/s", "higher", "frames captured over time, with their headers"),
        Response("packet_rate", "packets/s", "higher", "frames captured over time"),
        Response("sent_rate", "b/s", "higher", "frames sent over time"),
        Response("loss", "share", "lower", "frames sent that were not captured", "mean"),
        Response(
            "capture_drops",
            "share",
            "lower",
            "frames, omitted ones too, that found the capture program's memory full",
            "mean",
        ),
        Response("cpu_per_packet", "s/packet", "lower", "CPU time of the whole machine per frame"),
        OFFERED,
        *OF_LINE,
        *packet_work.RESPONSES,
        *stream_rates.RESPONSES,
    )

    def measure(self, phase: Phase) -> Found:
        all_sent = phase.total("send", "all_packets")
        dropped = phase.total("receive", "all_drops")
        return {
            "goodput": goodput(phase),
            "packet_rate": packet_rate(phase),
            "sent_rate": phase.total("send", "sent_bps"),
            "loss": loss(phase),
            "capture_drops": dropped / all_sent if all_sent and dropped is not None else None,
        }

    def measure_node(self, phase: Phase, node: str) -> Found:
        return packet_work.measure(phase, node, "feed", ("fed_packets",))

    def measure_machine(self, phase: Phase, machine_cpu: float) -> Found:
        """Both count the whole phase, with what is omitted."""
        captured = phase.total("receive", "all_packets")
        return {"cpu_per_packet": machine_cpu / captured} if captured else {}


CAPTURE = Capture()
