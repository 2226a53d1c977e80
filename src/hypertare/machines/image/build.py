"""From a kernel's name to a kernel and an initramfs that boot."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from hypertare.base.errors import InputError, MachineError
from hypertare.base.paths import agent_binary
from hypertare.design.profiles import (
    DEFAULT_PROFILE,
    GUEST_INITRAMFS,
    GUEST_KERNEL,
    Profile,
    Vmm,
    find_profile,
)
from hypertare.machines.image import cpio
from hypertare.machines.image import programs as real
from hypertare.machines.image.cache import Cache, DamagedError, Entry, Progress
from hypertare.machines.image.kernel import (
    Built,
    KernelSource,
    find_kernel,
    find_module,
    find_source,
    key_of,
    loadable,
    make_kernel,
    make_module,
    source_of,
)
from hypertare.machines.image.kernel_files import unsigned
from hypertare.machines.image.programs import Programs
from hypertare.machines.image.vmm import XEN_FILE, XEN_KERNEL, Qemu, Xen, quick_to_boot
from hypertare.protocol.constants import MODULES_DIRECTORY

VERSION = 3
"""Of what an initramfs looks like; part of every key."""

INITRAMFS = "initramfs.cpio"
_MODULES = MODULES_DIRECTORY.lstrip("/")
DEFAULT_KERNEL = "debian"


@dataclass(frozen=True)
class Image:
    """The kernel and initramfs that a guest or an emulated machine boots from.

    `image gc` leaves the files alone as long as this object lives. `digest` names everything that went into
    the image. `modules` are the kernel modules that it offers, built in or as files. With a `hypervisor`
    the kernel is that of its driver domain. `programs` are the versions of the programs that the image was
    asked to have, for people. Unpacked, these take `programs_size` bytes of memory of the machine that does
    the work: of its guests if it has any. `further` archives are loaded after the initramfs.
    """

    kernel: Path
    initramfs: Path
    kernel_release: str
    kernel_name: str
    digest: str
    modules: frozenset[str]
    hypervisor: Path | None = None
    programs: str = ""
    programs_size: int = 0
    further: tuple[Path, ...] = ()
    _held: tuple[Entry, ...] = field(default=(), repr=False, compare=False)


_VMMS: dict[Vmm, Callable[[Cache, Progress, bool], Xen | Qemu]] = {
    "xen": Xen.fetch,
    "qemu": Qemu.fetch,
}


def build(
    kernel: str = DEFAULT_KERNEL,
    profile: str = DEFAULT_PROFILE,
    agent: Path | None = None,
    progress: Progress = lambda _: None,
    *,
    programs: Sequence[str] = (),
    cache: Cache | None = None,
    refresh: bool = False,
) -> Image:
    """The image, from the cache or made now.

    `kernel` is `debian`, `debian:PACKAGE`, `host` or a path. A kernel once fetched stays the same
    until `refresh`: a run of next week shall not meet another kernel unasked. The same holds for
    `programs`, which are names of sets or paths of this host (`hypertare.machines.image.programs`).

    Raises:
        InputError: no such profile or set of programs, or a path is no kernel or program.
        MachineError: no agent, no network, no room, or no way to get the kernel or the programs on
            this host.
    """
    wanted, chosen = find_profile(profile), real.choose(programs)
    init, store = _agent(agent or agent_binary()), cache or Cache()
    for first in (True, False):
        newest = refresh and first
        source = source_of(kernel, store, progress, newest)
        try:
            made = find_kernel(source, store) or make_kernel(source, store, progress)
            own = _own(source, wanted, store, progress, newest)
            vmm = _VMMS[wanted.vmm](store, progress, newest) if wanted.vmm else None
            real_ones = real.fetch(chosen, store, progress, newest) if chosen.sets else None
            parts = _Parts(source, wanted, init, tuple(own), vmm, real_ones)
            entry = store.sound("images", parts.key) or _write(parts, made, store, progress)
            return _image(parts, made, entry)
        except DamagedError as damage:
            # What is sound stays, for another process may use it.
            progress(f"{damage}; making it again")
            store.drop(damage.entry)
            last = damage
    raise MachineError(
        f"{last}, and again after it was made anew.", "See to the disk; `dmesg` may say more."
    )


def ready(cache: Cache) -> Image | None:
    """The image of guests with the default kernel when it is already made.

    Raises:
        HypertareError: there is no agent.
    """
    wanted, init = find_profile(DEFAULT_PROFILE), _agent(agent_binary())
    source = find_source(DEFAULT_KERNEL, cache)
    made = find_kernel(source, cache) if source else None
    if source is None or made is None:
        return None
    own = [find_module(name, source, cache) for name in wanted.all_own]
    parts = _Parts(source, wanted, init, tuple(filter(None, own)), None, None)
    entry = None if None in own else cache.sound("images", parts.key)
    return _image(parts, made, entry) if entry else None


@dataclass(frozen=True)
class _Parts:
    """What goes into an image, all of it there."""

    source: KernelSource
    wanted: Profile
    init: bytes
    all_own: tuple[Built, ...]
    vmm: Xen | Qemu | None
    programs: Programs | None

    @property
    def key(self) -> str:
        inputs = {
            "version": VERSION,
            "kernel": key_of(self.source),
            "modules": self.source.modules_digest,
            "profile": [_signature(self.wanted)],
            "own": [[built.name, built.digest] for built in self.all_own],
            "vmm": self.vmm.digest if self.vmm else [],
            "programs": self.programs.digest if self.programs else [],
            "init": hashlib.sha256(self.init).hexdigest(),
        }
        return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:24]

    def own(self, profile: Profile) -> tuple[Built, ...]:
        """The project's own modules of the image, or of its guests' image."""
        return tuple(built for built in self.all_own if built.name in profile.own)

    @property
    def has_xen_kernel(self) -> bool:
        """Whether the kernel is one of the image's own: it boots under Xen, as driver domain or guest."""
        return isinstance(self.vmm, Xen) or self.wanted.paravirtual

    @property
    def what(self) -> str:
        beside = [one.name for one in (self.vmm, self.programs) if one]
        names = f" with {', '.join(beside)}" if beside else ""
        return f"{self.wanted.name} initramfs for {self.source.name}{names}"


