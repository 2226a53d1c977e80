"""A study as it stands in a file, with what is set beside it; and the studies that come with hypertare.

A factor is a path to a setting (`sut.cpus`, `workloads.udp.rate`) with its levels. A cell is the
study with each factor's level put in that place and validated again, so whatever can be set can be
a factor, and `--set`, `[quick]` and factors are one mechanism.
"""

from __future__ import annotations

import copy
import tomllib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hypertare.analyses.registry import KINDS as ANALYSES
from hypertare.base.errors import InputError
from hypertare.base.figures import did_you_mean
from hypertare.base.paths import CHECKOUT, PACKAGE
from hypertare.platforms.registry import BASELINE
from hypertare.study.complaints import explain, key_path, place_of
from hypertare.study.machines import PEER, UNDER_TEST
from hypertare.study.rules import no_analysis, no_bill, no_effects, unknown
from hypertare.study.study import Study


class StudyFile:
    """A study's text, with overrides, from which the study and its cells are validated."""

    def __init__(self, text: str, source: str, folder: Path | None = None) -> None:
        self.text = text
        self.source = source
        self.folder = folder or Path.cwd()
        try:
            self.raw: dict[str, Any] = tomllib.loads(text)
        except ValueError as error:
            raise InputError(f"{source}: this is no valid TOML: {error}") from None
        except RecursionError:
            raise InputError(f"{source}: {_TOO_DEEP}") from None
        _check_tree(self.raw, source)
        self._written = copy.deepcopy(self.raw)
        self._cells: OrderedDict[str, Study] = OrderedDict()

    @classmethod
    def read(cls, path: Path) -> StudyFile:
        try:
            return cls(path.read_text(encoding="utf-8-sig"), str(path), path.resolve().parent)
        except OSError as error:
            raise InputError(f"{path}: the study cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path}: the study is not UTF-8 text") from None

    @classmethod
    def of(cls, raw: dict[str, Any], source: str) -> StudyFile:
        """A study made by a program; its text is what `restored` needs, and no more."""
        file = cls("", source)
        file.raw = raw
        return file

    @classmethod
    def restored(cls, text: str, raw: dict[str, Any], source: str, folder: Path) -> StudyFile:
        """The study of an earlier run, with the overrides that it was run with."""
        file = cls(text, source, folder)
        _check_tree(raw, source)
        file.raw = raw
        return file

    def override(self, assignments: list[str], quick: bool) -> None:
        """Puts `[quick]` and then `a.b=value` assignments in. Values are TOML, else text; where there is
        to be a list, text is one, its parts between commas. `sut.platform` is the one beside native."""
        texts: dict[str, str] = {}
        if quick:
            for path, value in self.raw.get("quick", {}).items():
                _set(self.raw, path, value, f"{self.source}: [quick]")
        for assignment in assignments:
            path, separator, value = assignment.partition("=")
            if not separator or not path.strip():
                raise InputError(
                    f"--set {assignment}: this is no assignment.",
                    "Write for example --set sut.cpus=2 or --set sut.platforms=native,guest.",
                )
            path, found = path.strip(), toml_value(value.strip())
            if path == "sut.platform":
                path, found = "sut.platforms", [BASELINE, found]
            _set(self.raw, path, found, f"--set {assignment}")
            texts.pop(path, None)
            if isinstance(found, str):
                texts[path] = found
        for path in _wanted_as_lists(self.raw) & texts.keys():
            parts = [toml_value(part.strip()) for part in texts[path].split(",")]
            _set(self.raw, path, parts, f"--set {path}={texts[path]}")

    def use_machines(self, machines: Mapping[str, Mapping[str, str]]) -> None:
        """Puts these machines in place of those in `[given]`, but for the one that they speak with, and has
        the study compare them.
        """
        tables = self.raw.get("given")
        kept = {PEER: tables[PEER]} if isinstance(tables, dict) and PEER in tables else {}
        self.raw["given"] = {**kept, **{name: dict(one) for name, one in machines.items()}}
        factors = self.raw.get("factors", {})
        # What is no table is refused with all else.
        if isinstance(factors, dict):
            put(self.raw, "factors", {**factors, UNDER_TEST: list(machines)}, "--given")

    def study(self) -> Study:
        """The study, validated, each of its factors' levels and what its claims name too."""
        study = self._validate(self.raw)
        self._check_levels("factors", study.factors)
        for name, workload in study.workloads.items():
            self._check_levels(f"workloads.{name}.factors", workload.factors)
        self._check_named(study)
        self._check_tables(study)
        self._check_quick()
        return study

    def _check_quick(self) -> None:
        """What `--quick` would put in, also where it is not asked for."""
        if self._as_written() is None:
            return
        raw = copy.deepcopy(self._written)
        for path, value in raw.get("quick", {}).items():
            _set(raw, path, value, f"{self.source}: [quick]")
        try:
            Study.model_validate(raw)
        except ValidationError as error:
            raise InputError(explain(error, raw, "", f"{self.source}: [quick]")) from None

    def _check_levels(self, table: str, factors: dict[str, tuple[Any, ...]]) -> None:
        """Raises:
        InputError: a level is none, or stands there twice, perhaps written in two ways.
        """
        for path, levels in factors.items():
            seen: list[Any] = []
            for level in levels:
                setting = self.cell({path: level}).setting(path)
                if setting in seen:
                    first = levels[seen.index(setting)]
                    again = "" if repr(level) == repr(first) else f" ({first!r} is the same)"
                    raise InputError(
                        f"{self.source}: a level stands twice in {table}.{path}: {level!r}{again}.",
                        "Leave one out: each level is a cell of its own, with trials of its own.",
                    )
                seen.append(setting)

    def _check_named(self, study: Study) -> None:
        """What claims and plots name is there. Overrides may take levels away, so that the study as it is
        written counts too: then a claim is undecided, and a plot is not drawn.

        Raises:
            InputError: it is in neither.
        """
        wrong = unknown(study)
        never = unknown(self._as_written() or study) if wrong else {}
        for (table, text), problem in wrong.items():
            if (table, text) in never:
                where = place_of(text, self.text, self.source)
                raise InputError(f"{where}: {table}: '{text}': {problem}")

    def _check_tables(self, study: Study) -> None:
        """What the tables of analyses ask for can be had. As with claims, the study as it is written
        counts too.

        Raises:
            InputError: it can in neither.
        """
        tables: dict[str, Callable[[Study], str | None]] = {
            "effects": no_effects,
            "bill": no_bill,
            **{name: partial(no_analysis, name) for name in ANALYSES},
        }
        for table, why_not in tables.items():
            if why_not(study) and (problem := why_not(self._as_written() or study)):
                where = place_of(f"[{table}]", self.text, self.source)
                raise InputError(f"{where}: {table}: {problem}.")

    def _as_written(self) -> Study | None:
        """The study without overrides; none where that is not valid."""
        try:
            return Study.model_validate(self._written)
        except ValidationError:
            return None

    def cell(self, levels: Mapping[str, Any]) -> Study:
        """The study with these factors' levels in their places. The last ones are remembered: a trial
        asks for its own several times, and one before it had most of them.
        """
        # With all that it is made of, for whoever has the study may still change what is in it.
        key = repr((self.raw, levels))
        if key in self._cells:
            self._cells.move_to_end(key)
            return self._cells[key]
        raw = copy.deepcopy(self.raw)
        for path, level in levels.items():
            put(raw, path, level, f'{self.source}: factor "{path}"')
        self._cells[key] = self._validate(raw)
        if len(self._cells) > _MOST_CELLS:
            self._cells.popitem(last=False)
        return self._cells[key]

    def _validate(self, raw: dict[str, Any]) -> Study:
        try:
            return Study.model_validate(raw)
        except ValidationError as error:
            raise InputError(explain(error, raw, self.text, self.source)) from None


