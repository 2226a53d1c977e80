"""The `[bill]` table of a study: what the cost of one workload is made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated

from pydantic import Field, model_validator

from hypertare.base.level import Level
from hypertare.base.settings import Settings
from hypertare.base.words import did_you_mean, no_such
from hypertare.platforms.registry import PlatformName

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
