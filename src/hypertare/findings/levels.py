"""Changes between the levels of a factor within each platform: the answer to "A or B". Pure.

A level is compared with the factor's reference, the first level that the study names unless the user asks
for another. With several factors, the change is the mean over the settings of the other factors;
interactions are not in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypertare.base.figures import level_text
from hypertare.base.variables import Level, Response, key, same
from hypertare.design.trials import FinishedTrial
from hypertare.findings.doubt import doubt, not_offered, offered_share, rate_of
from hypertare.findings.series import (
    Comparison,
    Rules,
    Series,
    common,
    ends_of,
    judged,
    log_ratio,
    only_baseline_of,
    series,
)
from hypertare.runs.summary import LevelChange
from hypertare.stats import practical, ratio
from hypertare.stats.boots import Booted
from hypertare.stats.interval import Interval, p_value, welch
from hypertare.stats.ratio import Side, contrast, pooled

Levels = Mapping[str, Sequence[Level]]

Concerns = Callable[[str, str], bool]
"""Whether a factor, by its path, makes a difference to a platform."""


def of_all(_path: str, _platform: str) -> bool:
    return True


@dataclass(frozen=True)
class _Pair:
    """A platform in one setting of all other factors, at the reference and at another level."""

    reference: Series
    other: Series


@dataclass(frozen=True)
class _Draft:
    """A change before its verdict, which depends on how many others there are."""

    change: LevelChange
    comparison: Comparison
    response: Response


def level_changes(
    trials: Sequence[FinishedTrial],
    factors: Levels,
    leading: Mapping[str, Response],
    rules: Rules,
    concerns: Concerns = of_all,
) -> tuple[LevelChange, ...]:
    """Returns the change of each factor, platform, workload and level, in the order of the study.

    Args:
        factors: the levels of each factor by its path, the reference first.
        leading: by workload, the response that is the question.
        concerns: a platform that has not what a factor sets is not compared with itself.
    """
    every = series(trials)
    costs = _costs(every, leading, rules) if factors else {}
    drafts = [
        draft
        for factor, levels in factors.items()
        for pairs in _groups(every, factor, levels, concerns)
        if (draft := _draft(pairs, factor, costs, leading, rules)) is not None
    ]
    ps = [p_value(draft.comparison.mean.interval) for draft in drafts]
    judged_at = practical.levels([("levels", p) for p in ps], rules.confidence)
    return tuple(
        draft.change.model_copy(
            update=dict(judged(draft.comparison, draft.response, None, rules, level))
        )
        for draft, level in zip(drafts, judged_at, strict=True)
    )


def factors_of(
    settings: Mapping[str, Any], trials: Sequence[FinishedTrial]
) -> dict[str, tuple[Level, ...]]:
    """The levels that were measured of each factor by its path, in the order of the study's tables."""
    asked = _asked(settings)
    found: dict[str, dict[str, Level]] = {}
    for trial in trials:
        for factor, level in trial.planned.cell.items():
            if factor in asked:
                found.setdefault(factor, {}).setdefault(repr(level), level)
    return {
        factor: tuple(sorted(measured.values(), key=lambda one: _place(one, asked[factor])))
        for factor, measured in found.items()
        if len(measured) > 1
    }


def unmeasured(
    settings: Mapping[str, Any], trials: Sequence[FinishedTrial]
) -> list[tuple[str, Level]]:
    """Levels of which no trial was begun, by factor: the run ended before."""
    begun = {
        (factor, repr(level)) for trial in trials for factor, level in trial.planned.cell.items()
    }
    return [
        (factor, level)
        for factor, levels in _asked(settings).items()
        for level in levels
        if (factor, repr(level)) not in begun
    ]


def _asked(settings: Mapping[str, Any]) -> dict[str, Sequence[Level]]:
    asked: dict[str, Sequence[Level]] = dict(settings.get("factors", {}))
    for workload in settings.get("workloads", {}).values():
        asked.update(workload.get("factors", {}))
    return asked


def at_first_of_unconcerned(
    every: Sequence[Series], factors: Levels, concerns: Concerns
) -> list[Series]:
    """Returns the series without repetitions of a setting.

    A factor may make no difference to a platform that was measured at each of its levels beside other
    platforms. Only the series at the first level is kept then.
    """

    def is_first(one: Series) -> bool:
        return all(
            concerns(path, one.platform) or same(one.cell[path], levels[0])
            for path, levels in factors.items()
            if path in one.cell
        )

    return [one for one in every if is_first(one)]


def _place(level: Level, levels: Sequence[Level]) -> int:
    """Returns the place of a level in the study's list. A level that the study spells differently comes
    last.
    """
    return next((i for i, one in enumerate(levels) if same(one, level)), len(levels))


def referenced(factors: Levels, references: Mapping[str, str]) -> dict[str, tuple[Level, ...]]:
    """The factors with the level that is asked for as the reference in front.

    Raises:
        KeyError: there is no such factor.
        ValueError: a factor has no such level.
    """
    found = {factor: tuple(levels) for factor, levels in factors.items()}
    for factor, level in references.items():
        levels = found[factor]
        place = next((i for i, one in enumerate(levels) if level_text(one) == level), None)
        if place is None:
            raise ValueError(factor)
        found[factor] = (levels[place], *levels[:place], *levels[place + 1 :])
    return found


