"""Frames that an end of one router sends, and that nobody behind another may ever see."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping

from hypertare.design.routers import Network, networks
from tests.integration import frames

Frame = tuple[str, int, str]
"""Destination (a MAC address, or `@` and an interface of the host, which has it), EtherType, payload in
hexadecimal.
"""

Macs = Mapping[tuple[int, str], str]
"""Of the routers' interfaces, by router and side, so that frames can be addressed to them."""


def _ipv4(source: str, to: str) -> bytes:
    """A UDP datagram without a checksum, which UDP allows."""
    udp = struct.pack("!4H", 9, 9, 8 + len(frames.MARK), 0) + frames.MARK
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 9, 17, 0)
    head += socket.inet_aton(source) + socket.inet_aton(to)
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    return head[:10] + struct.pack("!H", ~total & 0xFFFF) + head[12:] + udp


def _ipv6(source: str, to: str) -> bytes:
    head = struct.pack("!IHBB", 6 << 28, len(frames.MARK), 59, 9)
    return (
        head
        + socket.inet_pton(socket.AF_INET6, source)
        + socket.inet_pton(socket.AF_INET6, to)
        + frames.MARK
    )


def _arp(source: str, wanted: str) -> bytes:
    sender = bytes.fromhex("020000000099") + socket.inet_aton(source)
    return (
        struct.pack("!HHBBH", 1, 0x800, 6, 4, 1)
        + sender
        + bytes(6)
        + socket.inet_aton(wanted)
        + frames.MARK
    )


def _both(to: str, source: Network, address4: str, address6: str) -> list[Frame]:
    return [
        (to, 0x800, _ipv4(source.end_address("ipv4"), address4).hex()),
        (to, 0x86DD, _ipv6(source.end_address("ipv6"), address6).hex()),
    ]


def wanted(own: int, macs: Macs) -> list[Frame]:
    """From `a-OWN` to its partner: what is to pass."""
    here, there = networks(own)
    return _both(macs[own, "a"], here, there.end_address("ipv4"), there.end_address("ipv6"))


def strays(own: int, foreign: int, macs: Macs, others: tuple[str, ...] = ()) -> list[Frame]:
    """From `a-OWN`: whatever might find a way to the other router, its networks or its ends.

    `others` are further destinations that might carry it there.
    """
    here, own_other = networks(own)
    gate = macs[own, "a"]
    found: list[Frame] = []
    for side in networks(foreign):
        four, six = side.end_address("ipv4"), side.end_address("ipv6")
        found += _both(gate, here, four, six)
        found += _both(gate, here, side.router_address("ipv4"), side.router_address("ipv6"))
        # With a source of their own: asked for by nobody, and an answer would go there.
        found += _both(gate, side, own_other.end_address("ipv4"), own_other.end_address("ipv6"))
        found += _both(gate, side, four, six)
        # Straight to their hardware's address.
        for mac in (macs[foreign, side.side], *others):
            found += _both(mac, here, four, six)
        found += _both("ff:ff:ff:ff:ff:ff", here, four.rpartition(".")[0] + ".255", "ff02::1")
        found.append(("ff:ff:ff:ff:ff:ff", 0x806, _arp(f"{here.end_address('ipv4')}0", four).hex()))
        found.append((gate, 0x806, _arp(four, side.router_address("ipv4")).hex()))
    found += _both("33:33:00:00:00:01", here, "224.0.0.1", "ff02::1")
    found += _both("33:33:00:00:00:02", here, "224.0.0.5", "ff05::2")
    found += _both("01:00:5e:00:00:05", here, "224.0.0.5", "ff0e::1")
    return found
