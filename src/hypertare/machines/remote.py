"""A lab elsewhere, which ssh reaches: the pipe of steps of this host's machine goes through a connection.

What is brought stays in `~/.cache/hypertare` there, by its digest: the agent, and what guests boot from,
until nobody has used it for a month.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from hypertare.base.errors import MachineError
from hypertare.machines.reach import FOLDER, READY, Sent, argv, look
from hypertare.machines.steps import HostAgent
from hypertare.protocol.parse import parse
from hypertare.protocol.records import Survey

_HEARTBEAT_S = 5.0
"""The agent there ends after 15 s without a line (`host --reached`): a cut network says nothing."""
_CONNECT_S = 30.0
_MOST_BEFORE = 1000
"""Lines that a user's shell may print before the agent's own."""


@dataclass(frozen=True)
class RemoteHost:
    """A host that has our agent and files, as its agent surveyed it."""

    reach: tuple[str, ...]
    agent: Sent
    folder: PurePosixPath
    survey: Survey

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
    reach: tuple[str, ...], agent: Path, files: Sequence[Sent], boots_from: tuple[Sent, Sent] | None
) -> RemoteHost:
    """Looks at a host, brings what it lacks, and has its agent survey it.

    Args:
        reach: the words of an ssh.
        agent: ours.
        files: what guests of the study boot from.
        boots_from: kernel and initramfs of a guest that is booted to see whether KVM works.

    Raises:
        MachineError: it cannot be reached, or is none that benches can stand on; it says what to do.
    """
    sent = Sent(agent, "agent")
    words = f"{sent.place} survey"
    if boots_from is not None:
        kernel, initramfs = boots_from
        words += f" --kernel {kernel.place} --initramfs {initramfs.place}"
    wanted = {one.name: one for one in (sent, *files, *(boots_from or ()))}
    found = look(reach, tuple(wanted.values()), 0, f'printf "survey "; {words}')
    survey = _survey(reach, found.get("survey", ""))
    home = found.get("home", "")
    if not home.startswith("/") or not home.isprintable():
        raise MachineError(
            f"{' '.join(reach)}: its user has no home directory ({home[:100]!a}).",
            "The agent is kept in one: give that user a home.",
        )
    host = RemoteHost(reach, sent, PurePosixPath(home) / FOLDER, survey)
    if reason := host.why_not("sandbox"):
        raise MachineError(
            f"{host.described}: no bench can be made there: {reason}",
            "On that host `hypertare doctor` says more, where it is installed.",
        )
    return host


def _survey(reach: tuple[str, ...], text: str) -> Survey:
    """Raises:
    MachineError: it is none.
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
    words = (
        survey.host_name,
        survey.processor,
        survey.kernel,
        survey.architecture,
        survey.distribution,
    )
    texts = (*words, survey.qemu or "", *survey.absent, *survey.absent.values())
    return all(text.isprintable() for text in texts)


class RemoteMachine(HostAgent):
    """Runs benches and trials on a lab elsewhere. Use as a context manager."""

    def __init__(self, host: RemoteHost) -> None:
        script = f"echo {READY}; exec {host.agent.place} host --reached"
        named = f"the agent at {host.described}"
        super().__init__(argv(host.reach, script), named, named)
        self._ended = threading.Event()

    def _begin(self) -> None:
        self._skip(READY.encode(), _CONNECT_S, _MOST_BEFORE)
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
