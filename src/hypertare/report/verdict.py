"""The verdicts of a run, as sentences.

A cost is shown as the change of the response: `+38 % elapsed` costs, and so does `−47 % goodput`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hypertare.base.level import Cell, Level
from hypertare.base.response import Better
from hypertare.design.trials import FinishedTrial
from hypertare.findings.conditions import told
from hypertare.report import units
from hypertare.runs.store import Meta
from hypertare.runs.summary import Estimate, Summary
from hypertare.stats.practical import THRESHOLD
from hypertare.study.search import GOAL

_FEW = "too few blocks with both it and the baseline"

_MOST_FLOORS = 3

_FEW_VERDICTS = 3
"""As many as an eye takes in at once; more need a sentence over all of them."""

_AS_FACTOR = 900.0
"""From this change on, in per cent, a factor reads better: ×41 and not +4,000 %."""

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
    """One verdict. `tone` is for its colour; the words say the same."""

    tone: Tone
    text: str


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
        )

    def title(self, cell: Cell, response: str) -> str:
        return self.titles.get((str(cell.get("workload", "")), response), response)

    def label(self, cell: Cell) -> str:
        """Names a cell: `tcp receive cpus 2`."""
        workload = str(cell.get("workload", ""))
        levels = [
            named(factor, level)
            for factor, level in cell.items()
            if factor in self.shared.get(workload, ()) and (workload, factor) in self.varied
        ]
        spelt_out = self.workloads > 1 or not levels
        return " ".join([workload, *levels] if spelt_out else levels)

    def platform(self, platform: str, cell: Cell) -> str:
        """Names a platform with the levels that only it has: `guest e1000`."""
        workload = str(cell.get("workload", ""))
        levels = [
            named(factor, level)
            for factor, level in cell.items()
            if factor not in self.shared.get(workload, cell) and (workload, factor) in self.varied
        ]
        return " ".join([platform, *levels])


def word(response: str) -> str:
    """A response's name as it stands in a sentence."""
    return response.replace("_", " ")


def named(factor: str, level: Level) -> str:
    """A level that is a word speaks for itself; a number needs its factor's name, and so do words that
    are said of anything."""
    if isinstance(level, str) and level[:1].isalpha() and level not in _OF_ANYTHING:
        return level
    return f"{factor.rpartition('.')[2].replace('_', ' ')} {shown(level)}"


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
        return Sentence("unknown", f"{platform}: no verdict on {title}{place}: {_FEW}")
    change, interval = cost_text(estimate)
    confidence = f"{estimate.confidence * 100:g} % interval"
    basis = _basis(estimate, wording)
    if estimate.exact:
        text = f"{platform} {_exactly(estimate, title)}{place}{basis}{_why(estimate, wording)}"
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


def overall(leading: Sequence[Estimate], wording: Wording) -> Sentence | None:
    """All costs of the leading responses in one sentence: how many of each platform, and the least
    and the largest of them. None where the verdicts are few enough to be read one by one.

    For example: guest costs in all 8 comparisons, −25 % goodput in udp to ×41 elapsed in build;
    container: no difference shown in 4 comparisons
    """
    judged = [one for one in leading if one.verdict is not None]
    if len(judged) <= _FEW_VERDICTS:
        return None
    platforms: dict[str, list[Estimate]] = {}
    for one in judged:
        platforms.setdefault(one.platform, []).append(one)
    # Those that say something come first.
    ordered = sorted(platforms, key=lambda name: all(tone(e) == "same" for e in platforms[name]))
    parts = [_overall_of(name, platforms[name], wording) for name in ordered]
    tones = {tone(one) for one in judged}
    clock = " (virtual time)" if wording.clock == "virtual" else ""
    text = "; ".join(parts) + clock
    return Sentence(next(t for t in ("costs", "gains", "same") if t in tones), text)


def _overall_of(platform: str, judged: Sequence[Estimate], wording: Wording) -> str:
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
        return f"{platform}: no difference shown in {counted}"
    return f"{platform} " + ", and ".join(parts)


def _end(estimate: Estimate, wording: Wording) -> str:
    """A change with all that tells it from the others of its platform."""
    named = wording.platform(estimate.platform, estimate.cell)
    levels = named.removeprefix(estimate.platform).strip()
    place = ", ".join(part for part in (wording.label(estimate.cell), levels) if part)
    return f"{cost_text(estimate)[0]} {word(estimate.response)} in {place}"


def times_worse(cost: float, better: Better) -> float:
    """The ratio that a cost came from, the way round in which above 1 is worse: how many times as much
    time, or as little throughput; what costs of all responses have in common.
    """
    if better == "lower":
        return 1 + cost
    return 1 / (1 - cost) if cost < 1 else math.inf


def cost_text(estimate: Estimate) -> tuple[str, str]:
    """The change of the response against the baseline, in per cent, and its interval. Where there
    is no ratio, since a value is nought, the difference in the response's unit.

    The ends of the interval carry their signs as it does: `("+38 %", "+34 to +42")`.
    """
    if estimate.cost is not None:
        sign = 100 if estimate.better == "lower" else -100
        ends = (estimate.cost_low, estimate.cost_high)
        signed = [None if end is None else sign * end for end in ends]
        return change_text(sign * estimate.cost, signed, "%")
    if estimate.difference is not None:
        bounds = (estimate.difference_low, estimate.difference_high)
        return difference_text(estimate.difference, bounds, estimate.unit, estimate.estimate)
    return "–", ""