def _signature(wanted: Profile) -> list[object]:
    guests = [_signature(wanted.guests)] if wanted.guests else []
    modules = (wanted.required, wanted.wanted, wanted.own)
    return [wanted.name, *modules, wanted.directories, *guests]


def _write(parts: _Parts, made: Entry, store: Cache, progress: Progress) -> Entry:
    def fill(place: Path) -> dict[str, str]:
        progress("writing the initramfs")
        members, modules = _contents(
            parts.source, parts.wanted, parts.init, parts.own(parts.wanted)
        )
        programs = parts.programs.members() if parts.programs else []
        # A second archive behind the first: where both have a file, the second one's counts.
        further = cpio.archive(programs) if programs else b""
        own = parts.vmm or parts.wanted.paravirtual
        kernel = loadable(made.read(made.facts["file"])) if own else b""
        if parts.has_xen_kernel:
            kernel = quick_to_boot(kernel)
            (place / XEN_KERNEL).write_bytes(kernel)
        if isinstance(parts.vmm, Xen):
            (place / XEN_FILE).write_bytes(parts.vmm.kernel())
        if parts.vmm:
            members += [*parts.vmm.members(), *_guest(parts, kernel, further)]
            further = b""
        (place / INITRAMFS).write_bytes(cpio.archive(members) + further)
        return {
            "modules": " ".join(modules),
            "profile": parts.wanted.name,
            "release": made.facts["release"],
            "programs_size": str(cpio.unpacked(programs)),
        }

    return store.make("images", parts.key, parts.what, fill, progress)


