"""The verdicts of a run, as sentences.

A cost is shown as the change of the response: `+38 % elapsed` costs, and so does `−47 % goodput`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hypertare.base import figures
from hypertare.base.level import Cell, Level
from hypertare.base.response import Better
from hypertare.base.words import factor_text, word
from hypertare.design.trials import FinishedTrial
from hypertare.findings.conditions import told
from hypertare.runs.store import Meta
from hypertare.runs.summary import Estimate, LevelChange, Summary
from hypertare.stats.practical import THRESHOLD
from hypertare.study.search import GOAL

_FEW = "too few blocks with both platform and baseline"

_MOST_FLOORS = 3

_FEW_VERDICTS = 3
"""As many as an eye takes in at once; more need a sentence over all of them."""

_AS_FACTOR = 900.0
"""From this change on, in per cent, a factor reads better: ×41 and not +4,000 %."""

TOO_FEW = "too few trials to say"
"""In place of an interval that holds half and double."""

EXACT = "exact"
"""In place of an interval: in virtual time, what did not vary at all."""

_OF_ANYTHING = frozenset({"none", "own", "always", "never", "madvise"})

Bounds = Sequence[float | None]

Tone = Literal["costs", "gains", "same", "failed", "unknown"]

MARKS: Mapping[Tone, str] = {
    "costs": "▲",
    "gains": "▼",
    "same": "=",
    "failed": "✗",
    "unknown": "?",
}
"""What says a tone without its colour."""


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
    platform's name; the others tell the cells apart, and only where they differ.
    """

    titles: Mapping[tuple[str, str], str]
    shared: Mapping[str, frozenset[str]]
    varied: frozenset[tuple[str, str]]
    workloads: int
    clock: Literal["wall", "virtual"]
    accelerators: Mapping[str, str | None]
    threshold: float = THRESHOLD
    in_factors: frozenset[str] = frozenset()
    """Responses of which a change reaches tenfold: all of theirs are told as factors, so that the unit
    does not change between neighbours."""
    _labels: dict[tuple[tuple[str, type, Level], ...], str] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Those made already: a report asks for each hundreds of times."""

    @classmethod
    def of(cls, meta: Meta, summary: Summary, trials: Sequence[FinishedTrial]) -> Wording:
        shared: dict[str, frozenset[str]] = {}
        levels: dict[tuple[str, str], set[str]] = {}
        for trial in trials:
            workload = trial.planned.workload
            factors = frozenset(trial.planned.cell)
            shared[workload] = shared.get(workload, factors) & factors
            for factor, level in trial.planned.cell.items():
                levels.setdefault((workload, factor), set()).add(shown(level))
        # What is modelled of a trial, or searched by several, may have factors that no trial has.
        beyond = [estimate.cell for estimate in summary.estimates]
        goals = [
            {"workload": one.cell.get("workload", ""), GOAL: one.goal} for one in summary.loss_free
        ]
        for cell in (*beyond, *goals):
            for factor, level in cell.items():
                workload = str(cell.get("workload", ""))
                levels.setdefault((workload, factor), set()).add(shown(level))
        return cls(
            titles={
                (workload, response.name): response.title
                for workload, responses in meta.responses.items()
                for response in responses
            },
            shared=shared,
            varied=frozenset(key for key, seen in levels.items() if len(seen) > 1),
            workloads=len(shared),
            clock=summary.clock,
            accelerators={state.platform: state.accelerator for state in summary.platforms},
            threshold=summary.threshold,
            in_factors=frozenset(
                one.response
                for found in (summary.estimates, summary.levels)
                for one in found
                if _is_tenfold(one)
            ),
        )

    def title(self, cell: Cell, response: str) -> str:
        return self.titles.get((str(cell.get("workload", "")), response), response)

    def label(self, cell: Cell) -> str:
        """Names a cell: `tcp receive cpus 2`."""
        known = tuple((factor, type(level), level) for factor, level in cell.items())
        if known not in self._labels:
            self._labels[known] = self._label(cell)
        return self._labels[known]

    def _label(self, cell: Cell) -> str:
        workload = str(cell.get("workload", ""))
        levels = [
            named(factor, level)
            for factor, level in cell.items()
            if factor in self.shared.get(workload, ()) and (workload, factor) in self.varied
        ]
        spelt_out = self.workloads > 1 or not levels
        return " ".join([workload, *levels] if spelt_out else levels)

    def levels(self, cell: Cell) -> str:
        """What tells a cell from the others of its workload: `cpus 2`."""
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
    """A level that is a word speaks for itself; a number needs its factor's name, and so do words that
    are said of anything."""
    if isinstance(level, str) and level[:1].isalpha() and level not in _OF_ANYTHING:
        return level
    return f"{factor_text(factor)} {shown(level)}"


def setting(platform: str, cell: Cell, left_out: Sequence[str] = ()) -> str:
    """A platform with the levels of its cell: `xen receive guests 2`."""
    levels = (named(factor, level) for factor, level in cell.items() if factor not in left_out)
    return " ".join([platform, *levels])


def workloads(cells: Iterable[Cell]) -> str:
    """The names of their workloads, each once."""
    return ", ".join(dict.fromkeys(str(cell.get("workload")) for cell in cells))


def shown(level: Level) -> str:
    """A level as tables and sentences have it."""
    if isinstance(level, bool):
        return "on" if level else "off"
    return f"{level:g}" if isinstance(level, float) else str(level)


def sentence(estimate: Estimate, wording: Wording, where: bool) -> Sentence:
    """The verdict on one cost. `where` names the cell, for runs that have more than one.

    For example: guest costs +38 % elapsed (95 % interval 34 to 42), n = 12 blocks, accelerator tcg
    """
    title = word(estimate.response)
    platform = wording.platform(estimate.platform, estimate.cell)
    place = f" in {wording.label(estimate.cell)}" if where else ""
    if estimate.verdict is None:
        why = estimate.doubt or _FEW
        return Sentence("unknown", f"{platform}: no verdict on {title}{place}: {why}")
    basis = _basis(estimate, wording)
    if is_too_wide(estimate):
        return Sentence("unknown", f"{platform}: {TOO_FEW} what becomes of {title}{place}{basis}")
    change, interval = cost_text(estimate, wording)
    confidence = f"{estimate.confidence * 100:g} % interval"
    if estimate.exact:
        text = f"{platform} {_exactly(estimate, title, wording)}{place}{basis}{_why(estimate, wording)}"
        return Sentence(tone(estimate), text)
    around = f" ({confidence} {interval})" if interval else ""
    if interval == EXACT:
        around = f" ({EXACT})"
    if estimate.verdict == "no difference shown" and estimate.blocks == 1:
        text = f"{platform}: no verdict on {title}{place} from one block: {change}{basis}"
        return Sentence("unknown", text)
    if estimate.verdict == "no difference shown":
        why = _why(estimate, wording)
        text = f"{platform}: no difference shown in {title}{place}: {change}{around}{basis}{why}"
    else:
        text = f"{platform} {estimate.verdict} {change} {title}{place}{around}{basis}"
    return Sentence(tone(estimate), text)


def answer(leading: Sequence[Estimate], wording: Wording) -> Sentence | None:
    """What the platforms cost, in one line; none where nothing was compared.

    For example: guest (tcg) costs ×28 elapsed; container: no difference shown
    """
    if len(leading) > _FEW_VERDICTS:
        if any(one.verdict is not None for one in leading):
            return overall(leading, wording)
        return Sentence("unknown", f"no verdict in {len(leading)} comparisons: {_FEW}")
    if not leading:
        return None
    # Those that say something come first.
    ordered = sorted(leading, key=lambda one: tone(one) in ("same", "unknown"))
    several = len({wording.label(one.cell) for one in leading}) > 1
    parts = [_short(one, wording, several) for one in ordered]
    return Sentence(_loudest(map(tone, leading)), "; ".join(parts) + _clock(wording))


def _short(estimate: Estimate, wording: Wording, several: bool) -> str:
    """A verdict without its figures' basis, which stands below it."""
    place = f" in {wording.label(estimate.cell)}" if several else ""
    accelerator = wording.accelerators.get(estimate.platform)
    platform = wording.platform(estimate.platform, estimate.cell)
    named = f"{platform} ({accelerator})" if accelerator else platform
    if estimate.verdict is None:
        return f"{named}: no verdict{place}, {estimate.doubt or _FEW}"
    if is_too_wide(estimate):
        return f"{named}: {TOO_FEW}{place}"
    if estimate.verdict == "no difference shown":
        one_block = estimate.blocks == 1 and not estimate.exact
        return f"{named}: {'no verdict from one block' if one_block else estimate.verdict}{place}"
    exactly = "exactly " if estimate.exact else ""
    change, _ = cost_text(estimate, wording)
    return f"{named} {estimate.verdict} {exactly}{change} {word(estimate.response)}{place}"


