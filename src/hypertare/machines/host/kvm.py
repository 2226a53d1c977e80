"""KVM on this host: whether guests boot with it, which page tables they have, loading its module anew.

Whether guests boot is decided by booting one, since /dev/kvm can be there and not work. The processor's
module says by a parameter whether guests have nested page tables (Intel: extended page tables, `ept`; AMD:
nested page tables, `npt`); without them KVM keeps shadow page tables. The parameter is read at loading.
(Linux, Documentation/admin-guide/kernel-parameters.txt.)
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError
from hypertare.base.figures import listing
from hypertare.base.host_files import Host
from hypertare.base.paths import agent_binary
from hypertare.protocol.constants import AGENT_PREFIX
from hypertare.protocol.plan import Accelerator, Paging

if TYPE_CHECKING:
    from hypertare.machines.image.build import Image


_BOOT_LIMIT_S = 8
_FILE = "accelerator.json"


@dataclass(frozen=True)
class Choice:
    """An accelerator, why, and what would make it a faster one."""

    accelerator: Accelerator
    reason: str
    do: str | None = None


def require_qemu() -> None:
    """Checks that QEMU is installed.

    Raises:
        MachineError: it is not.
    """
    if shutil.which(ARCH.qemu) is None:
        raise MachineError(
            "QEMU is not installed; the platform 'guest' and the machine 'emulated' need it.",
            f"Install it (Debian: apt-get install {ARCH.qemu_package}), or leave the guest out: "
            '--on native,container (weigh) or --set \'sut.platforms=["native","container"]\'.',
        )


def best_accelerator(image: Image, agent: Path | None = None, host: Host | None = None) -> Choice:
    """KVM if a guest boots with it in time, else emulation.

    The answer holds for one boot of this machine with this QEMU and this kernel, and is kept in the
    cache for that long.

    Raises:
        MachineError: there is no agent to boot it.
    """
    machine = host or Host()
    if choice := without_boot(machine):
        return choice
    key = _key(machine, image)
    choice = _remembered(machine, key)
    if choice is None:
        choice = _boot(machine, image, agent or agent_binary())
        _remember(machine, key, choice)
    return choice


def without_boot(host: Host) -> Choice | None:
    """The answer where it needs no boot: KVM is not there, or not for this user."""
    device = host.at("/dev/kvm")
    if device.exists():
        if os.access(device, os.R_OK | os.W_OK):
            return None
        return Choice(
            "tcg",
            "/dev/kvm may not be opened by this user",
            "as root: adduser USER kvm, then log in again",
        )
    flags = cpu_flags(host)
    module = "kvm_amd" if "svm" in flags else "kvm_intel" if "vmx" in flags else None
    if module is not None:
        return Choice(
            "tcg",
            f"there is no /dev/kvm: the processor can virtualise, but {module} is not loaded",
            f"as root: modprobe {module}; in a container: docker run --device /dev/kvm",
        )
    if "hypervisor" in flags:
        do = "a virtual machine needs nested virtualisation for it, see `nested`"
    else:
        do = (
            "switch virtualisation on in the firmware (Intel VT-x, AMD SVM), then as root: "
            "modprobe kvm_intel (or kvm_amd)"
        )
    return Choice("tcg", "there is no /dev/kvm: the processor shows no virtualisation", do)


def cpu_flags(host: Host) -> frozenset[str]:
    """What /proc/cpuinfo says that the processor can do."""
    flags = re.search(r"^flags\s*:(.*)$", host.read("/proc/cpuinfo") or "", re.MULTILINE)
    return frozenset(flags[1].split() if flags else ())


def _boot(host: Host, image: Image, agent: Path) -> Choice:
    limit = ("--accelerator", "kvm", "--limit", str(_BOOT_LIMIT_S))
    files = ("--kernel", str(image.kernel), "--initramfs", str(image.initramfs))
    # Whatever ends this process ends the guest.
    life = ("--parent", str(os.getpid()))
    ran = host.run((str(agent), "guest", *files, *limit, *life), _BOOT_LIMIT_S + 5.0)
    if ran.ok:
        return Choice("kvm", "a guest booted with KVM")
    why = ran.err.strip().partition("\n")[0].removeprefix(AGENT_PREFIX) or "no message"
    return Choice(
        "tcg",
        f"/dev/kvm is there, but a guest does not boot with it: {why}",
        "in a virtual machine: see `nested`; on bare metal: dmesg | grep -i kvm",
    )


def _key(host: Host, image: Image) -> str:
    version = host.run((ARCH.qemu, "--version"), 10.0).out.partition("\n")[0]
    boot = host.read("/proc/sys/kernel/random/boot_id") or ""
    parts = (boot, host.read("/proc/sys/kernel/osrelease") or "", image.kernel_release, version)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _remembered(host: Host, key: str) -> Choice | None:
    try:
        kept = json.loads((host.cache / _FILE).read_bytes())
        if kept["key"] == key and kept["accelerator"] in ("kvm", "tcg"):
            return Choice(kept["accelerator"], str(kept["reason"]), kept["do"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _remember(host: Host, key: str, choice: Choice) -> None:
    """A cache that cannot be written costs another boot next time, no more."""
    kept = {"key": key, **choice.__dict__}
    with suppress(OSError):
        host.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=host.cache, delete=False) as written:
            json.dump(kept, written)
        Path(written.name).replace(host.cache / _FILE)


PARAMETERS = {"kvm_intel": "ept", "kvm_amd": "npt"}
"""By module, its parameter for nested page tables."""

DEVICE = "/dev/kvm"
_RELOAD_LIMIT_S = 30.0
_DEVICE_LIMIT_S = 5.0
_GLANCE_S = 0.1
_ACL = "system.posix_acl_access"
_ON = ("Y", "1")


@dataclass(frozen=True)
class Parameters:
    """A processor's KVM module and its parameters."""

    name: str
    parameters: Mapping[str, str]

    @property
    def parameter(self) -> str:
        return PARAMETERS[self.name]

    @property
    def paging(self) -> Paging | None:
        """None where the module does not report it."""
        value = self.parameters.get(self.parameter)
        if value is None:
            return None
        return "nested" if value in _ON else "shadow"

    @property
    def described(self) -> str:
        """`kvm_intel with ept=Y`."""
        return f"{self.name} with {self.parameter}={self.parameters.get(self.parameter)}"


