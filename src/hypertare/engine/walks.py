"""Runs a study's workloads once under the model, before its trials, and keeps what it said.

The agent's own workloads run as `hypertare-agent WORKLOAD` with the same settings; commands run with
the programs of the machine's image, in a root of their own that holds nothing else: QEMU and the plugin
are put beside the programs, with such libraries of theirs as the image lacks. Nothing is mounted, and
nothing of this host is seen or changed. What decides a result is in its fingerprint, under which it is
kept: the next run takes it from there.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from hypertare.base import paths
from hypertare.base.arch import ARCH
from hypertare.base.errors import HypertareError, InputError, MachineError
from hypertare.base.host_files import digest_of
from hypertare.base.variables import Cell, key
from hypertare.machines.image import cpio
from hypertare.machines.image import programs as real
from hypertare.machines.image.cache import Cache, DamagedError
from hypertare.machines.image.programs import Choice, Programs
from hypertare.runs.store import Store
from hypertare.study import Study, StudyFile, combinations
from hypertare.study.walk import WalkSettings
from hypertare.walk import run
from hypertare.walk.processors import Description
from hypertare.walk.result import Walked, WalkSummary
from hypertare.walk.run import OWN_FILES, qemu

_LIBRARY = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)


def make_root(folder: Path, members: Iterable[cpio.Member]) -> None:
    """Fills a folder with an image's members and what the model needs to run among them.

    Raises:
        MachineError: QEMU's user mode or the plugin is not there, or the folder cannot be filled.
    """
    own = folder / OWN_FILES
    try:
        cpio.unpack(members, folder)
        own.mkdir()
        (folder / "proc").mkdir(exist_ok=True)
        (folder / "tmp").mkdir(mode=0o1777, exist_ok=True)
        shutil.copy(qemu(), own / ARCH.qemu_user)
        shutil.copy(paths.walk_plugin(), own / paths.WALK_PLUGIN)
        for name, library in _libraries(qemu(), paths.walk_plugin()):
            place = folder / ARCH.libraries / name
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, place)
    except OSError as error:
        raise MachineError(
            f"The programs cannot be laid out in {folder}: {error.strerror}.",
            "Make room there, or name another place with TMPDIR.",
        ) from error


def _libraries(*files: Path) -> Iterator[tuple[str, Path]]:
    """What this host loads with the files, by soname."""
    done = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True)
    if done.returncode:
        raise MachineError(f"ldd {files[0]} failed: {done.stderr.strip()}")
    for name, library in _LIBRARY.findall(done.stdout):
        yield name, Path(library)


_RESULT = "walk.json"
_LAST_BYTES = 400
_PREPARE_LIMIT_S = 600
_ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
"""The environment of commands on an emulated machine, without variables of this user: it lies on the stack
and so decides addresses.
"""


@dataclass(frozen=True)
class Need:
    """A workload with levels of its own factors, as a command line: `argv`, run after `prepare`.

    With `in_image` it runs with the programs of the machine's image.
    """

    cell: Cell
    argv: tuple[str, ...]
    prepare: str | None = None
    in_image: bool = False

    @property
    def name(self) -> str:
        levels = [str(level) for factor, level in self.cell.items() if factor != "workload"]
        return " ".join([str(self.cell["workload"]), *levels])


@dataclass(frozen=True)
class _Found:
    """A workload's result; `complaint` says that it is not what was counted before."""

    result: WalkSummary
    fingerprint: str
    complaint: str | None = None


def needs(file: StudyFile, study: Study) -> list[Need]:
    """Returns the workloads to run under the model, each with its levels.

    Raises:
        InputError: a workload ends by time and not after a fixed amount of work.
    """
    found = []
    for workload in study.walked:
        own = {
            path: levels
            for path, levels in study.factors_of(workload).items()
            if path.startswith(f"workloads.{workload}.")
        }
        for levels in combinations(own):
            work = file.cell(levels).workloads[workload].given_work()
            if work is None:
                raise InputError(
                    f"walk: {workload} does as much as fits into a time, and in a guest less than "
                    "natively.",
                    f"Set workloads.{workload}.count in place of a duration.",
                )
            cell: Cell = {"workload": workload, **levels}
            found.append(Need(cell, work.argv, work.prepare, work.in_image))
    return found


def check(processors: Sequence[Description], settings: WalkSettings) -> None:
    """That the model runs here and takes the processors.

    Raises:
        InputError: a processor is impossible.
        MachineError: QEMU's user mode is not there, or does not take the plugin.
    """
    with tempfile.TemporaryFile() as output:
        place = run.CommandEnvironment(output=output)
        run.walk(["true"], list(processors), settings.options, lambda *_: None, place)


