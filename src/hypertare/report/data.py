"""A report for other programs: every trial and response as a table of data, or the summary."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hypertare.base.level import Level
from hypertare.design.trials import FinishedTrial
from hypertare.findings.summarise import responses_of
from hypertare.report.model import Report

if TYPE_CHECKING:
    import polars


def json(report: Report) -> str:
    """The summary, as in `summary.json`."""
    return report.summary.model_dump_json(indent=2) + "\n"


def csv(report: Report) -> str:
    """Every value of every trial, one a line."""
    return frame(report).write_csv()


def parquet(report: Report) -> bytes:
    """As `csv`, with types."""
    buffer = io.BytesIO()
    frame(report).write_parquet(buffer)
    return buffer.getvalue()


def frame(report: Report) -> polars.DataFrame:
    """Every value of every trial as a row, factors as columns by their paths.

    A failed trial is a row too: its `status` and `error` say so, `response` and `value` are absent. What
    is of one guest of several has its number in `guest`.
    A factor with levels of several types is given as text.
    """
    import polars

    factors = list(dict.fromkeys(f for trial in report.trials for f in trial.planned.cell))
    levels = {factor: _column(report, factor) for factor in factors}
    known = responses_of(report.meta)
    rows = []
    for place, trial in enumerate(report.trials):
        planned = trial.planned
        for guest, response, value in _values(trial):
            of = known.get(response) if response else None
            rows.append(
                (
                    planned.id,
                    planned.block,
                    planned.boot,
                    planned.platform,
                    planned.kind,
                    trial.status,
                    trial.error,
                    trial.elapsed_s,
                    *(levels[factor][place] for factor in factors),
                    guest,
                    response,
                    of.unit if of else None,
                    of.better if of else None,
                    value,
                )
            )
    text, whole, real = polars.String, polars.Int64, polars.Float64
    schema: dict[str, polars.DataType | type[polars.DataType]] = {
        "trial": whole,
        "block": whole,
        "boot": whole,
        "platform": text,
        "kind": text,
        "status": text,
        "error": text,
        "trial_elapsed_s": real,
        **{factor: polars.Series(found).dtype for factor, found in levels.items()},
        "guest": whole,
        "response": text,
        "unit": text,
        "better": text,
        "value": real,
    }
    return polars.DataFrame(rows, schema=schema, orient="row")


# --- parts


def _values(trial: FinishedTrial) -> Iterator[tuple[int | None, str | None, float | None]]:
    """Of all guests, then of each."""
    if not trial.values:
        yield None, None, None
    for response, value in trial.values.items():
        yield None, response, value
    for guest, values in enumerate(trial.guests, start=1):
        for response, value in values.items():
            yield guest, response, value


def _column(report: Report, factor: str) -> list[Level | None]:
    found = [trial.planned.cell.get(factor) for trial in report.trials]
    kinds = {type(level) for level in found if level is not None}
    if len(kinds) <= 1 and kinds <= {str, int, float, bool}:
        return found
    if kinds == {int, float}:
        return [None if level is None else float(level) for level in found]
    return [None if level is None else str(level) for level in found]
