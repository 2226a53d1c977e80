"""The keeper of changed settings: a process of its own, which puts everything back when its input ends.

The kernel closes that pipe whatever ends the run, so kill -9 of the controller and the loss of its
terminal are no special cases. Should this process be killed too, the journal stays, and the next run
or `hypertare doctor --put-back` takes it up.

    needs, one JSON object a line  ->  an answer to each  ->  one more after the end of input
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hypertare.base.errors import HypertareError, MachineError
from hypertare.base.host_files import Host
from hypertare.machines.host import journal
from hypertare.machines.host.host_settings import PUT_BACK, HostSettings
from hypertare.machines.host.needs import Needs

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


if __name__ == "__main__":
    sys.exit(main())
