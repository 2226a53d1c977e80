"""Two runs against each other, cell by cell. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hypertare.base.closed import Closed
from hypertare.base.errors import InputError
from hypertare.base.figures import level_text, listing, place
from hypertare.base.variables import Better, Level, Response, key
from hypertare.findings.series import Series, log_ratio, only_baseline_of, series
from hypertare.findings.setups import unlike_runs
from hypertare.runs.summary import LossFreeRate, Summary
from hypertare.search import rates
from hypertare.stats import boots, interval, practical, ratio
from hypertare.stats.practical import Reason
from hypertare.study.analyses import LOSS_FREE_RATE

if TYPE_CHECKING:
    from hypertare.findings.summarise import Found

Direction = Literal["worse", "better", "no difference shown", "undecided"]


_Places = Mapping[tuple[str, frozenset[tuple[str, str, Level]]], Series]


class Change(Closed):
    """A response of one platform in one cell, in run B against run A; of one `guest` of several, or of
    all of them.

    `a` and `b` are means over trials in `unit`. `ratio` is b/a of the geometric means; `loss` is
    the same as a share of A, positive where B is worse. With a value of zero or below there is no
    ratio, and `difference` is b - a in `unit`.

    A `loss_free_rate` is the rate that a search found, from `n` trials; `ratio_low` and `ratio_high`
    then follow from the bounds of both searches, none where one has no bound, and there is no
    `confidence`.

    `of` says what changed: the response's value, or its cost against the baseline, of blocks that hold
    both. Then `a` and `b` are costs, and `ratio` is that of the two ratios to the baseline: how busy the
    machine was cancels. `decides` says whether it counts for what the comparison comes to (`Gate`).

    `reason` is why no difference is shown, as an estimate's (`hypertare.runs.summary`). The interval of a
    platform's own value by the wall clock, where it decides, is as wide as two runs of one machine may
    differ (`_margin_of_machine`).
    """

    response: str
    unit: str
    better: Better
    platform: str
    cell: dict[str, Level]
    guest: int | None = None
    n_a: int
    n_b: int
    a: float
    b: float
    confidence: float | None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    loss: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    direction: Direction
    reason: Reason | None = None
    of: Literal["value", "cost"] = "value"
    decides: bool = True


@dataclass(frozen=True)
class Gate:
    """Which changes decide whether a run is worse: those of these responses, by default the leading ones,
    on these platforms, by default all. Each platform's own value decides, and so does its cost against
    the baseline, which sees smaller changes: a busier machine makes both sides slower.
    """

    responses: Sequence[str] = ()
    platforms: Sequence[str] = ()
    leading: Collection[str] = ()

    def takes(self, platform: str, response: str) -> bool:
        here = not self.platforms or platform in self.platforms
        return here and response in (self.responses or self.leading)


class Comparison(Closed):
    """All changes, what only one run has, laws that predict in one and not in the other, and what to
    know before believing it.
    """

    threshold: float
    changes: tuple[Change, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    predictions: tuple[str, ...] = ()
    warnings: tuple[str, ...]

    @property
    def worse(self) -> tuple[Change, ...]:
        """The changes that decide and got worse."""
        return tuple(one for one in self.changes if one.decides and one.direction == "worse")

    @property
    def undecided(self) -> tuple[Change, ...]:
        """The changes that decide and whose interval does not exclude that they got much worse."""
        return tuple(one for one in self.changes if one.decides and one.direction == "undecided")


def compare(
    a: Found,
    b: Found,
    threshold: float = practical.THRESHOLD,
    confidence: float = 0.95,
    gate: Gate | None = None,
) -> Comparison:
    """What B changed against A, in every cell that both have: values, and costs against the baseline.

    A change is "worse" or "better" where its interval excludes no change, it is larger than `threshold`
    (a share; of the larger of both means for a difference). Intervals are those of many comparisons: those
    that decide (`gate`) are a family of their own (`hypertare.stats.practical.levels`).

    Raises:
        InputError: the runs' clocks differ, or they have no cell in common.
    """
    if a.summary.clock != b.summary.clock:
        raise InputError(
            f"Run A was made in {a.summary.clock} time and run B in {b.summary.clock} time: their "
            "figures differ in meaning.",
            "Compare runs of the same clock.",
        )
    leading = {*a.leading, *b.leading, LOSS_FREE_RATE}
    gate = replace(gate or Gate(), leading=leading)
    mine, its = _places(a, b), _places(b, a)
    virtual = a.summary.clock == "virtual"
    drafts = [
        draft
        for at, one in mine.items()
        if at in its
        for name, response in a.responses.items()
        if name in b.responses
        for guest in _guests(one, its[at], name in leading)
        if (draft := _draft(one, its[at], response, confidence, virtual, guest))
    ]
    drafts += _costs(a, b, mine, its, confidence, gate.responses or leading)
    weighed = any(draft.of == "cost" for draft in drafts)
    margin_of = _margin_of_machine(a, b) if weighed and not virtual else None
    decides = [gate.takes(draft.series.platform, draft.response.name) for draft in drafts]
    ps = [interval.p_value(draft.step) for draft in drafts]
    judged_at = practical.levels(list(zip(decides, ps, strict=True)), confidence)
    made = _agreeing(
        [
            _change(draft, threshold, level, counts, margin_of if counts else None)
            for draft, level, counts in zip(drafts, judged_at, decides, strict=True)
        ]
    )
    searched, only_a, only_b = _searches(a.summary.loss_free, b.summary.loss_free, threshold)
    made += (
        one.model_copy(update={"decides": gate.takes(one.platform, one.response)})
        for one in searched
    )
    if not made:
        raise InputError(
            f"The two runs have no measured cell in common{_apart(mine, its)}.",
            "Compare runs of the same study that have a platform and the levels of all factors in common.",
        )
    return Comparison(
        threshold=threshold,
        changes=tuple(made),
        only_a=(*_only(mine, its), *only_a),
        only_b=(*_only(its, mine), *only_b),
        predictions=tuple(_predictions(a.summary, b.summary)),
        warnings=tuple(_warnings(a, b, made, list(mine.values()) + list(its.values()))),
    )


def _only(run: _Places, other: _Places) -> Iterator[str]:
    return (place(one.platform, one.cell) for at, one in run.items() if at not in other)


def _margin_of_machine(a: Found, b: Found) -> Callable[[str], float]:
    """The margin, in logs, by which a response of two runs of the same work on one machine may differ.

    No interval within a run contains it. It is the sum of a tenth for the machine itself, the baseline's
    spread from block to block, and the share of the CPUs that other programs took.
    """
    taken = max(
        sum(one.cpus * one.blocks / one.of for one in run.summary.disturbances)
        / run.summary.machine.cpus
        for run in (a, b)
    )
    least = _DRIFT - math.log1p(-min(taken, _MOST_TAKEN))
    spreads: dict[str, float] = {}
    for floor in (*a.summary.noise, *b.summary.noise):
        spreads[floor.response] = max(spreads.get(floor.response, 0.0), floor.spread)
    # Successive differences have twice the variance of a block.
    half = math.sqrt(0.5)
    return lambda response: least + half * spreads.get(response, 0.0)


_DRIFT = math.log(1.1)
"""The margin, as a log, between two quiet runs of the same work on one machine; our own figure
(docs/method.md).
"""

_MOST_TAKEN = 0.9


def _agreeing(made: Sequence[Change]) -> list[Change]:
    """Returns the changes, with those of costs undecided where the platform's own value contradicts them.

    The cost of a platform may fall although the platform got slower: then the baseline got slower still.
    """
    own = {
        (one.platform, key(one.cell), one.response): one.direction
        for one in made
        if one.of == "value" and one.guest is None and one.decides
    }

    def agreed(one: Change) -> Change:
        itself = own.get((one.platform, key(one.cell), one.response))
        contradicts = (one.direction == "better" and itself in ("worse", "undecided")) or (
            one.direction == "worse" and itself == "better"
        )
        if one.of == "value" or not contradicts:
            return one
        return one.model_copy(update={"decides": False, "direction": "undecided"})

    return [agreed(one) for one in made]


def _places(run: Found, other: Found) -> _Places:
    """Returns the series of a run by platform and by the levels of their cells.

    If a factor of the other run is no factor of this run, its level here is the one that this run's study
    sets.
    """
    factors: dict[tuple[str, Level | None], dict[str, None]] = {}
    for trial in other.trials:
        planned = trial.planned
        known = factors.setdefault((planned.platform, planned.cell.get("workload")), {})
        known.update(dict.fromkeys(planned.cell))
    places = {}
    for one in series(run.trials):
        missing = factors.get((one.platform, one.cell.get("workload")), {}).keys() - one.cell.keys()
        settings = {path: level for path in missing if (level := run.setting(path)) is not None}
        places[one.platform, key({**one.cell, **settings})] = one
    return places


_MOST_LOOKED_AT = 200
"""Most cells of each run that are searched for differences, for an error's text."""


