"""Which factors matter most, within each platform: a run's full factorials, taken apart. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from hypertare.base.variables import Cell, Level, Response, key, same
from hypertare.design.trials import FinishedTrial
from hypertare.findings.doubt import doubt
from hypertare.findings.levels import Concerns, Levels, at_first_of_unconcerned, of_all
from hypertare.findings.many_cells import Rounds, log_ratios, values_of
from hypertare.findings.series import Rules, Series, common, series
from hypertare.runs.summary import Effect, Effects, Lead
from hypertare.stats.effects import Decomposition, Subset, VarianceShare, decompose
from hypertare.stats.practical import holm
from hypertare.study.analyses import LEAST_FACTORS, EffectsSettings

if TYPE_CHECKING:
    from hypertare.stats.effects import Array


def effects(
    trials: Sequence[FinishedTrial],
    factors: Levels,
    responses: Mapping[str, Sequence[Response]],
    settings: EffectsSettings,
    rules: Rules,
    concerns: Concerns = of_all,
) -> tuple[Effects, ...]:
    """Returns the effects for each workload, response and platform that has at least two factors with
    levels.

    Args:
        factors: the measured levels of each factor, by its path.
        responses: by workload, the responses that the study asks about.
        concerns: whether a factor makes a difference to a platform; other factors are left out.
    """
    every = series(trials)
    of_own = at_first_of_unconcerned(every, factors, concerns)
    found = [
        _taken_apart(_Factorial(own, every, response, factors, settings, rules))
        for own, response in _asked(of_own, responses, settings, rules)
        if len(_several(own, factors)) >= LEAST_FACTORS
    ]
    return tuple(_adjusted(found))


def _asked(
    every: Sequence[Series],
    responses: Mapping[str, Sequence[Response]],
    settings: EffectsSettings,
    rules: Rules,
) -> Iterator[tuple[list[Series], Response]]:
    """The cells of a platform with each of the responses that are asked about."""
    groups: dict[tuple[str, str], list[Series]] = {}
    for one in every:
        groups.setdefault((str(one.cell.get("workload")), one.platform), []).append(one)
    for (workload, platform), own in groups.items():
        if settings.platforms and platform not in settings.platforms:
            continue
        if settings.of == "efficiency" and platform == rules.baseline:
            continue
        for response in responses.get(workload, ()):
            yield own, response


def _several(own: Sequence[Series], factors: Levels) -> dict[str, tuple[Level, ...]]:
    """The factors with several levels in these cells."""
    there = {
        path: tuple(level for level in levels if _has(own, path, level))
        for path, levels in factors.items()
        if all(path in one.cell for one in own)
    }
    return {path: levels for path, levels in there.items() if len(levels) > 1}


def _has(own: Sequence[Series], path: str, level: Level) -> bool:
    return any(path in one.cell and same(one.cell[path], level) for one in own)


@dataclass(frozen=True)
class _Factorial:
    """The cells of one platform and workload, and the figures of one response in them."""

    own: Sequence[Series]
    every: Sequence[Series]
    response: Response
    factors: Levels
    settings: EffectsSettings
    rules: Rules

    @cached_property
    def asked(self) -> dict[str, tuple[Level, ...]]:
        return _several(self.own, self.factors)

    @cached_property
    def levels(self) -> dict[str, tuple[Level, ...]]:
        """Without levels of which no cell has a figure."""
        return _several(self._with_figures, self.asked)

    @cached_property
    def _with_figures(self) -> list[Series]:
        return [one for one in self.own if self.figures[key(one.cell)]]

    @cached_property
    def left_out(self) -> tuple[dict[str, Level], ...]:
        """Levels without any figure, then single cells of the others."""
        levels = [
            {path: level}
            for path, found in self.asked.items()
            for level in found
            if not _has(self._with_figures, path, level)
        ]
        return (*levels, *(cell for cell in self._grid if not self._rounds_of(cell)))

    @cached_property
    def figures(self) -> dict[object, Rounds]:
        return {key(one.cell): self._figures_of(one) for one in self.own}

    def _figures_of(self, one: Series) -> Rounds:
        if self.settings.of != "efficiency":
            return values_of(one, self.response.name, self.is_log)
        logs = log_ratios(one, self.response.name, self.every, self.rules.baseline)
        sign = 1 if self.response.better == "higher" else -1
        return {number: sign * log for number, log in logs.items()}

    @cached_property
    def is_log(self) -> bool:
        """One scale for all platforms of a workload; an efficiency is a log ratio."""
        if self.settings.of == "efficiency":
            return True
        workload = self.own[0].cell.get("workload")
        return all(
            value > 0
            for one in self.every
            if one.cell.get("workload") == workload
            for value in one.values(self.response.name)[0]
        )

    @cached_property
    def _grid(self) -> list[dict[str, Level]]:
        return [
            dict(zip(self.levels, levels, strict=True)) for levels in product(*self.levels.values())
        ]

    @cached_property
    def _alike(self) -> Cell:
        """What is the same in all cells that there is a figure of."""
        return common(one.cell for one in self._with_figures)

    def _rounds_of(self, cell: Mapping[str, Level]) -> Rounds:
        return self.figures.get(key({**self._alike, **cell}), {})

    @property
    def cell(self) -> dict[str, Level]:
        """What the grid does not vary."""
        first = self.own[0].cell
        return {path: first[path] for path in first if path not in self.asked}

    def values(self) -> Array:
        rows = [self._rounds_of(cell) for cell in self._grid]
        last = max(max(row, default=-1) for row in rows)
        table = [[row.get(number, math.nan) for number in range(last + 1)] for row in rows]
        return np.array(table, dtype=np.float64)

    def boots(self, rounds: int) -> list[int]:
        """Returns the boot of each round, counted from 0 in the order of one cell's boots.

        The numbers of the run do not serve: each plot has boots of its own.
        """
        longest = max(self.own, key=lambda one: len(one.trials))
        blocks = {t.planned.block: t.planned.boot for t in longest.trials}
        of_round = [blocks[block] for block in sorted(blocks)]
        places = {boot: place for place, boot in enumerate(dict.fromkeys(of_round))}
        return [places[boot] for boot in of_round[:rounds]]


def _taken_apart(factorial: _Factorial) -> Effects:
    rules, response, settings = factorial.rules, factorial.response, factorial.settings
    found = Effects(
        response=response.name,
        unit=response.unit,
        better="higher" if settings.of == "efficiency" else response.better,
        of=settings.of,
        scale="log" if factorial.is_log else "linear",
        platform=factorial.own[0].platform,
        cell=factorial.cell,
        levels=factorial.levels,
        trials=sum(len(rounds) for rounds in factorial.figures.values()),
        boots=len({t.planned.boot for one in factorial.own for t in one.good}),
        confidence=rules.confidence,
        left_out=factorial.left_out if factorial.levels else (),
        doubt=doubt(response.name, [trial for one in factorial.own for trial in one.good]),
    )
    if len(factorial.levels) < LEAST_FACTORS:
        return _without(found, "fewer than two factors have two levels with good trials")
    values = factorial.values()
    there = np.isfinite(values).any(axis=0)
    boots = np.array(factorial.boots(values.shape[1]))[there]
    named = [
        place
        for place, path in enumerate(factorial.levels)
        if not settings.factors or path in settings.factors
    ]
    shape = [len(levels) for levels in factorial.levels.values()]
    try:
        parts = decompose(values[:, there], shape, boots.tolist(), rules.confidence, named)
    except ValueError as error:
        return _without(found, str(error))
    if parts.exact and rules.clock != "virtual":
        return _without(
            found, "its trials do not differ at all, which is no evidence of an error of 0"
        )
    return _with_sizes(found, parts)


def _without(found: Effects, reason: str) -> Effects:
    return found.model_copy(update={"reason": reason})


def _with_sizes(found: Effects, parts: Decomposition) -> Effects:
    made = [_effect(found, parts, subset, part) for subset, part in parts.parts.items()]
    paths, rest = tuple(found.levels), parts.rest
    others = (
        {} if rest is None else {"rest": rest.share, "rest_low": rest.low, "rest_high": rest.high}
    )
    return found.model_copy(
        update={
            "effects": tuple(sorted(made, key=lambda one: -one.share)),
            "leads": tuple(
                Lead(factor=paths[first], against=paths[second], **vars(lead))
                for (first, second), lead in parts.leads.items()
            ),
            "noise": parts.noise,
            "exact": parts.exact,
            "balanced": parts.balanced,
            **others,
        }
    )


def _effect(found: Effects, parts: Decomposition, subset: Subset, part: VarianceShare) -> Effect:
    paths = tuple(found.levels)
    effect = Effect(
        factors=tuple(paths[place] for place in subset),
        share=part.share,
        share_low=part.low,
        share_high=part.high,
        p=part.p,
    )
    if len(subset) > 1:
        return effect
    (place,) = subset
    total = parts.totals[place]
    return effect.model_copy(
        update={
            "total": total.share,
            "total_low": total.low,
            "total_high": total.high,
            **_size(found, parts, place),
        }
    )


def _size(found: Effects, parts: Decomposition, place: int) -> dict[str, object]:
    """The best level against the worst."""
    size, levels = parts.sizes[place], tuple(found.levels.values())[place]
    best, worst = levels[size.highest], levels[size.lowest]
    ends = [size.difference, size.low, size.high]
    if found.better == "lower":
        best, worst = worst, best
        ends = [-size.difference, -size.high, -size.low]
    if found.scale == "log":
        ends = [math.exp(end) for end in ends]
    name = "ratio" if found.scale == "log" else "difference"
    named = zip((name, f"{name}_low", f"{name}_high"), ends, strict=True)
    return {"level": best, "against": worst, **dict(named)}


def _adjusted(found: Sequence[Effects]) -> Iterator[Effects]:
    """p-values by Holm's method, among all of the run."""
    known = iter(holm([one.p for of in found for one in of.effects if one.p is not None]))
    for of in found:
        effects = tuple(
            one if one.p is None else one.model_copy(update={"adjusted": next(known)})
            for one in of.effects
        )
        yield of.model_copy(update={"effects": effects})
