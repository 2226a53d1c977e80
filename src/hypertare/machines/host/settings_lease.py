"""A run's lease of host settings: asks their keeper, which exists only when something must change."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from hypertare.base.errors import MachineError
from hypertare.base.host_files import Host
from hypertare.machines.host import journal
from hypertare.machines.host.host_settings import PUT_BACK, HostSettings
from hypertare.machines.host.keeper import PATIENCE_S, Answer
from hypertare.machines.host.needs import Needs, Permissions, check

_ANSWER_LIMIT_S = 90.0
"""Unloading, loading, and both again where that fails; memory may have to be moved for huge pages."""


_GONE = "whoever was to look after this host's settings has ended or does not answer."


class NotPutBackError(MachineError):
    """A setting of this host is not as it was before the run. The run itself is whole."""


class SettingsLease:
    """Settings of this host for the benches of one machine. To be closed when their guests have ended."""

    def __init__(
        self, allow: Permissions, root: Path = Path("/"), patience_s: float = PATIENCE_S
    ) -> None:
        self.allow = allow
        self.root = root
        self.patience_s = patience_s
        self._keeper: subprocess.Popen[bytes] | None = None

    def provide(self, needs: Needs) -> None:
        """Makes the host have what a bench needs, or sees that it has.

        Raises:
            MachineError: it has not; nothing was changed, or it was put back.
        """
        host = Host(root=self.root)
        if self._keeper is None:
            if check(host, needs, self.allow):
                return
            self._begin()
        assert self._keeper is not None and self._keeper.stdin is not None
        with contextlib.suppress(OSError):
            self._keeper.stdin.write(json.dumps(asdict(needs)).encode() + b"\n")
            self._keeper.stdin.flush()
        _accept(_heard(self._keeper, _ANSWER_LIMIT_S))

    def close(self) -> None:
        """Has everything put back.

        Raises:
            NotPutBackError: something could not be.
        """
        if self._keeper is None:
            return
        keeper, self._keeper = self._keeper, None
        assert keeper.stdin is not None
        with contextlib.suppress(OSError):
            keeper.stdin.close()
        answer = _heard(keeper, self.patience_s + _ANSWER_LIMIT_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            keeper.wait(_ANSWER_LIMIT_S)
        if answer.what is not None:
            raise NotPutBackError(answer.what, answer.do)

    def _begin(self) -> None:
        """Starts the keeper in a session of its own, so that Ctrl-C and the terminal's loss do not reach
        it.
        """
        keeper = subprocess.Popen(
            [
                *(sys.executable, "-m", "hypertare.machines.host.keeper"),
                *("--root", self.root, "--patience", str(self.patience_s)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            _accept(_heard(keeper, _ANSWER_LIMIT_S))
        except MachineError:
            # It has changed nothing for us, so nothing is to be put back; the next bench asks again.
            assert keeper.stdin is not None
            keeper.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                keeper.wait(self.patience_s)
            raise
        self._keeper = keeper


def _accept(answer: Answer) -> None:
    if answer.what is not None:
        raise MachineError(answer.what, answer.do)
    if answer.last:
        raise MachineError(_GONE, f"As root see: {PUT_BACK}")


def _heard(keeper: subprocess.Popen[bytes], limit_s: float) -> Answer:
    """Returns the keeper's next answer; if none comes in time, an answer with an error and `last` set."""
    answers = keeper.stdout
    assert answers is not None
    # Ends the wait for the answer, not the keeper: that still has to put things back.
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(answers.readline()), daemon=True)
    reader.start()
    reader.join(limit_s)
    try:
        return Answer(**json.loads(found[0]))
    except (IndexError, ValueError, TypeError):
        return Answer(_GONE, f"As root: {PUT_BACK}", last=True)


def left_behind(host: Host) -> list[str]:
    """What runs that are gone have changed and not put back, in words.

    Raises:
        MachineError: the journal cannot be understood.
    """
    return [] if journal.is_held(host) else journal.read(host).described(host)


def recover(host: Host, notify: Callable[[str], None]) -> None:
    """Puts back what runs that are gone have left; without root it only reports.

    Raises:
        MachineError: it could not be put back.
    """
    left = left_behind(host)
    if not left:
        return
    what = "; ".join(left)
    if os.geteuid() != 0:
        notify(f"a run that was killed has left this host changed: {what}. As root: {PUT_BACK}")
        return
    with journal.held(host):
        HostSettings(host).put_back()
    notify(f"put back what a killed run had left: {what}")
