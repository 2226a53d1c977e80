"""What a run knows while it goes on: the cost so far, and whether more trials are needed. Pure."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypertare.base.variables import key
from hypertare.design.trials import FinishedTrial

if TYPE_CHECKING:
    from hypertare.stats.boots import Running
    from hypertare.stats.stop import Decision, StopRule
    from hypertare.study import Study


Pair = tuple[int, int, float, float]
"""Block, boot, the platform's value, the baseline's."""


class Watched:
    """The trials of one cell of a plot, and the decision for each platform whether more are needed.

    A trial is identified by its node. `baseline` is the baseline's node. If the baseline alone is measured,
    each of its trials is paired with its first one, since only the spread counts.
    """

    def __init__(
        self, study: Study, baseline: str, subjects: Iterable[str], min_boots: int
    ) -> None:
        self._design = study.design
        self._baseline = baseline
        self._min_boots = min_boots
        self._blocks: set[int] = set()
        self._native: dict[int, float] = {}
        self._alone: float | None = None
        self._waiting: dict[str, dict[int, tuple[int, float]]] = {node: {} for node in subjects}
        self._pairs: dict[str, list[Pair]] = {node: [] for node in subjects}
        self._rules: dict[str, StopRule] = {}

    @property
    def attempts(self) -> int:
        """Blocks begun, warm-ups left out."""
        return len(self._blocks)

    def begin(self, block: int) -> None:
        self._blocks.add(block)

    def add(self, node: str, block: int, boot: int, value: float | None) -> None:
        """Takes in a trial that counts; `value` is its leading response, None if it has none."""
        if value is None or not math.isfinite(value):
            return
        if node == self._baseline:
            self._native[block] = value
            if node in self._waiting:
                self._alone = value if self._alone is None else self._alone
                self._native[block] = self._alone
                self._waiting[node][block] = boot, value
        elif node in self._waiting:
            self._waiting[node][block] = boot, value
        for subject, waiting in self._waiting.items():
            if block in waiting and block in self._native:
                its_boot, mine = waiting.pop(block)
                self._pair(subject, (block, its_boot, mine, self._native[block]))

    def _pair(self, node: str, pair: Pair) -> None:
        pairs, rule = self._pairs[node], self._rules.get(node)
        insort(pairs, pair)
        # It must be the last one, and go on the scale that the pairs before it are on.
        if pairs[-1] is pair and rule and (rule.scale == "difference" or min(pair[2:]) > 0):
            self._feed(rule, pair)
        else:
            self._rules[node] = self._begun_anew(pairs)

    def _begun_anew(self, pairs: list[Pair]) -> StopRule:
        from hypertare.stats.stop import StopRule

        rule = StopRule(
            precision=self._design.precision,
            of_cost=self._design.of_cost,
            of_noise=self._design.of_noise,
            min_trials=self._design.min_trials,
            max_trials=self._design.max_trials,
            min_boots=self._min_boots,
            scale="log" if all(min(pair[2:]) > 0 for pair in pairs) else "difference",
        )
        for pair in pairs:
            self._feed(rule, pair)
        return rule

    def _feed(self, rule: StopRule, pair: Pair) -> None:
        """Pairs a block as `hypertare.findings.estimates` does."""
        from hypertare.stats import ratio

        _, boot, mine, native = pair
        log, difference = ratio.of_block(native, mine)
        noisy = native if self._alone is None else mine
        if rule.scale == "log" and log is not None:
            rule.add(log, boot, baseline=math.log(noisy))
        else:
            rule.add(difference, boot, max(abs(mine), abs(native)), noisy)

    def decide(self, node: str) -> Decision:
        from hypertare.stats.stop import Decision

        return self._rules[node].decide() if node in self._rules else Decision.CONTINUE


@dataclass(frozen=True)
class CostSoFar:
    """The response against the baseline as a share, with its interval: 0.38 is 38 % more."""

    platform: str
    change: float
    low: float
    high: float


class SoFar:
    """Pairs trials of a block as they end, each in constant time; a figure from two blocks on.

    Args:
        headline: by workload, the response that leads.
    """

    def __init__(self, baseline: str, headline: Mapping[str, str]) -> None:
        self._baseline = baseline
        self._headline = headline
        self._block: int | None = None
        self._native: float | None = None
        self._waiting: list[FinishedTrial] = []
        self._running: dict[object, Running] = {}

    def add(self, finished: FinishedTrial) -> CostSoFar | None:
        """Takes a trial in and returns the cost of the last paired platform of its block, or None."""
        planned = finished.planned
        if planned.block != self._block:
            self._block, self._native, self._waiting = planned.block, None, []
        value = self._leading(finished)
        if value is None or not finished.counts:
            return None
        if planned.platform == self._baseline:
            self._native = value
        else:
            self._waiting.append(finished)
        if self._native is None:
            return None
        found = [self._pair(one, self._native) for one in self._waiting]
        self._waiting = []
        return next((one for one in reversed(found) if one is not None), None)

    def _pair(self, finished: FinishedTrial, native: float) -> CostSoFar | None:
        from hypertare.stats.boots import Running

        planned, value = finished.planned, self._leading(finished)
        assert value is not None
        place = (planned.platform, key(planned.cell))
        running = self._running.setdefault(place, Running())
        running.add(math.log(value / native), planned.boot)
        mean, half = running.mean()
        if not math.isfinite(half):
            return None
        ends = (math.expm1(mean), math.expm1(mean - half), math.expm1(mean + half))
        return CostSoFar(planned.platform, *ends)

    def _leading(self, finished: FinishedTrial) -> float | None:
        """Returns the leading response of a trial; None if no ratio can be made of it."""
        found = finished.values.get(self._headline.get(finished.planned.workload, ""))
        return found if found is not None and math.isfinite(found) and found > 0 else None
