"""Figures of each host of a run that has several, and warnings where hosts differ. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypertare.base.figures import place
from hypertare.base.variables import Response, key
from hypertare.design.trials import FinishedTrial, host_of
from hypertare.findings.estimates import estimate
from hypertare.findings.series import ratio_of
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
        trials: of the run; boots were on the hosts by turns.
        responses: by name.
        hosts: how each is named, in the order of their turns.
        rules: those of `estimate`, `leading` among them.
    """
    if len(hosts) < 2:
        return None
    rows: list[tuple[object, int, AnalysedRow]] = []
    for number, host in enumerate(hosts):
        own = [trial for trial in trials if host_of(trial.planned.boot, len(hosts)) == number]
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
    """Yields a sentence for each platform in a cell where two hosts' intervals are disjoint."""
    groups: dict[object, list[AnalysedRow]] = {}
    for row in found.rows if found else ():
        groups.setdefault((row.platform, key(row.cell)), []).append(row)
    for rows in groups.values():
        known = [
            ((ratio.low, ratio.high), row)
            for row in rows
            if (ratio := row.figures[1]) and ratio.low is not None and ratio.high is not None
        ]
        if not known:
            continue
        (_, high), one = min(known, key=lambda found: found[0][1])
        (low, _), other = max(known, key=lambda found: found[0][0])
        if high < low:
            yield (
                f"hosts differ in what {place(one.platform, one.cell)} costs: the intervals of "
                f"{one.what} and {other.what} have nothing in common, and the run's is of both."
            )


def _row(one: Estimate, host: str) -> AnalysedRow:
    mean = AnalysedFigure(estimate=one.estimate, low=one.low, high=one.high, unit=one.unit)
    ratio = None
    if (found := ratio_of(one)) is not None:
        ratio = AnalysedFigure(estimate=found[0], low=found[1], high=found[2], unit="")
    return AnalysedRow(platform=one.platform, cell=one.cell, what=host, figures=(mean, ratio))
