"""Divides the cost of a workload into items that were counted and priced, and an unexplained rest. Pure.

All figures are taken boot by boot, so that cost and items are of the same machine at the same time.
Intervals are over boots.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from hypertare.base.variables import Response, same
from hypertare.design.trials import FinishedTrial
from hypertare.findings.series import Rules, Series, agree, baseline_of, ends_of, paired, series
from hypertare.runs.summary import Amount, Bill, BillItem
from hypertare.stats.interval import of_mean
from hypertare.study.analyses import BillItem as AskedItem
from hypertare.study.analyses import BillSettings, Price
from hypertare.workloads.responses import mark_of

_ByBoot = Mapping[int, float]
WORKLOAD = "workload"
INSTRUCTIONS = "instructions"


def bills(
    trials: Sequence[FinishedTrial],
    asked: BillSettings,
    response: Response,
    rules: Rules,
    instruction_s: float | None = None,
) -> Iterator[Bill]:
    """Yields a bill for each platform and cell that has the response and an amount of at least one item.

    A bill of the added cost also needs a baseline. A container has no bill of exits, for example, since it
    has none of the items. An item that was not counted, or has no price, has no amount and is part of the
    rest.

    Args:
        trials: all trials of a run.
        asked: a `[bill]` table of the study.
        response: the response that is explained.
        rules: how the run is judged.
        instruction_s: seconds of an instruction, if amounts are shown in instructions.
    """
    every = series(trials)
    for one in every:
        added = one.platform != rules.baseline
        if (asked.whole or added) and one.cell.get(WORKLOAD) == asked.workload:
            means = _counted(one, (asked.response,))
            cost = means if asked.whole else _added(one, asked.response, every, rules)
            parts = _parts(one, asked, every, rules)
            if cost and any(part.amount for part in parts):
                yield _bill(one, cost, parts, asked, _Shown.of(response, rules, instruction_s))


def _parts(one: Series, asked: BillSettings, every: Sequence[Series], rules: Rules) -> list[_Part]:
    return [
        _Part(item, one, every, rules)
        for item in asked.items
        if (not item.platforms or one.platform in item.platforms)
        and all(path in one.cell and same(one.cell[path], at) for path, at in item.where.items())
    ]


@dataclass(frozen=True)
class _Shown:
    """How amounts are shown: in `unit`, which is `scale` of the response's unit."""

    response: Response
    rules: Rules
    unit: str
    scale: float = 1.0

    @classmethod
    def of(cls, response: Response, rules: Rules, instruction_s: float | None) -> _Shown:
        if instruction_s is None:
            return cls(response, rules, response.unit)
        return cls(response, rules, INSTRUCTIONS + mark_of(rules.clock), instruction_s)

    def amount(self, values: Sequence[float]) -> Amount | None:
        """The mean over boots with its interval; None without any."""
        if not values:
            return None
        interval = of_mean([value / self.scale for value in values], self.rules.confidence)
        low, high = ends_of(interval, self.rules.clock == "virtual")
        return Amount(estimate=interval.estimate, low=low, high=high)


def _bill(
    one: Series, cost: _ByBoot, parts: Sequence[_Part], asked: BillSettings, shown: _Shown
) -> Bill:
    known = [part.amount for part in parts if part.amount]
    of_all = [boot for boot in cost if all(boot in amount for amount in known)]
    rest = [_less(cost[boot], sum(amount[boot] for amount in known)) for boot in of_all]
    return Bill(
        cell=one.cell,
        platform=one.platform,
        baseline=None if asked.whole else shown.rules.baseline,
        response=shown.response.name,
        unit=shown.unit,
        n=len(of_all),
        cost=shown.amount([cost[boot] for boot in of_all]),
        items=tuple(part.item(of_all, shown) for part in parts),
        rest=asked.rest,
        unexplained=shown.amount(rest),
    )


class _Part:
    """An item by boot: how much was counted, what each costs, and both together."""

    def __init__(self, item: AskedItem, one: Series, every: Sequence[Series], rules: Rules) -> None:
        self.name, self._times = item.name, item.times
        self._count = _counted(one, item.of) if item.of else None
        self._price = _price(item.price, one, every, rules) if item.price else None
        known = [of for of in (self._count, self._price) if of is not None]
        shared = set.intersection(*(set(of) for of in known))
        self.amount = {
            boot: self._times * math.prod(of[boot] for of in known) for boot in sorted(shared)
        }

    def item(self, boots: Sequence[int], shown: _Shown) -> BillItem:
        if not self.amount or not boots:
            return BillItem(name=self.name, count=None, price=None, amount=None)
        counts = [self._times * (self._count[boot] if self._count else 1.0) for boot in boots]
        prices = [self._price[boot] / shown.scale for boot in boots] if self._price else None
        return BillItem(
            name=self.name,
            count=fmean(counts) / (1.0 if prices else shown.scale),
            price=fmean(prices) if prices else None,
            amount=shown.amount([self.amount[boot] for boot in boots]),
        )


def _less(cost: float, known: float) -> float:
    """Returns cost - known, or 0 if they differ by rounding alone."""
    return 0.0 if math.isclose(cost, known, rel_tol=1e-12) else cost - known


def _counted(one: Series, responses: Iterable[str]) -> _ByBoot:
    """Returns the sum of the responses by boot; a response without a value counts as 0."""
    found = [_means(*one.values(name)) for name in responses]
    boots = {boot for of in found for boot in of}
    return {boot: sum(of.get(boot, 0.0) for of in found) for boot in boots}


def _price(asked: Price, one: Series, every: Sequence[Series], rules: Rules) -> _ByBoot:
    """Returns the price of an item by boot: the added cost in the priced workload's cell.

    That cell is of the same platform and agrees with this one on every factor that both have.
    """
    alike = [
        other
        for other in every
        if other.platform == one.platform
        and other.cell.get(WORKLOAD) == asked.workload
        and agree(one, other, but={WORKLOAD})
    ]
    return _added(alike[0], asked.response, every, rules) if len(alike) == 1 else {}


def _added(one: Series, response: str, every: Sequence[Series], rules: Rules) -> _ByBoot:
    """Returns, by boot, the mean difference between the platform and the baseline of the same block."""
    bases = baseline_of(one, every, rules.baseline)
    if len(bases) != 1:
        return {}
    pairs, boots = paired(one, bases[0], response)
    return _means([float(value) for value in pairs.differences], boots)


def _means(values: Sequence[float], boots: Sequence[int]) -> _ByBoot:
    found: dict[int, list[float]] = defaultdict(list)
    for value, boot in zip(values, boots, strict=True):
        found[boot].append(value)
    return {boot: fmean(some) for boot, some in found.items()}
