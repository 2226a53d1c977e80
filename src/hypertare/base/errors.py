"""What can go wrong, in words: what happened, to what, and what to do next."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class HypertareError(Exception):
    """A failure that a user can act on. Printed as a sentence, never as a traceback.

    `status` is the exit status of the command line: 1 a failure at work, 2 bad input,
    3 the machine lacks something, 4 a comparison found something worse, 5 an exact record differs,
    6 a comparison could not see whether something got worse.
    """

    status = 1

    def __init__(self, what: str, do: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.do = do

    def __str__(self) -> str:
        return f"{self.what}\n{self.do}" if self.do else self.what


class InputError(HypertareError):
    """The user's input is wrong; nothing was started."""

    status = 2


class MachineError(HypertareError):
    """This machine lacks something that the work needs."""

    status = 3


class WorseError(HypertareError):
    """A comparison found something worse beyond the threshold."""

    status = 4


class UndecidedError(HypertareError):
    """A comparison could not see whether something got worse."""

    status = 6


class DiffersError(HypertareError):
    """A result that must repeat exactly differs from the earlier one."""

    status = 5


_NO_MEMORY = ("failed to map segment", "can't start new thread", "cannot allocate memory")
"""Words by which the dynamic linker, Python's threads and the C library report a lack of memory."""


def short_of_memory(error: BaseException | None) -> bool:
    """Whether the error, or one that led to it, reports a lack of memory."""
    while error is not None:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if any(words in str(error).lower() for words in _NO_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Turns the failure to write a result into a sentence that says where it was to go.

    Raises:
        MachineError: the disk is full, the place is read-only, and so on.
    """
    try:
        yield
    except OSError as error:
        raise MachineError(
            f"{error.filename or place} cannot be written: {error.strerror or error}.",
            "Make room or give another place. What was measured is kept in the run directory: "
            "`hypertare report RUN --html FILE` writes the report.",
        ) from error
