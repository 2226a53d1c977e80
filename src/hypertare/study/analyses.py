"""Tables of a study that ask for more than its cells: [search], [effects], [bill], [predictability]."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hypertare.base.closed import Settings
from hypertare.base.figures import did_you_mean, no_such
from hypertare.base.quantities import Duration, Rate, Share
from hypertare.base.variables import Level
from hypertare.platforms.registry import PlatformName

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


_Responses = Mapping[str, Collection[str]]


class Price(Settings):
    """What `response` of another workload adds on the same platform to the baseline's."""

    workload: str
    response: str


class BillItem(Settings):
    """The amount is `times`, times the sum of the responses `of` the workload, times the `price`; each is
    1 where it is left out. It is an item of the cells that have the levels `where`, on these platforms.
    """

    name: Annotated[str, Field(min_length=1)]
    of: tuple[str, ...] = ()
    times: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    price: Price | None = None
    where: dict[str, Level] = {}
    platforms: tuple[PlatformName, ...] = ()

    @model_validator(mode="after")
    def _is_measured(self) -> BillItem:
        if not self.of and self.price is None:
            raise ValueError(
                f"the item '{self.name}' has neither 'of', responses of the workload, nor a 'price'"
            )
        return self


class BillSettings(Settings):
    """What `response` of `workload` adds to the baseline's, or is, by items; the rest is unexplained.
    Amounts are in the response's unit: it is for the study to name items that are.
    """

    workload: str
    """The workload whose cost is explained."""
    response: str
    """The response whose cost is explained."""
    items: Annotated[tuple[BillItem, ...], Field(min_length=1)]
    """A list of the items of that cost."""
    whole: bool = False
    """It is of all that the response is on each platform, the baseline too, and not of what it adds."""
    rest: Annotated[str, Field(min_length=1)] = "unexplained"
    """The name of what the items leave."""
    instructions: bool = False
    """Amounts of time are shown as the instructions that they are in virtual time (`emulated.shift`)."""

    def problem(
        self,
        responses: _Responses,
        factors: Mapping[str, Collection[str]],
        why_no_instructions: str | None,
    ) -> str | None:
        """What it asks for and the study has not; responses and factors by workload."""
        if self.instructions and why_no_instructions:
            return f"'instructions' is for virtual time, in which each takes as long: {why_no_instructions}"
        asked = [(self.workload, self.response)]
        for item in self.items:
            asked += [(self.workload, name) for name in item.of]
            if item.price is not None:
                asked.append((item.price.workload, item.price.response))
        if said := next((said for one in asked if (said := _missing(*one, responses))), None):
            return said
        for factor in (factor for item in self.items for factor in item.where):
            if factor not in factors[self.workload]:
                known = ", ".join(factors[self.workload]) or "none"
                return f"'{factor}' is no factor of {self.workload}; its factors: {known}"
        return None


def tables(given: object) -> list[object]:
    """One table or several: a study may have either."""
    return list(given) if isinstance(given, list | tuple) else [given]


def _missing(workload: str, response: str, responses: _Responses) -> str | None:
    if workload not in responses:
        return no_such("workload", workload, responses)
    if response not in responses[workload]:
        known = responses[workload]
        hint = did_you_mean(response, known)
        return f"{workload} has no response '{response}'.{hint} It has: {', '.join(known)}"
    return None


LOSS_FREE_RATE = "loss_free_rate"


GOAL = "search.loss"
"""The goal, as a level of the cell: one search answers for each."""


class SearchSettings(Settings):
    """A search for the highest rate that loses no more than a goal, for each goal. Rates are in b/s."""

    workload: str
    """A UDP stream, whose `rate` and `duration` the search sets."""
    over: tuple[str, ...] = ()
    """Factors: each combination of their levels is searched. Others have the study's value outside
    `[factors]`.
    """
    platforms: tuple[str, ...] | None = None
    """The platforms. Default: the study's."""
    low: Rate | None = None
    """The lowest rate. Default: 1/10,000 of `high`."""
    high: Rate | None = None
    """The highest rate. Default: what the sender sends unpaced, measured first."""
    loss: tuple[Share, ...] = (0.0, 0.005)
    """Goals: fractions that may be lost, each with a rate of its own."""
    width: Share = 0.02
    """The distance between the rate found and the next that loses more, at most; as a share of the latter.
    """
    duration: Duration = 1.0
    """The length of one trial, with what `omit` leaves out."""
    sum: Duration = 3.0
    """Seconds of trials that decide about a rate, fewer where more could change nothing."""
    exceed: Share = 0.5
    """A rate is too high when more of its trials' seconds than this lost more than the goal."""
    most_trials: Annotated[int, Field(ge=5, le=10_000)] = 80
    """Trials of each setting at most; then the bounds so far are reported. `design.time_limit` does not
    end it.
    """
    only: bool = False
    """`true`: the study's own cells are not run."""

    @model_validator(mode="after")
    def _fits(self) -> SearchSettings:
        if not self.loss or not all(0 <= share < 1 for share in self.loss):
            raise ValueError("'loss' needs one share or more, from 0 to below 1")
        if len(set(self.loss)) != len(self.loss) or len(set(self.over)) != len(self.over):
            raise ValueError("nothing may stand twice in 'loss' or in 'over'")
        if not 1e-4 <= self.width <= 0.5:
            raise ValueError("'width' lies from 0.01 % to 50 %")
        if not 0 <= self.exceed < 1:
            raise ValueError("'exceed' is a share from 0 to below 1")
        if not 0 < self.duration <= self.sum:
            raise ValueError("'duration' must be above 0, and 'sum' at least as long")
        if not all(rate is None or rate > 0 for rate in (self.low, self.high)):
            raise ValueError("'low' and 'high' must be above 0")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError("'low' must be below 'high'")
        return self


LawName = Literal[
    "fair rate",
    "driver domain CPU",
    "loaded rate",
    "loaded rate, guest alone",
    "universal scalability law",
]
"""Those of `hypertare.stats.predictability`."""

Number = Annotated[int, Field(ge=1)]


class PredictabilitySettings(Settings):
    """Whether laws predict what more guests do."""

    error: Annotated[Share, Field(gt=0)] = 0.1
    """The largest error that is still "predictable"."""
    held_out: tuple[Number, ...] = ()
    """Numbers of guests that no law is fitted to. Default, and if the run has none of them: the largest.
    """
