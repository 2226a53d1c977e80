"""The emulated machine: QEMU processes, each a whole PC that carries out one batch by itself.

The agent starts QEMU in namespaces without a network, and it dies with this process. The plan goes
in, and records come out, through files in memory that have no name: nothing can be left of them.

In virtual time a batch's records follow from its fingerprint, so they are kept and not made twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from hypertare.base.errors import DiffersError, HypertareError, MachineError
from hypertare.design.pc import Pc
from hypertare.design.planner.surroundings import Bootable, Emulating
from hypertare.machine_kinds.clock import CLOCKS
from hypertare.machines.batch import Batch
from hypertare.machines.image import cpio
from hypertare.machines.image.cache import Cache, DamagedError
from hypertare.protocol.constants import (
    AGENT_PREFIX,
    CONSOLE_PREFIX,
    MAX_CONSOLE_LINES,
    MAX_LINE,
    PLAN_FILE,
    REFUSED,
)
from hypertare.protocol.parse import parse
from hypertare.protocol.records import Record

_RECORDS = "records.jsonl"
_MOST_TEARDOWN = 4096
_LOOK_S = 1.0
_GOING_DOWN_S = 3.0
_QEMU = "qemu-system-x86_64"
_FIRMWARE = ("bios-256k.bin", "pvh.bin", "linuxboot_dma.bin", "kvmvapic.bin")
"""What runs on a PC before its kernel does; Debian's comes in a package of its own."""
_PANIC = "Kernel panic - not syncing: "
_NO_MEMORY = "deadlocked on memory"
_SPEAKERS = (AGENT_PREFIX, _QEMU)
_NOISE = "is not connected to host network"
"""QEMU warns of a hub that nothing of the host is on, which is what it is for."""


@dataclass(frozen=True)
class Output:
    """What came out of one boot. `error` says why it is not all that should have."""

    records: tuple[Record, ...]
    error: str | None
    console: tuple[str, ...]
    fingerprint: str | None
    seconds: float
    reused: bool = False


