"""The cost that a run has found so far, of the platform that was measured last, for its display. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypertare.base.level import key
from hypertare.design.trials import FinishedTrial

if TYPE_CHECKING:
    from hypertare.stats.boots import Running


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
