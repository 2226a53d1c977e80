"""The tables of docs/study-files.md, of the text under each field of a study.

`python -m tests.study_files` writes them anew.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hypertare import study
from hypertare.analyses.registry import KINDS as ANALYSES
from hypertare.base.quantities import parse_duration, parse_share, parse_size
from hypertare.knobs.registry import KINDS as KNOB_KINDS
from hypertare.knobs.registry import Knobs
from hypertare.study.analyses import (
    BillSettings,
    EffectsSettings,
    PredictabilitySettings,
    SearchSettings,
)
from hypertare.study.bench import BenchSettings
from hypertare.study.claims import Claim, Plot
from hypertare.study.emulated import Emulated
from hypertare.study.machines import GivenMachine, Remote
from hypertare.study.published import PublishedFile
from hypertare.study.sut import Sut
from hypertare.study.tune import TuneSettings
from hypertare.study.walk import WalkSettings
from hypertare.workloads.registry import KINDS
from hypertare.workloads.workload import WorkloadSettings

PAGE = Path(__file__).parents[1] / "docs" / "study-files.md"

SECTIONS: dict[str, type[BaseModel]] = {
    "Top level": study.Study,
    "`[sut]`": Sut,
    "`[given]`": GivenMachine,
    "`[remote]`": Remote,
    "`[emulated]`": Emulated,
    "`[bench]`": BenchSettings,
    "`[workloads.NAME]`": WorkloadSettings,
    **{f"`{name}`": kind.settings for name, kind in KINDS.items()},
    "`[knobs]`": Knobs,
    "`[design]`": study.DesignSettings,
    "`[search]`": SearchSettings,
    "`[tune]`": TuneSettings,
    "`[walk]`": WalkSettings,
    "`[[published]]`": PublishedFile,
    "`[predictability]`": PredictabilitySettings,
    "`[effects]`": EffectsSettings,
    **{f"`[{name}]`": kind.settings for name, kind in ANALYSES.items()},
    "`[bill]`": BillSettings,
    "`[[claims]]`": Claim,
    "`[[plots]]`": Plot,
}
"""By the words with which a heading begins, what its table is about."""

TABLES = {
    *("sut", "given", "remote", "emulated", "bench", "workloads", "knobs", "factors", "design"),
    *("search", "tune", "walk", "published", "predictability", "effects", "bill", *ANALYSES),
    *("claims", "plots", "quick"),
}
"""Keys of the top level that are sections of their own."""

_TABLE = re.compile(r"^\| key \|.*\n(?:\|.*\n)+", re.MULTILINE)
_SIZES = ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))
_TIMES = ((60, "m"), (1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_LEAST_MINUTES = 5


def section(text: str, title: str) -> re.Match[str]:
    """What stands under a heading that begins so, up to the next heading of any level."""
    found = re.search(rf"^#+ {re.escape(title)}.*?$(.*?)(?=^#|\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"{PAGE.name} has no section {title}"
    return found


def table(of: type[BaseModel]) -> str:
    """One row for each key: its default, and what it means. Keys of every workload stand once."""
    rows = [f"| {_key(name, field)} | {text} |" for name, field, text in _keys(of)]
    return "\n".join(["| key | meaning |", "|---|---|", *rows]) + "\n"


def renewed(text: str) -> str:
    """The page with all its tables as the code has them."""
    for title, of in SECTIONS.items():
        found = section(text, title)
        assert len(_TABLE.findall(found[1])) == 1, f"{title}: one table of keys"
        made = _TABLE.sub(lambda _, of=of: table(of), found[1])
        text = text[: found.start(1)] + made + text[found.end(1) :]
    return text


def _keys(of: type[BaseModel]) -> Iterator[tuple[str, FieldInfo, str]]:
    """Its own first, then those that it has in common with others."""
    wanted = set(of.model_fields) - {"type"} - (TABLES if of is study.Study else set())
    if of is not WorkloadSettings and issubclass(of, WorkloadSettings):
        wanted -= set(WorkloadSettings.model_fields)
    for owner in of.__mro__:
        meanings = _meanings(owner) if owner.__module__.startswith("hypertare.") else {}
        for name in (name for name in meanings if name in wanted):
            field = of.model_fields[name]
            required = " Required." if field.is_required() else ""
            yield name, field, meanings[name] + required
            wanted.remove(name)
    assert not wanted, f"{of.__name__}: no text stands under {wanted}"


def _meanings(owner: type) -> dict[str, str]:
    """The texts under the fields of a class.

    Pydantic would read them too (`use_attribute_docstrings`), each time that hypertare starts.
    """
    body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0].body  # type: ignore[attr-defined]
    found: dict[str, str] = {}
    for field, text in itertools.pairwise(body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as words)),
            ):
                found[name] = " ".join(words.split())
    return found


def _key(name: str, field: FieldInfo) -> str:
    mark = " †" if any(one.name == name and one.for_own_machines for one in KNOB_KINDS) else ""
    default = "" if field.is_required() else _written(field.default, field)
    return f"`{name}`{mark}{default and f' {default}'}"


def _written(value: Any, field: FieldInfo) -> str:
    """A default as a study would have it; nothing for none."""
    read_by = {getattr(one, "func", None) for one in field.metadata}
    if isinstance(value, tuple):
        return ", ".join(_written(one, field) for one in value)
    if value is None or value in ("", {}):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if parse_size in read_by:
        return next((f"{value // n}{unit}" for n, unit in _SIZES if value % n == 0), str(value))
    if parse_share in read_by:
        return f"{value * 100:g}%"
    if parse_duration in read_by:
        return _duration(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _duration(seconds: float) -> str:
    if not seconds:
        return "0s"
    if seconds >= _LEAST_MINUTES * 60 and seconds % 60 == 0:
        return f"{seconds / 60:g}m"
    size, unit = next((size, unit) for size, unit in _TIMES[1:] if seconds >= size * 0.999)
    return f"{seconds / size:g}{unit}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
