"""A figure that a command prints, as its response: what a benchmark measures itself. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator, model_validator

from hypertare.base.closed import Settings
from hypertare.base.variables import Better, OfGuests, Response

_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
"""1,234,567.8"""
_MOST_LETTERS = 100
_OWN_NAME = "value"


class Printed(Settings):
    """Where the figure stands in the output, and how to read it.

    `find` is a regular expression of Python, whose group (or whole match) is the number; of several
    matches the last counts, as programs print their result at their end. `path` is a way through JSON on
    standard output: names and places, joined by dots.
    """

    find: str | None = None
    path: str | None = None
    name: str = Field("", pattern=r"^([a-z][a-z0-9_]{0,39})?$")
    unit: str = Field("", max_length=20, pattern=r"^[^\s\x00-\x1f]*$")
    better: Better = "lower"

    @field_validator("find")
    @classmethod
    def _is_expression(cls, find: str | None) -> str | None:
        if find is None:
            return None
        try:
            groups = re.compile(find).groups
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"'{find}' is no regular expression: {error}") from None
        if groups > 1:
            raise ValueError(
                f"'{find}' has {groups} groups, and one is the number: write the others as (?:...)"
            )
        return find

    @model_validator(mode="after")
    def _is_one(self) -> Printed:
        if (self.find is None) == (self.path is None):
            raise ValueError(
                "a value is found by 'find', a regular expression, or by 'path', in JSON"
            )
        if not (self.find or self.path):
            raise ValueError("what the value is found by is empty")
        return self

    def response(self, others: tuple[Response, ...]) -> Response:
        """Returns the response of the figure, named by `name` or by the words before the number.

        A name that another response has gets the prefix `printed_`.
        """
        name = self.name or _name_of(self.find, self.path)
        if any(one.name == name for one in others):
            name = f"printed_{name}"
        together: OfGuests = "sum" if self.better == "higher" else "mean"
        return Response(name, self.unit, self.better, "figure that the command prints", together)

    def read(self, text: Mapping[str, str]) -> float:
        """The figure in what a command printed, by stream: `stdout` before `stderr`.

        Raises:
            ValueError: it is not there, or no finite number; the message says what is there.
        """
        if self.path is not None:
            return _number(_at(self.path, text.get("stdout", "")), self.path)
        assert self.find is not None
        for stream in ("stdout", "stderr"):
            matches = list(re.finditer(self.find, text.get(stream, ""), re.MULTILINE))
            if matches:
                return _number(matches[-1][matches[-1].re.groups], self.find)
        raise ValueError(f"its output has nothing that matches '{self.find}'{_last(text)}")


def _name_of(find: str | None, path: str | None) -> str:
    """`events per second: ([0-9.]+)` is about `events_per_second`, `end.sum.bps` about `bps`."""
    if path is not None:
        words = next(
            (part for part in reversed(path.split(".")) if not part.lstrip("-").isdigit()), ""
        )
    else:
        # Classes as \s are no words.
        words = re.sub(r"\\.", " ", (find or "").partition("(")[0])
    name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")[:40]
    return name if name[:1].isalpha() else _OWN_NAME


def _at(path: str, text: str) -> Any:
    found = _parsed(text)
    for place, part in enumerate(path.split(".")):
        here = ".".join(path.split(".")[:place]) or "its output"
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif (
            isinstance(found, list)
            and re.fullmatch(r"-?\d{1,9}", part)
            and -len(found) <= int(part) < len(found)
        ):
            found = found[int(part)]
        else:
            known = f"a list of {len(found)}" if isinstance(found, list) else f"the value {found}"
            if isinstance(found, dict):
                known = ", ".join(map(str, found))
            raise ValueError(f"its JSON has no '{path}': {here} has {_cut(known)}")
    return found


def _parsed(text: str) -> Any:
    """Parses the output as JSON: all of it, else its last line, else all from the first line that begins
    JSON.

    Programs such as fio print messages before their JSON.
    """
    lines = text.strip().splitlines()
    begin = next((at for at, line in enumerate(lines) if line.startswith(("{", "["))), 0)
    for document in (text, lines[-1] if lines else "", "\n".join(lines[begin:])):
        try:
            return json.loads(document)
        except (ValueError, RecursionError):
            continue
    raise ValueError(
        "its standard output is no JSON"
        + (" (only its end is kept)" if lines and not text.lstrip().startswith(("{", "[")) else "")
        + _last({"stdout": text})
    )


def _number(found: Any, where: str) -> float:
    """Converts a printed figure to a number.

    Raises:
        ValueError: it is no finite number.
    """
    text = str(found).strip()
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        raise ValueError(f"'{where}' is no number: {_cut(text)}")
    try:
        number = float(text.replace(",", "") if _GROUPED.fullmatch(text) else text)
    except (ValueError, OverflowError):
        raise ValueError(f"'{where}' is no number: {_cut(text)}") from None
    if not math.isfinite(number):
        raise ValueError(f"'{where}' is {_cut(text)}, which nothing can be compared with")
    return number


def _last(text: Mapping[str, str]) -> str:
    """What it printed at its end, for a reader who looks for the figure."""
    for stream in ("stdout", "stderr"):
        lines = [line for line in text.get(stream, "").splitlines() if line.strip()]
        if lines:
            return f"; its last line is: {_cut(lines[-1].strip())}"
    return "; it printed nothing"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."
