"""What the model of page walks takes for given: processors, as TOML files here or anywhere, and options."""

from __future__ import annotations

import copy
import json
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypertare.base.errors import InputError
from hypertare.base.units import human_size, parse_size

DEFAULT = "zen4"
ALL = "all"
OWN = "own"
"""The word for the shared caches that the description has."""
NONE = "none"
_LINE = 64
_MOST_BYTES = 1 << 16
"""Of a description; those that come with hypertare have two thousand."""
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
    shared_cache: str = OWN

    @property
    def key(self) -> str:
        """What the model calls it: the name, and the shared cache where that is not its own."""
        return self.name if self.shared_cache == OWN else f"{self.name} {self.shared_cache}"

    def with_shared_cache(self, asked: str) -> Description:
        """The same processor with another shared cache: `own`, `none` or a size such as `2M`.

        A cache of another size keeps its sets and its time and has more or fewer ways, as where parts
        of one are switched off.

        Raises:
            InputError: it is neither, or the processor cannot have it.
        """
        if asked == OWN:
            return self
        raw = copy.deepcopy(self.raw)
        caches = [cache for cache in raw.get("caches", []) if not cache.get("shared")]
        shared = [cache for cache in raw.get("caches", []) if cache.get("shared")]
        if asked != NONE:
            caches += [_resized(self.name, shared, asked)]
        # As the model reads it, and under the name that it is asked for.
        made = replace(self, raw=raw | {"caches": caches}, shared_cache=asked)
        return replace(made, raw=made.raw | {"name": made.key})

    @property
    def nested(self) -> bool:
        return bool(self.raw.get("nested"))

    @property
    def hardware(self) -> str:
        """The description as JSON, without its sources and assumptions."""
        words = {"sources", "assumed"}
        return json.dumps(
            {key: value for key, value in self.raw.items() if key not in words}, default=str
        )

    @property
    def assumed(self) -> list[str]:
        return list(self.raw.get("assumed", []))


def _resized(name: str, shared: list[dict[str, Any]], asked: str) -> dict[str, Any]:
    try:
        size = parse_size(asked)
    except ValueError as error:
        raise InputError(f"shared cache: {error}, or 'own', or 'none'") from None
    if len(shared) != 1:
        has = "no shared cache" if not shared else f"{len(shared)} shared caches"
        raise InputError(
            f"{name} has {has}, so that none can be of {human_size(size)}.",
            "Ask for 'own' or 'none', or describe the processor in a file of your own.",
        )
    (cache,) = shared
    way = cache["size"] // cache["ways"]
    if size < way or size % way:
        raise InputError(
            f"{name}: {cache['name']} cannot be of {human_size(size)}: its ways are of "
            f"{human_size(way)} each ({cache['size'] // cache['ways'] // _LINE} sets).",
            f"Ask for a multiple of {human_size(way)}.",
        )
    return cache | {"size": size, "ways": size // way}


def names() -> list[str]:
    """Of the processors that come with hypertare."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


def chosen(wanted: list[str], folder: Path = Path()) -> list[Description]:
    """The processors of some names and files, each once.

    Raises:
        InputError: one of them is not there or cannot be read.
    """
    every = [name for word in wanted for name in (names() if word == ALL else [word])]
    found = [find(word, folder) for word in dict.fromkeys(every)]
    seen = [description.name for description in found]
    if double := next((name for name in seen if seen.count(name) > 1), None):
        raise InputError(f"Two processors are named {double}.", "Give one another name.")
    return found


def find(word: str, folder: Path = Path()) -> Description:
    """A processor by its name, or by its file, which is looked for from `folder`.

    Raises:
        InputError: there is none, or its file is no description.
    """
    if word in names():
        return _read(_FOLDER / f"{word}.toml")
    if word.endswith(".toml"):
        return _read(folder / word)
    raise InputError(
        f"There is no processor {word}.",
        f"There are {', '.join(names())}; or name a file that ends in .toml.",
    )


def _read(file: Path) -> Description:
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise InputError(
                f"{file} describes no processor: it has more than {_MOST_BYTES} bytes."
            )
        raw = tomllib.loads(text.decode())
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is no TOML file: {error}.") from error
    for key in ("name", "title"):
        if not isinstance(raw.get(key), str) or not raw[key]:
            raise InputError(f"{file}: {key} is missing.", f'Add {key} = "...".')
    return Description(raw["name"], raw["title"], raw)


@dataclass(frozen=True)
class Options:
    """`cycles_per_instruction`: of the program if translation cost nothing. `cache_share`: of every
    cache, what page tables may hold."""

    cycles_per_instruction: float
    cache_share: float