def _loudest(tones: Iterable[Tone]) -> Tone:
    there = set(tones)
    order: tuple[Tone, ...] = ("costs", "gains", "same", "unknown")
    return next(tone for tone in order if tone in there)


def _clock(wording: Wording) -> str:
    return " (virtual time)" if wording.clock == "virtual" else ""


def overall(leading: Sequence[Estimate], wording: Wording) -> Sentence:
    """All costs of the leading responses in one sentence: how many of each platform, and the least
    and the largest of them.

    For example: guest costs in all 8 comparisons, −25 % goodput in udp to ×41 elapsed in build;
    container: no difference shown in 4 comparisons
    """
    judged = [one for one in leading if one.verdict is not None]
    platforms: dict[str, list[Estimate]] = {}
    for one in judged:
        platforms.setdefault(one.platform, []).append(one)
    quiet = ("same", "unknown")
    ordered = sorted(platforms, key=lambda name: all(tone(e) in quiet for e in platforms[name]))
    parts = [_overall_of(name, platforms[name], wording) for name in ordered]
    return Sentence(_loudest(map(tone, judged)), "; ".join(parts) + _clock(wording))


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
        parts.append(f"{verdict} in {of}, " + " to ".join(_end(one, wording) for one in ends))
    if not parts:
        wide = sum(map(is_too_wide, judged))
        if wide == len(judged):
            return f"{platform}: {TOO_FEW} in {counted}"
        few = f", {TOO_FEW} in {wide} of them" if wide else ""
        return f"{platform}: no difference shown in {counted}{few}"
    return f"{platform} " + ", and ".join(parts)


