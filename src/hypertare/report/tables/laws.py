"""What laws predict of more guests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.base.figures import quantity
from hypertare.base.response import VIRTUAL
from hypertare.base.words import word
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.runs.summary import Predictability, Prediction

FORM = TableSpec(
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


def table(found: Sequence[Predictability]) -> Table:
    return FORM.table(workloads(found), rows(found))


def rows(found: Sequence[Predictability]) -> Iterator[Row]:
    for one in found:
        setting = verdict.setting(one.platform, one.cell)
        fitted = ", ".join(map(str, one.fitted)) or "the line"
        judged = f"{one.verdict} (±{100 * one.most:g} %)"
        law = f"{word(one.response)}, {one.law}"
        if one.reason is not None:
            yield Row((setting, law, fitted, *("–",) * 4, one.verdict), False, one.reason)
        for prediction in one.predictions:
            yield Row(
                (
                    setting,
                    law,
                    fitted,
                    str(prediction.guests),
                    quantity(prediction.predicted, one.unit.removesuffix(VIRTUAL)),
                    quantity(prediction.measured, one.unit.removesuffix(VIRTUAL)),
                    _error(prediction),
                    judged,
                ),
                one.verdict != "undecided",
                prediction.doubt or "",
            )


def workloads(found: Sequence[Predictability]) -> str:
    """With the mark of the clock, which stands for all figures below."""
    names = verdict.workloads(one.cell for one in found)
    return names + (VIRTUAL if any(one.unit.endswith(VIRTUAL) for one in found) else "")


def _error(one: Prediction) -> str:
    value = f"{_percent(one.error)} %"
    if one.error_low is None or one.error_high is None or one.error_low == one.error_high:
        return value
    return f"{value} ({_percent(one.error_low)} to {_percent(one.error_high)})"


def _percent(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "−")
