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

from pydantic import BaseModel, ConfigDict


class Plot(BaseModel):
    """`x`, `lines` and `facet` are factors by their paths, `y` is a response of the workload.

    `published` says, in words and with its source, what somebody found before.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    workload: str
    x: str
    y: str
    lines: str | None = None
    facet: str | None = None
    published: str = ""

    @property
    def factors(self) -> tuple[str, ...]:
        return tuple(factor for factor in (self.x, self.lines, self.facet) if factor is not None)

    def problem(
        self, responses: Mapping[str, Collection[str]], factors: Mapping[str, Collection[str]]
    ) -> str | None:
        """What it asks for and the study has not; both by workload."""
        if self.workload not in responses:
            return f"there is no workload '{self.workload}'; there are: {', '.join(responses)}"
        if self.y not in responses[self.workload]:
            known = ", ".join(responses[self.workload])
            return f"{self.workload} has no response '{self.y}'; it has: {known}"
        for factor in self.factors:
            if factor not in factors[self.workload]:
                known = ", ".join(factors[self.workload]) or "none"
                return f"'{factor}' is no factor of {self.workload}; its factors: {known}"
        if len(set(self.factors)) < len(self.factors):
            return "'x', 'lines' and 'facet' must be three different factors"
        return None
