"""Who looks after what is lent: a process of its own, that puts everything back when its input ends.

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
from dataclasses import asdict, dataclass
from pathlib import Path

from hypertare.doctor.host import Host
from hypertare.errors import HypertareError
from hypertare.host import journal
from hypertare.host.lending import Lending
from hypertare.host.needs import Needs

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
            return _look_after(Lending(host), arguments.patience)
    except HypertareError as error:
        _tell(Answer(error.what, error.do, last=True))
        return error.status


def _look_after(lending: Lending, patience_s: float) -> int:
    try:
        lending.put_back()
        _tell(Answer())
        for line in sys.stdin:
            _tell(_provide(lending, line))
    except SystemExit:
        pass
    except HypertareError as error:
        # Left by an earlier run, and still not to be put back.
        _tell(Answer(error.what, error.do, last=True))
        return error.status
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    try:
        lending.put_back(patience_s)
    except HypertareError as error:
        _tell(Answer(error.what, error.do, last=True))
        return error.status
    _tell(Answer(last=True))
    return 0


def _provide(lending: Lending, line: str) -> Answer:
    try:
        lending.provide(Needs(**json.loads(line)))
    except HypertareError as error:
        return Answer(error.what, error.do)
    return Answer()


def _end(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _tell(answer: Answer) -> None:
    try:
        os.write(sys.stdout.fileno(), json.dumps(asdict(answer)).encode() + b"\n")
    except OSError:
        # Nobody is listening any more; what went wrong is for whoever looks at the terminal.
        if answer.what is not None:
            with contextlib.suppress(OSError):
                os.write(2, f"hypertare: {answer.what} {answer.do or ''}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
