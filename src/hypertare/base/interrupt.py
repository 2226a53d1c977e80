"""Ctrl-C and SIGTERM, which end what runs wherever they meet it.

Python raises an interrupt in whatever it happens to execute. In a callback out of a compiled library,
or where an object goes, nobody can take it: it is dropped, silently or with a traceback, and the run
would go on. So an interrupt comes again until somebody has heard it.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_AGAIN_S = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_finishing: str | None = None
"""What an interrupt lets end, in words."""
_asked = False
"""Whether one came meanwhile."""


_keeps = False


def keep() -> None:
    """From now on there is a run whose trials an interrupt leaves."""
    global _keeps
    _keeps = True


def is_kept() -> bool:
    return _keeps


def listen() -> None:
    """From now on both signals raise `KeyboardInterrupt` in the main thread, again and again until
    `heard` is called. While one is on its way up, and others tidy behind it, none is raised.
    """
    for number in _SIGNALS:
        # A shell starts what goes on behind it with Ctrl-C ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    signal.signal(signal.SIGALRM, _again)
    atexit.register(over)
    otherwise = sys.unraisablehook

    def dropped(unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            otherwise(unraisable)

    sys.unraisablehook = dropped


def heard() -> None:
    """Whoever ends the run because of an interrupt says so."""
    signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def finishing(what: str) -> Iterator[None]:
    """While in it, the first Ctrl-C is answered at once and heard at its end, so that what was begun is
    kept; a second one, or SIGTERM, drops it. Not for what is in such a context already.

    Args:
        what: what is being finished: `this trial`.

    Raises:
        KeyboardInterrupt: at the end, where it was asked for.
    """
    global _finishing, _asked
    _finishing, _asked = what, False
    try:
        yield
    finally:
        _finishing = None
    if _asked:
        _raise_again_until_heard()


def over() -> None:
    """All is said, and only the process has to end. Python gives its signals back on its way out, but
    for those that are ignored: a second Ctrl-C, or an alarm, would kill it with no exit status.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    heard()


def _interrupt(number: int, _frame: FrameType | None) -> None:
    global _asked
    if number == signal.SIGINT and _finishing and not _asked:
        _asked = True
        # Past Python's own streams, which may be in the middle of something.
        os.write(2, f"\nhypertare: ending {_finishing}; Ctrl-C again drops it\n".encode())
        return
    _raise_again_until_heard()


def _raise_again_until_heard() -> NoReturn:
    # A signal rather than a note to look at: it also ends what waits.
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S, _AGAIN_S)
    raise KeyboardInterrupt


def _again(_signal: int, _frame: FrameType | None) -> None:
    if not _on_its_way(sys.exc_info()[1]):
        raise KeyboardInterrupt


def _on_its_way(handled: BaseException | None) -> bool:
    while handled is not None:
        # A generator that an interrupt leaves behind is closed, and tidies, knowing only that.
        if isinstance(handled, KeyboardInterrupt | GeneratorExit):
            return True
        handled = handled.__context__
    return False
