"""The verdicts of a run, as sentences.

A cost is said as what is lost: 38 % more elapsed time, 47 % of the goodput. Tables show it as the change
of the response: `+38 %`, `−47 %`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hypertare.base import figures
from hypertare.base.figures import factor_text, word
from hypertare.base.variables import VIRTUAL, Better, Cell, Level
from hypertare.design.trials import FinishedTrial
from hypertare.runs.summary import Estimate, LevelChange, Summary
from hypertare.stats.practical import NO_DIFFERENCE, THRESHOLD
from hypertare.study.analyses import GOAL

_FEW = "too few blocks with both platform and baseline"

_MOST_FLOORS = 3

_FEW_VERDICTS = 3
"""Most verdicts that are given one by one in the answer; more get one sentence for all of them."""

_AS_FACTOR = 900.0
"""From this change on, in per cent, a factor reads better: ×41 and not +4,000 %."""

TOO_FEW = "too few trials to say"
"""Words for an undecided verdict (`hypertare.stats.practical.rule`)."""

_ONE_BLOCK = "one block decides nothing"

EXACT = "exact"
"""In place of an interval: in virtual time, what did not vary at all."""

_TWICE = 100.0
"""A change in per cent; in a sentence 1.03 times as much is 3 % more."""

_OF_ANYTHING = frozenset({"none", "own", "always", "never", "madvise"})

Bounds = Sequence[float | None]

Tone = Literal["costs", "gains", "mixed", "same", "failed", "unknown"]

MARKS: Mapping[Tone, str] = {
    "costs": "▲",
    "gains": "▼",
    "mixed": "◆",
    "same": "=",
    "failed": "✗",
    "unknown": "?",
}
"""Marks that show a tone without its colour."""


@dataclass(frozen=True)
class Sentence:
    """One verdict. `tone` is for its colour; the words say the same. `lines` are what a program printed."""

    tone: Tone
    text: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wording:
    """How this run calls its responses, cells and platforms.

    A cell of a guest may hold factors that only guests have, such as its NIC. They belong to the
    platform's name; the others distinguish the cells, and only where they differ.
    """

    shared: Mapping[str, frozenset[str]]
    varied: frozenset[tuple[str, str]]
    workloads: int
    clock: Literal["wall", "virtual"]
    accelerators: Mapping[str, str | None]
    elsewhere: frozenset[str] = frozenset()
    """Platforms on a machine with another processor: a difference to them is no cost of virtualisation."""
    threshold: float = THRESHOLD
    in_factors: frozenset[str] = frozenset()
    """Responses of which a change reaches tenfold: all of theirs are given as factors, so that the unit
    does not change between neighbours."""
    _labels: dict[tuple[tuple[str, type, Level], ...], str] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Those made already: a report asks for each hundreds of times."""

    @classmethod
    def of(cls, summary: Summary, trials: Sequence[FinishedTrial]) -> Wording:
        shared: dict[str, frozenset[str]] = {}
        for trial in trials:
            workload = trial.planned.workload
            factors = frozenset(trial.planned.cell)
            shared[workload] = shared.get(workload, factors) & factors
        levels: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        # What is modelled of a trial, or searched by several, may have factors that no trial has.
        cells: tuple[Mapping[str, Level], ...] = (
            *(trial.planned.cell for trial in trials),
            *(estimate.cell for estimate in summary.estimates),
            *(
                {"workload": one.cell.get("workload", ""), GOAL: one.goal}
                for one in summary.loss_free
            ),
        )
        for cell in cells:
            for factor, level in cell.items():
                levels[str(cell.get("workload", "")), factor].add(shown(level))
        return cls(
            shared=shared,
            varied=frozenset(key for key, seen in levels.items() if len(seen) > 1),
            workloads=len(shared),
            clock=summary.clock,
            elsewhere=frozenset(
                one.platform
                for one in summary.platforms
                if one.processor not in (None, summary.machine.cpu)
            ),
            accelerators={state.platform: state.accelerator for state in summary.platforms},
            threshold=summary.threshold,
            in_factors=frozenset(
                one.response
                for found in (summary.estimates, summary.levels)
                for one in found
                if _is_tenfold(one)
            ),
        )

    def label(self, cell: Cell) -> str:
        """Names a cell: `tcp receive cpus 2`."""
        known = tuple((factor, type(level), level) for factor, level in cell.items())
        if known not in self._labels:
            workload = str(cell.get("workload", ""))
            levels = [
                named(factor, level)
                for factor, level in cell.items()
                if factor in self.shared.get(workload, ()) and (workload, factor) in self.varied
            ]
            spelt_out = self.workloads > 1 or not levels
            self._labels[known] = " ".join([workload, *levels] if spelt_out else levels)
        return self._labels[known]

    def levels(self, cell: Cell) -> str:
        """What distinguishes a cell from the others of its workload: `cpus 2`."""
        workload = str(cell.get("workload", ""))
        return " ".join(
            named(factor, level)
            for factor, level in cell.items()
            if (workload, factor) in self.varied
        )

    def platform(self, platform: str, cell: Cell) -> str:
        """Names a platform with the levels that only it has: `guest e1000`."""
        workload = str(cell.get("workload", ""))
        levels = [
            named(factor, level)
            for factor, level in cell.items()
            if factor not in self.shared.get(workload, cell) and (workload, factor) in self.varied
        ]
        return " ".join([platform, *levels])


