"""The goodput that a link of Ethernet can carry at most: its rate less all that is no payload."""

from __future__ import annotations

from typing import Literal

Version = Literal[4, 6]

PREAMBLE, HEADER, CHECK, GAP = 8, 14, 4, 12
"""Bytes of a frame on the wire beside its content. Source: IEEE 802.3, clauses 3 and 4."""

LEAST_CONTENT = 46

IP: dict[Version, int] = {4: 20, 6: 40}
TCP, TIMESTAMPS, UDP = 20, 12, 8
"""Bytes. Source: RFC 9293, RFC 7323 (10 bytes, filled up to 12), RFC 768."""


def tcp(link_bps: float, mtu: int = 1500, *, ip: Version = 4) -> float:
    """Payload in b/s of segments that fill the MTU, one way, acknowledgements for nothing.

    Gigabit Ethernet: 1448 of 1538 bytes are payload, 941.48 Mb/s.

    Raises:
        ValueError: the headers leave no room.
    """
    payload = mtu - IP[ip] - TCP - TIMESTAMPS
    return link_bps * _payload(payload, mtu) / on_wire(mtu)


def udp(link_bps: float, message: int, mtu: int = 1500, *, ip: Version = 4) -> float:
    """Payload in b/s of datagrams of this many bytes, each in one packet.

    Raises:
        ValueError: a datagram does not fit into a packet, or is empty.
    """
    packet = message + UDP + IP[ip]
    if packet > mtu:
        raise ValueError(
            f"a message of {message} bytes makes a packet of {packet}, the MTU is {mtu}"
        )
    return link_bps * _payload(message, mtu) / on_wire(packet)


def on_wire(packet: int) -> int:
    """Bytes of time that an IP packet takes on the wire, the gap after it included."""
    return PREAMBLE + HEADER + max(packet, LEAST_CONTENT) + CHECK + GAP


def _payload(payload: int, mtu: int) -> int:
    if payload <= 0:
        raise ValueError(f"an MTU of {mtu} leaves no room for {payload} bytes of payload")
    return payload
