"""vhost-net: whether this host's kernel moves guests' packets. Reads only."""

from __future__ import annotations

import os

from hypertare.base.errors import MachineError
from hypertare.base.host_files import Host

VHOST = "/dev/vhost-net"
_ELSE = (
    "take another sut.datapath (qemu, vhost-user), or machine = 'emulated', whose KVM host has it"
)


def can_use_vhost(host: Host) -> bool:
    """Whether this user can open it."""
    return os.access(host.at(VHOST), os.R_OK | os.W_OK)


def check_vhost(host: Host) -> None:
    """Checks that this user can use vhost-net.

    Raises:
        MachineError: it cannot be used; the message names the remedy.
    """
    if can_use_vhost(host):
        return
    if host.at(VHOST).exists():
        raise MachineError(
            f"sut.datapath asks for vhost, but this user may not open {VHOST}.",
            f"As root: adduser USER kvm (or chmod 0666 {VHOST}); or {_ELSE}.",
        )
    raise MachineError(
        f"sut.datapath asks for vhost, but this host has no {VHOST}.",
        f"As root: modprobe vhost_net (in a container: --device {VHOST}); or {_ELSE}.",
    )