def _groups(
    every: Sequence[Series], factor: str, levels: Sequence[Level], concerns: Concerns
) -> Iterator[list[_Pair]]:
    """Yields the pairs of series that differ in this factor alone, by platform, workload and level."""
    known = {
        (one.platform, key(one.cell)): one
        for one in every
        if factor in one.cell and one.good and concerns(factor, one.platform)
    }
    places = dict.fromkeys((one.platform, str(one.cell.get("workload"))) for one in known.values())
    for platform, workload in places:
        at_reference = [
            one
            for one in known.values()
            if (one.platform, str(one.cell.get("workload"))) == (platform, workload)
            and same(one.cell[factor], levels[0])
        ]
        for level in levels[1:]:
            found = (
                (one, known.get((platform, key({**one.cell, factor: level}))))
                for one in at_reference
            )
            pairs = [_Pair(one, other) for one, other in found if other is not None]
            if pairs:
                yield pairs


def _draft(
    pairs: Sequence[_Pair],
    factor: str,
    costs: Mapping[int, Interval],
    leading: Mapping[str, Response],
    rules: Rules,
) -> _Draft | None:
    first = pairs[0]
    workload = str(first.reference.cell.get("workload"))
    response = leading.get(workload)
    pairs = [
        pair
        for pair in pairs
        if response
        and pair.reference.values(response.name)[0]
        and pair.other.values(response.name)[0]
    ]
    if response is None or not pairs:
        return None
    comparison = _compare(pairs, response.name, rules)
    alike = common(pair.reference.cell for pair in pairs)
    change = LevelChange(
        factor=factor,
        level=first.other.cell[factor],
        against=first.reference.cell[factor],
        platform=first.reference.platform,
        cell={path: level for path, level in alike.items() if path != factor},
        response=response.name,
        unit=response.unit,
        better=response.better,
        settings=len(pairs),
        blocks=comparison.blocks,
        confidence=rules.confidence,
        exact=rules.clock == "virtual" and comparison.mean.interval.constant,
        doubt=_doubt(pairs, factor, response.name),
    )
    return _Draft(_with_points(change, pairs, costs, rules), comparison, response)


# --- one level against another


def _compare(pairs: Sequence[_Pair], response: str, rules: Rules) -> Comparison:
    """In logs where all values allow it, as for costs (`hypertare.stats.ratio`)."""
    sides = [one for pair in pairs for one in (pair.reference, pair.other)]
    values = [value for one in sides for value in one.values(response)[0]]
    is_ratio = all(value > 0 for value in values)
    parts = [
        contrast(
            _side(pair.reference, response, is_ratio),
            _side(pair.other, response, is_ratio),
            rules.confidence,
        )
        for pair in pairs
    ]
    blocks = sum(part.n for part in parts)
    mean = Booted(pooled(parts, rules.confidence), 1, None, False)
    if is_ratio:
        return Comparison("log", mean, blocks, 1.0)
    return Comparison("difference", mean, blocks, max(map(abs, values)))


def _side(one: Series, response: str, logs: bool) -> Side:
    """Returns the values by boot and by place of the block within the boot.

    So the first block of a cell in a boot is paired with the first block of any other cell in that boot.
    """
    booted = {trial.planned.block: trial.planned.boot for trial in one.trials}
    blocks = one.by_block(response)
    rounds: dict[int, int] = {}
    values: dict[tuple[int, int], list[float]] = {}
    for block in sorted(blocks):
        boot = booted[block]
        number = rounds[boot] = rounds.get(boot, -1) + 1
        values[boot, number] = [math.log(v) if logs else v for v in blocks[block]]
    return Side(values, {place: place[0] for place in values})


def _doubt(pairs: Sequence[_Pair], factor: str, response: str) -> str | None:
    for side in (side for pair in pairs for side in (pair.reference, pair.other)):
        if why := doubt(response, side.good):
            return why
        if factor == rate_of(side.cell) and (why := not_offered(offered_share(side.good))):
            return why
    return None


# --- what a level changes of the cost


def _costs(
    every: Sequence[Series], leading: Mapping[str, Response], rules: Rules
) -> dict[int, Interval]:
    """The cost of each series by its id, from trials paired with the baseline's of the same block.

    Standard errors by the delta method: of exp(x) it is exp(x) times that of x.
    """
    found = {}
    for one in every:
        response = leading.get(str(one.cell.get("workload")))
        base = only_baseline_of(one, every, rules.baseline)
        log = log_ratio(one, base, response.name, rules.confidence) if base and response else None
        if response and log:
            found[id(one)] = replace(
                log,
                estimate=ratio.cost(log.estimate, response.better),
                error=math.exp(log.estimate) * log.error,
                low=None,
                high=None,
            )
    return found


def _with_points(
    change: LevelChange,
    pairs: Sequence[_Pair],
    costs: Mapping[int, Interval],
    rules: Rules,
) -> LevelChange:
    """Returns the change with the difference in cost between this level and the reference, in shares."""
    parts = []
    for pair in pairs:
        before, after = costs.get(id(pair.reference)), costs.get(id(pair.other))
        if before is None or after is None:
            return change
        parts.append(welch(before, after, rules.confidence))
    mean = pooled(parts, rules.confidence)
    low, high = ends_of(mean, rules.clock == "virtual")
    return change.model_copy(
        update={"cost_change": mean.estimate, "cost_change_low": low, "cost_change_high": high}
    )