@dataclass
class Stage:
    """Carries the needs out, several at a time. Results go into the journal."""

    settings: WalkSettings
    processors: Sequence[Description]
    choice: Choice
    journal: Store
    notify: Callable[[str], None]
    jobs: int = 1
    fresh: bool = False
    cache: Cache = field(default_factory=Cache)

    def __post_init__(self) -> None:
        self._ended = threading.Event()

    def carry_out(self, wanted: Sequence[Need]) -> None:
        """Runs what the journal has not.

        Raises:
            MachineError: a workload fails under the model, or something that it needs is missing.
        """
        stored = {key(walked.cell) for walked in self.journal.walks()}
        missing = [need for need in wanted if key(need.cell) not in stored]
        if not missing:
            return
        programs = self._programs(missing)
        with ThreadPoolExecutor(max_workers=self.jobs) as pool:
            try:
                found = pool.map(lambda need: self._one(need, programs), missing)
                # Only the thread that opened the journal may write.
                for need, one in zip(missing, found, strict=True):
                    self.journal.add_walk(Walked(need.cell, one.result), one.fingerprint)
                    if one.complaint is not None:
                        self.journal.add_event(one.complaint)
            finally:
                # However this ends, also by Ctrl-C, nothing goes on.
                self._ended.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def _programs(self, missing: Sequence[Need]) -> Programs | None:
        if not any(need.in_image for need in missing):
            return None
        found = real.find(self.choice, self.cache)
        if found is None:
            raise MachineError(
                "The programs of the machine's image are not in the cache.",
                "`hypertare run` puts them there: do not empty the cache while it runs.",
            )
        return found

    def _one(self, need: Need, programs: Programs | None) -> _Found:
        parts = self._parts(need, programs)
        fingerprint = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        known = self._known(fingerprint)
        if known is not None and not self.fresh:
            return _Found(known, fingerprint)
        self.notify(f"modelling the page walks of {need.name}")
        result = self._walk(need, programs)
        if known is None:
            self._keep(fingerprint, parts, result)
            return _Found(result, fingerprint)
        return _Found(known, fingerprint, _difference(need, known, result))

    def _parts(self, need: Need, programs: Programs | None) -> dict[str, object]:
        """All that decides the result."""
        files = [paths.walk_plugin(), run.qemu()]
        if need.in_image and programs:
            made: object = programs.digest
        else:
            made = [digest_of(paths.agent_binary()), run.LENGTH]
        return {
            "argv": need.argv,
            "prepare": need.prepare,
            "programs": made,
            "model": [digest_of(file) for file in files],
            "processors": [processor.raw for processor in self.processors],
            "options": [self.settings.cycles_per_instruction, self.settings.cache_share],
        }

    def _walk(self, need: Need, programs: Programs | None) -> WalkSummary:
        with tempfile.TemporaryFile() as output, _ready(need, programs, output) as (argv, place):
            result = run.walk(
                argv, list(self.processors), self.settings.options, self._still_wanted, place
            )
            if result.status or result.lost:
                raise _failed(need, result, output)
            return result

    def _still_wanted(self, *_: object) -> None:
        if self._ended.is_set():
            raise HypertareError("the run was ended")

    def _known(self, fingerprint: str) -> WalkSummary | None:
        entry = self.cache.find("walks", fingerprint)
        if entry is None:
            return None
        try:
            return WalkSummary.model_validate_json(entry.read(_RESULT))
        except (DamagedError, ValidationError):
            self.cache.drop(entry)
            return None

    def _keep(self, fingerprint: str, parts: dict[str, object], found: WalkSummary) -> None:
        def fill(place: Path) -> dict[str, str]:
            (place / _RESULT).write_text(found.model_dump_json(round_trip=True), encoding="utf-8")
            return {name: json.dumps(part, default=str) for name, part in parts.items()}

        what = f"modelled page walks of {' '.join(found.command)[:60]}"
        self.cache.make("walks", fingerprint, what, fill)


@contextmanager
def _ready(
    need: Need, programs: Programs | None, output: IO[bytes]
) -> Iterator[tuple[list[str], run.CommandEnvironment]]:
    """The command line, and the place where all is there that it needs."""
    if not need.in_image:
        with run.copied() as program:
            place = run.CommandEnvironment(environment=_ENVIRONMENT, output=output)
            yield [str(program), *need.argv[1:]], place
        return
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="hypertare-programs-"))
    try:
        make_root(folder, programs.members())
        place = run.CommandEnvironment(folder, real.WORK, _ENVIRONMENT, output)
        _prepare(need, place)
        yield list(need.argv), place
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prepare(need: Need, place: run.CommandEnvironment) -> None:
    """Runs the command `prepare` of a workload, outside of the model."""
    if need.prepare is None:
        return
    argv = [*place.start(), place.program("env"), *place.options, "/bin/sh", "-c", need.prepare]
    done = subprocess.run(
        argv,
        env=dict(place.environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_PREPARE_LIMIT_S,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace")[-_LAST_BYTES:].strip()
        raise MachineError(
            f"walk: preparing {need.name} failed with status {done.returncode}: {said}"
        )


def _failed(need: Need, result: WalkSummary, output: IO[bytes]) -> MachineError:
    output.seek(0)
    said = output.read()[-_LAST_BYTES:].decode(errors="replace").strip()
    if result.status:
        what = f"it ended with status {result.status}: {said}"
    else:
        what = f"{result.lost[0]} was not seen to its end"
    return MachineError(
        f"walk: {need.name} cannot be modelled: {what}",
        "Leave it out of walk.workloads, or mend its command.",
    )


def _difference(need: Need, known: WalkSummary, found: WalkSummary) -> str | None:
    if _counts(known) == _counts(found):
        return None
    return (
        f"{need.name}: modelled page walks did not repeat: {_cycles(known)} cycles before, "
        f"{_cycles(found)} now, over all layouts. Its program does not do the same each time; "
        "the first result stays."
    )


def _counts(result: WalkSummary) -> list[object]:
    """Returns the counts that repeat in every run. The number of accesses does not: a program that prints
    its elapsed time prints more or fewer digits.
    """
    return [cost.counts for processor in result.processors for cost in processor.layouts]


def _cycles(result: WalkSummary) -> int:
    return sum(cost.cycles for processor in result.processors for cost in processor.layouts)
