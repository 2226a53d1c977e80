"""The `[effects]` table of a study: of which responses it says what factor matters most."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from hypertare.base.level import Level
from hypertare.base.settings import Settings
from hypertare.base.words import no_such

LEAST_FACTORS = 2
"""One alone has all of the variance."""


class EffectsSettings(Settings):
    """Which factor matters most, and of what."""

    responses: tuple[str, ...] = ()
    """The responses. Default: the leading one of each workload."""
    factors: tuple[str, ...] = ()
    """The factors that are reported one by one; the others are in "all else". Default: all."""
    of: Literal["value", "efficiency"] = "value"
    """The response itself; or `efficiency`: platform against native of the same block, more is better."""
    workloads: tuple[str, ...] = ()
    """The workloads. Default: all."""
    platforms: tuple[str, ...] = ()
    """The platforms. Default: all."""

    def problem(
        self,
        responses: Mapping[str, Collection[str]],
        factors: Mapping[str, Mapping[str, Sequence[Level]]],
        platforms: Collection[str],
        baseline: str,
    ) -> str | None:
        """What it asks for and the study has not; responses and factors by workload."""
        for platform in self.platforms:
            if platform not in platforms:
                return no_such("platform", platform, platforms)
        for workload in self.workloads:
            if workload not in responses:
                return no_such("workload", workload, responses)
        if self.of == "efficiency" and not set(self.platforms or platforms) - {baseline}:
            return f"an efficiency is against {baseline}, and there is no other platform"
        chosen = self.workloads or tuple(responses)
        for response in self.responses:
            if not any(response in responses[name] for name in chosen):
                return no_such("response", response, [one for n in chosen for one in responses[n]])
        of_chosen = [factors[name] for name in chosen]
        for path in self.factors:
            found = [levels[path] for levels in of_chosen if path in levels]
            if not found:
                return no_such("factor", path, [one for levels in of_chosen for one in levels])
            if not any(len(levels) > 1 for levels in found):
                return f"{path} has one level: give it two in [factors], or leave it out"
        several = [{path for path, levels in of.items() if len(levels) > 1} for of in of_chosen]
        most = max(several, key=len, default=set())
        if len(most) < LEAST_FACTORS or len(self.factors) == 1:
            only = self.factors[0] if self.factors else next(iter(most), None)
            had = f"'{only}' alone has all of them" if only else "there is none"
            return (
                f"effects are those of {LEAST_FACTORS} or more factors with two levels each, and {had}: "
                "add one, or leave [effects] out"
            )
        return None
