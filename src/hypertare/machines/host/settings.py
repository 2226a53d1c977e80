"""Settings of this host: which a bench needs, and how those were that runs have changed.

How they were stands in a journal in /run, which a reboot clears as it clears the settings themselves.
Whoever changes something holds the lock, which the kernel drops when its process ends: a journal without a
lock is one that nobody looks after any more. Checks change nothing. Pages of 2 MB: Linux,
Documentation/admin-guide/mm/hugetlbpage.rst.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from hypertare.base.errors import InputError, MachineError
from hypertare.base.host_files import Host
from hypertare.base.units import human_size
from hypertare.machines.host import kvm
from hypertare.protocol import plan
from hypertare.protocol.constants import HUGE_PAGE

_FOLDER = "/sys/kernel/mm/hugepages/hugepages-2048kB"


@dataclass(frozen=True)
class HugePages:
    """Counts of pages: set aside in all, and of those neither used nor promised to anybody."""

    total: int
    free: int


def find_huge_pages(host: Host) -> HugePages | None:
    """None where the kernel or the processor has none of 2 MB.

    Raises:
        MachineError: what the kernel says of them is no number.
    """
    total, free, promised = (_count(host, name) for name in ("nr", "free", "resv"))
    if total is None or free is None:
        return None
    return HugePages(total, max(0, free - (promised or 0)))


def _count(host: Host, name: str) -> int | None:
    path = f"{_FOLDER}/{name}_hugepages"
    text = host.read(path)
    if text is None:
        return None
    if not text.isdecimal():
        raise MachineError(
            f"{path} says {text!r}, which is no number of pages.",
            'Is that /sys the kernel\'s own? Take sut.pages = "4K" or "thp".',
        )
    return int(text)


def set_huge_pages(host: Host, total: int) -> None:
    """Sets so many pages aside; fewer where the kernel does not find them.

    Raises:
        MachineError: the kernel does not let us.
    """
    try:
        host.at(f"{_FOLDER}/nr_hugepages").write_text(f"{total}\n")
    except OSError as error:
        raise MachineError(
            f"pages of 2 MB cannot be set aside: {error.strerror} ({_FOLDER}/nr_hugepages)",
            "Run as root, on a host whose /sys may be written.",
        ) from None


FOLDER = "/run/hypertare"
_GLANCES_S = 0.5
_GLANCE_S = 0.02
"""Seconds between two attempts at the lock: a process that checks the lock holds it for a moment."""


@dataclass(frozen=True)
class Before:
    """The settings of this host as they were before a run; None for a setting that was not changed.

    `huge_pages` is the number of pages that were set aside.
    """

    module: kvm.State | None = None
    huge_pages: int | None = None

    def described(self, host: Host) -> list[str]:
        """Returns a sentence for each setting that was changed: its old and its present value."""
        found = []
        if self.module is not None:
            parameter = self.module.parameter
            was = self.module.parameters.get(parameter)
            now = kvm.find(host)
            found.append(
                f"{self.module.name} had {parameter}={was} "
                f"and {f'now has {now.described}' if now else 'is not loaded now'}"
            )
        if self.huge_pages is not None:
            pages = find_huge_pages(host)
            found.append(
                f"{self.huge_pages} pages of 2 MB were set aside, now it is "
                f"{pages.total if pages else 'none'}"
            )
        return found


def write(host: Host, before: Before) -> None:
    """Says what is about to be changed, before it is; nothing to say removes the journal.

    Raises:
        MachineError: it cannot be written or removed; it is then as it was.
    """
    path, is_nothing = _path(host), before == Before()
    try:
        if is_nothing:
            path.unlink(missing_ok=True)
        else:
            _replace(path, json.dumps(asdict(before)))
    except OSError as error:
        raise MachineError(
            f"{path}, which says how this host's settings were before a run changed them, cannot be "
            f"{'removed' if is_nothing else 'written'}: {error.strerror}.",
            f"As root see to room and to the right to write there: df {FOLDER}; mount | grep /run",
        ) from None


def _replace(path: Path, text: str) -> None:
    written = path.with_suffix(".new")
    try:
        with written.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    except OSError:
        with suppress(OSError):
            written.unlink()
        raise


def read(host: Host) -> Before:
    """Raises:
    MachineError: it is there but cannot be understood.
    """
    path = _path(host)
    try:
        found = json.loads(path.read_text())
        module = found["module"]
        if module is not None:
            device = module["device"] and kvm.Device(**module["device"])
            module = kvm.State(module["name"], dict(module["parameters"]), device or None)
        return Before(module, found["huge_pages"])
    except FileNotFoundError:
        return Before()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MachineError(
            f"{path}, which says how this host's settings were before a run changed them, cannot be "
            f"read: {error}",
            "See /sys/module/kvm_*/parameters and /proc/sys/vm/nr_hugepages, then remove the file.",
        ) from None


def is_held(host: Host) -> bool:
    """Whether a keeper looks after the changed settings."""
    try:
        folder = os.open(host.at(FOLDER), os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(folder)
    return False


@contextmanager
def held(host: Host) -> Iterator[None]:
    """Holds the lock.

    Raises:
        MachineError: someone else does, or /run cannot be written.
    """
    folder = host.at(FOLDER)
    try:
        lock = _locked(folder)
    except BlockingIOError:
        raise held_by_another() from None
    except OSError as error:
        raise MachineError(
            f"{folder} cannot be written: {error.strerror}. Before a setting of this host is "
            "changed, how it was is written down there.",
            "Run as root.",
        ) from None
    try:
        yield
        # With nothing to remember, nothing is left here.
        with suppress(OSError):
            folder.rmdir()
    finally:
        os.close(lock)


def held_by_another() -> MachineError:
    return MachineError(
        "another run has changed settings of this host and will put them back.",
        "Wait for its end: two runs cannot have them at the same time.",
    )


def _locked(folder: Path) -> int:
    """The folder, made where it is not there, open and locked."""
    deadline = time.monotonic() + _GLANCES_S
    while True:
        folder.mkdir(mode=0o755, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Whoever had it may have removed the folder in between.
            with suppress(BlockingIOError, FileNotFoundError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(lock), folder.stat()):
                    return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
        if time.monotonic() > deadline:
            raise BlockingIOError
        time.sleep(_GLANCE_S)


def _path(host: Host) -> Path:
    return host.at(FOLDER) / "before.json"


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