def named(factor: str, level: Level) -> str:
    """Returns a level in words, with its factor's name if it is a number or a common word."""
    if isinstance(level, str) and level[:1].isalpha() and level not in _OF_ANYTHING:
        return level
    return f"{factor_text(factor)} {shown(level)}"


def setting(platform: str, cell: Cell, left_out: Sequence[str] = ()) -> str:
    """A platform with the levels of its cell: `xen receive guests 2`."""
    levels = (named(factor, level) for factor, level in cell.items() if factor not in left_out)
    return " ".join([platform, *levels])


def workloads(cells: Iterable[Cell], units: Iterable[str] = ()) -> str:
    """The names of their workloads, each once; with the mark of the clock where a unit has it, which
    stands for all figures below.
    """
    names = ", ".join(dict.fromkeys(str(cell.get("workload")) for cell in cells))
    return names + (VIRTUAL if any(unit.endswith(VIRTUAL) for unit in units) else "")


def shown(level: Level) -> str:
    """A level as tables and sentences have it."""
    if isinstance(level, bool):
        return "on" if level else "off"
    return f"{level:g}" if isinstance(level, float) else str(level)


def sentence(estimate: Estimate, wording: Wording, where: bool) -> Sentence:
    """The verdict on one cost. `where` names the cell, for runs that have more than one.

    For example: guest costs 38 % more elapsed time (95 % interval +34 to +42), n = 12 blocks
    """
    title = noun(estimate.response)
    platform = wording.platform(estimate.platform, estimate.cell)
    place = f" in {wording.label(estimate.cell)}" if where else ""
    if estimate.verdict is None:
        why = estimate.doubt or _FEW
        return Sentence("unknown", f"{platform}: no verdict on {title}{place}: {why}")
    change, interval = cost_text(estimate, wording)
    around = f" ({interval_text(estimate, interval)})" if interval else ""
    rests = basis(estimate.platform, estimate.blocks, estimate.n, wording)
    if estimate.verdict == "undecided":
        why = undecided_why(estimate)
        text = f"{platform}: {why}, {title}{place}: {change}{around}{rests}"
    elif estimate.verdict == NO_DIFFERENCE:
        said = "exactly the same" if estimate.exact and estimate.cost == 0 else change
        # Why none is shown, where the interval does not say it.
        reasons = {
            "size": f"; less than the {100 * wording.threshold:g} % that matter",
            "floor": "; the baseline differed as much from itself",
        }
        why = reasons.get(estimate.reason or "", "") if estimate.cost != 0 else ""
        text = f"{platform}: {none_shown(estimate)} in {title}{place}: {said}{around}{rests}{why}"
    else:
        text = f"{platform} {said_of(estimate, wording)}{place}{around}{rests}"
    return Sentence(tone(estimate), text)


def interval_text(one: Estimate | LevelChange, interval: str) -> str:
    if interval == EXACT:
        return EXACT
    level = one.confidence if one.cost_confidence is None else one.cost_confidence
    return f"{confidence_text(level)} {interval}"


def confidence_text(confidence: float) -> str:
    """`95 % interval`; among many comparisons `99.4 % interval`, with digits that separate it from 100."""
    missing = 100 * (1 - confidence)
    places = max(0, 1 - math.floor(math.log10(missing))) if missing > 0 else 0
    return f"{round(100 * confidence, places):g} % interval"