def _apart(mine: _Places, its: _Places) -> str:
    """Which settings of the same platform and workload differ: `: knobs.mtu is 1500 in A and 9000 in B`."""
    differ: dict[str, tuple[set[str], set[str]]] = {}
    for platform, cell in islice(mine, _MOST_LOOKED_AT):
        for other, theirs in islice(its, _MOST_LOOKED_AT):
            a, b = ({name: level for name, _, level in side} for side in (cell, theirs))
            if platform != other or a.get("workload") != b.get("workload"):
                continue
            for name in a.keys() | b.keys():
                if a.get(name) != b.get(name):
                    sides = differ.setdefault(name, (set(), set()))
                    sides[0].add(level_text(a[name]) if name in a else "not set")
                    sides[1].add(level_text(b[name]) if name in b else "not set")
    differences = [
        f"{name} is {listing(sorted(one))} in A and {listing(sorted(two))} in B"
        for name, (one, two) in sorted(differ.items())
    ]
    return f": {'; '.join(differences)}" if differences else ""


def _costs(
    a: Found,
    b: Found,
    mine: _Places,
    its: _Places,
    confidence: float,
    asked: Collection[str],
) -> Iterator[_Draft]:
    """Costs of these responses, where both runs have them in pairs."""
    baseline = next((e.baseline for e in a.summary.estimates if e.baseline), None)
    virtual = a.summary.clock == "virtual"
    for at, one in mine.items():
        if baseline is None or at not in its:
            continue
        base_a = only_baseline_of(one, list(mine.values()), baseline)
        base_b = only_baseline_of(its[at], list(its.values()), baseline)
        if base_a is None or base_b is None:
            continue
        for name, response in a.responses.items():
            if name not in asked or name not in b.responses:
                continue
            before = log_ratio(one, base_a, name, confidence)
            after = log_ratio(its[at], base_b, name, confidence)
            if before is None or after is None:
                continue
            alike = one.trials == its[at].trials
            step = _step(before, after, alike, confidence)
            exact = step.constant and virtual
            yield _Draft(
                series=one,
                response=response,
                guest=None,
                n_a=before.n,
                n_b=after.n,
                a=ratio.cost(before.estimate, response.better),
                b=ratio.cost(after.estimate, response.better),
                log=True,
                step=step,
                exact=exact,
                sure=exact or (alike and step.constant),
                of="cost",
            )


