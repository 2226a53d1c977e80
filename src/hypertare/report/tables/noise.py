"""What the baseline differed by from itself: no cost below that stands out from noise."""

from __future__ import annotations

from hypertare.base import figures
from hypertare.base.words import word
from hypertare.report.model import Report
from hypertare.report.tables.table import Column, Row, Table, text


def noise_table(report: Report) -> Table:
    baseline = report.meta.baseline
    rows = []
    for floor in report.summary.noise:
        # Of hundreds of cells that of what leads: what else is, `--format json` has.
        leading = report.meta.headline.get(str(floor.cell.get("workload")))
        if report.has_hundreds_of_cells and floor.response != leading:
            continue
        low, high = 100 * floor.cost_low, 100 * floor.cost_high
        cells = (
            report.wording.label(floor.cell),
            word(floor.response),
            str(floor.n),
            f"{figures.significant(100 * floor.cost)} %",
            f"{figures.significant(low)} to {figures.significant(high)}",
            floor.pairs,
        )
        rows.append(Row(cells))
    return Table(
        "noise",
        "Noise floor",
        "Noise floor",
        f"{baseline} against itself: the least cost that this run could have shown, and the bounds of "
        f"what {baseline} cost against itself.",
        (
            text("cell"),
            text("response"),
            Column("pairs"),
            Column("least cost"),
            Column("bounds, %"),
            text("paired from"),
        ),
        tuple(rows),
    )