def heading(shown: Iterable[Estimate | LevelChange], otherwise: float) -> str:
    """Returns the heading of a column of intervals; it names the confidence if all rows have the same."""
    levels = {one.cost_confidence for one in shown if one.cost_confidence is not None}
    return "interval" if len(levels) > 1 else confidence_text(next(iter(levels), otherwise))


def none_shown(one: Estimate | LevelChange) -> str:
    """Returns words for a verdict without a difference: none shown, or one that is too small to matter."""
    return "no difference that matters" if one.reason == "size" and one.cost else NO_DIFFERENCE


def bound(one: Estimate | LevelChange, wording: Wording) -> str:
    """Returns how much worse a response may be if no difference is shown: `at most +5 %`; else nothing."""
    worst = one.cost_high
    if one.verdict != NO_DIFFERENCE or worst is None or not one.cost:
        return ""
    if worst <= 0:
        return "no worse"
    change = _sign(one) * worst
    if change >= 100 and one.response in wording.in_factors:
        return f"at most ×{figures.significant(1 + change / 100)}"
    return f"at most {'+' if change > 0 else '−'}{figures.significant(abs(change))} %"


def undecided_why(one: Estimate | LevelChange) -> str:
    return _ONE_BLOCK if one.reason == "few" and one.blocks == 1 else TOO_FEW


def noun(response: str) -> str:
    """A response as the object of a sentence."""
    return "elapsed time" if response == "elapsed" else word(response)


def said_of(one: Estimate, wording: Wording) -> str:
    """A cost or a gain with its verb: `costs 31 times the elapsed time`, `loses 47 % of the goodput`."""
    is_worse = one.verdict == "costs"
    exactly = "exactly " if one.exact else ""
    if one.platform in wording.elsewhere:
        return (
            f"has {exactly}{cost_text(one, wording)[0]} {noun(one.response)}, on another processor"
        )
    if one.cost is None:
        return f"{one.verdict} {exactly}{cost_text(one, wording)[0]} {noun(one.response)}"
    grows = is_worse == (one.better == "lower")
    verb = ("costs", "gains") if grows else ("loses", "saves")
    return f"{verb[not is_worse]} {exactly}{amount(one, wording)}"


def amount(one: Estimate | LevelChange, wording: Wording) -> str:
    """The size of a change without its sign: `38 % more elapsed time`, `31 times the elapsed time`,
    `47 % of the goodput`.
    """
    title = noun(one.response)
    if one.cost is None:
        return f"{cost_text(one, wording)[0]} {title}"
    change = _sign(one) * one.cost
    text, _ = cost_text(one, wording)
    if text.startswith("×") and change < _TWICE:
        text, _ = change_text(change, _signed_ends(one), "%", as_factor=False)
    if change < 0:
        return f"{text.removeprefix('−')} of the {title}"
    if text.startswith("×"):
        return f"{text[1:]} times the {title}"
    return f"{text.removeprefix('+')} more {title}"


def answer(leading: Sequence[Estimate], wording: Wording) -> Sentence | None:
    """What the platforms cost, in one line; none where nothing was compared.

    For example: guest (tcg) costs 28 times the elapsed time; container: no difference shown (at most +5 %)
    """
    if not leading:
        return None
    if len(leading) > _FEW_VERDICTS:
        if any(one.verdict is not None for one in leading):
            return overall(leading, wording)
        return Sentence("unknown", f"no verdict in {len(leading)} comparisons: {_FEW}")
    # Those that say something come first, the largest of them before all.
    ordered = sorted(leading, key=_loudness, reverse=True)
    several = len({wording.label(one.cell) for one in leading}) > 1
    parts = [_short(one, wording, several) for one in ordered]
    return Sentence(loudest(map(tone, leading)), "; ".join(parts) + _clock(wording))


def _loudness(one: Estimate) -> float:
    """How far from no change a cost or gain is, as a factor either way; 0 of what shows none."""
    if tone(one) in ("same", "unknown") or one.cost is None:
        return float(tone(one) not in ("same", "unknown"))
    worse = times_worse(one.cost, one.better)
    return max(worse, 1 / worse) if worse > 0 else math.inf


def _short(estimate: Estimate, wording: Wording, several: bool) -> str:
    """A verdict without its figures' basis, which stands below it."""
    place = f" in {wording.label(estimate.cell)}" if several else ""
    accelerator = wording.accelerators.get(estimate.platform)
    platform = wording.platform(estimate.platform, estimate.cell)
    named = f"{platform} ({accelerator})" if accelerator else platform
    if estimate.verdict is None:
        return f"{named}: no verdict{place}, {estimate.doubt or _FEW}"
    if estimate.verdict in ("costs", "gains"):
        return f"{named} {said_of(estimate, wording)}{place}"
    return f"{named}: {quietly(estimate, wording)}{place}"


