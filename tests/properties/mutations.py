"""What people and damage do to structured text: to a tree of keys and values, and to its bytes."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

CORPUS = Path(__file__).parents[1] / "corpus"
"""Inputs that once were, or could be, too much for something: one a file, named by what it is."""

EXAMPLES = "HYPERTARE_EXAMPLES"


def searched(examples: int) -> settings:
    """How long a property is searched: always the same examples, unless someone asks for more."""
    wanted = os.environ.get(EXAMPLES)
    return settings(
        max_examples=int(wanted) if wanted else examples,
        derandomize=wanted is None,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def corpus(kind: str) -> list[Path]:
    found = sorted((CORPUS / kind).iterdir())
    assert found, f"there is no corpus of {kind}"
    return found


# --- trees: tables, lists and plain values, as TOML and JSON have them

Place = tuple[Any, ...]
"""Keys and numbers from the root to a value."""

ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        3,
        255,
        1 << 31,
        1 << 53,
        1 << 63,
        -(1 << 63),
        1 << 64,
        10**30,
    ),
    *(0.0, -0.0, 0.5, -1.5, 1e-308, 1e308, -1e308, float("nan"), float("inf"), float("-inf")),
    *(
        "",
        " ",
        "\n",
        "\0",
        "\x1b[2J",
        "a",
        "0",
        "-1",
        "nan",
        "1e999",
        "x" * 5000,
        "ß",
        "日本",
        "\ufeff",
    ),
    *(
        "\u202e",
        "e\u0301",
        "../..",
        "/etc/passwd",
        "a.b",
        "a=b",
        "{",
        "[",
        "'",
        '"',
        "%s",
        "{0}",
        "$HOME",
    ),
    *(
        "5%",
        "-5%",
        "500%",
        "1M",
        "-1M",
        "1Q",
        "1e9G",
        "100ms",
        "-2s",
        "9999999h",
        "60 % of capacity",
    ),
    *(
        "native",
        "guest",
        "xen",
        "container",
        "none",
        "auto",
        "ospf",
        "2M",
        "tcp",
        "command",
        "stream",
    ),
    *(
        [],
        {},
        [[]],
        [{}],
        [None],
        [""],
        [1, 2],
        ["a", "a"],
        [0.1, "x", True],
        {"": 1},
        {"a": {"b": []}},
    ),
)

_FAR = (1e308, -1e308, 1e-308, 10**9, 1 << 62)

WORDS = (
    "",
    "a",
    "name",
    "type",
    "sut",
    "factors",
    "workloads",
    "x.y",
    "sut.cpus",
    "knobs.mtu",
    "ß",
    " ",
)


def places(tree: Any, at: Place = ()) -> Iterator[Place]:
    """Of every value but the root."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in inner:
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from places(value, (*at, key))


def at(tree: Any, place: Place) -> Any:
    for key in place:
        tree = tree[key]
    return tree


@st.composite
def mutated(draw: Any, trees: Callable[[], Sequence[Any]]) -> Any:
    """One of the trees with one to four things wrong, among them what is right in another one."""
    others = trees()
    tree = copy.deepcopy(others[draw(st.integers(0, len(others) - 1))])
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 2, 4)))):
        found = list(places(tree))
        if not found:
            break
        place = _one_of(draw, found)
        _one_of(draw, _WAYS)(draw, tree, place, others)
    return tree


def _one_of(draw: Any, found: Sequence[Any]) -> Any:
    """By its number: what is long is not written into the account of a failure."""
    return found[draw(st.integers(0, len(found) - 1))]


def _drop(draw: Any, tree: Any, place: Place, others: Sequence[Any]) -> None:
    del at(tree, place[:-1])[place[-1]]


def _replace(draw: Any, tree: Any, place: Place, others: Sequence[Any]) -> None:
    at(tree, place[:-1])[place[-1]] = copy.deepcopy(draw(st.sampled_from(ODD)))


def _change(draw: Any, tree: Any, place: Place, others: Sequence[Any]) -> None:
    """A value of the same kind: the most that types alone do not refuse."""
    value = at(tree, place)
    if isinstance(value, bool):
        new: Any = not value
    elif isinstance(value, int | float):
        new = draw(st.sampled_from((-value, value * 1000, value + 1, value / 3, 0, *_FAR)))
    elif isinstance(value, str):
        new = draw(
            st.sampled_from((value.upper(), value[:-1], value + "x", value * 2, f" {value}"))
        )
    elif isinstance(value, list):
        new = draw(st.sampled_from((value[::-1], value * 2, value[:1], value[1:])))
    elif isinstance(value, dict):
        new = dict(reversed(value.items()))
    else:
        new = 1
    at(tree, place[:-1])[place[-1]] = new


