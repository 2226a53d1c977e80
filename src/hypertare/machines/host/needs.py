"""Checks that this host has the settings that a bench needs. It changes nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass

from hypertare.base.errors import InputError, MachineError
from hypertare.base.host_files import Host
from hypertare.base.units import human_size
from hypertare.machines.host import kvm
from hypertare.machines.host.huge_pages import find_huge_pages
from hypertare.machines.host.journal import held_by_another, is_held
from hypertare.machines.host.vhost import check_vhost
from hypertare.protocol import plan
from hypertare.protocol.constants import HUGE_PAGE


@dataclass(frozen=True)
class Permissions:
    """What of this host a run may change, to put it back at its end."""

    module_reload: bool = False
    huge_pages: bool = False


NOTHING = Permissions()


@dataclass(frozen=True)
class Needs:
    """The settings of this host that a bench needs.

    `paging` is the kind of page tables that KVM must give its guests, None for any. `huge_pages` is the
    number of 2 MB pages that must be free for guests. `vhost` states that the kernel must move their
    packets.
    """

    paging: plan.Paging | None = None
    huge_pages: int = 0
    vhost: bool = False

    @classmethod
    def of(cls, bench: plan.Bench) -> Needs:
        guests = [node.kind for node in bench.nodes if isinstance(node.kind, plan.Guest)]
        paging = {guest.settings.paging for guest in guests if guest.settings.paging is not None}
        if len(paging) > 1:
            raise InputError(
                "guests with nested and with shadow page tables cannot stand on one bench: KVM's "
                "module gives all guests the same.",
                "Make sut.paging a factor: each of its levels has a bench of its own.",
            )
        return cls(
            next(iter(paging), None),
            # Whole pages for each guest.
            sum(-(-guest.memory // HUGE_PAGE) for guest in guests if guest.settings.pages == "2M"),
            any(guest.settings.datapath == "vhost" for guest in guests),
        )


def check(host: Host, needs: Needs, allow: Permissions) -> bool:
    """Whether the host has what a bench needs, or may be made to have it; changes nothing.

    What another run has made it have at the moment, it has for that one alone.

    Returns:
        Whether it has these page tables and huge pages without a change.

    Raises:
        MachineError: it has not, and what to do about it.
    """
    if needs.vhost:
        check_vhost(host)
    if (needs.paging is not None or needs.huge_pages) and is_held(host):
        raise held_by_another()
    has_paging = needs.paging is None or _has_paging(host, needs.paging, allow)
    has_pages = not needs.huge_pages or _has_huge_pages(host, needs.huge_pages, allow)
    return has_paging and has_pages


def _has_paging(host: Host, paging: plan.Paging, allow: Permissions) -> bool:
    module = kvm.find(host)
    if module is None:
        raise MachineError(
            f"sut.paging asks for {paging} page tables, but {kvm.why_missing(host)}.",
            "As root: modprobe kvm_intel (or kvm_amd). Without KVM take machine = 'emulated', "
            "which brings a KVM host of its own.",
        )
    if module.paging == paging:
        return True
    if module.paging is None:
        raise MachineError(
            f"sut.paging asks for {paging} page tables, but {module.name} does not report which it "
            "gives.",
            f"As root see: cat /sys/module/{module.name}/parameters/{module.parameter}",
        )
    if not allow.module_reload:
        raise MachineError(
            f"sut.paging asks for {paging} page tables, but this host has {module.described}: its "
            f"guests have {module.paging} ones.",
            "As root, with no guest running, add --allow-module-reload: the module is loaded anew "
            "for the run and put back at its end.",
        )
    require_root("--allow-module-reload")
    kvm.check_free(host, module)
    return False


def _has_huge_pages(host: Host, count: int, allow: Permissions) -> bool:
    found = find_huge_pages(host)
    size = human_size(count * HUGE_PAGE)
    if found is None:
        raise MachineError(
            f'sut.pages = "2M" needs {count} pages of 2 MB, but this host\'s kernel has none of '
            "that size.",
            'Take sut.pages = "4K" or "thp".',
        )
    if found.free >= count:
        return True
    missing = count - found.free
    if not allow.huge_pages:
        raise MachineError(
            f'sut.pages = "2M" needs {count} free pages of 2 MB ({size}), but {found.free} of '
            f"{found.total} are free.",
            f"As root: sysctl vm.nr_hugepages={found.total + missing}, or add --allow-huge-pages: "
            "they are set aside for the run and given back at its end.",
        )
    require_root("--allow-huge-pages")
    available = host.memory.get("MemAvailable", 0)
    if missing * HUGE_PAGE > available:
        raise MachineError(
            f"{missing} more pages of 2 MB ({human_size(missing * HUGE_PAGE)}) cannot be set "
            f"aside: {human_size(available)} of memory are available.",
            "Give the guests less with sut.memory, or end what takes the memory.",
        )
    return False


def require_root(option: str) -> None:
    """Checks that this user is root, for an option that changes settings of this host.

    Raises:
        MachineError: this user is not root.
    """
    if os.geteuid() != 0:
        raise MachineError(
            f"{option} changes settings of this host's kernel, which only root may do; nothing "
            "was changed.",
            f"Run it as root (sudo hypertare ... {option}).",
        )