def _searches(
    a: Sequence[LossFreeRate], b: Sequence[LossFreeRate], threshold: float
) -> tuple[list[Change], list[str], list[str]]:
    """What changed of the rates that both runs found, and what only one of them looked for."""
    mine, its = ({(one.platform, key(rates.cell(one))): one for one in run} for run in (a, b))
    changes = [_rate_change(one, its[at], threshold) for at, one in mine.items() if at in its]
    only_a, only_b = (
        [
            f"{LOSS_FREE_RATE} of {place(one.platform, rates.cell(one))}"
            for at, one in run.items()
            if at not in other
        ]
        for run, other in ((mine, its), (its, mine))
    )
    return [change for change in changes if change], only_a, only_b


def _rate_change(a: LossFreeRate, b: LossFreeRate, threshold: float) -> Change | None:
    """None where a search found no rate."""
    before, after = rates.span(a), rates.span(b)
    if before is None or after is None:
        return None
    ratio_of = rates.quotient(after, before)
    step = rates.difference(after, before)
    size = max(before.rate, after.rate) or 1.0
    share = ratio_of or rates.Span(*(1 + end / size for end in (step.rate, step.low, step.high)))
    ruling = practical.rule(1 - share.rate, 1 - share.high, 1 - share.low, threshold=threshold)
    fields: dict[str, Any] = {"loss": 1 - share.rate} if ratio_of else {}
    name, change = ("ratio", ratio_of) if ratio_of else ("difference", step)
    low, high = (end if math.isfinite(end) else None for end in (change.low, change.high))
    fields |= {name: change.rate, f"{name}_low": low, f"{name}_high": high}
    return Change(
        response=LOSS_FREE_RATE,
        unit=a.unit,
        better="higher",
        platform=a.platform,
        cell=rates.cell(a),
        n_a=a.trials,
        n_b=b.trials,
        a=before.rate,
        b=after.rate,
        confidence=None,
        direction=_DIRECTIONS[ruling.verdict],
        reason=ruling.reason,
        **fields,
    )


