"""The answers to a study's own questions, as sentences: what levels of factors change, what claims find."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.base import figures
from hypertare.base.figures import word
from hypertare.platforms.registry import find
from hypertare.report.verdict import (
    TOO_FEW,
    Sentence,
    Tone,
    Wording,
    basis,
    change_text,
    cost_text,
    interval_text,
    loudest,
    named,
    none_shown,
    quietly,
    shown,
    times_worse,
    tone,
    undecided_why,
)
from hypertare.runs.summary import JudgedClaim, Judgement, LevelChange, Summary

MOST = 6
"""Most changes that are given one by one; of more, only those that show a difference are."""


def answer(summary: Summary, wording: Wording) -> Sentence | None:
    """What the levels change, in one line: each change where there are few, else how many there are.

    For example: mtu 9000 against 1500: guest +12 % goodput; native: no difference shown
    """
    every = summary.levels
    if not every:
        return None
    if len(every) > MOST:
        showing = sum(one.verdict in ("costs", "gains") for one in every)
        text = f"levels of factors: {showing} of {len(every)} comparisons show a difference"
        return Sentence("same", text)
    several = len({wording.label(one.cell) for one in every}) > 1
    changes: dict[str, list[str]] = {}
    for one in every:
        place = f" in {wording.label(one.cell)}" if several else ""
        changes.setdefault(f"{compared(one)}{place}", []).append(_short(one, wording))
    text = "; ".join(f"{what}: {', '.join(parts)}" for what, parts in changes.items())
    return Sentence(loudest(map(_tone, every)), text)


def fastest(summary: Summary, wording: Wording) -> Sentence | None:
    """Which of several commands is the best natively, and by how much, in one line. That it is is said only
    where every comparison of the baseline shows it.

    For example: zstd is the fastest natively; against gzip: 11 times as fast natively (8.1 to 14),
    9.8 times as fast in the guest (7.0 to 13)
    """
    every = summary.fastest
    if not every:
        return None
    several = len({wording.label(one.cell) for one in every}) > 1
    by_other: dict[str, list[str]] = {}
    for one in every:
        setting = f" {wording.label(one.cell)}" if several else ""
        is_baseline = find(one.platform).is_baseline
        where = ("natively" if is_baseline else f"in the {one.platform}") + setting
        by_other.setdefault(shown(one.level), []).append(
            f"{_speed(one, wording)} {where}{_of_speed(one)}"
        )
    parts = (f"against {other}: {', '.join(found)}" for other, found in by_other.items())
    best = "the fastest" if _is_time(every[0]) else f"the best by {word(every[0].response)}"
    is_best = {_tone(one) for one in every if find(one.platform).is_baseline} == {"costs"}
    is_it = f"is {best} natively" if is_best else f"leads natively, not shown to be {best}"
    text = f"{shown(every[0].against)} {is_it}; {'; '.join(parts)}"
    clear = all(_tone(one) == "costs" for one in every)
    return Sentence("gains" if clear else "same", text)


def _is_time(one: LevelChange) -> bool:
    return one.response == "elapsed"


def _speed(one: LevelChange, wording: Wording) -> str:
    if one.doubt is not None or one.verdict == "undecided":
        return TOO_FEW
    if one.verdict == "no difference shown":
        return "no difference shown"
    if one.cost is None:
        return cost_text(one, wording)[0]
    ratio = times_worse(one.cost, one.better)
    fast, slow = ("fast", "slow") if _is_time(one) else ("good", "bad")
    if ratio < 1:
        return f"{figures.significant(1 / ratio)} times as {slow}"
    return f"{figures.significant(ratio)} times as {fast}"


def _of_speed(one: LevelChange) -> str:
    """The interval as ratios."""
    if one.cost_low is None or one.cost_high is None or one.verdict == "undecided":
        return ""
    ends = (times_worse(one.cost_low, one.better), times_worse(one.cost_high, one.better))
    if one.verdict == "gains":
        ends = (1 / ends[1], 1 / max(ends[0], 1e-9))
    low, high = (figures.significant(end) for end in ends)
    return f" ({low} to {high})"


def verdicts(summary: Summary, wording: Wording) -> Iterator[Sentence]:
    """Every change that is given one by one."""
    several = len({wording.label(one.cell) for one in summary.levels}) > 1
    return (_sentence(one, wording, several) for one in largest(summary))


def largest(summary: Summary) -> tuple[LevelChange, ...]:
    """Returns every change or, if there are many, the largest that show a difference.

    For a study with claims it returns none of many changes: the claims answer its questions.
    """
    every = summary.levels
    if len(every) <= MOST:
        return every
    showing = (one for one in every if one.verdict in ("costs", "gains"))
    most = 0 if summary.claims else MOST
    return tuple(sorted(showing, key=lambda one: -abs(one.cost or 0.0))[:most])


def _short(one: LevelChange, wording: Wording) -> str:
    platform = wording.platform(one.platform, one.cell)
    if one.doubt is not None:
        return f"{platform}: no verdict"
    if one.verdict in ("costs", "gains"):
        return f"{platform} {cost_text(one, wording)[0]} {word(one.response)}"
    return f"{platform}: {quietly(one, wording)}"


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
    what = f"{wording.platform(one.platform, one.cell)}: {compared(one)}{place}"
    if one.doubt is not None:
        return Sentence("unknown", f"{what}: no verdict, {one.doubt}")
    title = word(one.response)
    rests = basis(one.platform, one.blocks, one.blocks, wording)
    text, interval = cost_text(one, wording)
    if one.verdict == "undecided":
        words = f"{undecided_why(one)}, {title}: {text}"
    elif one.verdict == "no difference shown":
        words = f"{none_shown(one)} in {title}: {text}"
    else:
        words = f"{text} {title}"
    over = f" over {one.settings} settings" if one.settings > 1 else ""
    around = f" ({interval_text(one, interval)})" if interval else ""
    return Sentence(_tone(one), f"{what}: {words}{around}{over}{rests}{_cost(one)}")


def compared(one: LevelChange) -> str:
    """The level and its reference: `mtu 9000 against 1500`."""
    return f"{named(one.factor, one.level)} against {shown(one.against)}"


def _cost(one: LevelChange) -> str:
    """Returns words for the difference in cost if it is sure; else nothing: it would read like a second
    answer.
    """
    ends = (one.cost_change_low, one.cost_change_high)
    if one.cost_change is None or ends[0] is None or ends[1] is None or ends[0] <= 0 <= ends[1]:
        return ""
    size = figures.significant(abs(100 * one.cost_change))
    return f"; its cost is {size} points {'higher' if one.cost_change > 0 else 'lower'}"


def _tone(one: LevelChange) -> Tone:
    return "unknown" if one.doubt is not None else tone(one)


def turned(every: Sequence[LevelChange], wording: Wording) -> Iterator[Sentence]:
    """Yields a sentence for each level that is better on one platform and worse on another."""
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


JUDGEMENT_TONES: dict[Judgement, Tone] = {
    "fails": "costs",
    "undecided": "unknown",
    "not judged": "unknown",
    "holds": "gains",
}
"""By judgement, the worst first."""


def of_claims(claims: Sequence[JudgedClaim]) -> Sentence | None:
    """For example: claims: 5 of 8 hold, 1 undecided, 2 not judged"""
    if not claims:
        return None
    judgements = [claim.judgement for claim in claims]
    others = (
        f"{judgements.count(one)} {'fail' if one == 'fails' else one}"
        for one in JUDGEMENT_TONES
        if one != "holds" and one in judgements
    )
    held = f"{judgements.count('holds')} of {len(claims)} hold"
    worst = next(one for one in JUDGEMENT_TONES if one in judgements)
    return Sentence(JUDGEMENT_TONES[worst], ", ".join((f"claims: {held}", *others)))
