"""The emulated machine: QEMU processes, each a whole PC that carries out one batch by itself.

In virtual time a batch's records follow from its fingerprint, so they are kept and not made twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import subprocess
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from pydantic import ValidationError

from hypertare.base.arch import ARCH
from hypertare.base.errors import DiffersError, InputError, MachineError
from hypertare.base.host_files import Digests
from hypertare.design.pc import Pc, walk_options
from hypertare.design.planner.machine_resources import Bootable, Emulating
from hypertare.machine_kinds.machine_kind import CLOCKS
from hypertare.machines.batch import Batch
from hypertare.machines.executor import (
    FIRMWARE,
    Boot,
    Booted,
    BootFiles,
    Executor,
    Threads,
    firmware,
    lines_of,
)
from hypertare.machines.image.cache import Cache, DamagedError
from hypertare.protocol.constants import CONSOLE_PREFIX, MAX_LINE
from hypertare.protocol.phase import parse
from hypertare.protocol.records import Record
from hypertare.study.emulated import Emulated

_RECORDS = "records.jsonl"
_PANIC = "Kernel panic - not syncing: "
_NO_MEMORY = "deadlocked on memory"


@dataclass(frozen=True)
class Output:
    """The result of one boot. `error` is the reason why records are missing, None if none are."""

    records: tuple[Record, ...]
    error: str | None
    console: tuple[str, ...]
    fingerprint: str | None
    seconds: float
    reused: bool = False


class EmulatedMachine:
    """Carries batches out, several at a time. Use as a context manager.

    `images` are by the names of their kernel and profile. `executor` carries out the boots, by default one
    at a time on this host. With `fresh`, batches whose records are known are booted too, and their records
    compared.
    `emulator` is hypertare's own; without it the machine runs under the distribution's QEMU.
    """

    def __init__(
        self,
        agent: Path,
        images: Mapping[tuple[str, str], Bootable],
        *,
        executor: Executor | None = None,
        fresh: bool = False,
        cache: Cache | None = None,
        emulator: Emulating | None = None,
    ) -> None:
        self.agent = agent
        self.images = images
        self.executor = executor or Threads()
        self.fresh = fresh
        self.cache = cache or Cache()
        self.emulator = emulator
        self._digests = Digests()

    @property
    def jobs(self) -> int:
        return self.executor.jobs

    def __enter__(self) -> EmulatedMachine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every machine that runs. Never raises."""
        self.executor.end()

    def run(self, batches: Sequence[Batch]) -> Generator[Output, None, None]:
        """Outputs in the order of the batches, whatever order they end in.

        Raises:
            MachineError: QEMU cannot be started here.
            DiffersError: the records of a known fingerprint are others than before.
        """
        # One thread: what a fingerprint is made of is asked in milliseconds, beside boots of seconds.
        asking = ThreadPoolExecutor(max_workers=1)
        try:
            yield from self._outputs(asking, batches)
        finally:
            # Nothing runs any more, unless whoever asked has had enough before the end.
            asking.shutdown(wait=True, cancel_futures=True)
            self.close()

    def _outputs(
        self, asking: ThreadPoolExecutor, batches: Sequence[Batch]
    ) -> Generator[Output, None, None]:
        """Each machine boots once: a baseline is the same one for settings that it knows nothing of."""
        first: dict[object, Future[Output]] = {}
        asked: list[tuple[Future[Output], bool]] = []
        for batch in batches:
            machine = batch.machine
            is_known = machine in first
            if not is_known:
                first[machine] = Future()
                asking.submit(self._ask, batch, first[machine])
            asked.append((first[machine], is_known))
        for future, is_known in asked:
            output = future.result()
            yield replace(output, seconds=0.0, reused=True) if is_known else output

    # --- one batch

    def _ask(self, batch: Batch, answer: Future[Output]) -> None:
        """Answers with what is known, or has the batch booted."""
        with _or_error(answer):
            parts, fingerprint, known = None, None, None
            if CLOCKS[batch.pc.clock].repeats:
                parts = self.parts(batch)
                fingerprint = _digest_of(parts)
                known = self._known(fingerprint)
            if known is not None and not self.fresh:
                records, error = _parsed(known)
                answer.set_result(Output(records, error, (), fingerprint, 0.0, reused=True))
                return
            booted = self.executor.submit(self._boot(batch, fingerprint))
            booted.add_done_callback(partial(self._answer, answer, parts, known))

    def _known(self, fingerprint: str) -> bytes | None:
        """The records of an earlier boot, checked as they are read; damaged ones are taken away."""
        entry = self.cache.find("virtual", fingerprint)
        if entry is None:
            return None
        try:
            return entry.read(_RECORDS)
        except DamagedError:
            self.cache.drop(entry)
            return None

    def _boot(self, batch: Batch, fingerprint: str | None) -> Boot:
        image, emulator = self.images[batch.pc.image], self._emulator(batch.pc)
        files = BootFiles(
            self.agent,
            image.kernel,
            (image.initramfs, *image.further),
            image.hypervisor,
            emulator.program if emulator else None,
        )
        options = tuple(batch.pc.options)
        return Boot(options, batch.pc.host_limit_s, batch.steps, files, fingerprint)

    def _answer(
        self,
        answer: Future[Output],
        parts: dict[str, str] | None,
        known: bytes | None,
        booted: Future[Booted],
    ) -> None:
        with _or_error(answer):
            ended = booted.result()
            records, error = _parsed(ended.raw)
            failure = ended.failure or error
            if parts and error is None and ended.is_whole:
                self._keep(parts, ended.raw, known)
            elif failure is None and not ended.is_whole:
                failure = f"the machine ended before its plan did{_last_words(ended.console)}"
            fingerprint = _digest_of(parts) if parts else None
            answer.set_result(Output(records, failure, ended.console, fingerprint, ended.seconds))

    # --- what is known already

    def parts(self, batch: Batch) -> dict[str, str]:
        """All that decides the batch's records, by name; all but the command line and the seed as SHA-256.

        One bit of it, and the fingerprint, a SHA-256 over it, is another one.
        """
        image = self.images[batch.pc.image]
        digest = self._digests.of
        under = {"hypervisor": digest(image.hypervisor)} if image.hypervisor else {}
        behind = {"further": " ".join(map(digest, image.further))} if image.further else {}
        return {
            **under,
            **behind,
            "agent": digest(self.agent),
            "kernel": digest(image.kernel),
            "initramfs": digest(image.initramfs),
            "plan": hashlib.sha256(batch.steps).hexdigest(),
            "seed": str(batch.pc.seed),
            "qemu": self._qemu_digest(self._emulator(batch.pc)),
            "command line": json.dumps(self._command_line(batch.pc)),
        }

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
        self.cache.make("virtual", fingerprint, what, fill)

    # --- parts of the fingerprint that do not change while this runs

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
        program = shutil.which(ARCH.qemu)
        if program is None:
            raise MachineError(
                f"{ARCH.qemu} is not installed.", f"Debian: apt-get install {ARCH.qemu_package}"
            )
        version, content = lines_of(program, "--version")[:1], self._digests.of(Path(program))
        return _digest_of([version, content, self._firmware(Path(program))])

    def _firmware(self, program: Path) -> list[str | None]:
        found = firmware(program)
        return [self._digests.of(path) if (path := found[name]) else None for name in FIRMWARE]

    def _command_line(self, pc: Pc) -> list[str]:
        """QEMU's; it names no place of this host: QEMU runs in a directory of its own."""
        files = ["--kernel=kernel", "--initramfs=initramfs"]
        if self.images[pc.image].hypervisor:
            files.append("--hypervisor=hypervisor")
        if self._emulator(pc):
            files.append("--emulator=emulator")
        said = _ask_for_line(self.agent, [*files, *pc.options])
        if said.returncode != 0:
            raise MachineError(said.stderr.decode(errors="replace").strip())
        line: list[str] = json.loads(said.stdout)
        return line


