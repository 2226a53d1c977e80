"""What the levels of factors change, within each platform."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.base.words import word
from hypertare.report import factors, verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.report.verdict import Wording
from hypertare.runs.summary import LevelChange

FORM = TableSpec(
    "levels",
    "What each factor changes",
    "Each level against another one of the same platform, with its interval; with several factors, the "
    "mean over the settings of the others. Cost: how much more of the baseline is lost at this level than "
    "at the other, in points.",
    (
        text("platform"),
        text("level"),
        text("response"),
        Column("change"),
        Column("cost"),
    ),
)


def table(found: Sequence[LevelChange], wording: Wording) -> Table:
    return FORM.table(verdict.workloads(one.cell for one in found), rows(found, wording))


def rows(found: Sequence[LevelChange], wording: Wording) -> Iterator[Row]:
    for one in found:
        yield Row(
            (
                wording.platform(one.platform, one.cell),
                f"{verdict.named(one.factor, one.level)} against {verdict.shown(one.against)}",
                f"{word(one.response)} in {wording.label(one.cell)}",
                _around(*verdict.change_of_both(one, wording)),
                _around(*factors.points(one)),
            ),
            one.verdict in ("costs", "gains"),
            "; ".join(_notes(one)),
        )


def _around(value: str, interval: str) -> str:
    return f"{value} ({interval})" if interval else value


def _notes(one: LevelChange) -> Iterator[str]:
    if one.settings > 1:
        yield f"mean over {one.settings} settings"
    if one.doubt is not None:
        yield one.doubt
