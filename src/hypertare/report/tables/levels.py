"""What the levels of factors change, within each platform."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.words import word
from hypertare.report import factors, verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text, with_interval
from hypertare.report.verdict import Wording
from hypertare.runs.summary import LevelChange

LEVELS = TableSpec(
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


def levels_table(found: Sequence[LevelChange], wording: Wording) -> Table:
    rows = []
    for one in found:
        cells = (
            wording.platform(one.platform, one.cell),
            factors.compared(one),
            f"{word(one.response)} in {wording.label(one.cell)}",
            with_interval(*verdict.cost_text(one, wording)),
            with_interval(*factors.points(one)),
        )
        notes = (f"mean over {one.settings} settings" if one.settings > 1 else "", one.doubt)
        is_sure = one.verdict in ("costs", "gains")
        rows.append(Row(cells, is_sure, "; ".join(filter(None, notes))))
    return LEVELS.table(verdict.workloads(one.cell for one in found), rows)