def _guests(a: Series, b: Series, leads: bool) -> list[int | None]:
    """Returns the guests to compare: None for all together and, for a leading response, each by itself.

    More comparisons would hide real changes among chance ones.
    """
    both = range(1, 1 + min(len(a.guests), len(b.guests)))
    return [None, *(both if leads else ())]


def _predictions(a: Summary, b: Summary) -> Iterator[str]:
    """Laws whose verdict differs."""
    before = {(one.law, one.response, one.platform, key(one.cell)): one for one in a.predictability}
    for one in b.predictability:
        old = before.get((one.law, one.response, one.platform, key(one.cell)))
        if old is not None and old.verdict != one.verdict:
            where = place(one.platform, one.cell)
            yield f"{one.law}, {one.response} of {where}: {old.verdict} in A, {one.verdict} in B"


@dataclass(frozen=True)
class _Draft:
    """A change before its verdict, which depends on how many others there are.

    `step` is B - A of the means, in logs where `log`; `exact` where nothing varied in virtual time.
    """

    series: Series
    response: Response
    guest: int | None
    n_a: int
    n_b: int
    a: float
    b: float
    log: bool
    step: interval.Interval
    exact: bool
    sure: bool
    of: Literal["value", "cost"] = "value"


def _draft(
    a: Series, b: Series, response: Response, confidence: float, virtual: bool, guest: int | None
) -> _Draft | None:
    before, boots_before = a.values(response.name, guest)
    after, boots_after = b.values(response.name, guest)
    if not before or not after:
        return None
    log = min(*before, *after) > 0
    scaled = [np.log(side) if log else np.asarray(side) for side in (before, after)]
    sides = [
        boots.mean(side, where, confidence).interval
        for side, where in zip(scaled, (boots_before, boots_after), strict=True)
    ]
    step = _step(sides[0], sides[1], before == after, confidence)
    exact = step.constant and virtual
    return _Draft(
        series=a,
        response=response,
        guest=guest,
        n_a=len(before),
        n_b=len(after),
        a=float(np.mean(before)),
        b=float(np.mean(after)),
        log=log,
        step=step,
        exact=exact,
        sure=exact
        or (step.constant and before == after)
        or (step.constant and _apart_by_rank(len(before), len(after), confidence)),
    )


def _step(
    a: interval.Interval, b: interval.Interval, alike: bool, confidence: float
) -> interval.Interval:
    """b - a; of values that are the same one by one, as of a run against itself, exactly nothing."""
    step = interval.welch(a, b, confidence)
    if alike and step.n > 1:
        return replace(
            step, estimate=0.0, low=None, high=None, error=0.0, freedom=0.0, constant=True
        )
    return step


