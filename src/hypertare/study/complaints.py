"""What is wrong with a study, in the words of who wrote it, and in which line of its file."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from hypertare.base.figures import did_you_mean, level_text
from hypertare.study.study import Study
from hypertare.workloads.registry import KINDS


def explain(error: ValidationError, raw: dict[str, Any], text: str, source: str) -> str:
    """A line for each thing that is wrong.

    Args:
        error: what validation found.
        raw: what it found it in.
        text: the file's text, for lines.
        source: the file's name.
    """
    found = []
    for item in error.errors():
        location = key_path(item["loc"])
        line = _line_of(text, location)
        where = f"{source}:{line}" if line else source
        key = ".".join(location) or "the study"
        found.append(f"{where}: {key}: {_said(dict(item), raw, location)}")
    return "\n".join(found)


def _said(item: dict[str, Any], raw: dict[str, Any], location: list[str]) -> str:
    if item["type"] == "extra_forbidden":
        known = _known_keys(raw, location[:-1])
        hint = did_you_mean(location[-1], known)
        return f"there is no such key.{hint} Allowed: {', '.join(known)}."
    if item["type"] == "missing":
        return "this key is missing."
    if item["type"] == "tuple_type" and isinstance(item["input"], dict) and "factors" in location:
        return (
            "a factor's whole path stands in quotes, its levels in brackets: "
            """"sut.cpus" = [1, 2], or --set 'factors={"sut.cpus"=[1,2]}'"""
        )
    if item["type"] == "tuple_type":
        return f"this is to be a list, in brackets, for example [{item['input']!r}]."
    if item["type"] in ("literal_error", "union_tag_invalid"):
        return _not_allowed(item, location)
    message = _PLAIN.get(item["type"], str(item["msg"]).removeprefix("Value error, "))
    if item["type"] in _PLAIN:
        message = message.format(**item.get("ctx", {}))
    if item["type"] in _SCALARS and isinstance(item["input"], list):
        message += f", and not a list. {_as_factor(location, item['input'])}"
    given = item.get("input")
    if isinstance(given, str | int | float | bool) and str(given) not in message:
        message += f" (given: {given})"
    return message


_WHOLE = "this is to be a whole number, for example 2"
_NUMBER = "this is to be a number, for example 0.5"
_TRUTH = "this is to be true or false"
_TEXT = 'this is to be text in quotes, for example "debian"'
_TABLE = "this is to be a table, for example {{ key = value }}"
_SCALARS = {
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": _NUMBER,
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "string_type": _TEXT,
    "path_type": _TEXT,
}
_PLAIN = _SCALARS | {
    "dict_type": _TABLE,
    "model_type": _TABLE,
    "model_attributes_type": _TABLE,
    "union_tag_not_found": "the key {discriminator} is missing: it says which kind this is",
    "too_short": "there are too few: at least {min_length}",
    "too_long": "there are too many: at most {max_length}",
    "greater_than": "it must be above {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than": "it must be below {lt}",
    "less_than_equal": "it must be at most {le}",
}
"""Validation's own words, in ours; braces hold what the bound is."""


def _as_factor(location: list[str], levels: list[Any]) -> str:
    return f'Several levels belong in [factors]: "{".".join(location)}" = {_toml(levels)}'


def _toml(given: object) -> str:
    """A value as a study file has it."""
    if isinstance(given, list):
        return f"[{', '.join(map(_toml, given))}]"
    return f'"{given}"' if isinstance(given, str) else level_text(given)  # type: ignore[arg-type]


def _not_allowed(item: dict[str, Any], location: list[str]) -> str:
    given = item["input"] if item["type"] == "literal_error" else item["ctx"]["tag"]
    if isinstance(given, list):
        return f"this is to be one word, and not a list. {_as_factor(location, given)}"
    allowed = item["ctx"].get("expected") or item["ctx"].get("expected_tags", "")
    words = [word.strip(" '") for word in allowed.replace(" or ", ",").split(",")]
    hint = did_you_mean(str(given), words)
    return f"'{given}' is not allowed here.{hint} Allowed: {', '.join(words)}."


def key_path(location: tuple[int | str, ...]) -> list[str]:
    """The path as the user wrote it: without the names of the union members that pydantic adds."""
    parts = [str(part) for part in location]
    if len(parts) > 2 and parts[0] == "workloads":
        del parts[2]
    return [part for part in parts if part != "str" and not part.startswith("tuple[")]


def _known_keys(raw: dict[str, Any], location: list[str]) -> list[str]:
    """The keys that a table of a study may have."""
    tables: list[type[BaseModel]] = [Study]
    parts = location
    if location[:1] == ["workloads"]:
        kind = raw["workloads"][location[1]].get("type")
        tables = [KINDS[kind].settings]
        parts = location[2:]
    for part in parts:
        fields = [one.model_fields[part].annotation for one in tables if part in one.model_fields]
        # What is no field of theirs is a place in a list.
        tables = [inner for field in fields for inner in _tables(field)] or tables
    return list(dict.fromkeys(key for one in tables for key in one.model_fields))


def _tables(annotation: Any) -> list[type[BaseModel]]:
    """The models that a type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [inner for part in get_args(annotation) for inner in _tables(part)]


def _line_of(text: str, location: list[str]) -> int | None:
    """The line of a key in TOML text, as far as a look at its headers shows."""
    names = [part for part in location if not part.isdigit()]
    if not names:
        return None
    table: list[str] = []
    header_line = None
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            table = [part.strip(' "') for part in stripped.strip("[] ").split(".")]
            if table == names[: len(table)]:
                header_line = number
            continue
        key = stripped.split("=", 1)[0].strip(' "')
        path = [*table, *([key] if key in names else key.split("."))]
        if path == names or (stripped and path == names[: len(path)] and len(path) > len(table)):
            return number
    return header_line


def place_of(words: str, text: str, source: str) -> str:
    """The file with the first line that holds these words; the file alone where none does."""
    lines = enumerate(text.splitlines(), start=1)
    found = next((number for number, line in lines if words and words in line), None)
    return f"{source}:{found}" if found else source
