"""The agent's modules: data flows one way, as import-linter holds Python's (pyproject.toml)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

Module = tuple[str, ...]
Imports = Mapping[Module, set[Module]]

SOURCE = Path(__file__).parents[1] / "crates" / "agent" / "src"
FLOORS = (
    {"cli"},
    {"init"},
    {"host"},
    {"links", "node"},
    {"knob", "probe"},
    {"datapath", "emulated", "own_machine", "workload", "xen"},
    {"net", "vmm"},
    {
        "arch",
        "boot_contract",
        "capabilities",
        "emit",
        "lines",
        "process",
        "standalone",
        "units",
        "values",
    },
)
"""Rooms from the top: each imports from the floors below its own, and from nowhere else."""


def modules(source: Path) -> dict[Module, Path]:
    """Files by module, without those that are tests."""
    found = {}
    for file in source.rglob("*.rs"):
        parts = file.relative_to(source).with_suffix("").parts
        if file.stem.endswith("_test") or parts[-1] in ("tests", "tried_again", "main"):
            continue
        found[parts[:-1] if parts[-1] in ("mod", "lib") else parts] = file
    return found


def code(text: str) -> str:
    """Without tests, which stand at a file's end, and without comments."""
    return re.sub(r"//.*", "", re.split(r"#\[cfg\(test\)\]\s*\n(?:pub\S* )?mod \w+ \{", text)[0])


def spelt_out(path: str) -> Iterator[str]:
    """`a::{b, c::{d}}` is `a::b` and `a::c::d`."""
    before, brace, inside = path.strip().partition("{")
    if not brace:
        yield before
        return
    depth, part = 0, ""
    for letter in inside.strip().removesuffix("}") + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            yield from spelt_out(before + part.strip()) if part.strip() else ()
            part = ""
        else:
            part += letter


def paths(text: str) -> Iterator[list[str]]:
    used = re.findall(r"\buse ([^;]+);", text)
    named = re.findall(r"\b(?:crate|super)(?:::\w+)+", re.sub(r"\buse [^;]+;", "", text))
    for path in (*(one for use in used for one in spelt_out(use)), *named):
        yield path.partition(" as ")[0].strip().split("::")


def imports(source: Path) -> Imports:
    """By module, those that it names; its own parents are not: a module knows what it is part of."""
    known = modules(source)
    found: dict[Module, set[Module]] = {}
    for module, file in known.items():
        found[module] = set()
        for first, *rest in paths(code(file.read_text())):
            if first == "crate":
                place: Module = tuple(rest)
            elif first in ("self", "super"):
                up = (first == "super") + sum(1 for part in rest if part == "super")
                place = (*module[: len(module) - up], *(part for part in rest if part != "super"))
            else:
                place = (*module, first, *rest)
            while place and place not in known:
                place = place[:-1]
            if place != module[: len(place)]:
                found[module].add(place)
    return found


@pytest.fixture(scope="module")
def found() -> Imports:
    return imports(SOURCE)


def test_every_room_has_a_floor(found: Imports) -> None:
    assert {module[0] for module in found if module} == set().union(*FLOORS)


def test_no_import_runs_up(found: Imports) -> None:
    floor = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    up = [
        f"{'::'.join(module)} imports {'::'.join(other)}"
        for module, others in found.items()
        for other in others
        if module and other[0] != module[0] and floor[other[0]] <= floor[module[0]]
    ]
    assert not up


def test_there_is_no_circle(found: Imports) -> None:
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join("::".join(module) for module in error.args[1]))


def test_a_circle_and_an_import_up_are_seen(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "mod.rs").write_text(
        "pub mod link;\nuse super::{knob::{self, mtu}, probe};\n"
    )
    (tmp_path / "net" / "link.rs").write_text(
        "use super::Link;\nfn f() { crate::knob::mtu::g() }\n"
    )
    (tmp_path / "knob.rs").write_text(
        "use crate::net::link::Link; // use crate::host;\n"
        "#[cfg(test)]\nmod tests {\n    use crate::host::Host;\n}\n"
    )
    (tmp_path / "probe.rs").write_text("")
    found = imports(tmp_path)
    assert found["net",] == {("knob",), ("probe",)}
    assert found["net", "link"] == {("knob",)}
    assert found["knob",] == {("net", "link")}
    with pytest.raises(CycleError):
        TopologicalSorter(found).prepare()
