"""The leading response of every cell as a table over the factors, in the order of the study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from hypertare.base import figures
from hypertare.base.figures import factor_text, word
from hypertare.report import levels, verdict
from hypertare.report.forest import MOST
from hypertare.report.model import Report
from hypertare.report.tables.table import Column, Row, Table, text
from hypertare.runs.summary import Estimate

_MOST_COLUMNS = 10
_PLATFORM = "platform"
_NONE = "–"
"""The mark for a setting that a platform does not have: a container has no card."""

Place = tuple[str, ...]
"""Levels of one cell of the table, by its dimensions."""

Dimensions = dict[str, list[str]]
"""Levels by factor, in the order of the study."""


def tables(report: Report) -> Iterator[Table]:
    """Yields a table for each workload; workloads with the same response and dimensions share a table.

    It shows changes if platforms are compared, else means. A run whose comparisons all have a row of their
    own (`hypertare.report.forest`) has no such table, and neither has a workload with one cell.
    """
    if 0 < len(report.leading) <= MOST:
        return
    groups: dict[str, list[Estimate]] = {}
    for workload, response in report.meta.headline.items():
        mine = [
            one
            for one in report.estimates()
            if one.cell.get("workload") == workload and one.response == response
        ]
        chosen = [one for one in mine if one.baseline is not None] or mine
        if len(chosen) > 1:
            alike = f"{response} {chosen[0].unit} {_dimensions(chosen)}"
            groups.setdefault(alike, []).extend(chosen)
    yield from (_table(report, number, group) for number, group in enumerate(groups.values()))


def _table(report: Report, number: int, estimates: Sequence[Estimate]) -> Table:
    dimensions = _dimensions(estimates)
    across = _across(dimensions)
    down = [name for name in dimensions if name != across]
    found = {
        tuple(
            one.platform if name == _PLATFORM else levels.shown(one.cell.get(name, _NONE))
            for name in (*down, across)
        ): one
        for one in estimates
    }
    compared = estimates[0].baseline is not None
    divisor, unit = figures.scale(median(abs(one.estimate) for one in estimates), estimates[0].unit)

    def cell(place: Place) -> str:
        if place not in found:
            return ""
        one = found[place]
        if compared:
            return _change(one, report)
        scaled = one.estimate / divisor
        return figures.number(scaled, figures.plain_decimals(scaled))

    what = word(estimates[0].response)
    of = verdict.workloads(one.cell for one in estimates)
    rows = dict.fromkeys(place[:-1] for place in found)
    return Table(
        f"grid{number}",
        f"Overview of {of}",
        f"{what[0].upper()}{what[1:]} of {of}, {'change' if compared else unit}, by {factor_text(across)}",
        _note(estimates, compared, _NONE in dimensions[across]),
        (
            *(text(factor_text(name)) for name in down or [""]),
            *(Column(level) for level in dimensions[across]),
        ),
        tuple(
            Row((*(row or ("",)), *(cell((*row, level)) for level in dimensions[across])))
            for row in rows
        ),
    )


def _dimensions(estimates: Sequence[Estimate]) -> Dimensions:
    """Returns the levels of each factor that has several.

    Platforms are a dimension if there are several, or if no factor has several levels.
    """
    names = dict.fromkeys(factor for one in estimates for factor in one.cell)
    every = {
        name: list(
            dict.fromkeys(levels.shown(one.cell[name]) for one in estimates if name in one.cell)
        )
        for name in names
    }
    several = {name: found for name, found in every.items() if len(found) > 1}
    for name, found in several.items():
        if any(name not in one.cell for one in estimates):
            found.append(_NONE)
    platforms = list(dict.fromkeys(one.platform for one in estimates))
    return {_PLATFORM: platforms, **several} if len(platforms) > 1 or not several else several


def _across(dimensions: Dimensions) -> str:
    """Returns the dimension that becomes the columns: the one with the most levels that fit in a line.

    Of several such dimensions it is the last one.
    """
    fitting = [name for name in reversed(dimensions) if len(dimensions[name]) <= _MOST_COLUMNS]
    last = next(reversed(dimensions))
    return max(fitting, key=lambda name: len(dimensions[name]), default=last)


def _change(one: Estimate, report: Report) -> str:
    if one.verdict in (None, "undecided"):
        return "?"
    change, _ = verdict.cost_text(one, report.wording)
    return f"({change})" if one.verdict == "no difference shown" else change


def _note(estimates: Sequence[Estimate], compared: bool, some_have_none: bool) -> str:
    if compared:
        without = f" {_NONE}: has no such setting." if some_have_none else ""
        return f"In brackets: no difference shown; ?: {verdict.TOO_FEW}.{without}"
    halves = [
        (one.high - one.low) / 2 / abs(one.estimate)
        for one in estimates
        if one.low is not None and one.high is not None and one.estimate
    ]
    if not halves:
        return ""
    confidence = f"{100 * estimates[0].confidence:g} % intervals"
    return f"Means; {confidence} reach ±{figures.significant(100 * max(halves))} % at most."
