"""Removes a run's containers of an engine when its input ends, which the kernel sees to whatever ends the
run. It leaves nothing to itself: signals of a terminal are the run's.
"""

from __future__ import annotations

import signal
import sys

from hypertare.machines.host.engine import clean_up


def main(program: str, scope: str, place: str) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    clean_up(program, scope, place)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
