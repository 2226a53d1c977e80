"""Elapsed time and modelled page walks as rows of a table and as one picture; everywhere the same words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypertare.report.searches import Row
from hypertare.report.units import number, quantity, significant
from hypertare.report.verdict import Wording
from hypertare.series import key
from hypertare.summary import Published, Summary, Total

ID = "totals"
TITLE = "Elapsed time and page walks (virtual)"
NOTE = (
    "In virtual time page walks are free. elapsed was measured without them; walks is what a model of "
    "the processor's TLBs, walk caches and caches adds for the same program's own accesses (the kernel's "
    "are in neither), in cycles that are as long as its instructions; total is their sum."
)
HEAD = ("setting", "exits", "elapsed", "walks", "total", "against native", "note")
TEXTS = (0, len(HEAD) - 1)
"""Columns that hold text; the others hold numbers."""


@dataclass(frozen=True)
class Line:
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


def lines(summary: Summary, wording: Wording) -> list[Line]:
    """By workload, the baseline first; its lines that would say the same stand once."""
    exits = {
        (one.platform, key(one.cell)): one.estimate
        for one in summary.estimates
        if one.response == "exits"
    }
    baselines: dict[tuple[str, ...], Line] = {}
    others: list[Line] = []
    for total in summary.totals:
        plain = {f: level for f, level in total.cell.items() if not f.startswith("walk.")}
        workload = str(total.cell["workload"])
        line = Line(_name(total, wording), workload, total, exits.get((total.platform, key(plain))))
        if total.paging == "native":
            platform = wording.platform(total.platform, total.cell)
            shown = (workload, platform, *_cells(line)[1:])
            kept = baselines.setdefault(shown, Line(platform, workload, total, line.exits))
            if kept.total is not total:
                continue
        else:
            others.append(line)
    found = [*_named_apart(baselines.values(), wording), *others]
    workloads = list(dict.fromkeys(line.workload for line in found))
    return sorted(found, key=lambda line: workloads.index(line.workload))


def _named_apart(baselines: Sequence[Line] | object, wording: Wording) -> Iterator[Line]:
    """Where benches of several levels gave several baselines, each with its levels."""
    every: list[Line] = list(baselines)  # type: ignore[call-overload]
    for line in every:
        alike = [one for one in every if (one.workload, one.name) == (line.workload, line.name)]
        name = line.name if len(alike) == 1 else _name(line.total, wording)
        yield Line(
            f"{line.workload} {name}" if len(alike) == 1 else name,
            line.workload,
            line.total,
            line.exits,
        )


def _name(total: Total, wording: Wording) -> str:
    label = wording.label(total.cell)
    workload = str(total.cell["workload"])
    named = label if label.split(" ")[0] == workload else f"{workload} {label}"
    return f"{named} {wording.platform(total.platform, total.cell)}"


def rows(found: Sequence[Line]) -> Iterator[Row]:
    for line in found:
        threads = line.total.threads
        note = (
            f"{threads} threads: other hosts may count a few walks more or less"
            if threads > 1
            else ""
        )
        yield Row((*_cells(line), note), True)


def _cells(line: Line) -> tuple[str, ...]:
    one = line.total
    return (
        line.name,
        "" if line.exits is None else number(line.exits, 0),
        *(_time(part) for part in (one.elapsed, one.walk_time, one.total)),
        "" if one.ratio is None else _ratio(one.ratio, one.ratio_low, one.ratio_high),
    )


def _time(seconds: float) -> str:
    """Of virtual time, as the title says of all of them."""
    return quantity(seconds, "s")


def _ratio(ratio: float, low: float | None, high: float | None) -> str:
    text = significant(ratio, 3)
    if low is None or high is None or low == high:
        return text
    return f"{text} ({significant(low, 3)} to {significant(high, 3)})"


def workloads(found: Sequence[Line]) -> str:
    return ", ".join(dict.fromkeys(line.workload for line in found))


def bars(found: Sequence[Line], published: Sequence[Published]) -> Iterator[Bar]:
    """Every line but the baseline's in parts of the baseline's total, and what others found."""
    names: dict[tuple[str, object], str] = {}
    for line in found:
        one = line.total
        if one.ratio is None:
            continue
        share = one.ratio / one.total
        short = line.name.removeprefix(f"{line.workload} ")
        names[one.platform, key(one.cell)] = short
        yield Bar(line.workload, short, "elapsed", one.elapsed * share)
        yield Bar(line.workload, short, "walks", one.walk_time * share)
    for theirs in published:
        name = names.get((theirs.platform, key(theirs.cell)))
        if name is not None:
            yield Bar(str(theirs.cell["workload"]), name, "published", theirs.published)
