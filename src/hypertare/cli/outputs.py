"""Files that a user names for results, looked at before the work; `-` is the standard output."""

from __future__ import annotations

import os
from pathlib import Path

from hypertare.base.errors import InputError, MachineError

STDOUT = Path("-")


def is_stdout(target: Path | None) -> bool:
    return target == STDOUT


def check_outputs(**targets: Path | None) -> None:
    """Checks, before hours of work, that the targets can be written. Their keywords are the options' names.

    Raises:
        InputError: one of them cannot, or several are to be the standard output.
    """
    here = [f"--{name}" for name, target in targets.items() if is_stdout(target)]
    if len(here) > 1:
        raise InputError(
            f"{' and '.join(here)} are both {STDOUT}: the standard output can hold one of them.",
            "Give the other one a file.",
        )
    for target in targets.values():
        if target is None or is_stdout(target):
            continue
        folder = target.absolute().parent
        if not folder.is_dir():
            raise InputError(f"{target}: the folder {folder} is not there.", "Make it first.")
        if target.is_dir():
            raise InputError(f"{target} is a folder.", "Name a file.")
        if not os.access(target if target.exists() else folder, os.W_OK):
            raise InputError(f"{target} may not be written.", "Name a file elsewhere.")


def write_result(text: str, target: Path) -> None:
    """Writes a result of which no other copy exists; if its file cannot be written, prints it instead.

    Raises:
        MachineError: the file could not be written, and the result is on the standard output.
    """
    if is_stdout(target):
        print(text)
        return
    try:
        target.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        print(text, flush=True)
        raise MachineError(
            f"{target} cannot be written: {error.strerror or error}.",
            "The result stands on the standard output instead.",
        ) from error
