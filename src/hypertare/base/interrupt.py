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
"""The name of the work that `finishing` protects, None outside of it."""
_asked = False
"""Whether Ctrl-C came within `finishing`."""
_keeps = False


def keep() -> None:
    """Notes that a run's file exists, so that the message of an interrupt reports its trials as kept."""
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
    """Stops the repetition of the interrupt. The code that ends the run because of it calls this."""
    signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def finishing(what: str) -> Iterator[None]:
    """Delays the first Ctrl-C until the end of the context, so that the work in it is finished and kept.

    The first Ctrl-C prints a message at once. A second one, or SIGTERM, drops the work.
    Contexts do not nest.

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
    """Ignores both signals for the rest of the process.

    Python restores the default handlers on its way out, except for signals that are ignored. So without
    this a second Ctrl-C would kill the process before its exit status is set.
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
    handled = sys.exc_info()[1]
    while handled is not None:
        # One is on its way. A generator that an interrupt leaves behind is closed, and tidies, knowing only
        # that.
        if isinstance(handled, KeyboardInterrupt | GeneratorExit):
            return
        handled = handled.__context__
    raise KeyboardInterrupt
