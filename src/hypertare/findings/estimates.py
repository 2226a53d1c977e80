"""Makes the estimates of a run from its finished trials, and says which are less precise than asked for.

Pure: no files, no clock, no chance. The order of work is `estimate` -> `_compare` (one response of one
platform against the baseline) -> `judged` (its verdict). The formulas stand in `hypertare.stats`, the
warnings in `hypertare.findings.advice`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypertare.base.figures import listing, place, word
from hypertare.base.variables import Response, key
from hypertare.design.trials import FinishedTrial
from hypertare.findings import advice
from hypertare.findings.advice import Judged
from hypertare.findings.doubt import doubt, uneven
from hypertare.findings.series import (
    Compared,
    Comparison,
    Rules,
    Series,
    ends_of,
    judged,
    only_baseline_of,
    paired,
    series,
)
from hypertare.findings.setups import unlike_offloads
from hypertare.probes.conditions import Seen
from hypertare.runs.summary import Clock, Estimate, FailedTrial, NoiseFloor, PlatformState
from hypertare.stats import boots, fairness, noise, practical
from hypertare.stats.boots import Booted
from hypertare.stats.interval import p_value
from hypertare.stats.practical import THRESHOLD
from hypertare.stats.ratio import Side, of_alone, of_cost
from hypertare.study.design import DesignSettings
from hypertare.study.factors import GUESTS
from hypertare.workloads.registry import KINDS as WORKLOADS

GOODPUT, FAIR_RATE = "goodput", "fair_rate"
OF_PACKETS = frozenset(kind.headline for kind in WORKLOADS.values() if kind.needs_network)
"""Leading responses of workloads that send."""
_FARTHEST = 700.0
"""The largest logarithm whose exponential is taken: beyond it no float holds the number."""


@dataclass(frozen=True)
class Estimates:
    """All estimates of a run, ready for its summary.

    `estimates` have intervals that are corrected for the number of comparisons; verdicts rest on these.
    `by_themselves` are the same estimates with the intervals of single comparisons. They serve claims, and
    the precision at which a run ends: both were chosen before any figure was seen.
    """

    estimates: tuple[Estimate, ...]
    by_themselves: tuple[Estimate, ...]
    guests: tuple[Estimate, ...]
    noise: tuple[NoiseFloor, ...]
    failed: tuple[FailedTrial, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Draft:
    """An estimate before its verdict, which depends on how many others there are. `p` is that of its
    comparison, None if it has no interval that could be wrong. `leads`: it is of a workload's leading
    response.
    """

    one: Series
    base: Series | None
    response: Response
    value: Booted
    comparison: Comparison | None
    floor: noise.Floor | None
    p: float | None
    leads: bool


def estimate(
    trials: Sequence[FinishedTrial],
    responses: Mapping[str, Response],
    *,
    baseline: str = "native",
    confidence: float = 0.95,
    threshold: float = THRESHOLD,
    clock: Clock = "wall",
    platforms: Sequence[PlatformState] = (),
    leading: Mapping[str, str] | None = None,
    conditions: Mapping[int, Seen] | None = None,
) -> Estimates:
    """Estimates of every response of every platform in every cell, costs against the baseline.

    Estimates stand in the order in which platform and cell first appeared in `trials`, responses in
    the order of `responses`. Failed trials and warm-ups enter nothing; neither does a value that is
    not finite. A platform is paired with the baseline's trials of the same block whose cell agrees
    with its own on every factor that both have.

    Args:
        threshold: the least cost that matters, a share.
        clock: in virtual time, values that do not vary are exact.
        platforms: what the platforms turned out to be, for warnings of unlike conditions.
        leading: by workload, the response that is the question. These are a family of comparisons, all
            others another one.
        conditions: by trial, what its machine was like meanwhile, where that was watched.
    """
    leading = leading or {}
    rules = Rules(baseline, confidence, threshold, clock)
    every = series(trials)
    floors = {
        (id(one), response.name): floor
        for one in every
        if one.platform == baseline
        for response in responses.values()
        if (floor := noise.floor(one.by_block(response.name), response.better, confidence))
    }
    drafts: list[_Draft] = []
    for one in every:
        base = only_baseline_of(one, every, baseline)
        for response in responses.values():
            values, where = one.values(response.name)
            if not values:
                continue
            floor = floors.get((id(base), response.name)) if base else None
            value = boots.mean(values, where, confidence)
            comparison = _compare(one, base, response, rules) if base else None
            p = p_value(comparison.mean.interval) if comparison else None
            leads = response.name == leading.get(str(one.cell.get("workload")))
            drafts.append(_Draft(one, base, response, value, comparison, floor, p, leads))
    of_ratios = _of_ratios(drafts)
    offloads = _unlike_offloads(platforms, baseline)
    sends = {workload for workload, name in leading.items() if name in OF_PACKETS}
    judged_at = practical.levels([(draft.leads, draft.p) for draft in drafts], confidence)
    found: list[Estimate] = []
    alone: list[Estimate] = []
    tests: list[Judged] = []
    for draft, level in zip(drafts, judged_at, strict=True):
        one, response, comparison = draft.one, draft.response, draft.comparison
        made = _estimate(one, response, draft.value, comparison, draft.floor, rules, level)
        if (id(one), response.name) in of_ratios:
            made = made.model_copy(update=_geometric(one, response, rules))
        why = _doubt(response, one, draft.base, conditions or {})
        if why is None and made.verdict == "gains" and one.cell.get("workload") in sends:
            why = offloads.get(one.platform)
            # Nobody reads what stands beside a gain.
            made = made if why is None else made.model_copy(update={"verdict": None})
        made = made.model_copy(update={"doubt": why})
        if response.name == GOODPUT:
            made = made.model_copy(update=_of_alone(one, every, rules))
        found.append(made)
        alone.append(made if level == confidence else _by_itself(made, draft, rules))
        mean = comparison.mean if comparison else None
        tests.append(Judged(made, draft.floor, draft.value, mean))
    return Estimates(
        tuple(found),
        tuple(alone),
        tuple(_of_guests(every, responses, rules)),
        tuple(
            NoiseFloor(
                response=name,
                cell=one.cell,
                n=floor.n,
                cost=floor.least,
                cost_low=floor.low,
                cost_high=floor.high,
                pairs=floor.pairs,
                spread=floor.spread,
            )
            for one in every
            for name in responses
            if (floor := floors.get((id(one), name)))
        ),
        tuple(_failed(trial) for trial in trials if trial.status == "failed"),
        tuple(advice.warnings(every, responses, tests, rules.baseline, clock, platforms)),
    )


def _of_ratios(drafts: Sequence[_Draft]) -> set[tuple[int, str]]:
    """Returns the series and responses whose mean must be geometric.

    These are the two sides of each ratio, if all comparisons with the same baseline are ratios.
    """
    sides: dict[tuple[int, str], list[_Draft]] = {}
    for draft in drafts:
        if draft.base is not None and draft.comparison is not None:
            sides.setdefault((id(draft.base), draft.response.name), []).append(draft)
    found: set[tuple[int, str]] = set()
    for base, compared in sides.items():
        of_all = [one.one for one in compared]
        if compared[0].base is not None:
            of_all.append(compared[0].base)
        name = compared[0].response.name
        if all(one.comparison and one.comparison.scale == "log" for one in compared) and all(
            value > 0 for one in of_all for value in one.values(name)[0]
        ):
            found |= {base, *((id(one.one), name) for one in compared)}
    return found


def _geometric(one: Series, response: Response, rules: Rules) -> dict[str, float | None]:
    """Returns the geometric mean of a response with its interval.

    It agrees with the ratio to the baseline; an arithmetic mean may contradict it.
    """
    values, where = one.values(response.name)
    logs = boots.mean([math.log(value) for value in values], where, rules.confidence)
    ends = ends_of(logs.interval, rules.clock == "virtual")
    low, high = (None if end is None or abs(end) > _FARTHEST else math.exp(end) for end in ends)
    return {
        "geometric": math.exp(logs.interval.estimate),
        "geometric_low": None if high is None else low,
        "geometric_high": None if low is None else high,
    }


def _by_itself(made: Estimate, draft: _Draft, rules: Rules) -> Estimate:
    """Returns an estimate with the interval and verdict that it has as the only comparison of its run."""
    assert draft.comparison is not None
    found: dict[str, Any] = dict(judged(draft.comparison, draft.response, draft.floor, rules))
    if made.verdict is None:
        found["verdict"] = None
    return made.model_copy(update=found)


def _of_alone(one: Series, every: Sequence[Series], rules: Rules) -> dict[str, float | None]:
    """Returns a guest's mean rate beside others as a ratio to that of a guest alone in the same setting."""
    if GUESTS not in one.cell:
        return {}
    setting = one.platform, key({**one.cell, GUESTS: 1})
    alone = next((other for other in every if other.key == setting), None)
    if alone is None or alone is one:
        return {}
    # Of guests that disturb there is no rate: the goodput is then that of the one that works.
    mine = FAIR_RATE if one.values(FAIR_RATE)[0] else GOODPUT
    by_itself = Side(alone.by_block(GOODPUT), alone.boots())
    beside = Side(one.by_block(mine), one.boots())
    found = of_alone(by_itself, beside, rules.confidence)
    if found is None:
        return {}
    ends = ends_of(found, rules.clock == "virtual")
    low, high = (None if end is None else math.exp(end) for end in ends)
    return {"of_alone": math.exp(found.estimate), "of_alone_low": low, "of_alone_high": high}