def quietly(one: Estimate | LevelChange, wording: Wording) -> str:
    """A verdict that is neither costs nor gains, with how much it may hide:
    `no difference shown (at most +5 %)`, `too few trials to say (−63 to +34 %)`.
    """
    if one.verdict == "undecided":
        change, interval = cost_text(one, wording)
        if not interval:
            return f"{undecided_why(one)} ({change})"
        unit = "times" if change.startswith("×") else change.partition(" ")[2]
        return f"{undecided_why(one)} ({interval} {unit})"
    most = bound(one, wording)
    return f"{none_shown(one)} ({most})" if most else none_shown(one)


def loudest(tones: Iterable[Tone]) -> Tone:
    """Of several verdicts in one sentence. Costs beside gains have a mark of their own."""
    seen = set(tones)
    if {"costs", "gains"} <= seen:
        return "mixed"
    order: tuple[Tone, ...] = ("mixed", "costs", "gains", "same", "unknown")
    return next(tone for tone in order if tone in seen)


def _clock(wording: Wording) -> str:
    return " (virtual time)" if wording.clock == "virtual" else ""


def overall(leading: Sequence[Estimate], wording: Wording) -> Sentence:
    """All costs of the leading responses in one sentence: how many of each platform, and the least
    and the largest of them.

    For example: guest costs in all 8 comparisons, 25 % of the goodput in udp to 41 times the elapsed time
    in build; container: no difference shown in 4 comparisons (at most −6 % goodput in udp)
    """
    judged = [one for one in leading if one.verdict is not None]
    platforms: dict[str, list[Estimate]] = {}
    for one in judged:
        platforms.setdefault(one.platform, []).append(one)
    quiet = ("same", "unknown")
    ordered = sorted(platforms, key=lambda name: all(tone(e) in quiet for e in platforms[name]))
    parts = [_overall_of(name, platforms[name], wording) for name in ordered]
    return Sentence(loudest(map(tone, judged)), "; ".join(parts) + _clock(wording))


def _overall_of(platform: str, judged: Sequence[Estimate], wording: Wording) -> str:
    accelerator = wording.accelerators.get(platform)
    platform = f"{platform} ({accelerator})" if accelerator else platform
    counted = f"{len(judged)} comparison{'s' if len(judged) != 1 else ''}"
    parts = []
    for verdict in ("costs", "gains"):
        # Where there is no ratio, as if there were no cost.
        found = sorted(
            (one for one in judged if one.verdict == verdict),
            key=lambda one: times_worse(one.cost or 0.0, one.better),
        )
        if not found:
            continue
        of = f"all {counted}" if len(found) == len(judged) > 1 else f"{len(found)} of {counted}"
        ends = [found[0], found[-1]] if len(found) > 1 else found
        if verdict == "gains":
            ends.reverse()
        does = "differs" if found[0].platform in wording.elsewhere else verdict
        changes = (f"{amount(one, wording)} in {_place(one, wording)}" for one in ends)
        parts.append(f"{does} in {of}, {' to '.join(changes)}")
    if parts:
        return f"{platform} " + ", and ".join(parts)
    wide = sum(one.verdict == "undecided" for one in judged)
    if wide == len(judged):
        return f"{platform}: {TOO_FEW} in {counted}"
    few = f", {TOO_FEW} in {wide} of them" if wide else ""
    shown = [one for one in judged if bound(one, wording)]
    worst = max(shown, key=lambda one: times_worse(one.cost_high or 0.0, one.better), default=None)
    most = ""
    if worst:
        where = f"{noun(worst.response)} in {_place(worst, wording)}"
        most = f" ({bound(worst, wording)} {where})"
    return f"{platform}: {NO_DIFFERENCE} in {counted}{few}{most}"


def _place(estimate: Estimate, wording: Wording) -> str:
    """All that distinguishes a change from the others of its platform."""
    named = wording.platform(estimate.platform, estimate.cell)
    levels = named.removeprefix(estimate.platform).strip()
    return ", ".join(part for part in (wording.label(estimate.cell), levels) if part)


def times_worse(cost: float, better: Better) -> float:
    """The ratio that a cost came from, the way round in which above 1 is worse: how many times as much
    time, or as little throughput; what costs of all responses have in common.
    """
    if better == "lower":
        return 1 + cost
    return 1 / (1 - cost) if cost < 1 else math.inf