def _rename(draw: Any, tree: Any, place: Place, others: Sequence[Any]) -> None:
    table = at(tree, place[:-1])
    key = place[-1]
    if isinstance(table, dict):
        names = (*WORDS, key[:-1], f"{key}s", key.upper(), key.replace("_", "-"))
        table[draw(st.sampled_from(names))] = table.pop(key)


def _duplicate(draw: Any, tree: Any, place: Place, others: Sequence[Any]) -> None:
    table, key = at(tree, place[:-1]), place[-1]
    again = copy.deepcopy(table[key])
    if isinstance(table, list):
        table.insert(key, again)
    else:
        table[f"{key}2"] = again


def _transplant(draw: Any, tree: Any, place: Place, others: Sequence[Any]) -> None:
    """Something from elsewhere: what is right in another place."""
    source = _one_of(draw, [tree, *others])
    found = list(places(source))
    if found:
        from_ = _one_of(draw, found)
        moved = copy.deepcopy(at(source, from_))
        table = at(tree, place[:-1])
        if isinstance(table, dict) and isinstance(from_[-1], str) and draw(st.booleans()):
            table[from_[-1]] = moved
        else:
            table[place[-1]] = moved


def _wrap(draw: Any, tree: Any, place: Place, others: Sequence[Any]) -> None:
    """Deeper: in lists or tables."""
    value = at(tree, place)
    for _ in range(draw(st.sampled_from((1, 2, 3, 60)))):
        value = [value] if draw(st.booleans()) else {"a": value}
    at(tree, place[:-1])[place[-1]] = value


_WAYS = (_change, _change, _change, _drop, _replace, _rename, _duplicate, _transplant, _wrap)
"""What types alone do not refuse comes most often: it gets furthest."""


# --- bytes


@st.composite
def damaged(draw: Any, content: bytes) -> bytes:
    """Cut off, with bytes of chance in it, lines gone or twice, or another encoding."""
    way = draw(st.sampled_from(("cut", "noise", "insert", "lines", "bom", "encoding")))
    where = draw(st.integers(0, len(content)))
    if way == "cut":
        return content[:where]
    if way == "noise":
        noise = draw(st.binary(min_size=1, max_size=6))
        return content[:where] + noise + content[where + len(noise) :]
    if way == "insert":
        words = (
            b"[",
            b"]",
            b"]]",
            b"{",
            b"}",
            b'"',
            b"'",
            b'"""',
            b"=",
            b",",
            b"\n",
            b"\r",
            b"\0",
            b"\\u",
            b"#",
        )
        return content[:where] + draw(st.sampled_from(words)) + content[where:]
    if way == "lines":
        lines = content.splitlines(keepends=True) or [b""]
        one = draw(st.integers(0, len(lines) - 1))
        return b"".join(
            [
                *lines[:one],
                *lines[one : one + 1] * draw(st.sampled_from((0, 2, 3))),
                *lines[one + 1 :],
            ]
        )
    if way == "bom":
        return b"\xef\xbb\xbf" + content
    return content.decode(errors="replace").encode(
        draw(st.sampled_from(("utf-16", "utf-32", "cp037"))), "replace"
    )


# --- TOML


def toml(tree: dict[str, Any]) -> str:
    """A tree as TOML: every table inline below the first level but those of one key a line, so that
    what is read is what was meant. What TOML cannot write (nothing) is left out."""
    lines = [
        f"{_key(k)} = {toml_value(v)}"
        for k, v in tree.items()
        if not isinstance(v, dict) and v is not None
    ]
    for name, table in tree.items():
        if isinstance(table, dict):
            lines.append(f"[{_key(name)}]")
            lines += [f"{_key(k)} = {toml_value(v)}" for k, v in table.items() if v is not None]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return _text(name)


def toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{_key(k)} = {toml_value(v)}" for k, v in value.items() if v is not None)
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(v) for v in value if v is not None) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _text(value)
    return repr(value) if isinstance(value, int | float) else str(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