class EmulatedMachine:
    """Carries batches out, several at a time. Use as a context manager.

    `images` by the names of their kernel and profile. `jobs`: how many at once. `fresh`: also those
    whose records are known, and compare. Virtual time is made with the `emulator`, or where there is
    none with the distribution's QEMU.
    """

    def __init__(
        self,
        agent: Path,
        images: Mapping[tuple[str, str], Bootable],
        *,
        jobs: int = 1,
        fresh: bool = False,
        cache: Cache | None = None,
        emulator: Emulating | None = None,
    ) -> None:
        self.agent = agent
        self.images = images
        self.jobs = jobs
        self.fresh = fresh
        self.cache = cache or Cache()
        self.emulator = emulator
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._digests: dict[Path, str] = {}
        self._folders: dict[Path, list[str]] = {}

    def __enter__(self) -> EmulatedMachine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every machine that runs. Never raises."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            with contextlib.suppress(OSError):
                process.kill()

    def run(self, batches: Sequence[Batch]) -> Generator[Output, None, None]:
        """Outputs in the order of the batches, whatever order they end in.

        Raises:
            MachineError: QEMU cannot be started here.
            DiffersError: the records of a known fingerprint are others than before.
        """
        self._closed = False
        pool = ThreadPoolExecutor(max_workers=self.jobs)
        try:
            yield from self._outputs(pool, batches)
        finally:
            # Nothing runs any more, unless whoever asked has had enough before the end.
            self.close()
            pool.shutdown(wait=True, cancel_futures=True)

    def _outputs(
        self, pool: ThreadPoolExecutor, batches: Sequence[Batch]
    ) -> Generator[Output, None, None]:
        """Each machine boots once: a baseline is the same one for settings that it knows nothing of."""
        first: dict[object, Future[Output]] = {}
        asked: list[tuple[Future[Output], bool]] = []
        for batch in batches:
            machine = batch.machine
            is_known = machine in first
            if not is_known:
                first[machine] = pool.submit(self._one, batch)
            asked.append((first[machine], is_known))
        for future, is_known in asked:
            output = future.result()
            yield replace(output, seconds=0.0, reused=True) if is_known else output

    # --- one batch

    def _one(self, batch: Batch) -> Output:
        if not CLOCKS[batch.pc.clock].repeats:
            return self._boot(batch, None)
        parts = self.parts(batch)
        fingerprint = _digest_of(parts)
        known = self._known(fingerprint)
        if known is not None and not self.fresh:
            records, error = _parsed(known)
            return Output(records, error, (), fingerprint, 0.0, reused=True)
        return self._boot(batch, parts, known)

    def _boot(
        self, batch: Batch, parts: dict[str, str] | None, known: bytes | None = None
    ) -> Output:
        began = time.monotonic()
        with _memory("plan") as plan, _memory("records") as told, _memory("console") as printed:
            plan.write(cpio.archive([cpio.file(PLAN_FILE.lstrip("/"), batch.steps)]))
            plan.flush()
            failure = self._qemu(batch.pc, plan, told, printed)
            raw = _content(told)
            console = _tail(_content(printed))
        records, error = _parsed(raw)
        complete = failure is None and error is None and _is_complete(raw)
        if parts and complete:
            self._keep(parts, raw, known)
        if not complete and failure is None and error is None:
            failure = f"the machine ended before its plan did{_last_words(console)}"
        seconds = time.monotonic() - began
        fingerprint = _digest_of(parts) if parts else None
        return Output(records, failure or error, console, fingerprint, seconds)

    def _qemu(self, pc: Pc, plan: BinaryIO, told: BinaryIO, printed: BinaryIO) -> str | None:
        """Runs the machine to its end; why it did not come there by itself."""
        with _memory("errors") as errors:
            process = self._start(pc, plan, told, printed, errors)
            self._await(process, pc.host_limit_s, told)
            said = _content(errors).decode(errors="replace")
        if process.returncode == 0 or _has_told_all(told):
            return None
        if process.returncode < 0:
            return (
                f"the machine was stopped: it took longer than {pc.host_limit_s:g} s of this host "
                "(emulated.host_limit)"
            )
        lines = [line for line in said.splitlines() if line and _NOISE not in line]
        # What QEMU prints when it is killed is a page of registers.
        lines = [line for line in lines if line.startswith(_SPEAKERS)] or lines
        text = " ".join(lines[-3:]) or f"exit status {process.returncode}"
        if process.returncode == REFUSED:
            raise MachineError(text)
        return f"the machine could not run: {text.removeprefix(AGENT_PREFIX)}"

    def _await(self, process: subprocess.Popen[bytes], limit_s: float, told: BinaryIO) -> None:
        """Until it ends, or has told everything: not every kernel then finds its way down, for a
        NIC's driver may wait for ever for its last poll.
        """
        deadline = time.monotonic() + limit_s
        try:
            while (left := deadline - time.monotonic()) > 0:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(left, _LOOK_S))
                    return
                if _has_told_all(told):
                    process.wait(min(left, _GOING_DOWN_S))
                    return
        except subprocess.TimeoutExpired:
            pass
        finally:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
            with self._lock:
                self._running.discard(process)

    def _start(
        self, pc: Pc, plan: BinaryIO, told: BinaryIO, printed: BinaryIO, errors: BinaryIO
    ) -> subprocess.Popen[bytes]:
        image = self.images[pc.image]
        files = [
            *([f"--hypervisor={image.hypervisor}"] if image.hypervisor else []),
            f"--kernel={image.kernel}",
            *(f"--initramfs={archive}" for archive in (image.initramfs, *image.further)),
            f"--initramfs={_path(plan)}",
            f"--records={_path(told)}",
            f"--console={_path(printed)}",
        ]
        if (emulator := self._emulator(pc)) is not None:
            files.append(f"--emulator={emulator.program}")
        with self._lock:
            if self._closed:
                raise HypertareError("the run was ended")
            try:
                # Its input is held open and never written to: when we end, it ends.
                # A session of its own: Ctrl-C is heard here alone.
                process = subprocess.Popen(
                    [self.agent, "emulate", *files, *pc.options],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    pass_fds=[file.fileno() for file in (plan, told, printed)],
                    start_new_session=True,
                )
            except OSError as error:
                raise MachineError(f"the agent {self.agent} cannot be started: {error}") from None
            self._running.add(process)
        return process

    # --- what is known already

    def fingerprint(self, batch: Batch) -> str:
        """SHA-256 over all that decides the batch's records: one bit of it, and it is another one."""
        return _digest_of(self.parts(batch))

    def parts(self, batch: Batch) -> dict[str, str]:
        """What the fingerprint is made of, by name; all but the command line and the seed as SHA-256."""
        image = self.images[batch.pc.image]
        under = {"hypervisor": self._digest(image.hypervisor)} if image.hypervisor else {}
        behind = {"further": " ".join(map(self._digest, image.further))} if image.further else {}
        return {
            **under,
            **behind,
            "agent": self._agent_digest,
            "kernel": self._digest(image.kernel),
            "initramfs": self._digest(image.initramfs),
            "plan": hashlib.sha256(batch.steps).hexdigest(),
            "seed": str(batch.pc.seed),
            "qemu": self._qemu_digest(self._emulator(batch.pc)),
            "command line": json.dumps(self._command_line(batch.pc)),
        }

    def _known(self, fingerprint: str) -> bytes | None:
        entry = self.cache.find("virtual", fingerprint)
        if entry is None:
            return None
        try:
            return entry.read(_RECORDS)
        except DamagedError:
            return None

    def _keep(self, parts: dict[str, str], raw: bytes, known: bytes | None) -> None:
        """Keeps records of a fingerprint that had none; such as it had must be the same.

        Raises:
            DiffersError: they are not.
        """
        fingerprint = _digest_of(parts)
        if known is not None:
            difference = first_difference(known, raw)
            if difference is not None:
                raise DiffersError(
                    f"The records of fingerprint {fingerprint[:16]} differ from those of an "
                    f"earlier run, first in {difference}",
                    "Virtual time did not repeat here: please report it, with both records. "
                    "`hypertare image gc --all` forgets the earlier ones.",
                )
            return

        def fill(place: Path) -> dict[str, str]:
            (place / _RECORDS).write_bytes(raw)
            return parts

        what = f"records of a virtual machine, {len(raw)} bytes"
        with self.cache.building(lambda _: None):
            self.cache.make("virtual", fingerprint, what, fill)

    # --- parts of the fingerprint that do not change while this runs

    @cached_property
    def _agent_digest(self) -> str:
        return hashlib.sha256(self.agent.read_bytes()).hexdigest()

    def _emulator(self, pc: Pc) -> Emulating | None:
        return self.emulator if CLOCKS[pc.clock].counts_instructions else None

    def _qemu_digest(self, emulator: Emulating | None) -> str:
        """What QEMU is, and the firmware that it puts into a PC."""
        if emulator is None:
            return self._installed_digest
        return _digest_of([emulator.key, self._firmware(emulator.program)])

    @cached_property
    def _installed_digest(self) -> str:
        """Version and content, and the firmware."""
        program = shutil.which(_QEMU)
        if program is None:
            raise MachineError(
                f"{_QEMU} is not installed.", "Debian: apt-get install qemu-system-x86"
            )
        version = _says(program, "--version")[:1]
        return _digest_of([version, self._digest(Path(program)), self._firmware(Path(program))])

    def _firmware(self, program: Path) -> list[str | None]:
        with self._lock:
            folders = self._folders.get(program)
        if folders is None:
            folders = _says(program, "-L", "help")
            with self._lock:
                self._folders[program] = folders
        return [
            next((self._digest(p) for f in folders if (p := Path(f) / name).is_file()), None)
            for name in _FIRMWARE
        ]

    def _digest(self, path: Path) -> str:
        with self._lock:
            known = self._digests.get(path)
        if known is None:
            with path.open("rb") as file:
                known = hashlib.file_digest(file, "sha256").hexdigest()
            with self._lock:
                self._digests[path] = known
        return known

    def _command_line(self, pc: Pc) -> list[str]:
        """QEMU's; it names no place of this host: QEMU runs in a directory of its own."""
        files = ["--kernel=kernel", "--initramfs=initramfs"]
        if self.images[pc.image].hypervisor:
            files.append("--hypervisor=hypervisor")
        if self._emulator(pc):
            files.append("--emulator=emulator")
        argv: list[str | Path] = [self.agent, "emulate", "--show", *files, *pc.options]
        said = subprocess.run(argv, capture_output=True, timeout=20)
        if said.returncode != 0:
            raise MachineError(said.stderr.decode(errors="replace").strip())
        line: list[str] = json.loads(said.stdout)
        return line


