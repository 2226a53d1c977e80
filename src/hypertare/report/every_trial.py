"""Every trial of a cell as one table, which a page has once: for readers and for all its charts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hypertare.base import figures
from hypertare.base.figures import word
from hypertare.base.variables import Response
from hypertare.report import verdict
from hypertare.report.model import Point, Report
from hypertare.report.vega import fine

_DIGITS = 5
"""Of values for readers."""


@dataclass(frozen=True)
class Column:
    """A response of every trial, None where a trial has no value of it; `values` in the response's unit.

    `ends` are those of the intervals that its chart shows beside them.
    """

    response: Response
    values: tuple[float | None, ...]
    ends: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        return word(self.response.name)

    @cached_property
    def scale(self) -> tuple[float, str]:
        """The divisor of values in charts, and the unit of the quotients."""
        there = [value for value in self.values if value is not None]
        return figures.axis_scale([*there, *self.ends], self.response.unit)

    def drawn(self) -> Iterator[float | None]:
        """Values in the unit of charts."""
        divisor, _ = self.scale
        for value in self.values:
            yield None if value is None else fine(value / divisor)

    def texts(self) -> Iterator[str]:
        for value in self.values:
            yield "–" if value is None else figures.quantity(value, self.response.unit, _DIGITS)


@dataclass(frozen=True)
class EveryTrial:
    """The good trials of a cell in the order of their numbers.

    Each item of `trials` is a point of one trial, of any response: it holds the trial's place in the run.
    """

    trials: tuple[Point, ...]
    columns: tuple[Column, ...]

    @cached_property
    def blocks(self) -> dict[int, int]:
        """The place of each of the cell's blocks in their order, by the block's number."""
        return {block: at for at, block in enumerate(sorted({p.block for p in self.trials}))}

    def data(self) -> dict[str, Any]:
        """Returns the columns from which `report.js` makes the rows of charts. Names are listed once."""
        kinds = ["measured", "warmup"]
        platforms = sorted({point.platform for point in self.trials})
        places = {name: place for place, name in enumerate(platforms)}
        return {
            "platforms": platforms,
            "kinds": kinds,
            "trial": [point.trial for point in self.trials],
            "platform": [places[point.platform] for point in self.trials],
            "block": [point.block for point in self.trials],
            "boot": [point.boot for point in self.trials],
            "kind": [kinds.index(point.kind) for point in self.trials],
            "order": [self.blocks[point.block] for point in self.trials],
            "values": {column.response.name: list(column.drawn()) for column in self.columns},
        }

    def head(self) -> tuple[str, ...]:
        return ("trial", "platform", "block", "boot", "kind", *(c.name for c in self.columns))

    def rows(self) -> Iterator[tuple[str, ...]]:
        lines = zip(*(column.texts() for column in self.columns), strict=True)
        for point, cells in zip(self.trials, lines, strict=True):
            yield (
                str(point.trial),
                point.platform,
                str(point.block),
                str(point.boot),
                point.kind,
                *cells,
            )


def of_cell(report: Report, label: str, workload: str) -> EveryTrial | None:
    """Returns the table of a cell's trials, without responses that are zero in all of them.

    Returns None if no response is left.
    """
    values: dict[str, dict[int, float]] = {}
    trials: dict[int, Point] = {}
    responses = report.responses(workload)
    for name in responses:
        points = report.points_of(label, name)
        if any(point.value for point in points):
            values[name] = {point.trial: point.value for point in points}
            trials |= {point.trial: point for point in points}
    if not trials:
        return None
    order = sorted(trials)
    return EveryTrial(
        tuple(trials[trial] for trial in order),
        tuple(
            Column(
                responses[name],
                tuple(found.get(trial) for trial in order),
                tuple(
                    end
                    for one in report.estimates(label)
                    if one.response == name
                    for end in verdict.mean_ends(one)
                    if end is not None
                ),
            )
            for name, found in values.items()
        ),
    )
