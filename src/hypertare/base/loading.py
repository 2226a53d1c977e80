"""Libraries that are loaded late, and those that an installation may leave out.

What only a run's end needs is loaded while its benches boot or warm up: a start does not pay for it, no
trial that counts runs beside its loading, and Ctrl-C, which the main thread hears, cannot leave one
half loaded.
"""

from __future__ import annotations

import os
import threading
import time
from importlib import import_module
from importlib.util import find_spec

from hypertare.base.errors import InputError

_HEAD_START_S = 0.01
"""Python lets one thread work at a time, so what makes others wait is sent to them first."""

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"

_later: list[str] = []
_loading: list[threading.Thread] = []


def have_one_blas_thread() -> None:
    """Has NumPy and SciPy start no threads; to be called before either is loaded. Each would start one for
    every further CPU, and these look for work for 0.1 s and more, beside the trials of a run.

    The variable is not added to `os.environ`: commands that are weighed find the user's own.
    """
    if _BLAS_THREADS not in os.environ:
        os.putenv(_BLAS_THREADS, "1")


def later(*modules: str) -> None:
    """Names modules that will be needed, not now."""
    _later.extend(modules)


def begin() -> None:
    """Starts a thread that loads the modules that `later` has named; `wait` waits for it."""
    if not _later:
        return
    thread = threading.Thread(target=_load, args=(_taken(), _HEAD_START_S), daemon=True)
    _loading.append(thread)
    thread.start()


def wait() -> None:
    """Waits until all modules that `later` has named are loaded."""
    while _loading:
        _loading.pop().join()
    _load(_taken())


def _taken() -> tuple[str, ...]:
    """Returns the modules that wait to be loaded and clears the list, so that each is loaded once."""
    taken = tuple(_later)
    _later.clear()
    return taken


def _load(modules: tuple[str, ...], after_s: float = 0.0) -> None:
    time.sleep(after_s)
    for module in modules:
        import_module(module)


_MODULES = {"cluster": ("distributed",), "tune": ("optuna", "pyDOE3")}
"""What each extra of pyproject.toml brings, by the names under which it is imported."""


def check_extra(name: str, wanted_by: str) -> None:
    """Checks that the libraries of an extra are installed.

    Args:
        name: the name of the extra.
        wanted_by: the verb or option that needs it.

    Raises:
        InputError: one of its libraries is not installed.
    """
    missing = [module for module in _MODULES[name] if find_spec(module) is None]
    if missing:
        raise InputError(
            f"{wanted_by} needs {' and '.join(missing)}, not installed beside hypertare.",
            f"pip install 'hypertare[{name}]'",
        )
