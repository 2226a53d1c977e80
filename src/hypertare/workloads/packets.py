"""Where did the packets go? Sent is received and dropped by place, of one UDP stream or of frames that
are captured. Pure.

The ends count every datagram of the stream, whether it counts for its responses or not. Places count
what they drop from before the stream until its receiver has taken what was under way. A datagram is
dropped in one place only, so the parts add up, with two exceptions that the kernel makes:
- Datagrams that travel as one (GRO, UDP_SEGMENT) are one for the place that drops them. Without
  these offloads the account is exact.
- A VMM that drops a packet of its own accord reports it to nobody: that is what is `unexplained`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hypertare.probes.drops import places
from hypertare.protocol.phase import Phase
from hypertare.protocol.records import Record

_PEER = "peer"


@dataclass(frozen=True)
class Account:
    """Datagrams of one stream. `dropped` is by place, with every place that was looked at.

    `others` are the sender's frames that were not the stream's (ARP, neighbour discovery): a place
    that drops does not distinguish them.
    """

    sent: int
    received: int
    dropped: dict[str, int]
    others: int = 0

    @property
    def unexplained(self) -> int:
        """Sent, and neither received nor dropped in a place that counts; 0 when all adds up."""
        return self.sent - self.received - sum(self.dropped.values())

    @property
    def adds_up(self) -> bool:
        """Whether nothing is unexplained, but for others' frames among the dropped."""
        return -self.others <= self.unexplained <= 0


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
    at_ring = phase.total("receive", "all_drops")
    if at_ring is not None:
        whole["capture"] = int(at_ring)
    frames = phase.sum_over_interfaces(_PEER, "net_dev", "tx_packets") or 0.0
    return Account(int(sent), int(received), whole, max(0, int(frames - sent)))
