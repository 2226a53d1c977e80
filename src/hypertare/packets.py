"""Where did the packets go? Sent is received and dropped by place, of one UDP stream. Pure.

The ends count every datagram of the stream, whether it counts for its responses or not. Places count
what they drop from before the stream until its receiver has taken what was under way. A datagram is
dropped in one place only, so the parts add up, with two exceptions that the kernel makes:
- Datagrams that travel as one (GRO, UDP_SEGMENT) are one for the place that drops them. Without
  these offloads the account is exact.
- A VMM that drops a packet of its own accord tells nobody: that is what is `unexplained`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hypertare.phase import Phase
from hypertare.records import Record

_MACHINE = "host"


@dataclass(frozen=True)
class Account:
    """Datagrams of one stream. `dropped` is by place, with every place that was looked at."""

    sent: int
    received: int
    dropped: dict[str, int]

    @property
    def unexplained(self) -> int:
        """Sent, and neither received nor dropped in a place that tells; 0 when all adds up."""
        return self.sent - self.received - sum(self.dropped.values())


def account(records: Iterable[Record], node: str) -> Account | None:
    """The account of a trial whose stream the node under test received.

    None where one of its parts was not counted: the stream was not UDP, or a probe was not
    available.
    """
    phase = Phase.of(records)
    sent, received = phase.total("send", "all_packets"), phase.total("receive", "all_packets")
    dropped = places(phase, node)
    if sent is None or received is None or None in dropped.values():
        return None
    whole = {place: int(count) for place, count in dropped.items() if count is not None}
    return Account(int(sent), int(received), whole)


def places(phase: Phase, node: str) -> dict[str, float | None]:
    """Packets dropped on the way into a node, by place; none where it was not looked.

    `tap`: the queue before a guest's NIC, full because the NIC had no room. `link`: elsewhere on the
    machine's links. `ring`: the NIC had no room and said so itself. `backlog`: the CPU's queue. A full
    backlog is counted by the kernel as the interface's, too.
    """
    names = ("backlog", "socket", "memory", "no_port", "checksum", "ip_receive")
    found = {name: phase.probe(node, "drops", name) for name in names}
    found["ring"] = phase.sum_over_interfaces(node, "drops", "ring")
    found["damaged"] = phase.sum_over_interfaces(node, "drops", "damaged")
    received = phase.sum_over_interfaces(node, "drops", "receive")
    backlog = found["backlog"]
    found["driver"] = None if received is None or backlog is None else max(0.0, received - backlog)
    if node != _MACHINE and (_MACHINE, "drops") in phase.probes:
        found["tap"] = _of_links(phase, "tap", ("transmit", "queue"))
        found["link"] = _of_links(phase, "veth", ("receive", "transmit", "queue"))
    return found


def _of_links(phase: Phase, kind: str, counters: Sequence[str]) -> float | None:
    """Sum over the machine's links whose names begin so: those that a bench made."""
    reading = phase.probes[_MACHINE, "drops"]
    if reading.unavailable is not None:
        return None
    return sum(
        count
        for name, count in reading.values.items()
        if name.startswith(kind) and name.rpartition(".")[2] in counters
    )
