"""The interfaces by which a program on a node can take frames."""

from __future__ import annotations

from hypertare.protocol import plan
from hypertare.workloads.workload import NodeFacts

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
