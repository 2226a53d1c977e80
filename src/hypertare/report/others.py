"""A report in the formats of other tools, for what already reads those.

- hyperfine's `--export-json`: each command on each platform as a command of its own.
- Bencher's metric format (BMF): https://bencher.dev/docs/reference/bencher-metric-format/
- github-action-benchmark's customSmallerIsBetter.

The cost against the baseline is a measure of its own: it is what a busier machine does not change.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from json import dumps
from typing import Any

from hypertare.report.model import Report
from hypertare.runs.summary import Estimate
from hypertare.workloads.command import COMMAND


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
