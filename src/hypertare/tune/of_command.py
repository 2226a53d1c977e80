"""The knobs that a command in a guest can feel: what is tuned where no study names any. Pure."""

from __future__ import annotations

from typing import Any

Knobs = dict[str, list[Any]]

_OF_MEMORY: Knobs = {
    # Beside what the host and the guest's kernel do by themselves.
    "sut.pages": ["4K"],
    "knobs.thp.enabled": ["never", "madvise"],
}
_OF_NETWORK: Knobs = {
    "sut.datapath": ["vhost-user"],
    "knobs.offloads.gro": [False],
    "knobs.offloads.tso": [False],
    "knobs.busy_poll": [50],
    "knobs.socket_buffers": ["64K", "1M"],
}
_WITHOUT_VHOST = "qemu"
"""The default is vhost where this host has it."""


def knobs_of_command(*, has_peer: bool, has_vhost: bool, huge_pages: bool) -> Knobs:
    """Levels to try beside the default, by path.

    Args:
        has_peer: it speaks with a server across the guest's NIC.
        has_vhost: this host's kernel can move a guest's packets.
        huge_pages: pages of 2 MB may be set aside on this host.
    """
    found = {path: list(levels) for path, levels in _OF_MEMORY.items()}
    if huge_pages:
        found["sut.pages"].append("2M")
    if has_peer:
        found |= {path: list(levels) for path, levels in _OF_NETWORK.items()}
        if has_vhost:
            found["sut.datapath"].append(_WITHOUT_VHOST)
    return found
