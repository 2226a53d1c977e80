"""vhost-net: whether this host's kernel moves guests' packets. Reads only."""

from __future__ import annotations

import os

from hypertare.base.errors import MachineError
from hypertare.base.host_files import Host

DEVICE = "/dev/vhost-net"
ELSE = (
    "take another sut.datapath (qemu, vhost-user), or machine = 'emulated', whose KVM host has it"
)


def can_be_used(host: Host) -> bool:
    """Whether this user can open it."""
    return os.access(host.at(DEVICE), os.R_OK | os.W_OK)


def check(host: Host) -> None:
    """Checks that this user can use vhost-net.

    Raises:
        MachineError: it cannot be used; the message names the remedy.
    """
    if can_be_used(host):
        return
    if host.at(DEVICE).exists():
        raise MachineError(
            f"sut.datapath asks for vhost, but this user may not open {DEVICE}.",
            f"As root: adduser USER kvm (or chmod 0666 {DEVICE}); or {ELSE}.",
        )
    raise MachineError(
        f"sut.datapath asks for vhost, but this host has no {DEVICE}.",
        f"As root: modprobe vhost_net (in a container: --device {DEVICE}); or {ELSE}.",
    )