def _guest(parts: _Parts, kernel: bytes, further: bytes) -> list[cpio.Member]:
    """What the guests of the machine boot from: it is they who work, so theirs are the programs."""
    assert parts.wanted.guests
    wanted = parts.wanted.guests
    members, _ = _contents(parts.source, wanted, parts.init, parts.own(wanted))
    files = {
        GUEST_KERNEL: kernel,
        GUEST_INITRAMFS: cpio.archive(members) + further,
    }
    return [cpio.file(path, data) for path, data in files.items()]


def _own(
    source: KernelSource, wanted: Profile, store: Cache, progress: Progress, refresh: bool
) -> list[Built]:
    """The project's own modules, built where they are not; `refresh` tries again what was not possible."""
    own = []
    for name in wanted.all_own:
        built = find_module(name, source, store)
        if built and built.reason and refresh:
            store.drop(built.entry)
            built = None
        own.append(built or make_module(name, source, store, progress))
    return own


def _image(parts: _Parts, made: Entry, entry: Entry) -> Image:
    package = parts.source.package
    held = (made, entry, *([package] if package else []))
    return Image(
        kernel=entry.path / XEN_KERNEL if parts.has_xen_kernel else made.path / made.facts["file"],
        initramfs=entry.path / INITRAMFS,
        kernel_release=made.facts["release"],
        kernel_name=parts.source.name,
        digest=entry.key,
        modules=frozenset(entry.facts["modules"].split()),
        hypervisor=entry.path / XEN_FILE if isinstance(parts.vmm, Xen) else None,
        programs=parts.programs.versions if parts.programs else "",
        programs_size=int(entry.facts["programs_size"]),
        _held=held,
    )


def _contents(
    source: KernelSource, wanted: Profile, init: bytes, own: Sequence[Built]
) -> tuple[list[cpio.Member], list[str]]:
    _refuse_dynamic(init)
    tree = source.modules
    # A kernel that comes without modules is taken at its word: all is built in.
    names = [*wanted.required, *(name for name in wanted.wanted if not tree or tree.has(name))]
    modules = {name: tree.load_order(name) if tree else [] for name in names}
    files = {name for order in modules.values() for name in order}
    modules |= {built.name: [built.name] for built in own if built.reason is None}
    # The index has a line a module: its name, then its files in load order; none when it is built in.
    lines = (
        " ".join([name, *(f"{m}.ko" for m in order)]) + "\n" for name, order in modules.items()
    )
    members = [
        cpio.file("init", init, executable=True),
        # The kernel opens it for init's output before anything is mounted.
        cpio.device("dev/console", 5, 1),
        *(cpio.directory(name) for name in wanted.directories),
        cpio.file(f"{_MODULES}/index", "".join(lines).encode()),
    ]
    if tree:
        own_files = {name: unsigned(tree.content(name)) for name in sorted(files)}
        members += [cpio.file(f"{_MODULES}/{name}.ko", data) for name, data in own_files.items()]
    for built in own:
        if built.reason is None:
            members.append(cpio.file(f"{_MODULES}/{built.name}.ko", built.content()))
        else:
            # For the agent to report.
            why = f"{built.reason}\n".encode()
            members.append(cpio.file(f"{_MODULES}/{built.name}.missing", why))
    return members, sorted(modules)


def _agent(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise MachineError(
            f"The agent {path} cannot be read: {error.strerror}.", "Run `cargo build --release`."
        ) from error


def _refuse_dynamic(init: bytes) -> None:
    """A guest holds no libraries: an agent that wants a loader would die without a word."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        kinds = [segment["p_type"] for segment in ELFFile(BytesIO(init)).iter_segments()]
    except ELFError as error:
        raise InputError(
            f"The agent is no program: {error}.", "Build it with `cargo build --release`."
        ) from error
    if "PT_INTERP" in kinds:
        raise InputError(
            "The agent is linked dynamically, and a guest has no libraries.",
            "Build it in the source directory, whose .cargo/config.toml makes it static: "
            "`cargo build --release`.",
        )
