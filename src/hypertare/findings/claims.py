"""Expectations that a study judges: each holds, fails, or stays undecided.

In a study file:

    [[claims]]
    text = "virtio-net is at least half as fast as native"
    response = "goodput"
    workload = "tcp"
    platform = "guest"
    where = { "sut.nic" = "virtio-net" }
    measure = "ratio"
    op = "above"
    value = "50 %"
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from hypertare.base import figures
from hypertare.base.figures import factor_text, listing, percent, place, word
from hypertare.base.variables import VIRTUAL, Level, key, same
from hypertare.findings.many_cells import Over, over
from hypertare.findings.series import Series, ratio_of
from hypertare.platforms.registry import BASELINE
from hypertare.runs.summary import (
    Effect,
    Effects,
    Estimate,
    JudgedClaim,
    Judgement,
    Predictability,
    Prediction,
)
from hypertare.stats.over_cells import correlation
from hypertare.stats.practical import unanimous
from hypertare.study.analyses import LOSS_FREE_RATE
from hypertare.study.claims import Claim
from hypertare.study.factors import GUESTS

_Judged = list[tuple[Judgement, str]]
"""The judgement of each cell, with its evidence."""

MODELLED = "walk."
"""What factors of modelled responses begin with: see `hypertare.study.walk`."""


@dataclass(frozen=True)
class Seen:
    """A measured quantity with its interval; `sure` states that it decides a claim without an interval."""

    estimate: float
    low: float | None
    high: float | None
    sure: bool = False


@dataclass(frozen=True)
class Conditions:
    """What a run had that claims ask for: accelerators by platform, and CPUs of its machine."""

    accelerators: Mapping[str, str | None]
    cpus: int

    def lacked_by(self, claim: Claim) -> str | None:
        """Why a claim is not about this run; `None` where it is."""
        had = self.accelerators.get(claim.platform)
        if claim.accelerator is not None and had != claim.accelerator:
            return (
                f"it is about guests under {claim.accelerator}; here they ran under {had or 'none'}"
            )
        if claim.least_cpus is not None and self.cpus < claim.least_cpus:
            return f"it is about machines with {claim.least_cpus} CPUs or more; this one has {self.cpus}"
        return None


def judge(
    claim: Claim,
    estimates: Iterable[Estimate],
    predictions: Iterable[Predictability] = (),
    conditions: Conditions | None = None,
    measured: Sequence[Series] = (),
    baseline: str = BASELINE,
    factorials: Iterable[Effects] = (),
) -> JudgedClaim:
    """Whether a claim holds, by a run's estimates, those of single guests and of searches among them,
    by what laws predicted, and by the shares of factors.

    In one cell it holds where the whole interval lies within the bounds, fails where all of it lies
    outside on one side, and is undecided where a bound lies in the interval. Values without any
    spread (a loss of 0 in every trial) have no interval; six or more decide, by the sign test. What is
    in doubt (`Estimate.doubt`) decides nothing.

    Over several cells it holds if it holds in each, and fails if it fails in any; those that are not as
    published are reported beside them. One figure over many cells (`Claim.over`) is made of the trials,
    `measured`.
    """
    if conditions is not None and (why := conditions.lacked_by(claim)):
        claim = claim.model_copy(update={"differs": why, "differs_where": {}})
    if claim.measure == "error":
        return _judge_law(claim, predictions)
    if claim.measure == "share":
        return _judge_share(claim, factorials)
    # Of a run of many cells nearly all estimates are of other responses.
    asked = {claim.response, claim.with_response, claim.against_response}
    known = [one for one in estimates if one.response in asked]
    matching = [one for one in known if _fits(claim, one)]
    if not matching:
        return _undecided(claim, f"no estimate of {claim.response} for {_cells(claim)}")
    if claim.measure == "correlation":
        return _judge_correlation(claim, matching, known)
    if claim.over is not None:
        return _judge_over(claim, matching, measured, baseline)
    judged: _Judged = []
    factors = dict.fromkeys(factor for one in matching for factor in one.cell)
    distinct = [f for f in factors if len({str(one.cell.get(f)) for one in matching}) > 1]
    for one, against in product(matching, claim.seconds):
        seen = _measure(claim, against, one, known)
        levels = {factor: one.cell[factor] for factor in distinct if factor in one.cell}
        # Of a single cell the claim itself says where it is.
        where = f"{_place(one.platform, levels, one.guest)}: " if levels else ""
        verdict: Judgement = "undecided"
        if isinstance(seen, Seen):
            verdict = _judgement(seen, claim.bounds)
            seen = _words(claim, against, one, known, seen)
        judged.append(("not judged" if _differs(claim, one.cell) else verdict, f"{where}{seen}"))
    return _judged(claim, judged)


def _differs(claim: Claim, cell: Mapping[str, Level]) -> bool:
    """Whether a cell has not the published conditions."""
    return claim.differs is not None and all(
        f in cell and same(cell[f], level) for f, level in claim.differs_where.items()
    )


def _fits(claim: Claim, one: Estimate) -> bool:
    return (
        one.response == claim.response
        and one.platform == claim.platform
        and one.guest == claim.guest
        and _is_where(claim, one.cell)
    )


def _is_where(claim: Claim, cell: Mapping[str, Level]) -> bool:
    wanted = dict(claim.where)
    if claim.workload is not None:
        wanted["workload"] = claim.workload
    return all(f in cell and same(cell[f], level) for f, level in wanted.items())


def _levels(claim: Claim) -> dict[str, Level]:
    of = {} if claim.workload is None else {"workload": claim.workload}
    return {**of, **claim.where}


def _judge_law(claim: Claim, predictions: Iterable[Predictability]) -> JudgedClaim:
    """Each number of guests that was predicted is a cell."""
    judged: _Judged = []
    for one in predictions:
        if (one.law, one.response, one.platform) != (claim.law, claim.response, claim.platform):
            continue
        if one.reason is not None and _is_where(claim, {**claim.where, **one.cell}):
            judged.append(("undecided", f"{place(one.platform, one.cell)}: {one.reason}"))
        for found in one.predictions:
            cell = {**one.cell, GUESTS: found.guests}
            if _is_where(claim, cell):
                seen = Seen(found.error, found.error_low, found.error_high)
                verdict = "undecided" if found.doubt else _judgement(seen, claim.bounds)
                why = found.doubt or _law_words(claim, one, found)
                judged.append(
                    (
                        "not judged" if _differs(claim, cell) else verdict,
                        f"{place(one.platform, cell)}: {why}",
                    )
                )
    if not judged:
        return _undecided(claim, f"no prediction of {claim.response} for {_cells(claim)}")
    return _judged(claim, judged)


def _law_words(claim: Claim, one: Predictability, found: Prediction) -> str:
    fitted = ", ".join(map(str, one.fitted)) or "the line"
    around = "no interval"
    if found.error_low is not None and found.error_high is not None:
        around = f"interval {percent(found.error_low)} to {percent(found.error_high)}"
        if found.error_low == found.error_high:
            around = "exact"
    return (
        f"{one.law} {percent(found.error)} off ({around}): it predicts "
        f"{figures.quantity(found.predicted, one.unit)}, fitted to {fitted}; "
        f"{figures.quantity(found.measured, one.unit)} were measured, {_wanted(claim, 'share')}"
    )


def _judge_share(claim: Claim, factorials: Iterable[Effects]) -> JudgedClaim:
    """Each workload is a cell."""
    judged: _Judged = []
    for one in factorials:
        if (one.response, one.platform) != (claim.response, claim.platform):
            continue
        if not _is_where(claim, one.cell):
            continue
        verdict, said = _of_share(claim, one)
        judged.append(
            ("not judged" if claim.differs else verdict, f"{place(one.platform, one.cell)}: {said}")
        )
    if not judged:
        return _undecided(claim, f"no effects on {claim.response} for {_cells(claim)}")
    return _judged(claim, judged)


def _of_share(claim: Claim, one: Effects) -> tuple[Judgement, str]:
    assert claim.factor is not None
    mine = _alone(one, claim.factor)
    name = factor_text(claim.factor)
    why = one.reason or one.doubt
    if why is None and (mine is None or mine.total is None):
        why = f"fewer than two levels of {name} have good trials"
    if why is not None or mine is None:
        return "undecided", str(why)
    of = "the efficiency in " if one.of == "efficiency" else ""
    total = (
        f"total share of {name} in {of}{word(one.response)} {_total_words(mine, one.confidence)}"
    )
    if claim.op != "largest":
        verdict = _judgement(_total(mine), claim.bounds)
        return verdict, f"{total}, {_wanted(claim, 'share')}"
    leads = _leads(one, claim.factor)
    judged = [_judgement(seen, claim.bounds) for seen in leads.values()]
    nearest = min(leads, key=lambda path: leads[path].estimate)
    return _all(judged), f"{total}{_rival_words(one, name, nearest, leads[nearest])}"


def _leads(one: Effects, factor: str) -> dict[str, Seen]:
    """Returns, by each other factor, the share with which `factor` leads before it."""
    found: dict[str, Seen] = {}
    for lead in one.leads:
        if lead.factor == factor:
            found[lead.against] = Seen(lead.share, lead.low, lead.high)
        elif lead.against == factor:
            found[lead.factor] = Seen(1 - lead.share, 1 - lead.high, 1 - lead.low)
    return found


def _rival_words(one: Effects, name: str, rival: str, lead: Seen) -> str:
    """For example: , of message 31 % (25 to 37); of what one of the two has without the other, mtu has 71 %
    (64 to 78), wanted above half
    """
    its = _alone(one, rival)
    other = factor_text(rival)
    beside = f", of {other}" if its is None else f", of {other} {_total_words(its, None)}"
    value, interval = figures.measured(lead.estimate, *_finite(lead), "share")
    inside = f" ({interval})" if lead.low != lead.high and interval else ""
    return (
        f"{beside}; of what one of the two has without the other, {name} has {value}{inside}, wanted "
        "above half"
    )


def _alone(one: Effects, factor: str) -> Effect | None:
    return next((effect for effect in one.effects if effect.factors == (factor,)), None)


def _total(effect: Effect) -> Seen:
    assert effect.total is not None
    return Seen(effect.total, effect.total_low, effect.total_high)


def _total_words(effect: Effect, confidence: float | None) -> str:
    """Returns a factor's total share with its interval in words; `confidence` None leaves out the
    interval's name.
    """
    seen = _total(effect)
    value, interval = figures.measured(seen.estimate, *_finite(seen), "share")
    if seen.low == seen.high:
        return f"{value} (exact)"
    named = "" if confidence is None else f"{100 * confidence:g} % interval "
    return f"{value} ({named}{interval})"


def _measure(
    claim: Claim, against: Mapping[str, Level] | None, one: Estimate, known: list[Estimate]
) -> Seen | str:
    """What the claim bounds, or why it cannot be had."""
    if one.doubt is not None:
        return one.doubt
    other = _other(claim, against, one, known)
    if other is None:
        return _single(claim.measure, one)
    if isinstance(other, str):
        return other
    if other.doubt is not None:
        return f"{_place(other.platform, other.cell, other.guest)}: {other.doubt}"
    width = _width(one, other)
    if claim.measure == "ratio":
        return _quotient(_value(one), _value(other), width)
    first, second = (_single(claim.measure, e) for e in (one, other))
    if isinstance(first, str):
        return first
    return second if isinstance(second, str) else _difference(first, second, width)


def _other(
    claim: Claim, against: Mapping[str, Level] | None, one: Estimate, known: list[Estimate]
) -> Estimate | str | None:
    """What `one` is compared with, or why it cannot be had; nothing where it stands for itself."""
    if claim.against_response is not None:
        return _same_cell(claim.against_response, one, known)
    return None if against is None else _second(against, one, known)


def _same_cell(response: str, one: Estimate, known: list[Estimate]) -> Estimate | str:
    """Another response of the same platform in the same cell."""
    found = [
        e
        for e in known
        if (e.response, e.platform, e.guest) == (response, one.platform, one.guest)
        and key(e.cell) == key(one.cell)
    ]
    if not found:
        return f"this run has no {response} of {place(one.platform, one.cell)}"
    return found[0]


def _judge_correlation(
    claim: Claim, matching: list[Estimate], known: list[Estimate]
) -> JudgedClaim:
    """One figure over all the cells."""
    assert claim.with_response is not None
    pairs = [(one, _same_cell(claim.with_response, one, known)) for one in matching]
    good = [(a.estimate, b.estimate) for a, b in pairs if isinstance(b, Estimate)]
    if not good:
        return _undecided(claim, f"no estimate of {claim.with_response} for {_cells(claim)}")
    doubts = [e.doubt for a, b in pairs for e in (a, b) if isinstance(e, Estimate) and e.doubt]
    if doubts:
        return _undecided(claim, doubts[0])
    found = correlation([a for a, _ in good], [b for _, b in good])
    if isinstance(found, str):
        return _undecided(claim, found)
    names = f"{word(claim.response)} with {word(claim.with_response)}"
    seen = Seen(*found)
    value, interval = figures.measured(*found, "")
    evidence = (
        f"correlation of {names} over {len(good)} cells {value} (95 % interval {interval}), "
        f"{_wanted(claim, '')}"
    )
    verdict = "not judged" if claim.differs else _judgement(seen, claim.bounds)
    return _judged(claim, [(verdict, evidence)])


def _judge_over(
    claim: Claim, matching: list[Estimate], measured: Sequence[Series], baseline: str
) -> JudgedClaim:
    """One figure over all the cells that are as published; against each of several others apart."""
    doubts = [one.doubt for one in matching if one.doubt]
    if doubts:
        return _undecided(claim, doubts[0])
    chosen = [
        one
        for one in measured
        if one.platform == claim.platform
        and _is_where(claim, one.cell)
        and (claim.differs_where == {} or not _differs(claim, one.cell))
    ]
    judged: _Judged = []
    first = matching[0]
    is_judged = claim.differs is None or claim.differs_where
    for against in claim.seconds:
        found = over(claim, against, chosen, measured, baseline, first.better, first.confidence)
        verdict: Judgement = "undecided"
        if isinstance(found, Over):
            sure = first.exact or unanimous(found.rounds, first.confidence)
            seen = Seen(found.estimate, found.low, found.high, sure)
            verdict = _judgement(seen, claim.bounds)
            found = _over_words(claim, against, first, found, seen)
        judged.append((verdict if is_judged else "not judged", found))
    return _judged(claim, judged)


def _over_words(
    claim: Claim, against: Mapping[str, Level] | None, first: Estimate, found: Over, seen: Seen
) -> str:
    """For example: least chosen of 12 cells, in xen (mtu 500): efficiency of goodput against native 0.61
    (95 % interval 0.58 to 0.64), wanted above 0.9
    """
    one = first.model_copy(update={"n": found.rounds})
    # A second cell would be one of many: what it differs in is named, not its figure.
    kind = "" if claim.measure == "ratio" else ", the difference"
    named = [f"{factor_text(factor)} {level}" for factor, level in (against or {}).items()]
    second = f"{kind} against {', '.join(named)}" if named else ""
    where = f", in {_place(claim.platform, found.cell, None)}" if found.cell is not None else ""
    missing = f" ({found.missing} more lack figures)" if found.missing else ""
    chosen = " chosen of" if found.cell is not None else " over"
    noun = "cell" if found.cells == 1 else "cells"
    cells = f"{claim.over}{chosen} {found.cells} {noun}{missing}{where}{second}"
    return f"{cells}: {_alone_words(claim, one, seen)}"


def _second(against: Mapping[str, Level], one: Estimate, known: list[Estimate]) -> Estimate | str:
    named = ("platform", "guest")
    levels = {**one.cell, **{f: level for f, level in against.items() if f not in named}}
    platform = str(against.get("platform", one.platform))
    guest = against.get("guest", one.guest)
    if platform == one.platform and guest == one.guest and key(levels) == key(one.cell):
        return "'against' names this cell itself"
    found = [
        e
        for e in known
        if e.response == one.response
        and e.platform == platform
        and e.guest == guest
        # Another platform need not have every factor: native has no NIC model.
        and all(f in levels and same(level, levels[f]) for f, level in e.cell.items())
        and (platform != one.platform or len(e.cell) == len(levels))
    ]
    if len(found) != 1:
        many = "several estimates" if found else "no estimate"
        number = guest if isinstance(guest, int) else None
        return f"{many} of {one.response} for {_place(platform, levels, number)}"
    return found[0]


def _place(platform: str, cell: Mapping[str, Level], guest: int | None) -> str:
    return place(platform, cell if guest is None else {**cell, "guest": guest})


def _single(measure: str, one: Estimate) -> Seen | str:
    if measure == "value":
        return _value(one)
    if measure == "difference":
        return _added(one)
    cost = _cost(one)
    if isinstance(cost, str) or measure == "cost":
        return cost
    ratio = ratio_of(one)
    assert ratio is not None
    estimate, low, high = ratio
    if measure == "efficiency" and one.better == "lower":
        # A ratio is above 0, and so are its ends.
        estimate = 1 / estimate
        low, high = (None if end is None else 1 / end for end in (high, low))
    return Seen(estimate, low, high, cost.sure)


def _value(one: Estimate) -> Seen:
    sure = one.exact or (one.low is None and unanimous(one.n, one.confidence))
    return Seen(one.estimate, one.low, one.high, sure)


def _cost(one: Estimate) -> Seen | str:
    if one.cost is None:
        with_baseline = "search of" if one.response == LOSS_FREE_RATE else "block with"
        return f"it has no cost: no {with_baseline} the baseline, or a value of zero or below"
    sure = one.cost_low is None and unanimous(one.blocks or 0, one.confidence)
    return Seen(one.cost, one.cost_low, one.cost_high, sure)


def _added(one: Estimate) -> Seen | str:
    if one.difference is None:
        return "it has no difference: no block with the baseline"
    sure = one.difference_low is None and unanimous(one.blocks or 0, one.confidence)
    return Seen(one.difference, one.difference_low, one.difference_high, sure)


Width = Callable[[float, float], float]


def _difference(one: Seen, other: Seen, width: Width = math.hypot) -> Seen:
    """one - other with its interval, from the intervals of both; as if independent by default.

    MOVER: l = d - √((a - a.low)² + (b.high - b)² - 2r (a - a.low)(b.high - b)), u likewise, with a
    correlation r of 0. Cells that share blocks move together, which makes their difference surer than
    this says. Of the same trials, to which a model adds constants, r is 1. Of bounds that searches
    found it is -1, the worst case.

    Source: Zou & Donner (2008), Statistics in Medicine 27, 1693-1702; with r: Zou (2007),
    Psychological Methods 12, 399-413.
    """
    estimate = one.estimate - other.estimate
    a, b = _closed(one), _closed(other)
    if a is None or b is None:
        return Seen(estimate, None, None)
    low = estimate - width(one.estimate - a[0], b[1] - other.estimate)
    high = estimate + width(a[1] - one.estimate, other.estimate - b[0])
    return Seen(estimate, low, high)


def _width(one: Estimate, other: Estimate) -> Width:
    """How the intervals of two estimates are joined."""
    if one.response == LOSS_FREE_RATE:
        return operator.add
    plain = [
        {factor: level for factor, level in e.cell.items() if not factor.startswith(MODELLED)}
        for e in (one, other)
    ]
    if one.cell != other.cell and one.platform == other.platform and key(plain[0]) == key(plain[1]):
        # They differ in nothing but what was modelled of the same trials: √(x² + y² - 2xy).
        return lambda x, y: abs(x - y)
    return math.hypot


def _quotient(one: Seen, other: Seen, width: Width) -> Seen | str:
    """one / other: the difference of logs.

    An interval around a value above zero may reach below it, for few trials of which one stands out;
    what is divided is not below zero all the same, so that end is as far away as a log can be.
    """
    if one.estimate <= 0 or other.estimate <= 0:
        return "a ratio needs values above zero"
    log = _difference(_log(one), _log(other), width)
    if log.low is None or log.high is None:
        return Seen(math.exp(log.estimate), None, None)
    return Seen(math.exp(log.estimate), math.exp(log.low), math.exp(log.high))


def _log(seen: Seen) -> Seen:
    low, high = (
        None if end is None else math.log(end) if end > 0 else -math.inf
        for end in (seen.low, seen.high)
    )
    return Seen(math.log(seen.estimate), low, high, seen.sure)


def _closed(seen: Seen) -> tuple[float, float] | None:
    """The interval, or the point itself where that is sure."""
    if seen.low is not None and seen.high is not None:
        return seen.low, seen.high
    return (seen.estimate, seen.estimate) if seen.sure else None


def _judgement(seen: Seen, bounds: tuple[float, float]) -> Judgement:
    ends = _closed(seen)
    if ends is None:
        return "undecided"
    low, high = ends
    # An end that is not known is within a bound that is not asked for.
    if (bounds[0] < low or bounds[0] == -math.inf) and (high < bounds[1] or bounds[1] == math.inf):
        return "holds"
    # A point exactly on its bound lies on neither side of it.
    if high < bounds[0] or low > bounds[1] or (low == high and low in bounds):
        return "fails"
    return "undecided"


def _judged(claim: Claim, judged: _Judged) -> JudgedClaim:
    """Over all cells. What is not as published decides nothing, and stands last."""
    beside = [seen for verdict, seen in judged if verdict == "not judged"]
    said = _evidence([one for one in judged if one[0] != "not judged"])
    verdict = _all([verdict for verdict, _ in judged])
    if beside:
        unlike = f"{claim.differs}; there {listing(beside, 3)}"
        said += [f"not judged: {unlike}" if said else unlike]
    return JudgedClaim(text=claim.text, judgement=verdict, evidence="; ".join(said))


def _all(verdicts: list[Judgement]) -> Judgement:
    order: tuple[Judgement, ...] = ("fails", "undecided", "holds")
    return next((verdict for verdict in order if verdict in verdicts), "not judged")


def _evidence(judged: _Judged) -> list[str]:
    if len(judged) < 2:
        return [seen for _, seen in judged]
    held = sum(verdict == "holds" for verdict, _ in judged)
    whole = _all([verdict for verdict, _ in judged])
    examples = [seen for verdict, seen in judged if verdict == whole]
    if whole == "holds":
        return [f"holds in all {held} cells, for example {examples[0]}"]
    return [f"holds in {held} of {len(judged)} cells; {listing(examples, 3)}"]


def _words(
    claim: Claim,
    against: Mapping[str, Level] | None,
    one: Estimate,
    known: list[Estimate],
    seen: Seen,
) -> str:
    """For example: loss 59 % against 0 % with napi weight 60, difference 59.2 points (95 % interval 54.5
    to 63.9), wanted above 5 points
    """
    other = _other(claim, against, one, known)
    if not isinstance(other, Estimate):
        return _alone_words(claim, one, seen)
    unit = _unit(claim, one, other)
    value, interval = figures.measured(seen.estimate, *_finite(seen), unit)
    inside = _interval(one, seen, unit, interval)
    wanted = _wanted(claim, unit)
    what = one.response if claim.measure == "value" else f"{claim.measure} of {one.response}"
    # The mark of the clock stands once.
    second = _measured(claim, other).replace(VIRTUAL, "")
    sides = f"{_measured(claim, one)} against {second}{_beside(against, one, other)}"
    if claim.measure == "ratio":
        return f"{word(one.response)} {sides}, ratio {value} ({inside}), {wanted}"
    # A difference of shares is in percentage points.
    value, wanted = (text.replace(" %", " points") for text in (value, wanted))
    return f"{word(what)} {sides}, difference {value} ({inside}), {wanted}"


def _alone_words(claim: Claim, one: Estimate, seen: Seen) -> str:
    unit = _unit(claim, one, None)
    value, interval = figures.measured(seen.estimate, *_finite(seen), unit)
    what = one.response if claim.measure == "value" else f"{claim.measure} of {one.response}"
    return f"{word(what)} {value} ({_interval(one, seen, unit, interval)}), {_wanted(claim, unit)}"


_NAMED_WITH_VALUES = ("guest",)


def _beside(against: Mapping[str, Level] | None, one: Estimate, other: Estimate) -> str:
    """What the other side differs in."""
    if other.response != one.response:
        return f" {word(other.response)}"
    named = [
        str(level) if factor == "platform" else f"{factor_text(factor)} {level}"
        for factor, level in (against or {}).items()
        if factor not in _NAMED_WITH_VALUES
    ]
    return f" with {', '.join(named)}" if named else ""


def _measured(claim: Claim, one: Estimate) -> str:
    """A side of a comparison, as it was measured."""
    if claim.measure in ("value", "ratio"):
        value = figures.quantity(one.estimate, one.unit)
        return value if one.guest is None else f"{value} of guest {one.guest}"
    seen = _single(claim.measure, one)
    assert isinstance(seen, Seen)
    return figures.quantity(seen.estimate, _unit(claim, one, None))


def _unit(claim: Claim, one: Estimate, other: Estimate | str | None) -> str:
    """Of what the claim bounds. Where both sides are given, these carry the mark of the clock."""
    if claim.measure == "cost":
        return "share"
    if claim.measure not in ("value", "difference"):
        return ""
    return one.unit.removesuffix(VIRTUAL) if isinstance(other, Estimate) else one.unit


def _finite(seen: Seen) -> tuple[float | None, float | None]:
    ends = (seen.low, seen.high)
    return ends if all(end is not None and math.isfinite(end) for end in ends) else (None, None)


def _wanted(claim: Claim, unit: str) -> str:
    plain = unit.removesuffix(VIRTUAL)
    low, high = (_bound(end, plain) for end in claim.bounds)
    return {
        "above": f"wanted above {low}",
        "below": f"wanted below {high}",
        "within": f"wanted within {low} and {high}",
        "largest": "wanted above half",
    }[claim.op]


def _bound(end: float, unit: str) -> str:
    """As it was asked for, without noughts that nobody wrote."""
    divisor, name = figures.scale(end, unit)
    return f"{end / divisor:,.6g} {name}".strip().replace("-", "−")


def _interval(one: Estimate, seen: Seen, unit: str, text: str) -> str:
    """`text`: the interval where both of its ends are known and differ."""
    if seen.low is None or seen.high is None:
        if one.n < 2:
            return "one trial, no interval"
        few = "" if seen.sure else ", too few to decide"
        return f"no interval: no spread over {one.n} trials{few}"
    plain = unit.removesuffix(VIRTUAL)
    # The two rates of a search are no interval with a confidence.
    searched = one.response == LOSS_FREE_RATE
    if seen.low == seen.high and one.exact and not searched:
        return "exact"
    if seen.high == math.inf:
        text = f"{figures.quantity(seen.low, plain)} or more"
    elif seen.low == -math.inf:
        text = f"{figures.quantity(seen.high, plain)} or less"
    text = text or f"{figures.quantity(seen.low, plain)} to {figures.quantity(seen.high, plain)}"
    return f"searched: {text}" if searched else f"{100 * one.confidence:g} % interval {text}"


def _cells(claim: Claim) -> str:
    return place(claim.platform, _levels(claim))


def _undecided(claim: Claim, why: str) -> JudgedClaim:
    return JudgedClaim(text=claim.text, judgement="undecided", evidence=why)