def cost_text(one: Estimate | LevelChange, wording: Wording) -> tuple[str, str]:
    """The change of the response against the baseline or the other level, in per cent or as a factor, and
    its interval. Where there is no ratio, since a value is nought, the difference in the response's unit.

    The ends of the interval carry their signs as it does: `("+38 %", "+34 to +42")`.
    """
    if one.cost is not None:
        # An undecided interval may be very wide, so it chooses its unit for itself and not for its
        # neighbours.
        as_factor = None if one.verdict == "undecided" else one.response in wording.in_factors
        return change_text(_sign(one) * one.cost, _signed_ends(one), "%", as_factor)
    if one.difference is not None:
        bounds = (one.difference_low, one.difference_high)
        magnitude = one.estimate if isinstance(one, Estimate) else 0.0
        return difference_text(one.difference, bounds, one.unit, magnitude)
    return "–", ""


def is_taken_back(estimate: Estimate) -> bool:
    """Whether an estimate has no verdict only because it is in doubt."""
    return estimate.verdict is None and estimate.doubt is not None and estimate.baseline is not None


def added_text(estimate: Estimate) -> tuple[str, str]:
    """Returns the difference to the baseline and its interval, in the response's unit; else empty texts."""
    if estimate.cost is None or estimate.difference is None:
        return "", ""
    bounds = (estimate.difference_low, estimate.difference_high)
    return difference_text(estimate.difference, bounds, estimate.unit, 0.0)


def _signed_ends(one: Estimate | LevelChange) -> list[float | None]:
    return [None if end is None else _sign(one) * end for end in (one.cost_low, one.cost_high)]


def ratios(one: Estimate | LevelChange) -> list[float]:
    """The ends of the interval as ratios of the response, the least first; none without an interval."""
    sign = _sign(one) / 100
    return sorted(1 + sign * end for end in (one.cost_low, one.cost_high) if end is not None)


def _sign(one: Estimate | LevelChange) -> int:
    """Returns the factor that turns a cost, a share, into the change of the response in per cent."""
    return 100 if one.better == "lower" else -100


def _is_tenfold(one: Estimate | LevelChange) -> bool:
    """Whether a change or its interval reaches tenfold, so that factors read better; never if undecided."""
    if one.cost is None or one.verdict == "undecided":
        return False
    changes = [_sign(one) * one.cost, *(100 * (ratio - 1) for ratio in ratios(one))]
    return max(changes) >= _AS_FACTOR


def difference_text(
    difference: float, bounds: Bounds, unit: str, magnitude: float
) -> tuple[str, str]:
    """A difference in a response's unit; of nought, scaled as values of this magnitude are."""
    divisor, name = figures.scale(difference or magnitude, unit)
    scaled = [None if end is None else end / divisor for end in bounds]
    # A difference of shares is in percentage points.
    return change_text(difference / divisor, scaled, name.replace("%", "pp"))


def change_text(
    change: float, bounds: Bounds, unit: str, as_factor: bool | None = None
) -> tuple[str, str]:
    """A change with its sign and its interval, rounded to what the interval supports.

    Per cent become a factor where `as_factor` says so; where it says nothing, once they, or the upper
    end, reach tenfold: `("×41", "26 to 65")`.
    """
    ends = sorted(bound for bound in bounds if bound is not None)
    if as_factor is None:
        as_factor = max([change, *ends]) >= _AS_FACTOR
    if unit == "%" and as_factor:
        return _factor_text(change, ends)
    if len(ends) < 2 or ends[1] <= ends[0]:
        places = figures.plain_decimals(change)
        if unit != "%":
            # A count is exact to its last digit.
            places = max(0, places)
        text = f"{_signed(change, places)} {unit}".rstrip()
        return text, EXACT if len(ends) == 2 else ""
    places = figures.decimals((ends[1] - ends[0]) / 2)
    if unit == "%":
        places = max(places, _least_places(min(change, ends[0])))
    interval = f"{_signed(ends[0], places)} to {_signed(ends[1], places)}"
    return f"{_signed(change, places)} {unit}".rstrip(), interval


def _least_places(least: float) -> int:
    """Whole per cent, and near −100 % as many places as distinguish it from nothing left: −99.6 %."""
    left = 100 + least
    return min(max(0, -math.floor(math.log10(left))), 2) if left > 0 else 0


_MOST_TIMES = 1e6