def _doubt(
    response: Response, one: Series, base: Series | None, conditions: Mapping[int, Seen]
) -> str | None:
    """Returns why an estimate decides nothing, or None. For a cost either side may be the reason."""
    for side in (one, *([base] if base else [])):
        if reason := doubt(response.name, side.good):
            return reason if side is one else f"{side.platform}: {reason}"
    return uneven(one.good, base.good, conditions) if base else None


def _unlike_offloads(platforms: Sequence[PlatformState], baseline: str) -> dict[str, str]:
    """Returns, by platform, why a gain may come from its offloads and not from the platform."""
    bases = [state for state in platforms if state.platform == baseline]
    found: dict[str, str] = {}
    for state in platforms:
        # A factor of the bench gives both several states: the likest belong together.
        unlike = min((unlike_offloads(state, base) for base in bases), key=len, default=[])
        if state.platform != baseline and unlike:
            found[state.platform] = (
                f"its offloads are not the baseline's ({listing(unlike)}), which may be all of it: set "
                "knobs.offloads"
            )
    return found


def _of_guests(
    every: Sequence[Series], responses: Mapping[str, Response], rules: Rules
) -> Iterator[Estimate]:
    """Every response of each guest of several. No guest has a baseline of its own."""
    for one in every:
        for guest in one.guests:
            for response in responses.values():
                values, where = one.values(response.name, guest)
                if values:
                    value = boots.mean(values, where, rules.confidence)
                    made = _estimate(one, response, value, None, None, rules)
                    update = {"guest": guest, "doubt": doubt(response.name, one.good)}
                    yield made.model_copy(update=update)