@dataclass(frozen=True)
class Module(Parameters):
    """The module as it is loaded. `users` counts what keeps it from being unloaded; none where the kernel
    cannot unload it."""

    users: int | None

    def option(self, paging: Paging) -> str:
        """Returns the module's option that gives guests this kind of page tables."""
        return f"{self.parameter}={1 if paging == 'nested' else 0}"


def find(host: Host) -> Module | None:
    """The processor's module, if one is loaded or built in."""
    for name in PARAMETERS:
        folder = f"/sys/module/{name}"
        if host.at(folder).is_dir():
            parameters = host.read_all(f"{folder}/parameters/*")
            users = host.read(f"{folder}/refcnt")
            return Module(
                name,
                {path.name: value for path, value in sorted(parameters.items())},
                int(users) if users is not None and users.lstrip("-").isdigit() else None,
            )
    return None


def users(host: Host) -> list[str]:
    """Processes that have KVM open, as `qemu-system-x86 (process 4711)`; as root all of them."""
    found: dict[str, None] = {}
    for link in host.root.glob("proc/[0-9]*/fd/*"):
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target == DEVICE or target.startswith("anon_inode:kvm-"):
            pid = link.parent.parent.name
            found[f"{host.read(f'/proc/{pid}/comm') or 'a process'} (process {pid})"] = None
    return list(found)


def check_free(host: Host, module: Module) -> None:
    """Nothing uses the module, and it can be unloaded.

    Raises:
        MachineError: something does, or it cannot; the message names what.
    """
    if module.users is None:
        raise MachineError(
            f"{module.name} is built into this kernel, or the kernel cannot unload modules, so its "
            f"page tables cannot be switched while it runs.",
            f"Boot with {module.name}.{module.parameter}=0 or =1 on the kernel's command line.",
        )
    using = users(host)
    if not using and module.users == 0:
        return
    who = listing(using, 4) if using else "something that cannot be seen from here"
    raise MachineError(
        f"{module.name} is in use by {who}: it can be loaded anew only while no guest runs.",
        "End those guests, or keep the page tables as they are: leave sut.paging out.",
    )


@dataclass(frozen=True)
class Device:
    """Who may open /dev/kvm: it is made anew with the module, and udev gives it its owner."""

    mode: int
    uid: int
    gid: int
    acl: str = ""

    @classmethod
    def of(cls, path: Path) -> Device | None:
        try:
            found = path.stat()
        except OSError:
            return None
        try:
            acl = os.getxattr(path, _ACL).hex()
        except OSError:
            acl = ""
        return cls(found.st_mode & 0o7777, found.st_uid, found.st_gid, acl)

    def put_back(self, path: Path) -> None:
        os.chown(path, self.uid, self.gid)
        path.chmod(self.mode)
        if self.acl:
            os.setxattr(path, _ACL, bytes.fromhex(self.acl))


@dataclass(frozen=True)
class State(Parameters):
    """All that loading the module anew may change, to be put back."""

    device: Device | None

    @classmethod
    def of(cls, host: Host, module: Module) -> State:
        return cls(module.name, dict(module.parameters), Device.of(host.at(DEVICE)))


