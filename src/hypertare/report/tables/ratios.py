"""Ratios to native: elapsed time with modelled page walks, and published figures beside this run's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hypertare.base.figures import number, quantity, significant, word
from hypertare.base.variables import Level, key
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.report.verdict import EXACT, Wording
from hypertare.runs.summary import Published, Summary, Total
from hypertare.study.walk import PROCESSOR
from hypertare.walk.result import ONE_STAGE

TOTALS = TableSpec(
    "totals",
    "Elapsed time and page walks (virtual)",
    "In virtual time page walks are free. elapsed was measured without them; walks is what a model of "
    "the processor's TLBs, walk caches and caches adds for the same program's own accesses (the kernel's "
    "are in neither), in cycles that are as long as its instructions; total is their sum; ratio "
    "is to the same sum of native, with its interval.",
    (
        text("setting"),
        Column("exits"),
        Column("elapsed"),
        Column("walks"),
        Column("total"),
        Column("ratio"),
        Column("95 %"),
    ),
)


@dataclass(frozen=True)
class TotalRow:
    """A total with its name, and the exits of the same trials where they were counted."""

    name: str
    workload: str
    total: Total
    exits: float | None


@dataclass(frozen=True)
class Bar:
    """A part of a total as a ratio to the baseline's total; `published` is somebody else's."""

    workload: str
    name: str
    part: str
    ratio: float


def lines(summary: Summary, wording: Wording) -> list[TotalRow]:
    """Returns the rows of totals, ordered by workload and name.

    The baseline's rows are left out if a workload has comparisons with it. Totals that are the same with
    every processor and cache have one row.
    """
    exits = {
        (one.platform, key(one.cell)): one.estimate
        for one in summary.estimates
        if one.response == "exits"
    }
    compared = {str(one.cell["workload"]) for one in summary.totals if one.ratio is not None}
    groups: dict[tuple[str, object], list[TotalRow]] = {}
    for total in summary.totals:
        workload = str(total.cell["workload"])
        if total.paging == ONE_STAGE and workload in compared:
            continue
        place = (total.platform, key(_plain(total.cell)))
        line = TotalRow(_name(total, wording), workload, total, exits.get(place))
        groups.setdefault(place, []).append(line)
    found: list[TotalRow] = []
    for group in groups.values():
        if len(group) > 1 and len({_cells(line)[1:] for line in group}) == 1:
            plain = group[0].total.model_copy(update={"cell": _plain(group[0].total.cell)})
            found.append(replace(group[0], name=_name(plain, wording)))
        else:
            found += group
    workloads = list(dict.fromkeys(line.workload for line in found))
    return sorted(found, key=lambda line: (workloads.index(line.workload), line.name))


def _name(total: Total, wording: Wording) -> str:
    label = wording.label(total.cell)
    workload = str(total.cell["workload"])
    named = label if label.split(" ")[0] == workload else f"{workload} {label}"
    return f"{named} {wording.platform(total.platform, total.cell)}"


def total_table(found: Sequence[TotalRow]) -> Table:
    """The first row of a workload has the notes about the workload."""
    said: set[str] = set()
    rows = []
    for line in found:
        threads = 1 if line.workload in said else line.total.threads
        said.add(line.workload)
        note = f"{threads} threads: other hosts may count a few walks more or less"
        rows.append(Row(_cells(line), note=note if threads > 1 else ""))
    return TOTALS.table(", ".join(dict.fromkeys(line.workload for line in found)), rows)


def _cells(line: TotalRow) -> tuple[str, ...]:
    one = line.total
    return (
        line.name,
        "" if line.exits is None else number(line.exits, 0),
        # Of virtual time, as the title says of all of them.
        *(quantity(part, "s") for part in (one.elapsed, one.walk_time, one.total)),
        "" if one.ratio is None else significant(one.ratio, 3),
        ratio_interval(one),
    )


def ratio_interval(one: Total | Published) -> str:
    if one.ratio_low is None or one.ratio_high is None:
        return ""
    if one.ratio_low == one.ratio_high:
        return EXACT
    return f"{significant(one.ratio_low, 3)} to {significant(one.ratio_high, 3)}"


def bars(found: Sequence[TotalRow], published: Sequence[Published]) -> Iterator[Bar]:
    """Every line but the baseline's in parts of the baseline's total, and what others found."""
    names: dict[tuple[str, object], str] = {}
    for line in found:
        one = line.total
        if one.ratio is None:
            continue
        share = one.ratio / one.total
        short = line.name.removeprefix(f"{line.workload} ")
        names[one.platform, key(one.cell)] = short
        names.setdefault((one.platform, key(_plain(one.cell))), short)
        yield Bar(line.workload, short, "elapsed", one.elapsed * share)
        yield Bar(line.workload, short, "walks", one.walk_time * share)
    for theirs in published:
        places = ((theirs.platform, key(cell)) for cell in (theirs.cell, _plain(theirs.cell)))
        name = next((names[place] for place in places if place in names), None)
        if name is not None:
            yield Bar(str(theirs.cell["workload"]), name, "published", theirs.published)


def _plain(cell: Mapping[str, Level]) -> dict[str, Level]:
    """A cell without what was modelled: that of its trials."""
    return {factor: level for factor, level in cell.items() if not factor.startswith("walk.")}


PUBLISHED = TableSpec(
    "published",
    "Published, and here",
    "Ratios to native, each from measurements of one's own: other machines, kernels and programs. "
    "Compare which is larger, not the digits.",
    (
        text("setting"),
        text("response"),
        Column("published"),
        Column("here"),
        Column("interval"),
        text("on"),
    ),
    notes="source",
)


def published_table(found: Sequence[Published]) -> Table:
    """Of what this run has too; the source stands once, with the first of its figures."""
    said: set[str] = set()
    rows = []
    for one in found:
        if one.ratio is None:
            continue
        source = "" if one.source in said else one.source
        said.add(one.source)
        cells = (
            f"{one.cell['workload']} {setting(one)}",
            word(one.response),
            significant(one.published, 3),
            significant(one.ratio, 3),
            ratio_interval(one),
            ", ".join(one.on.values()),
        )
        rows.append(Row(cells, note=source))
    return PUBLISHED.table(verdict.workloads(one.cell for one in found), rows)


def setting(one: Published) -> str:
    """Returns the platform and the levels of a published figure, without workload and processor."""
    return verdict.setting(one.platform, one.cell, ("workload", PROCESSOR))
