"""A run's lease of this host's settings, and their keeper, which puts them back when its input ends.

The kernel closes that pipe whatever ends the run, so kill -9 of the controller and the loss of its
terminal are no special cases. Should the keeper be killed too, the journal, which is written before each
change, stays, and the next run or `hypertare doctor --put-back` takes it up. A keeper exists only when
something must change.

    needs, one JSON object a line  ->  an answer to each  ->  one more after the end of input
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hypertare.base.errors import HypertareError, MachineError
from hypertare.base.host_files import Host
from hypertare.base.units import human_size
from hypertare.machines.host import kvm
from hypertare.machines.host import settings as journal
from hypertare.machines.host.settings import (
    Needs,
    Permissions,
    check,
    find_huge_pages,
    set_huge_pages,
)
from hypertare.protocol.constants import HUGE_PAGE
from hypertare.protocol.plan import Paging

_GLANCE_S = 0.2

PUT_BACK = "hypertare doctor --put-back"
"""The command that puts back settings which no keeper looks after any more."""


class HostSettings:
    """Settings of a host that runs change, and put back. The journal's lock must be held."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.before = journal.read(host)

    def provide(self, needs: Needs) -> None:
        """Makes the host have what a bench needs; what that does not need is as it was.

        Raises:
            MachineError: it cannot be had.
        """
        self._provide_paging(needs.paging)
        self._provide_huge_pages(needs.huge_pages)

    def put_back(self, patience_s: float = 0.0) -> None:
        """Puts everything back, each thing whatever becomes of the others.

        Args:
            patience_s: how long to wait for guests that are about to end.

        Raises:
            MachineError: something is not as it was; the journal keeps how it was.
        """
        backs = (self._huge_pages_back, self._paging_back)
        failed = [self._patiently(back, patience_s) for back in backs]
        errors = [error for error in failed if error is not None]
        if errors:
            raise MachineError(
                "Putting this host's settings back as they were before the run went wrong. "
                + " ".join(error.what for error in errors),
                "\n".join(
                    [
                        *(error.do for error in errors if error.do),
                        f"When that is settled, as root: {PUT_BACK}",
                    ]
                ),
            )

    def _patiently(self, back: Callable[[], None], patience_s: float) -> MachineError | None:
        while True:
            try:
                back()
            except MachineError as error:
                if patience_s <= 0:
                    return error
            else:
                return None
            self.host.sleep(_GLANCE_S)
            patience_s -= _GLANCE_S

    def _provide_paging(self, paging: Paging | None) -> None:
        before = self.before.module
        if paging is None or (before is not None and before.paging == paging):
            self._paging_back()
            return
        module = kvm.find(self.host)
        if module is None:
            raise MachineError(
                f"{paging} page tables are not to be had: {kvm.why_missing(self.host)}."
            )
        if module.paging == paging:
            return
        kvm.check_free(self.host, module)
        if before is None:
            self._note(replace(self.before, module=kvm.State.of(self.host, module)))
        kvm.switch(self.host, module, paging)

    def _paging_back(self) -> None:
        if self.before.module is not None:
            kvm.put_back(self.host, self.before.module)
            self._note(replace(self.before, module=None))

    def _provide_huge_pages(self, count: int) -> None:
        if not count:
            self._huge_pages_back()
            return
        found = find_huge_pages(self.host)
        if found is None:
            raise MachineError("this host's kernel has no pages of 2 MB.")
        if found.free >= count:
            return
        if self.before.huge_pages is None:
            self._note(replace(self.before, huge_pages=found.total))
        set_huge_pages(self.host, found.total + count - found.free)
        got = find_huge_pages(self.host) or found
        if got.free < count:
            self._huge_pages_back()
            raise MachineError(
                f"of {count} pages of 2 MB ({human_size(count * HUGE_PAGE)}) the kernel found "
                f"{got.free}: memory lies in pieces.",
                "As root: echo 1 > /proc/sys/vm/compact_memory, or set them aside at boot with "
                f"hugepages={found.total + count} on the kernel's command line.",
            )

    def _huge_pages_back(self) -> None:
        total = self.before.huge_pages
        if total is None:
            return
        set_huge_pages(self.host, total)
        found = find_huge_pages(self.host)
        if found is not None and found.total != total:
            raise MachineError(
                f"{total} pages of 2 MB were set aside, and {found.total} are now: some are in use."
            )
        self._note(replace(self.before, huge_pages=None))

    def _note(self, before: journal.Before) -> None:
        journal.write(self.host, before)
        self.before = before


PATIENCE_S = 15.0
"""For the run's own guests to end: the host agent takes some 3 s."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Answer:
    """`what` and `do` of an error, or neither. The last one says how putting back went."""

    what: str | None = None
    do: str | None = None
    last: bool = False


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path("/"), help="of the host's files")
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="in seconds, at the end")
    arguments = parser.parse_args(argv)
    host = Host(root=arguments.root)
    for number in _ENDING:
        signal.signal(number, _end)
    try:
        with journal.held(host):
            last = _look_after(HostSettings(host), arguments.patience)
    except Exception as error:
        last = _reason(error)
    _answer(replace(last, last=True))
    return 0 if last.what is None else MachineError.status


def _look_after(settings: HostSettings, patience_s: float) -> Answer:
    """Changes settings on request until the input ends, then puts everything back, whatever ended it.

    Returns:
        The last answer: the error of putting back, or else an earlier error.
    """
    wrong = Answer()
    waits_s = 0.0
    try:
        try:
            # What an earlier run has left.
            settings.put_back()
            waits_s = patience_s
            _answer(Answer())
            for line in sys.stdin:
                provided = Answer()
                try:
                    settings.provide(Needs(**json.loads(line)))
                except Exception as error:
                    provided = _reason(error)
                _answer(provided)
        finally:
            _ignore_ends()
    except SystemExit:
        pass
    except Exception as error:
        wrong = _reason(error)
    finally:
        try:
            settings.put_back(waits_s)
        except Exception as error:
            wrong = _reason(error)
    return wrong


def _reason(error: Exception) -> Answer:
    if isinstance(error, HypertareError):
        return Answer(error.what, error.do)
    return Answer(
        "whoever looks after this host's settings met what it does not expect: "
        f"{type(error).__name__}: {error}",
        f"See whether they are as they were: {PUT_BACK}. Please report it.",
    )


def _end(number: int, frame: object) -> None:
    # A second one must not interrupt what the first one makes necessary.
    _ignore_ends()
    raise SystemExit(128 + number)


def _ignore_ends() -> None:
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def _answer(answer: Answer) -> None:
    try:
        os.write(sys.stdout.fileno(), json.dumps(asdict(answer)).encode() + b"\n")
    except OSError:
        # Nobody is listening any more; what went wrong is for whoever looks at the terminal.
        if answer.what is not None:
            with contextlib.suppress(OSError):
                os.write(2, f"hypertare: {answer.what} {answer.do or ''}\n".encode())


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


if __name__ == "__main__":
    sys.exit(main())
