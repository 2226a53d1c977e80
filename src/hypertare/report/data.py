"""A report for other programs: as a table of data, its summary, and in the formats of other tools.

- hyperfine's `--export-json`: each command on each platform as a command of its own.
- Bencher's metric format (BMF): https://bencher.dev/docs/reference/bencher-metric-format/
- github-action-benchmark's customSmallerIsBetter.

The cost against the baseline is a measure of its own: it is what a busier machine does not change.
"""

from __future__ import annotations

import io
import statistics
from collections.abc import Iterator
from json import dumps
from typing import TYPE_CHECKING, Any

from hypertare.base.variables import Level
from hypertare.design.trials import FinishedTrial
from hypertare.findings.summarise import responses_of
from hypertare.report.model import Report
from hypertare.runs.summary import Estimate
from hypertare.workloads.command import COMMAND

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


def hyperfine(report: Report) -> str:
    """Returns the commands of a run as hyperfine's JSON. Other workloads have no elapsed time and are left
    out.
    """
    results = []
    for one in report.estimates():
        if one.response == COMMAND.headline:
            times = _times(report, one, one.response)
            found = {
                "command": _name(report, one),
                "mean": one.estimate,
                "stddev": statistics.stdev(times) if len(times) > 1 else None,
                "median": statistics.median(times),
                "user": _mean(report, one, "user"),
                "system": _mean(report, one, "system"),
                "min": min(times),
                "max": max(times),
                "times": times,
                "exit_codes": [0] * len(times),
            }
            results.append(found)
    return _text({"results": results})


def bmf(report: Report) -> str:
    """Returns the leading responses and their costs as Bencher's JSON, by setting, with intervals."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for one in _leading(report):
        measures = found.setdefault(_name(report, one), {})
        measures[one.response] = _metric(one.estimate, one.low, one.high)
        if one.cost is not None:
            measures["cost"] = _metric(one.cost, one.cost_low, one.cost_high)
    return _text(found)


def benchmark_action(report: Report) -> str:
    """Costs, of which less is better whatever the response is; without a baseline, responses of which
    less is better.
    """
    leading = list(_leading(report))
    costs = [one for one in leading if one.cost is not None]
    if costs:
        entries = []
        for one in costs:
            low, high = (None if e is None else 100 * e for e in (one.cost_low, one.cost_high))
            entries.append(_entry(_name(report, one), "%", 100 * (one.cost or 0.0), low, high))
    else:
        entries = [
            _entry(_name(report, one), one.unit, one.estimate, one.low, one.high)
            for one in leading
            if one.better == "lower"
        ]
    return _text(entries)


def _times(report: Report, one: Estimate, response: str) -> list[float]:
    """Returns the elapsed times of the trials that count."""
    platform = report.wording.platform(one.platform, one.cell)
    points = report.points_of(report.wording.label(one.cell), response)
    return [p.value for p in points if p.platform == platform and p.kind == "measured"]


def _mean(report: Report, one: Estimate, response: str) -> float | None:
    values = _times(report, one, response)
    return statistics.fmean(values) if values else None


def _leading(report: Report) -> Iterator[Estimate]:
    for one in report.estimates():
        if one.response == report.meta.headline.get(str(one.cell.get("workload"))):
            yield one


def _name(report: Report, one: Estimate) -> str:
    platform = report.wording.platform(one.platform, one.cell)
    return f"{report.wording.label(one.cell)}, {platform}"


def _metric(value: float, low: float | None, high: float | None) -> dict[str, float]:
    ends = {"lower_value": low, "upper_value": high}
    return {"value": value, **{name: end for name, end in ends.items() if end is not None}}


def _entry(
    name: str, unit: str, value: float, low: float | None, high: float | None
) -> dict[str, Any]:
    around = {} if low is None or high is None else {"range": f"± {(high - low) / 2:.3g}"}
    return {"name": name, "unit": unit, "value": value, **around}


def _text(document: object) -> str:
    return dumps(document, indent=2) + "\n"
