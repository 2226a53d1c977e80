"""A lab elsewhere, which ssh reaches: the pipe of steps of this host's machine goes through a connection.

What is brought stays in `~/.cache/hypertare` there, by its digest: the agent, and what guests boot from,
until nobody has used it for a month.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO

from pydantic import ValidationError

from hypertare.base.errors import MachineError
from hypertare.machines.reach import BRING_S, FOLDER, READY, Sent, argv, look, pack
from hypertare.machines.steps import HostAgent
from hypertare.protocol.phase import parse
from hypertare.protocol.records import Survey

_SWEEP = r"""
for old in "$HOME"/FOLDER/work-*; do
    [ -O "$old" ] || continue
    kill -0 "$(cat "$old/shell" 2>/dev/null)" 2>/dev/null || rm -rf "$old"
done
"""
"""Work directories whose shells are gone."""

_SERVE = r"""
mask=$(umask)
umask 077
mkdir -p PLACE/pristine && echo $$ > PLACE/shell || exit 1
trap 'for n in 1 2 3 4 5; do rm -rf PLACE && break; sleep 0.2; done' EXIT
trap 'exit 143' HUP INT TERM PIPE
umask "$mask"
head -c SIZE | tar -xpf - -C PLACE/pristine || exit 1
echo READY
AGENT host --reached
"""
"""The agent's shell outlives it, to clear up. First come the work directory's files, then steps."""
_HEARTBEAT_S = 5.0
"""The agent there ends after 15 s without a line (`host --reached`): a cut network says nothing."""
_CONNECT_S = 30.0
_AT_ONCE = 1 << 16
_MOST_BEFORE = 1000
"""Lines that a user's shell may print before the agent's own."""


@dataclass(frozen=True)
class RemoteHost:
    """A remote host that has our agent and files, with the survey that its agent made.

    `environment` holds the variables that commands find there. `brings` is the run's work directory on this
    host, and `work` the directory on the remote host into which it is copied.
    """

    reach: tuple[str, ...]
    agent: Sent
    folder: PurePosixPath
    survey: Survey
    environment: dict[str, str]
    work: PurePosixPath
    brings: Path | None = None

    @property
    def workdir(self) -> Path:
        return Path(self.work / "pristine")

    @property
    def described(self) -> str:
        return " ".join(self.reach)

    def place(self, file: Sent) -> Path:
        """Where it has a file."""
        return Path(self.folder / file.name)

    def why_not(self, ability: str) -> str | None:
        """Why it cannot do something; nothing where it can."""
        return self.survey.absent.get(ability)


def reached(
    reach: tuple[str, ...],
    agent: Path,
    files: Sequence[Sent],
    boots_from: tuple[Sent, Sent] | None,
    brings: Path | None = None,
) -> RemoteHost:
    """Looks at a host, brings what it lacks, and has its agent survey it.

    Args:
        reach: the words of an ssh.
        agent: ours.
        files: what guests of the study boot from.
        boots_from: kernel and initramfs of a guest that is booted to see whether KVM works.
        brings: the work directory of the run's commands.

    Raises:
        MachineError: it cannot be reached, or is none that benches can stand on; it says what to do.
    """
    sent = Sent(agent, "agent")
    words = f"{sent.place} survey"
    if boots_from is not None:
        kernel, initramfs = boots_from
        words += f" --kernel {kernel.place} --initramfs {initramfs.place}"
    sweep = _SWEEP.replace("FOLDER", FOLDER)
    wanted = {one.name: one for one in (sent, *files, *(boots_from or ()))}
    found = look(reach, tuple(wanted.values()), 0, f'{sweep}printf "survey "; {words}')
    survey = _survey(reach, found.get("survey", ""))
    home = found.get("home", "")
    if not home.startswith("/") or not home.isprintable():
        raise MachineError(
            f"{' '.join(reach)}: its user has no home directory ({home[:100]!a}).",
            "The agent is kept in one: give that user a home.",
        )
    folder = PurePosixPath(home) / FOLDER
    work = folder / f"work-{uuid.uuid4().hex}"
    # The variables of its user without which few commands do; nothing of this host's.
    names = {"HOME": "home", "PATH": "path", "LANG": "language", "USER": "user", "LOGNAME": "user"}
    known = {name: found.get(word, "") for name, word in names.items()}
    known = {name: value for name, value in known.items() if value and value.isprintable()}
    host = RemoteHost(reach, sent, folder, survey, known, work, brings)
    if reason := host.why_not("sandbox"):
        raise MachineError(
            f"{host.described}: no bench can be made there: {reason}",
            "On that host `hypertare doctor` says more, where it is installed.",
        )
    return host


def _survey(reach: tuple[str, ...], text: str) -> Survey:
    """Parses the survey that a host's agent printed.

    Raises:
        MachineError: the text is no survey.
    """
    try:
        record = parse(text)
    except ValidationError:
        record = None
    if isinstance(record, Survey) and _is_plain(record) and record.cpus:
        return record
    raise MachineError(
        f"{' '.join(reach)}: its agent's survey is not to be read: {text[:200]!a}",
        "Is it of another version? Remove ~/.cache/hypertare there.",
    )


def _is_plain(survey: Survey) -> bool:
    """Whether what it says can be shown."""
    words = (survey.host_name, survey.processor, survey.kernel, survey.architecture)
    texts = (
        *words,
        survey.distribution,
        survey.qemu or "",
        *survey.absent,
        *survey.absent.values(),
    )
    return all(text.isprintable() for text in texts)


class RemoteMachine(HostAgent):
    """Runs benches and trials on a lab elsewhere. Use as a context manager."""

    def __init__(self, host: RemoteHost) -> None:
        self._files: IO[bytes] | None = None
        script = f"echo {READY}; exec {host.agent.place} host --reached"
        if host.brings is not None:
            self._files = TemporaryFile()  # noqa: SIM115
            pack(host.brings, self._files)
            script = _SERVE.replace("AGENT", host.agent.place).replace("READY", READY)
            script = script.replace("PLACE", shlex.quote(str(host.work)))
            script = script.replace("SIZE", str(self._files.tell()))
        named = f"the agent at {host.described}"
        super().__init__(argv(host.reach, script), named, named)
        self._ended = threading.Event()

    def _begin(self) -> None:
        limit_s = _CONNECT_S
        if self._files is not None:
            limit_s = BRING_S
            self._files.seek(0)
            try:
                while part := self._files.read(_AT_ONCE):
                    self._write(part)
            except OSError:
                raise self._gone() from None
        self._skip(READY.encode(), limit_s, _MOST_BEFORE)
        threading.Thread(target=self._keep_alive, daemon=True).start()
        super()._begin()

    def _keep_alive(self) -> None:
        while not self._ended.wait(_HEARTBEAT_S):
            # Whoever waits for an answer sees that the connection is gone.
            with contextlib.suppress(OSError, ValueError):
                self._write(b"\n")

    def close(self) -> None:
        self._ended.set()
        super().close()
        if self._files is not None:
            self._files.close()