def check_processor(agent: Path, processor: str, settings: Emulated) -> None:
    """Checks that the emulator accepts a processor's description (JSON) for page walks with these settings.

    Raises:
        InputError: its description contradicts itself.
    """
    files = ("--kernel=kernel", "--initramfs=initramfs", "--emulator=emulator")
    options = walk_options(processor, settings.cache_share, settings.walk_cost)
    said = _ask_for_line(agent, [*files, *options])
    if said.returncode != 0:
        why = said.stderr.decode(errors="replace").strip().removeprefix("hypertare-agent: ")
        raise InputError(
            f"emulated.walks: {why}",
            "Mend the description of the processor, or emulated.walk_cost.",
        )


def _ask_for_line(agent: Path, options: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    """Asks the agent for QEMU's command line; nothing is started."""
    argv: list[str | Path] = [agent, "emulate", "--show", *options]
    return subprocess.run(argv, capture_output=True, timeout=20)


@contextlib.contextmanager
def _or_error(answer: Future[Output]) -> Iterator[None]:
    """Sets an exception of the block as the answer, because another thread waits for it."""
    try:
        yield
    except BaseException as error:
        answer.set_exception(error)


def _digest_of(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _last_words(console: Sequence[str]) -> str:
    """Returns the reason for the machine's end that its init or kernel printed; empty if neither did."""
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


def first_difference(
    known: bytes, found: bytes, when: tuple[str, str] = ("then", "now")
) -> str | None:
    """Names the first record that two runs of a batch do not share."""

    def shown(line: bytes) -> str:
        return line[:300].decode(errors="replace")

    before, after = known.splitlines(), found.splitlines()
    then, now = when
    for number, (one, other) in enumerate(zip(before, after, strict=False), start=1):
        if one != other:
            return f"record {number}: {shown(one)} {then}, {shown(other)} {now}"
    if len(before) != len(after):
        number = min(len(before), len(after)) + 1
        return f"record {number}: {len(before)} {then}, {len(after)} {now}"
    return None


def _parsed(raw: bytes) -> tuple[tuple[Record, ...], str | None]:
    """Returns the records up to the first line that is no record, and the error of that line or None."""
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
