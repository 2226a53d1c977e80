"""The answer to "A or B", as sentences: what the levels of factors change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.report import units
from hypertare.report.verdict import (
    EXACT,
    Sentence,
    Tone,
    Wording,
    basis,
    change_text,
    difference_text,
    named,
    shown,
    word,
)
from hypertare.runs.summary import LevelChange, Summary

MOST = 6
"""As many as are read one by one; of more, those that show something stand in sentences."""


def sentences(summary: Summary, wording: Wording) -> Iterator[Sentence]:
    """Every change, or of many the largest; then where guests change which level is better. A study with
    claims asks what those say: of many changes it gets their number.
    """
    every = summary.levels
    told = every
    if len(every) > MOST:
        showing = [one for one in every if one.verdict in ("costs", "gains")]
        most = 0 if summary.claims else MOST
        told = tuple(sorted(showing, key=lambda one: -abs(one.cost or 0.0))[:most])
        yield Sentence(
            "same",
            f"levels of factors: {len(showing)} of {len(every)} comparisons show a difference "
            "(hypertare report RUN --all)",
        )
    several = len({wording.label(one.cell) for one in every}) > 1
    yield from (_sentence(one, wording, several) for one in told)
    yield from _turned(every, wording)


def change(one: LevelChange) -> tuple[str, str]:
    """The change of the response from the reference, and its interval: see `verdict.cost_text`."""
    if one.cost is not None:
        sign = 100 if one.better == "lower" else -100
        ends = [None if end is None else sign * end for end in (one.cost_low, one.cost_high)]
        return change_text(sign * one.cost, ends, "%")
    if one.difference is not None:
        bounds = (one.difference_low, one.difference_high)
        return difference_text(one.difference, bounds, one.unit, abs(one.difference))
    return "–", ""


def points(one: LevelChange) -> tuple[str, str]:
    """How much more of the baseline is lost, in points; nothing for the baseline itself."""
    if one.cost_change is None:
        return "", ""
    bounds = (one.cost_change_low, one.cost_change_high)
    ends = [None if end is None else 100 * end for end in bounds]
    return change_text(100 * one.cost_change, ends, "points")


def _sentence(one: LevelChange, wording: Wording, several: bool) -> Sentence:
    """For example: guest: mtu 9000 against 1500: +12 % goodput (95 % interval +9 to +15), n = 8 blocks;
    its cost is 8 points lower
    """
    place = f" in {wording.label(one.cell)}" if several else ""
    what = f"{wording.platform(one.platform, one.cell)}: {_levels(one)}{place}"
    if one.doubt is not None:
        return Sentence("unknown", f"{what}: no verdict, {one.doubt}")
    text, interval = change(one)
    title = word(one.response)
    if one.verdict == "no difference shown":
        told = f"no difference shown in {title}: {text}"
    else:
        told = f"{text} {title}"
    over = f" over {one.settings} settings" if one.settings > 1 else ""
    rests = basis(one.platform, one.blocks, one.blocks, wording)
    around = f" ({_interval(one, interval)})" if interval else ""
    return Sentence(_tone(one), f"{what}: {told}{around}{over}{rests}{_cost(one)}")


def _levels(one: LevelChange) -> str:
    return f"{named(one.factor, one.level)} against {shown(one.against)}"


def _interval(one: LevelChange, interval: str) -> str:
    return EXACT if interval == EXACT else f"{100 * one.confidence:g} % interval {interval}"


def _cost(one: LevelChange) -> str:
    """Only where it is sure: beside the change itself it would read like a second answer."""
    ends = (one.cost_change_low, one.cost_change_high)
    if one.cost_change is None or ends[0] is None or ends[1] is None or ends[0] <= 0 <= ends[1]:
        return ""
    size = units.significant(abs(100 * one.cost_change))
    return f"; its cost is {size} points {'higher' if one.cost_change > 0 else 'lower'}"


def _tone(one: LevelChange) -> Tone:
    if one.verdict == "costs":
        return "costs"
    return "gains" if one.verdict == "gains" else "same"


def _turned(every: Sequence[LevelChange], wording: Wording) -> Iterator[Sentence]:
    """Where one level is better on the baseline, the first to be named, and worse elsewhere."""
    first: dict[object, LevelChange] = {}
    for one in every:
        place = (one.factor, shown(one.level), wording.label(one.cell))
        base = first.setdefault(place, one)
        if {base.verdict, one.verdict} == {"costs", "gains"}:
            better, worse = (base, one) if base.verdict == "gains" else (one, base)
            yield Sentence(
                "unknown",
                f"which is better depends on the platform: {named(one.factor, one.level)} on "
                f"{better.platform}, {shown(one.against)} on {worse.platform}",
            )