def _compare(sut: Series, base: Series, response: Response, rules: Rules) -> Comparison | None:
    """Pairs by block; the boots are those of the system under test."""
    pairs, where = paired(sut, base, response.name)
    if not pairs.blocks:
        return None
    difference = boots.mean(pairs.differences, where, rules.confidence)
    if pairs.logs is not None:
        mean = boots.mean(pairs.logs, where, rules.confidence)
        return Comparison("log", mean, len(pairs.blocks), 1.0, difference.interval)
    mine, its = sut.by_block(response.name), base.by_block(response.name)
    values = [value for block in pairs.blocks for value in (*mine[block], *its[block])]
    return Comparison("difference", difference, len(pairs.blocks), max(map(abs, values)))


def _estimate(
    one: Series,
    response: Response,
    value: Booted,
    comparison: Comparison | None,
    floor: noise.Floor | None,
    rules: Rules,
    level: float | None = None,
) -> Estimate:
    virtual = rules.clock == "virtual"
    compared = comparison is None or comparison.mean.interval.constant
    low, high = ends_of(value.interval, virtual)
    if response.is_index and low is not None and high is not None:
        low, high = max(fairness.least(max(1, len(one.guests))), low), min(1.0, high)
    return Estimate(
        response=response.name,
        unit=response.unit,
        better=response.better,
        cell=one.cell,
        platform=one.platform,
        baseline=rules.baseline if comparison else None,
        n=value.interval.n,
        estimate=value.interval.estimate,
        low=low,
        high=high,
        confidence=rules.confidence,
        exact=virtual and value.interval.constant and compared,
        blocks=comparison.blocks if comparison else None,
        **(judged(comparison, response, floor, rules, level) if comparison else Compared()),
    )


