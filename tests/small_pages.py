"""A plugin of pytest's: what tests start has no huge pages.

Each boot of an emulated machine takes some 800 MB anew. Where this host is itself a guest that gives free
memory back (a balloon's free page reporting), a huge page has to be fetched and cleared: up to 3 s of CPU
time a boot, in small pages half a second. What is measured in virtual time knows nothing of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_PR_SET_THP_DISABLE = 41
_PR_GET_THP_DISABLE = 42


def _prctl(*words: int) -> int:
    return int(ctypes.CDLL(None).prctl(*words, *[0] * (5 - len(words))))


@contextmanager
def lifted() -> Iterator[None]:
    """What is started in the block may have huge pages."""
    before = _prctl(_PR_GET_THP_DISABLE)
    _prctl(_PR_SET_THP_DISABLE, 0)
    try:
        yield
    finally:
        _prctl(_PR_SET_THP_DISABLE, before)


def pytest_configure() -> None:
    # Children inherit it, whatever they execute.
    _prctl(_PR_SET_THP_DISABLE, 1)