def _says(program: str | Path, *options: str) -> list[str]:
    try:
        said = subprocess.run([program, *options], capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"{program} {' '.join(options)} failed: {error}") from None
    return said.stdout.decode(errors="replace").splitlines()


def _digest_of(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _last_words(console: Sequence[str]) -> str:
    """Why, where the machine's init or its kernel said so."""
    said = [line for line in console if line.startswith(CONSOLE_PREFIX)]
    if said:
        return f": {said[-1].removeprefix(CONSOLE_PREFIX)}"
    panics = [line.partition(_PANIC)[2] for line in console if _PANIC in line]
    if not panics:
        return ""
    why = f": its kernel panicked: {panics[-1]}"
    if any(_NO_MEMORY in line for line in (*panics, *console)):
        why += ". It ran out of memory: give it more (sut.driver_memory under Xen, else sut.memory)"
    return why


def first_difference(known: bytes, found: bytes) -> str | None:
    """Names the first record that two runs of a batch do not share."""
    before, after = known.splitlines(), found.splitlines()
    for number, (one, other) in enumerate(zip(before, after, strict=False), start=1):
        if one != other:
            return f"record {number}: {_shown(one)} then, {_shown(other)} now"
    if len(before) != len(after):
        return f"record {min(len(before), len(after)) + 1}: {len(before)} then, {len(after)} now"
    return None


def _shown(line: bytes) -> str:
    return line[:300].decode(errors="replace")


def _parsed(raw: bytes) -> tuple[tuple[Record, ...], str | None]:
    """The records up to the first line that is none."""
    records: list[Record] = []
    for line in raw.splitlines(keepends=True):
        if not line.endswith(b"\n") or len(line) > MAX_LINE:
            return tuple(records), "the machine's last record is not whole"
        try:
            records.append(parse(line))
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            return tuple(records), f"the machine sent something that is no record: {problem}"
    return tuple(records), None


def _has_told_all(told: BinaryIO) -> bool:
    """Whether the last line is there and whole."""
    size = os.fstat(told.fileno()).st_size
    tail = os.pread(told.fileno(), _MOST_TEARDOWN, max(0, size - _MOST_TEARDOWN))
    return tail.endswith(b"\n") and _is_complete(tail)


def _is_complete(raw: bytes) -> bool:
    lines = raw.splitlines()
    return bool(lines) and lines[-1].startswith(b'{"record":"teardown"')


def _memory(name: str) -> BinaryIO:
    """A file without a name: whatever happens, it ends with those who have it open."""
    return os.fdopen(os.memfd_create(name), "w+b")


def _path(file: BinaryIO) -> str:
    """By which a child that inherits the file can open it."""
    return f"/proc/self/fd/{file.fileno()}"


def _content(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()


_END = "sysrq: Resetting"
"""What the kernel prints at every end, also a good one."""


def _tail(printed: bytes) -> tuple[str, ...]:
    """The last lines that the kernel and init printed, printable characters only."""
    text = printed[-65536:].decode(errors="replace")
    lines = ["".join(c for c in line if c.isprintable())[:400] for line in text.splitlines()]
    told = (line for line in lines if line.strip() and not line.endswith(_END))
    return tuple(told)[-MAX_CONSOLE_LINES:]