def _failed(trial: FinishedTrial) -> FailedTrial:
    return FailedTrial(
        trial=trial.planned.id,
        platform=trial.planned.platform,
        cell=trial.planned.cell,
        reason=trial.error or "no reason was given",
        console=trial.console,
    )


def missed(
    estimates: Sequence[Estimate],
    floors: Sequence[NoiseFloor],
    headline: Mapping[str, str],
    design: DesignSettings,
) -> Iterator[str]:
    """A warning that names the costs of leading responses whose interval is wider than was asked for."""
    wide = [
        one
        for one in estimates
        if one.response == headline.get(str(one.cell.get("workload")))
        and (width := half_width(one)) is not None
        and width > sufficient(one, design, spread_of_baseline(one, floors))
    ]
    if wide:
        named = [f"{word(one.response)} of {place(one.platform, one.cell)}" for one in wide]
        # Of these precisions one suffices.
        aims = [f"{100 * design.precision:g} %"]
        if design.of_cost:
            aims.append(f"{100 * design.of_cost:g} % of the cost itself")
        if design.of_noise:
            aims.append("the machine's own noise")
        yield (
            f"The precision asked for ({', or '.join(aims)}) was not reached in "
            f"{listing(named, 3)}: the run was at its limit of trials or time. More of either narrow the "
            "interval, if the machine is not too busy for that."
        )


def half_width(one: Estimate) -> float | None:
    """Returns the half-width of a cost's interval as a share of the larger side.

    It is None without a cost, 0 for an exact cost, and infinite for any other cost without an interval.
    """
    if one.cost is None:
        return None
    if one.cost_low is None or one.cost_high is None:
        return 0.0 if one.exact else math.inf
    return (one.cost_high - one.cost_low) / 2 / max(1.0, _ratio(one))


def sufficient(one: Estimate, design: DesignSettings, spread: float) -> float:
    """Returns the half-width that suffices, as in the stop rule (`hypertare.stats.stop`).

    `spread` is the baseline's own, as a share.
    """
    ratio = _ratio(one)
    smaller = min(ratio, 1 / ratio) if ratio > 0 else 0.0
    noise = design.of_noise * spread * min(1.0, ratio)
    return max(design.precision, design.of_cost * (1 - smaller), noise)


def spread_of_baseline(one: Estimate, floors: Sequence[NoiseFloor]) -> float:
    """How much the baseline of a cost differed from one block to the next, a share; 0 where that is not
    known. A baseline's cell lacks what only the platform has.
    """
    found = [
        floor.spread
        for floor in floors
        if floor.response == one.response and floor.cell.items() <= one.cell.items()
    ]
    return found[0] if len(found) == 1 else 0.0


def _ratio(one: Estimate) -> float:
    assert one.cost is not None
    return of_cost(one.cost, one.better)