def _change(
    draft: _Draft,
    threshold: float,
    confidence: float,
    decides: bool,
    margin_of: Callable[[str], float] | None,
) -> Change:
    better, step = draft.response.better, interval.at(draft.step, confidence)
    constant = draft.exact or (margin_of is not None and draft.sure)
    ends = (step.estimate, step.estimate) if constant else (step.low, step.high)
    by_machine = margin_of is not None and draft.of == "value" and draft.log
    margin = margin_of(draft.response.name) if margin_of and by_machine else 0.0
    loss, low, high = _losses(draft, step.estimate, ends)
    wide = low is not None and high is not None and practical.is_wide(low, high, threshold)
    if ends[0] is not None and ends[1] is not None:
        ends = ends[0] - margin, ends[1] + margin
    loss, low, high = _losses(draft, step.estimate, ends)
    sure = draft.sure and not by_machine
    ruling = practical.rule(loss, low, high, threshold=threshold, sure=sure)
    if by_machine and ruling.reason == "wide" and not wide:
        # The margin alone reaches so far: the runs themselves agree.
        ruling = practical.Ruling(practical.NO_DIFFERENCE, "chance")
    name = "ratio" if draft.log else "difference"
    fields: dict[str, Any] = {
        f"{name}{which}": math.exp(end) if draft.log and end is not None else end
        for which, end in zip(("", "_low", "_high"), (step.estimate, *ends), strict=True)
    }
    return Change(
        response=draft.response.name,
        unit=draft.response.unit,
        better=better,
        platform=draft.series.platform,
        cell=draft.series.cell,
        guest=draft.guest,
        n_a=draft.n_a,
        n_b=draft.n_b,
        a=draft.a,
        b=draft.b,
        confidence=confidence,
        loss=loss if draft.log else None,
        direction=_DIRECTIONS[ruling.verdict],
        reason=ruling.reason,
        of=draft.of,
        decides=decides,
        **fields,
    )


def _losses(
    draft: _Draft, estimate: float, ends: tuple[float | None, float | None]
) -> tuple[float, float | None, float | None]:
    """A change and the ends of its interval as shares that are lost, the lower one first. A difference is
    a share of the larger of both means.
    """
    better, size = draft.response.better, max(abs(draft.a), abs(draft.b)) or 1.0

    def loss(end: float) -> float:
        if draft.log:
            return ratio.cost(end, better)
        return (end if better == "lower" else -end) / size

    if ends[0] is None or ends[1] is None:
        return loss(estimate), None, None
    low, high = sorted(map(loss, (ends[0], ends[1])))
    return loss(estimate), low, high


_DIRECTIONS: dict[practical.Verdict, Direction] = {
    "costs": "worse",
    "gains": "better",
    "no difference shown": "no difference shown",
    "undecided": "undecided",
}


def _apart_by_rank(n_a: int, n_b: int, confidence: float) -> bool:
    """Whether so many equal values each, the runs apart, are more than chance: the rank-sum test.

    Of all ways to deal the n_a + n_b values out, two part them so.

    Source: Wilcoxon (1945), Biometrics Bulletin 1, 80-83.
    """
    return 2 / math.comb(n_a + n_b, n_a) <= 1 - confidence


def _warnings(
    a: Found,
    b: Found,
    made: Sequence[Change],
    every: list[Series],
) -> Iterator[str]:
    unlike = unlike_runs(a.summary, b.summary)
    if unlike:
        yield (f"The runs' setups are not alike: {listing(unlike)}. A change may come from these.")
    for name, run in (("A", a), ("B", b)):
        if not run.summary.complete:
            yield f"Run {name} is not complete: it ended before its last trial."
        for one in run.summary.loss_free:
            if rates.span(one) is None:
                where = place(one.platform, rates.cell(one))
                why = f": {one.reason}" if one.reason else ""
                yield f"Run {name} found no {LOSS_FREE_RATE} of {where}{why}."
    failed = sum(len(one.trials) - len(one.good) for one in every)
    if failed:
        yield f"{failed} trials of the two runs failed and are in no figure."
    if a.summary.clock == "wall" and any(
        len(one.good) > 1 and len({trial.planned.boot for trial in one.good}) == 1 for one in every
    ):
        yield (
            "Some cells were measured in one boot of a run: two boots may differ by more than the "
            "interval says. Take several boots in each run before trusting a small change."
        )
    if a.summary.clock == "wall" and any(c.response == LOSS_FREE_RATE for c in made):
        yield (
            "The bounds of a loss-free rate come from one search and are no confidence interval: on "
            "a noisy machine another search may end beyond them."
        )