_NARROW = 1.1
"""An interval whose ends differ by less than this factor is written with decimal places."""


def _times(ratio: float) -> str:
    """Returns a ratio in words, `0` or `over 1,000,000` beyond the limits."""
    if ratio < 1 / _MOST_TIMES:
        return "0"
    return f"over {_MOST_TIMES:,.0f}" if ratio > _MOST_TIMES else figures.significant(ratio)


def _factor_text(change: float, ends: Sequence[float]) -> tuple[str, str]:
    """Two digits each: a wide interval is as wide in ratio on either side, so that no one decimal place
    suits both ends. A narrow one has what it supports: beside ×41 there may be ×0.998.
    """
    ratios = [1 + value / 100 for value in (change, *ends)]
    if len(ends) == 2 and ends[0] == ends[1]:
        return f"×{figures.number(ratios[0], figures.plain_decimals(ratios[0]))}", EXACT
    if len(ends) == 2 and ratios[2] < _NARROW * ratios[1]:
        places = figures.decimals((ratios[2] - ratios[1]) / 2)
        factor, *around = (figures.number(ratio, places) for ratio in ratios)
    else:
        factor, *around = map(_times, ratios)
    return f"×{factor}", " to ".join(around) if len(around) > 1 else ""


def mean_text(estimate: Estimate, unit: str) -> tuple[str, str]:
    """An estimate and its interval. What cannot be below nought has no interval there."""
    low, high = mean_ends(estimate)
    value, interval = figures.measured(mean(estimate), low, high, unit)
    return value, EXACT if low is not None and low == high else interval


def mean(estimate: Estimate) -> float:
    """Returns the mean of an estimate: the geometric one if its change is a ratio, so that both agree."""
    return estimate.estimate if estimate.geometric is None else estimate.geometric


def mean_ends(estimate: Estimate) -> tuple[float | None, float | None]:
    """Ends of the interval of an estimate. Every response counts something and is never negative,
    but an interval from few boots that differ may reach below nought.
    """
    if estimate.geometric is not None:
        return estimate.geometric_low, estimate.geometric_high
    low = estimate.low
    return (low if low is None or estimate.estimate < 0 else max(0.0, low), estimate.high)


def mean_row(one: Estimate, divisor: float) -> dict[str, float]:
    """A mean and its interval in a chart's unit; where there is none, its ends are the mean."""
    value, (low, high) = mean(one), mean_ends(one)
    return {
        "mean": value / divisor,
        "low": (value if low is None else low) / divisor,
        "high": (value if high is None else high) / divisor,
    }


def tone(one: Estimate | LevelChange) -> Tone:
    """The one decision that words, marks, colours and bars follow."""
    if one.verdict == "costs":
        return "costs"
    if one.verdict == "gains":
        return "gains"
    return "same" if one.verdict == NO_DIFFERENCE else "unknown"


def least(summary: Summary, wording: Wording, headline: Mapping[str, str]) -> Sentence:
    """From which cost on one is shown, and what leading costs this run could not have shown, from its
    baseline against itself.
    """
    counts = f"a difference counts from {100 * summary.threshold:g} % on"
    leading = [
        floor
        for floor in summary.noise
        if headline.get(str(floor.cell.get("workload"))) == floor.response
    ]
    if not leading:
        return Sentence("same", counts)
    several = len(leading) > 1
    shown = sorted(leading, key=lambda floor: floor.cost, reverse=True)[:_MOST_FLOORS]
    floors = ", ".join(
        f"{figures.significant(100 * floor.cost)} % {word(floor.response)}"
        + (f" in {wording.label(floor.cell)}" if several else "")
        for floor in shown
    )
    less = ", less in the others" if len(leading) > len(shown) else ""
    return Sentence("same", f"{counts}; noise floor: {floors}{less}")


def basis(platform: str, blocks: int | None, n: int, wording: Wording) -> str:
    """What a figure rests on: `, n = 12 blocks, accelerator tcg`."""
    accelerator = wording.accelerators.get(platform)
    parts = [
        f"n = {blocks} block{'s' if blocks != 1 else ''}" if blocks else f"n = {n}",
        f"accelerator {accelerator}" if accelerator else "",
        "virtual time" if wording.clock == "virtual" else "",
    ]
    return "".join(f", {part}" for part in parts if part)


def _signed(value: float, places: int) -> str:
    text = figures.number(value, places)
    return text if text.startswith("−") or round(value, places) == 0 else f"+{text}"
