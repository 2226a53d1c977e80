"""What laws predict of more guests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.base.figures import quantity
from hypertare.base.response import VIRTUAL
from hypertare.base.words import word
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.runs.summary import Predictability, Prediction

LAWS = TableSpec(
    "predictability",
    "Predictability",
    "Each law is fitted to some numbers of guests and predicts another, which it has not seen. The error "
    "is predicted over measured, less 1, with its interval; a setting is predictable where the whole "
    "interval lies within the bound.",
    (
        text("setting"),
        text("law"),
        text("fitted to"),
        Column("predicts"),
        Column("predicted"),
        Column("measured"),
        Column("error"),
        text("so it is"),
    ),
)


def laws_table(found: Sequence[Predictability]) -> Table:
    about = verdict.workloads((one.cell for one in found), (one.unit for one in found))
    return LAWS.table(about, (row for one in found for row in _of_law(one)))


def _of_law(one: Predictability) -> Iterator[Row]:
    setting = verdict.setting(one.platform, one.cell)
    fitted = ", ".join(map(str, one.fitted)) or "the line"
    law = f"{word(one.response)}, {one.law}"
    if one.reason is not None:
        yield Row((setting, law, fitted, *("–",) * 4, one.verdict), False, one.reason)
    for prediction in one.predictions:
        cells = (
            setting,
            law,
            fitted,
            str(prediction.guests),
            quantity(prediction.predicted, one.unit.removesuffix(VIRTUAL)),
            quantity(prediction.measured, one.unit.removesuffix(VIRTUAL)),
            _error(prediction),
            f"{one.verdict} (±{100 * one.most:g} %)",
        )
        yield Row(cells, one.verdict != "undecided", prediction.doubt or "")


def _error(one: Prediction) -> str:
    error, low, high = (
        "" if share is None else f"{100 * share:+.1f}".replace("-", "−")
        for share in (one.error, one.error_low, one.error_high)
    )
    if not low or not high or one.error_low == one.error_high:
        return f"{error} %"
    return f"{error} % ({low} to {high})"
