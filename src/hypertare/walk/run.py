"""Runs a command under QEMU's user mode with the plugin, and reads what it wrote."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from hypertare.base import paths
from hypertare.base.arch import ARCH
from hypertare.base.errors import HypertareError, InputError, MachineError
from hypertare.walk.processors import Description, Options
from hypertare.walk.result import Answer, Cost, ProcessorCosts, WalkSummary, summed

_OWN = "hypertare-walk: "
_TRY_LIMIT_S = 60
_POLL_S = 0.25
Progress = Callable[[int, float], None]


@dataclass(frozen=True)
class CommandEnvironment:
    """The files, directory, environment and output of a command.

    Without `root` the command has the user's files, environment and terminal. With `root` it has the files
    of that directory (`hypertare.engine.walks`), starts in `directory` below it, has an `environment`
    of its own and no input, and writes its `output` to a file.
    """

    root: Path | None = None
    directory: str = "/"
    environment: Mapping[str, str] | None = None
    output: IO[bytes] | None = None

    def start(self) -> list[str]:
        """Returns the first words of a command line, which enter `root`; nothing without one."""
        if self.root is None:
            return []
        enter = _ENTER.format(mount=_program("mount"), chroot=_program("chroot"))
        shell = [_program("sh"), "-c", enter, "sh"]
        return [_program("unshare"), "--map-root-user", "--mount", *shell, str(self.root)]

    @property
    def options(self) -> list[str]:
        """Options of `env`: the directory in which the command starts."""
        return [] if self.root is None else [f"--chdir={self.directory}"]

    def inside(self, path: Path) -> Path:
        """A path as the command sees it."""
        return path if self.root is None else Path("/") / path.relative_to(self.root)

    def program(self, name: str) -> str:
        if self.root is None:
            return _program(name)
        # A link in it may lead to where only the command gets.
        if not os.path.lexists(self.root / _BINARIES / name):
            raise MachineError(f"The program {name} is not in {self.root / _BINARIES}.")
        return f"/{_BINARIES}/{name}"


_BINARIES = "usr/bin"

_ENTER = '{mount} --rbind /proc "$1/proc" && exec {chroot} "$@"'
"""QEMU looks into /proc for addresses that are free; without it a program's are not QEMU's own, which
the plugin needs."""


def walk(
    command: list[str],
    processors: list[Description],
    options: Options,
    progress: Progress,
    place: CommandEnvironment | None = None,
) -> WalkSummary:
    """Runs a command once and says what translation cost it. Its input and output are the caller's,
    unless a place says otherwise.

    `progress` gets the accesses so far and the seconds.

    Raises:
        InputError: there is no such command, or a processor is impossible.
        MachineError: QEMU is not there or does not take the plugin.
        HypertareError: the command ran, but nothing of it was seen to its end.
    """
    place = place or CommandEnvironment()
    if place.root is None:
        _check_program(command[0])
    with tempfile.TemporaryDirectory(prefix="hypertare-walk-", dir=place.root) as folder:
        site = _Site(Path(folder) / "site", *_parts(place), processors, options, place)
        site.folder.mkdir()
        try:
            site.try_out()
            began = time.monotonic()
            status = site.run(command, progress)
            elapsed_s = time.monotonic() - began
            return _summary(command, status, elapsed_s, site.answers(), processors, options)
        finally:
            # All at once: a program that starts in the background meets the whole site or none.
            site.folder.rename(Path(folder) / "over")


def _check_program(name: str) -> None:
    """Raises:
    InputError: it is not there, or cannot be started.
    """
    if shutil.which(name) is not None:
        return
    if not name:
        raise InputError("The command is empty.", "hypertare walk -- COMMAND")
    if Path(name).is_dir():
        raise InputError(f"{name} is a directory, and no program.", "Name a program in it.")
    if "/" in name and Path(name).is_file():
        raise InputError(f"{name} may not be executed.", f"chmod +x {name}")
    raise InputError(
        f"{name}: there is no such program.",
        "Check the spelling; what the shell alone knows needs bash -c '...'.",
    )


def _parts(place: CommandEnvironment) -> tuple[Path, Path]:
    """QEMU and the plugin."""
    if place.root is None:
        return qemu(), paths.walk_plugin()
    return (place.root / OWN_FILES / ARCH.qemu_user, place.root / OWN_FILES / paths.WALK_PLUGIN)


OWN_FILES = ".hypertare"
"""Where QEMU and the plugin lie in a root."""


def qemu() -> Path:
    """Returns the path of QEMU's user mode.

    Raises:
        MachineError: it is not installed.
    """
    found = shutil.which(ARCH.qemu_user)
    if found is None:
        raise MachineError(
            f"{ARCH.qemu_user} is not installed: the command's accesses are seen through QEMU's user mode.",
            "As root: apt-get install qemu-user",
        )
    return Path(found).absolute()


@dataclass(frozen=True)
class _Site:
    folder: Path
    qemu: Path
    plugin: Path
    processors: list[Description]
    options: Options
    place: CommandEnvironment

    def try_out(self) -> None:
        """Runs nothing but `true`: that QEMU takes the plugin and the plugin the processors is known
        before the user's command has begun."""
        argv = [*self._prepare("try"), self.place.program("true")]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=_TRY_LIMIT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MachineError(f"{self.qemu} cannot be run: {error}.") from error
        said = [line for line in done.stderr.splitlines() if line.strip()]
        if refusal := next((line for line in said if line.startswith(_OWN)), None):
            reason = refusal.removeprefix(_OWN)
            raise InputError(f"{reason}.", "Correct the description of the processor.")
        if done.returncode or not list((self.folder / "try").glob("*.json")):
            reason = said[-1] if said else f"it ended with status {done.returncode}"
            raise MachineError(
                f"{self.qemu} does not take the plugin {self.plugin}: {reason}",
                "The plugin is built for version 1 of QEMU's plugin interface, as Debian 12's qemu-user "
                "has it; QEMU 9 and later have another, and static builds, such as qemu-user-static and "
                "Debian 13's qemu-user, take no plugins.",
            )

    def run(self, command: list[str], progress: Progress) -> int:
        """The command's exit status, as a shell has it. `env` starts it, so that a script is found and
        started as anywhere, through the plugin."""
        env = [self.place.program("env"), *self.place.options]
        argv = [*self._prepare("results"), *env, "--", *command]
        with _running(argv, self.place) as process:
            began = time.monotonic()
            while True:
                try:
                    status = process.wait(_POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    (accesses,) = struct.unpack("=Q", self._progress.read_bytes())
                    progress(accesses, time.monotonic() - began)
        return 128 - status if status < 0 else status

    def answers(self) -> list[Answer]:
        """Of the command's programs, in the order of their starts: all but `env`. From now on no more
        are taken: what still runs in the background sees that nobody waits for it."""
        taken = (self.folder / "results").rename(self.folder / "taken")
        files = sorted(taken.glob("*.json"), key=lambda file: int(file.name.split("-")[0]))
        return [Answer.model_validate_json(file.read_bytes()) for file in files][1:]

    def _prepare(self, name: str) -> list[str]:
        """A folder for results of this name, and the start of QEMU's command line that fills it."""
        results = self.folder / name
        results.mkdir()
        self._progress.write_bytes(bytes(8))
        job = self.folder / f"{name}.job"
        inside = self.place.inside
        # A comma separates QEMU's options; two are one.
        parts = (inside(self.plugin), f"job={inside(job)}")
        plugin = ",".join(str(part).replace(",", ",,") for part in parts)
        job.write_text(
            json.dumps(
                {
                    "processors": [processor.raw for processor in self.processors],
                    "cache_share": self.options.cache_share,
                    "results": str(inside(results)),
                    "progress": str(inside(self._progress)),
                    "qemu": str(inside(self.qemu)),
                    "plugin": plugin,
                },
                default=str,
            )
        )
        return [*self.place.start(), str(inside(self.qemu)), "-plugin", plugin]

    @property
    def _progress(self) -> Path:
        return self.folder / "progress"


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MachineError(
            f"The program {name} is not on this system.",
            "Install coreutils and util-linux; root's programs must be in PATH.",
        )
    return found


@contextmanager
def _running(argv: list[str], place: CommandEnvironment) -> Iterator[subprocess.Popen[bytes]]:
    """A process with our input and output. What interrupts us, interrupts it too: it is waited for."""
    ends: dict[str, Any] = {}
    if place.output is not None:
        ends = {"stdin": subprocess.DEVNULL, "stdout": place.output, "stderr": place.output}
    # The user's is named, for without a name it would have what `loading.have_one_blas_thread` adds.
    environment = dict(os.environ if place.environment is None else place.environment)
    process = subprocess.Popen(argv, env=environment, **ends)
    try:
        yield process
    except BaseException:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise


def _summary(
    command: list[str],
    status: int,
    elapsed_s: float,
    answers: list[Answer],
    processors: list[Description],
    options: Options,
) -> WalkSummary:
    ended = [answer for answer in answers if answer.ended]
    lost = [answer.program for answer in answers if not answer.ended]
    sums = summed(ended)
    if not sums:
        raise _nothing_seen(command, status, lost)
    instructions = sum(answer.instructions for answer in ended)
    accesses = sum(answer.accesses for answer in ended)
    base = instructions * options.cycles_per_instruction
    return WalkSummary(
        command=command,
        status=status,
        elapsed_s=elapsed_s,
        cycles_per_instruction=options.cycles_per_instruction,
        cache_share=options.cache_share,
        programs=len(answers),
        lost=lost,
        threads=max(answer.threads for answer in ended),
        marked=sum(answer.marked for answer in ended),
        instructions=instructions,
        accesses=accesses,
        processors=[
            ProcessorCosts(
                name=processor.name,
                title=processor.title,
                shared_cache=processor.shared_cache,
                assumed=processor.assumed,
                layouts=[
                    Cost(counts=counts, accesses=accesses, base_cycles=base)
                    for counts in sums[processor.key]
                ],
            )
            for processor in processors
        ],
    )


def _nothing_seen(command: list[str], status: int, lost: list[str]) -> HypertareError:
    if not lost:
        return InputError(
            f"{command[0]} did not run under QEMU, so nothing was seen of it (exit status {status}).",
            "It must be a 64-bit x86 program or a script for one, and not setuid.",
        )
    how = (
        f"by signal {signal.Signals(status - 128).name}"
        if status > 128
        else f"with status {status}"
    )
    early = HypertareError(
        f"The trace ends early: {lost[0]} was ended {how} before its results were written.",
        "There is nothing to report. Let the command come to its end.",
    )
    early.status = status or early.status
    return early


LENGTH = 240
"""Of the path, in bytes. Below 255, the longest name in a directory, so that one such name fills it up."""


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the agent at a path of one length, wherever hypertare lies; gone when this is left.

    A program sees the path by which it was started: it is on its stack, and the C library and Rust's
    runtime read it in /proc/self/exe and /proc/self/maps before `main`. How long it is decides where what
    follows lies in memory, and so how often its translation misses: in the fourth or fifth digit.

    Raises:
        MachineError: there is no agent, or no place for its copy.
    """
    source = paths.agent_binary()
    with tempfile.TemporaryDirectory(prefix="hypertare-agent-") as folder:
        within = Path(folder).resolve()
        missing = LENGTH - len(os.fsencode(within / "x" / paths.AGENT)) + 1
        if missing < 1:
            raise MachineError(
                f"The path of {tempfile.gettempdir()} is too long.",
                "Name a place with TMPDIR whose path is shorter.",
            )
        path = within / ("x" * missing) / paths.AGENT
        try:
            path.parent.mkdir()
            shutil.copy(source, path)
        except OSError as error:
            raise MachineError(
                f"The agent cannot be copied to {folder}: {error.strerror}.",
                "Make room there, or name another place with TMPDIR.",
            ) from error
        if not os.access(path, os.X_OK):
            raise MachineError(
                f"What lies in {tempfile.gettempdir()} may not be executed.",
                "Name a place with TMPDIR that is not mounted noexec.",
            )
        yield path
