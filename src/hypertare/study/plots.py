"""Plots that a study asks for: a response over a factor, a line for each level of another.

In a study file:

    [[plots]]
    title = "Goodput against offered rate"
    workload = "load"
    x = "workloads.load.rate"
    y = "goodput"
    lines = "knobs.napi_weight"
    facet = "workloads.load.socket_buffer"
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from hypertare.base.level import Level, same
from hypertare.base.settings import Settings
from hypertare.study.claims import Levels, no_level


class Plot(Settings):
    """A response over a factor. `surface` and `interaction` are means over all other factors, a picture for
    each platform.
    """

    title: str
    """The title of the picture."""
    workload: str
    """The workload of the response."""
    x: str
    """The factor along the bottom."""
    y: str
    """The response."""
    where: Levels = {}
    """Only cells with these levels are drawn; where `--quick` or `--set` leaves a level out, none is."""
    lines: str | None = None
    """A factor whose levels have a line each."""
    facet: str | None = None
    """A factor whose levels have a picture each."""
    shape: Literal["lines", "stacked", "distribution", "surface", "interaction"] = "lines"
    """`stacked`: bars, a segment per guest, of CPU also for the driver domain; `distribution`: of round
    trips, with `x = "rtt"` and `y = "share"`; `surface`: a coloured field for each pair of levels of `x`
    and `lines`; `interaction`: lines, parallel where neither factor changes the other's effect; both means
    over all other factors.
    """
    of: Literal["value", "efficiency"] = "value"
    """For `surface` and `interaction`: the response itself; or `efficiency`, against native."""
    published: str = ""
    """What was found before, with its source."""

    @property
    def is_of_means(self) -> bool:
        """Whether it shows two factors, and means over all others."""
        return self.shape in ("surface", "interaction")

    @property
    def factors(self) -> tuple[str, ...]:
        x = None if self.shape == "distribution" else self.x
        return tuple(factor for factor in (x, self.lines, self.facet) if factor is not None)

    def shows(self, cell: Mapping[str, Level]) -> bool:
        """Whether it is of this cell."""
        return (
            cell.get("workload") == self.workload
            and all(factor in cell for factor in self.factors)
            and all(path in cell and same(cell[path], level) for path, level in self.where.items())
        )

    def unknown(self, factors: Mapping[str, Mapping[str, Collection[Level]]]) -> str | None:
        """What `where` names and the study has not; factors by workload."""
        levels = self.where.items()
        problems = (no_level(path, level, [factors[self.workload]]) for path, level in levels)
        return next(filter(None, problems), None)

    def problem(
        self, responses: Mapping[str, Collection[str]], factors: Mapping[str, Collection[str]]
    ) -> str | None:
        """What it asks for and the study has not; both by workload."""
        if self.workload not in responses:
            return f"there is no workload '{self.workload}'; there are: {', '.join(responses)}"
        if self.shape == "distribution":
            if (self.x, self.y) != ("rtt", "share"):
                return "a distribution has x = 'rtt' and y = 'share'"
            if "rtt_p50" not in responses[self.workload]:
                return f"a distribution is of round trips, and {self.workload} has none"
        elif self.y not in responses[self.workload]:
            known = ", ".join(responses[self.workload])
            return f"{self.workload} has no response '{self.y}'; it has: {known}"
        if self.shape == "stacked" and self.lines is not None:
            return "stacked bars have no 'lines'; take 'facet'"
        if self.is_of_means and self.lines is None:
            return f"shape '{self.shape}' has its second factor in 'lines': name one"
        if self.of == "efficiency" and not self.is_of_means:
            return "of = 'efficiency' is for the shapes 'surface' and 'interaction'"
        for factor in self.factors:
            if factor not in factors[self.workload]:
                known = ", ".join(factors[self.workload]) or "none"
                return f"'{factor}' is no factor of {self.workload}; its factors: {known}"
        if len(set(self.factors)) < len(self.factors):
            return "'x', 'lines' and 'facet' must be three different factors"
        if fixed := self.where.keys() & set(self.factors):
            return f"'where' leaves one level of '{min(fixed)}', which the plot is to show over its levels"
        return None