def switch(host: Host, module: Module, paging: Paging) -> None:
    """Loads the module anew with that kind of page tables; if that fails, as it was.

    Raises:
        MachineError: it is in use, or was not loaded so; it is then as it was, or the message says
            that it is not.
    """
    before = State.of(host, module)
    check_free(host, module)
    # An upgrade may have taken away the modules of the kernel that runs: what is unloaded then does not
    # come back.
    shown = host.run((_program("modprobe"), "--show-depends", module.name), _RELOAD_LIMIT_S)
    if not shown.ok:
        raise MachineError(
            f"{module.name} is loaded, but could not be loaded again: {shown.said}",
            "Was the kernel upgraded? Boot the new one. Without modprobe: apt-get install kmod",
        )
    try:
        _reload(host, module.name, (module.option(paging),))
        found = find(host)
        if found is None or found.paging != paging:
            raise MachineError(
                f"{module.name} was loaded with {module.option(paging)}, but says "
                f"{found.described if found else 'nothing'}: this processor may not have it.",
                f"See dmesg | grep -i kvm, and: modprobe -c | grep {module.name}",
            )
        _await_device(host, before)
    except MachineError as error:
        try:
            put_back(host, before)
        except MachineError as worse:
            raise MachineError(f"{error.what} And then: {worse.what}", worse.do) from None
        raise


def put_back(host: Host, before: State) -> None:
    """Loads the module with every parameter that it had; does nothing where it has them.

    Raises:
        MachineError: it could not be done.
    """
    found = find(host)
    if found is None or dict(found.parameters) != before.parameters:
        if found is not None:
            check_free(host, found)
        parameter = PARAMETERS[before.name]
        _reload(host, before.name, _options(before, (parameter,)))
        differing = _differing(host, before)
        if differing:
            # Someone had given it more than the system's own configuration does.
            _reload(host, before.name, _options(before, (parameter, *differing)))
            differing = _differing(host, before)
        if differing:
            raise MachineError(
                f"{before.name} is loaded, but not as it was: "
                + ", ".join(f"{name} was {before.parameters[name]}" for name in differing),
                f"As root, with no guest running: rmmod {before.name}; modprobe {before.name} "
                + " ".join(_options(before, (parameter, *differing))),
            )
    _await_device(host, before)


def _options(before: State, names: tuple[str, ...]) -> tuple[str, ...]:
    chosen = dict.fromkeys(name for name in names if name in before.parameters)
    return tuple(f"{name}={before.parameters[name]}" for name in chosen)


def _differing(host: Host, before: State) -> tuple[str, ...]:
    found = find(host)
    now = dict(found.parameters) if found else {}
    return tuple(name for name, value in before.parameters.items() if now.get(name) != value)


def _program(name: str) -> str:
    """Also where root's PATH has no directories for administrators, as after a plain `su`."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return shutil.which(name, path=path) or name


def _reload(host: Host, name: str, options: tuple[str, ...]) -> None:
    """`rmmod` and not `modprobe -r`: that would take the module `kvm` along, and with it what was
    set there."""
    if host.at(f"/sys/module/{name}").is_dir():
        removed = host.run((_program("rmmod"), name), _RELOAD_LIMIT_S)
        if not removed.ok:
            raise MachineError(
                f"{name} cannot be unloaded: {removed.said}",
                "Is a guest running? See: fuser -v /dev/kvm",
            )
    loaded = host.run((_program("modprobe"), name, *options), _RELOAD_LIMIT_S)
    if not loaded.ok:
        raise MachineError(
            f"{' '.join(('modprobe', name, *options))} failed: {loaded.said}",
            "See: dmesg | tail",
        )


def _await_device(host: Host, before: State) -> None:
    """Waits until udev has given /dev/kvm its owner and mode, and does it where nobody else does."""
    if before.device is None:
        return
    path = host.at(DEVICE)
    for _ in range(round(_DEVICE_LIMIT_S / _GLANCE_S)):
        if Device.of(path) == before.device:
            return
        host.sleep(_GLANCE_S)
    try:
        before.device.put_back(path)
    except OSError as error:
        raise MachineError(
            f"{before.name} is loaded, but {DEVICE} is not as it was: {error.strerror}",
            f"As root: ls -l {DEVICE}; it had the mode {before.device.mode:o}",
        ) from None


def why_missing(host: Host) -> str:
    """Why there is no module to ask."""
    loaded = host.at("/sys/module/kvm").is_dir()
    other = "KVM is there, but neither kvm_intel nor kvm_amd" if loaded else "KVM is not loaded"
    if "hypervisor" in cpu_flags(host):
        return f"{other}, on a machine that is a virtual machine itself"
    return other