def difference_text(
    difference: float, bounds: Bounds, unit: str, magnitude: float
) -> tuple[str, str]:
    """A difference in a response's unit, scaled as values of this magnitude are."""
    divisor, name = units.scale(difference or magnitude, unit)
    scaled = [None if end is None else end / divisor for end in bounds]
    # A difference of shares is in percentage points.
    return change_text(difference / divisor, scaled, name.replace("%", "pp"))


def change_text(change: float, bounds: Bounds, unit: str) -> tuple[str, str]:
    """A change with its sign and its interval, rounded to what the interval supports.

    Per cent become a factor where they, or the upper end, reach tenfold: `("×41", "26 to 65")`.
    """
    ends = sorted(bound for bound in bounds if bound is not None)
    if unit == "%" and max([change, *ends]) >= _AS_FACTOR:
        return _factor_text(change, ends)
    if len(ends) < 2 or ends[1] <= ends[0]:
        text = f"{_signed(change, units.plain_decimals(change))} {unit}".rstrip()
        return text, EXACT if len(ends) == 2 else ""
    places = units.decimals((ends[1] - ends[0]) / 2)
    if unit == "%":
        places = max(places, _least_places(min(change, ends[0])))
    interval = f"{_signed(ends[0], places)} to {_signed(ends[1], places)}"
    return f"{_signed(change, places)} {unit}".rstrip(), interval


def _least_places(least: float) -> int:
    """Whole per cent, and near −100 % as many places as tell it from nothing left: −99.6 %."""
    left = 100 + least
    return min(max(0, -math.floor(math.log10(left))), 2) if left > 0 else 0


_MOST_TIMES = 1e6


def _times(ratio: float) -> str:
    """Of an end so far out no digit is worth reading."""
    return f"over {_MOST_TIMES:,.0f}" if ratio > _MOST_TIMES else units.significant(ratio)


def _factor_text(change: float, ends: Sequence[float]) -> tuple[str, str]:
    """Two digits each: such an interval is as wide in ratio on either side, so that no one decimal
    place suits both ends.
    """
    factor, *around = (_times(1 + value / 100) for value in (change, *ends))
    if len(ends) == 2 and ends[0] == ends[1]:
        return f"×{factor}", EXACT
    return f"×{factor}", " to ".join(around) if len(around) > 1 else ""


def mean_text(estimate: Estimate, unit: str) -> tuple[str, str]:
    """An estimate and its interval. What cannot be below nought has no interval there."""
    low, high = mean_ends(estimate)
    value, interval = units.measured(estimate.estimate, low, high, unit)
    return value, EXACT if low is not None and low == high else interval


def mean_ends(estimate: Estimate) -> tuple[float | None, float | None]:
    """Ends of the interval of an estimate. Every response counts something and is never negative,
    but an interval from few boots that differ may reach below nought.
    """
    low = estimate.low
    return (low if low is None or estimate.estimate < 0 else max(0.0, low), estimate.high)


def tone(estimate: Estimate) -> Tone:
    if estimate.verdict == "costs":
        return "costs"
    if estimate.verdict == "gains":
        return "gains"
    return "same" if estimate.verdict else "unknown"


def failures(
    summary: Summary, wording: Wording, trials: Mapping[tuple[str, str], int]
) -> list[Sentence]:
    """What failed, by platform and cell: how many of how many trials, and the usual reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for trial in summary.failed:
        key = (wording.platform(trial.platform, trial.cell), wording.label(trial.cell))
        groups.setdefault(key, []).append(trial.reason)
    made = []
    for (platform, label), reasons in groups.items():
        usual = max(set(reasons), key=reasons.count)
        also = ", and other reasons" if len(set(reasons)) > 1 else ""
        of = trials.get((platform, label), len(reasons))
        text = f"{platform} failed in {len(reasons)} of {of} trials of {label}: {usual}{also}"
        made.append(Sentence("failed", text))
    return made


def least(summary: Summary, wording: Wording, headline: Mapping[str, str]) -> Sentence:
    """From which cost on one is shown, and what leading costs this run could not have shown, from its
    baseline against itself.
    """
    counts = f"a difference counts from {100 * summary.threshold:g} % on (design.threshold)"
    leading = [
        floor
        for floor in summary.noise
        if headline.get(str(floor.cell.get("workload"))) == floor.response
    ]
    if not leading:
        return Sentence("same", counts)
    shown = sorted(leading, key=lambda floor: floor.cost, reverse=True)[:_MOST_FLOORS]
    floors = ", ".join(
        f"{units.significant(100 * floor.cost)} % {word(floor.response)} in {wording.label(floor.cell)}"
        for floor in shown
    )
    less = ", less in the others" if len(leading) > len(shown) else ""
    floor = f"noise floor, the baseline against itself: {floors}{less}"
    return Sentence("same", f"{counts}; {floor}")


def disturbances(summary: Summary) -> list[Sentence]:
    """What took CPU time from the run."""
    return [Sentence("unknown", told(one)) for one in summary.disturbances]


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


def _exactly(estimate: Estimate, title: str) -> str:
    """In virtual time a run repeats exactly, so that there is nothing to be unsure of."""
    if estimate.cost == 0:
        return f"has exactly the same {title}"
    verdict = "differs by" if estimate.reason else f"{estimate.verdict or 'costs'}"
    return f"{verdict} exactly {cost_text(estimate)[0]} {title}"


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
    text = units.number(value, places)
    return text if text.startswith("−") or round(value, places) == 0 else f"+{text}"
