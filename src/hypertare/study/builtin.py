"""The studies that come with hypertare."""

from __future__ import annotations

from pathlib import Path

from hypertare.base.errors import InputError
from hypertare.base.paths import CHECKOUT, PACKAGE
from hypertare.base.words import did_you_mean
from hypertare.study.file import StudyFile


def builtin_folder() -> Path:
    """The built-in studies: beside the package in a checkout, inside it when installed."""
    inside = PACKAGE / "studies"
    return inside if inside.is_dir() else CHECKOUT / "studies"


def builtin_names() -> list[str]:
    return sorted(path.stem for path in builtin_folder().glob("*.toml"))


def find(name: str) -> StudyFile:
    """A built-in study by name, or a file by path.

    Raises:
        InputError: neither is there.
    """
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        return StudyFile.read(path)
    builtin = builtin_folder() / f"{name}.toml"
    if builtin.is_file():
        return StudyFile.read(builtin)
    names = builtin_names()
    hint = did_you_mean(name, names)
    raise InputError(
        f"'{name}' is neither a built-in study nor a file.{hint}",
        f"Built-in: {', '.join(names)}. `hypertare studies` lists their questions.",
    )
