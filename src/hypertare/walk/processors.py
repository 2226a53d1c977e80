"""The processors that the model knows: descriptions as TOML files, here or anywhere."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypertare.errors import InputError

DEFAULT = "zen4"
ALL = "all"
_FOLDER = Path(__file__).resolve().parent / "processors"


@dataclass(frozen=True)
class Description:
    """A processor's translation hardware, as its file has it.

    Only what lists and tables need is looked at here; the model itself checks the rest and says what
    is impossible.
    """

    name: str
    title: str
    raw: dict[str, Any]

    @property
    def nested(self) -> bool:
        return bool(self.raw.get("nested"))

    @property
    def assumed(self) -> list[str]:
        return list(self.raw.get("assumed", []))


def names() -> list[str]:
    """Of the processors that come with hypertare."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


def chosen(wanted: list[str]) -> list[Description]:
    """The processors of some names and files, each once.

    Raises:
        InputError: one of them is not there or cannot be read.
    """
    every = [name for word in wanted for name in (names() if word == ALL else [word])]
    found = [find(word) for word in dict.fromkeys(every)]
    seen = [description.name for description in found]
    if double := next((name for name in seen if seen.count(name) > 1), None):
        raise InputError(f"Two processors are named {double}.", "Give one another name.")
    return found


def find(word: str) -> Description:
    """A processor by its name, or by its file.

    Raises:
        InputError: there is none, or its file is no description.
    """
    if word in names():
        return _read(_FOLDER / f"{word}.toml")
    if word.endswith(".toml"):
        return _read(Path(word))
    raise InputError(
        f"There is no processor {word}.",
        f"There are {', '.join(names())}; or name a file that ends in .toml.",
    )


def _read(file: Path) -> Description:
    try:
        raw = tomllib.loads(file.read_text())
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is no TOML file: {error}.") from error
    for key in ("name", "title"):
        if not isinstance(raw.get(key), str) or not raw[key]:
            raise InputError(f"{file}: {key} is missing.", f'Add {key} = "...".')
    return Description(raw["name"], raw["title"], raw)