_MOST_CELLS = 256
"""Cells that are remembered, of some ten kilobytes each."""

_DEEPEST = 50
"""Tables and lists in each other; what a study needs is less than ten."""

_TOO_DEEP = f"tables and lists stand in each other more than {_DEEPEST} deep"


def _check_tree(raw: dict[str, Any], source: str) -> None:
    """Raises:
    InputError: it is nested too deep to be copied, or holds what no file name and no argument can.
    """
    waiting: list[tuple[object, int]] = [(raw, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > _DEEPEST:
            raise InputError(f"{source}: {_TOO_DEEP}")
        if isinstance(value, str) and "\0" in value:
            raise InputError(f"{source}: {value[:64]!r} holds a zero byte")
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        if isinstance(inner, list):
            waiting += [(one, depth + 1) for one in inner]


def put(raw: dict[str, Any], path: str, value: object, where: str) -> None:
    """Puts a value at a dotted path; every table on the way must be or become one.

    Raises:
        InputError: the path leads through something that is no table, or to no known workload.
    """
    *tables, key = path.split(".")
    target = raw
    for depth, name in enumerate(tables):
        if depth == 1 and tables[0] == "workloads" and name not in target:
            hint = did_you_mean(name, target)
            raise InputError(
                f"{where}: there is no workload '{name}'.{hint} There are: {', '.join(target)}."
            )
        target = target.setdefault(name, {})
        if not isinstance(target, dict):
            raise InputError(f"{where}: '{name}' in '{path}' is no table.")
    target[key] = value


def _set(raw: dict[str, Any], path: str, value: object, where: str) -> None:
    """Puts a value at a path; a factor that varies it has this one level from now on.

    Raises:
        InputError: as `put`, or a factor varies what the path is only a part of.
    """
    put(raw, path, value, where)
    workloads = raw.get("workloads")
    tables = [raw, *(workloads.values() if isinstance(workloads, dict) else ())]
    varied = (table.get("factors") for table in tables if isinstance(table, dict))
    for factors in (factors for factors in varied if isinstance(factors, dict)):
        for factor in factors:
            if path == factor:
                factors[factor] = [value]
            elif path.startswith(f"{factor}."):
                raise InputError(
                    f"{where}: {factor} is a factor of the study, whose levels would take the place "
                    "of this.",
                    f"Set all of {factor}.",
                )


def _wanted_as_lists(raw: dict[str, Any]) -> set[str]:
    """Paths to what is no list and has to be one."""
    try:
        Study.model_validate(raw)
    except ValidationError as error:
        wrong = [item for item in error.errors() if item["type"] == "tuple_type"]
        return {".".join(key_path(item["loc"])) for item in wrong}
    return set()


def toml_value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


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
