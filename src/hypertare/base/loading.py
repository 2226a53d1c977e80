"""Libraries that only a run's end needs, loaded while its benches come up and warm up.

A start does not pay for them, no trial that counts runs beside their loading, and Ctrl-C, which the main
thread hears, cannot leave one half loaded.
"""

from __future__ import annotations

import threading
from importlib import import_module

_loading: list[threading.Thread] = []


def begin(*modules: str) -> None:
    """Loads modules beside whatever comes next, until `wait`."""
    thread = threading.Thread(target=_load, args=(modules,), name="loading", daemon=True)
    _loading.append(thread)
    thread.start()


def wait() -> None:
    """Returns when all that was begun is there."""
    while _loading:
        _loading.pop().join()


def _load(modules: tuple[str, ...]) -> None:
    for module in modules:
        import_module(module)
