"""By how much the hosts of a run differ that has several. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypertare.base.level import key
from hypertare.base.response import Response
from hypertare.base.words import place
from hypertare.design.trials import FinishedTrial
from hypertare.findings.estimates import estimate
from hypertare.runs.summary import Analysed, AnalysedFigure, AnalysedRow, Estimate

_NOTE = (
    "The leading response on each host alone. A block is of one host, so what a host does to all of its "
    "trials is in no ratio. The run's other tables are of these hosts together: their intervals are over "
    "boots, and say nothing of a host that was not there."
)


def of_hosts(
    trials: Sequence[FinishedTrial],
    responses: Mapping[str, Response],
    hosts: Sequence[str],
    rules: Mapping[str, Any],
) -> Analysed | None:
    """Each host's own figures, of a run that has several.

    Args:
        trials: of the run. Boots were on the hosts by turns: number b on host b modulo their number.
        responses: by name.
        hosts: how each is named, in the order of their turns.
        rules: those of `estimate`, `leading` among them.
    """
    if len(hosts) < 2:
        return None
    rows: list[tuple[object, int, AnalysedRow]] = []
    for number, host in enumerate(hosts):
        own = [trial for trial in trials if trial.planned.boot % len(hosts) == number]
        for one in estimate(own, responses, **rules).estimates:
            if one.response == rules["leading"].get(str(one.cell.get("workload"))):
                rows.append(((one.platform, key(one.cell)), number, _row(one, host)))
    first = list(dict.fromkeys(where for where, _, _ in rows))
    rows.sort(key=lambda row: (first.index(row[0]), row[1]))
    columns = ("mean", f"ratio to {rules['baseline']}")
    return Analysed(
        name="hosts",
        title="By host",
        note=_NOTE,
        columns=columns,
        rows=tuple(row for *_, row in rows),
    )


def differing(found: Analysed | None) -> Iterator[str]:
    """A sentence for each platform in a cell whose ratios on two hosts have intervals apart."""
    groups: dict[object, list[AnalysedRow]] = {}
    for row in found.rows if found else ():
        groups.setdefault((row.platform, key(row.cell)), []).append(row)
    for rows in groups.values():
        for one, other in itertools.combinations(rows, 2):
            if _are_apart(one.figures[1], other.figures[1]):
                yield (
                    f"hosts differ in what {place(one.platform, one.cell)} costs: the intervals of "
                    f"{one.what} and {other.what} have nothing in common, and the run's is of both."
                )


def _are_apart(one: AnalysedFigure | None, other: AnalysedFigure | None) -> bool:
    if one is None or other is None:
        return False
    ends = (one.low, one.high, other.low, other.high)
    if None in ends:
        return False
    low, high, other_low, other_high = (float(end) for end in ends if end is not None)
    return high < other_low or other_high < low


def _row(one: Estimate, host: str) -> AnalysedRow:
    mean = AnalysedFigure(estimate=one.estimate, low=one.low, high=one.high, unit=one.unit)
    ratio = None
    if one.cost is not None:
        low, high = one.cost_low, one.cost_high
        ratio = AnalysedFigure(
            estimate=1 + one.cost,
            low=None if low is None else 1 + low,
            high=None if high is None else 1 + high,
            unit="",
        )
    return AnalysedRow(platform=one.platform, cell=one.cell, what=host, figures=(mean, ratio))