def _end(estimate: Estimate, wording: Wording) -> str:
    """A change with all that tells it from the others of its platform."""
    named = wording.platform(estimate.platform, estimate.cell)
    levels = named.removeprefix(estimate.platform).strip()
    place = ", ".join(part for part in (wording.label(estimate.cell), levels) if part)
    return f"{cost_text(estimate, wording)[0]} {word(estimate.response)} in {place}"


def times_worse(cost: float, better: Better) -> float:
    """The ratio that a cost came from, the way round in which above 1 is worse: how many times as much
    time, or as little throughput; what costs of all responses have in common.
    """
    if better == "lower":
        return 1 + cost
    return 1 / (1 - cost) if cost < 1 else math.inf


def cost_text(estimate: Estimate, wording: Wording) -> tuple[str, str]:
    """The change of the response against the baseline, in per cent or as a factor, and its interval.
    Where there is no ratio, since a value is nought, the difference in the response's unit.

    The ends of the interval carry their signs as it does: `("+38 %", "+34 to +42")`.
    """
    if estimate.cost is not None:
        return ratio_text(estimate, estimate.cost, wording)
    if estimate.difference is not None:
        bounds = (estimate.difference_low, estimate.difference_high)
        return difference_text(estimate.difference, bounds, estimate.unit, estimate.estimate)
    return "–", ""


def is_taken_back(estimate: Estimate) -> bool:
    """Whether there would be a verdict, but for what is in doubt."""
    return estimate.verdict is None and estimate.doubt is not None and estimate.baseline is not None


def added_text(estimate: Estimate) -> tuple[str, str]:
    """What the platform adds to the baseline's, in the response's unit, beside a change in per cent."""
    if estimate.cost is None or estimate.difference is None:
        return "", ""
    bounds = (estimate.difference_low, estimate.difference_high)
    return difference_text(estimate.difference, bounds, estimate.unit, estimate.difference)


def ratio_text(one: Estimate | LevelChange, cost: float, wording: Wording) -> tuple[str, str]:
    """A cost with its interval as the change of the response that it is. Of one that is too wide to be told
    the interval alone, with its unit.
    """
    if is_too_wide(one):
        low, high = ratios(one)
        return "?", f"×{_times(max(low, 0.0))} to ×{_times(high)}"
    sign = _sign(one)
    signed = [None if end is None else sign * end for end in (one.cost_low, one.cost_high)]
    return change_text(sign * cost, signed, "%", one.response in wording.in_factors)


def is_too_wide(one: Estimate | LevelChange) -> bool:
    """Whether a response may have halved, and may have doubled: its interval says nothing at all."""
    ends = ratios(one)
    return one.verdict == "no difference shown" and bool(ends) and ends[0] <= 0.5 and ends[-1] >= 2


def ratios(one: Estimate | LevelChange) -> list[float]:
    """The ends of the interval as ratios of the response, the least first; none without an interval."""
    sign = _sign(one) / 100
    return sorted(1 + sign * end for end in (one.cost_low, one.cost_high) if end is not None)


def _sign(one: Estimate | LevelChange) -> int:
    """From a cost, a share, to the change of the response in per cent."""
    return 100 if one.better == "lower" else -100


def _is_tenfold(one: Estimate | LevelChange) -> bool:
    """Whether per cent would be read badly; what is too wide to be told has no say."""
    if one.cost is None or is_too_wide(one):
        return False
    changes = [_sign(one) * one.cost, *(100 * (ratio - 1) for ratio in ratios(one))]
    return max(changes) >= _AS_FACTOR


def difference_text(
    difference: float, bounds: Bounds, unit: str, magnitude: float
) -> tuple[str, str]:
    """A difference in a response's unit, scaled as values of this magnitude are."""
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
        text = f"{_signed(change, figures.plain_decimals(change))} {unit}".rstrip()
        return text, EXACT if len(ends) == 2 else ""
    places = figures.decimals((ends[1] - ends[0]) / 2)
    if unit == "%":
        places = max(places, _least_places(min(change, ends[0])))
    interval = f"{_signed(ends[0], places)} to {_signed(ends[1], places)}"
    return f"{_signed(change, places)} {unit}".rstrip(), interval


def _least_places(least: float) -> int:
    """Whole per cent, and near −100 % as many places as tell it from nothing left: −99.6 %."""
    left = 100 + least
    return min(max(0, -math.floor(math.log10(left))), 2) if left > 0 else 0


_MOST_TIMES = 1e6

_NARROW = 1.1
"""An interval whose ends differ by less than this factor is told by decimal places."""


def _times(ratio: float) -> str:
    """Of an end so far out no digit is worth reading."""
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
    """Geometric where a change is a ratio, so that the baseline's times the change is the platform's."""
    return estimate.estimate if estimate.geometric is None else estimate.geometric


def mean_ends(estimate: Estimate) -> tuple[float | None, float | None]:
    """Ends of the interval of an estimate. Every response counts something and is never negative,
    but an interval from few boots that differ may reach below nought.
    """
    if estimate.geometric is not None:
        return estimate.geometric_low, estimate.geometric_high
    low = estimate.low
    return (low if low is None or estimate.estimate < 0 else max(0.0, low), estimate.high)


def tone(estimate: Estimate | LevelChange) -> Tone:
    if estimate.verdict == "costs":
        return "costs"
    if estimate.verdict == "gains":
        return "gains"
    return "same" if estimate.verdict and not is_too_wide(estimate) else "unknown"


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


def disturbances(summary: Summary) -> list[Sentence]:
    """What took CPU time from the run."""
    return [Sentence("unknown", told(summary.disturbances))] if summary.disturbances else []


def _basis(estimate: Estimate, wording: Wording) -> str:
    return basis(estimate.platform, estimate.blocks, estimate.n, wording)


def basis(platform: str, blocks: int | None, n: int, wording: Wording) -> str:
    """What a figure rests on: `, n = 12 blocks, accelerator tcg`."""
    accelerator = wording.accelerators.get(platform)
    parts = [
        f"n = {blocks} block{'s' if blocks != 1 else ''}" if blocks else f"n = {n}",
        f"accelerator {accelerator}" if accelerator else "",
        "virtual time" if wording.clock == "virtual" else "",
    ]
    return "".join(f", {part}" for part in parts if part)


def _exactly(estimate: Estimate, title: str, wording: Wording) -> str:
    """In virtual time a run repeats exactly, so that there is nothing to be unsure of."""
    if estimate.cost == 0:
        return f"has exactly the same {title}"
    verdict = "differs by" if estimate.reason else f"{estimate.verdict or 'costs'}"
    return f"{verdict} exactly {cost_text(estimate, wording)[0]} {title}"


def _why(estimate: Estimate, wording: Wording) -> str:
    """Why no difference is shown, where the interval does not say it."""
    reasons = {
        "size": f"less than the {100 * wording.threshold:g} % that matter",
        "floor": "the baseline differed as much from itself",
        "many": "as one of so many comparisons it may be chance",
    }
    why = reasons.get(estimate.reason or "")
    return f"; {why}" if why and estimate.cost != 0 else ""


def _signed(value: float, places: int) -> str:
    text = figures.number(value, places)
    return text if text.startswith("−") or round(value, places) == 0 else f"+{text}"
