"""From what a tuner found, in log ratios, to `tune.json`: ratios, sentences, commands. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from datetime import datetime

from hypertare import __version__
from hypertare.stats import boots as booting
from hypertare.stats.interval import Interval
from hypertare.summary import MachineState
from hypertare.trials import Response
from hypertare.tune.commands import steps
from hypertare.tune.document import (
    Change,
    Confirmation,
    EffectFound,
    KnobTried,
    Smallest,
    Tried,
    Tuning,
)
from hypertare.tune.space import LEFT, Knob, Setting, Space
from hypertare.tune.tuner import Aims, Confirmed, Outcome, SmallestLevel
from hypertare.wording import percent


@dataclass(frozen=True)
class Circumstances:
    """What a tuning was made on, with and for."""

    study: str
    question: str
    machine: MachineState
    accelerator: str | None
    seed: int
    started: datetime
    ended: datetime
    platform: str
    workload: str
    budget: str
    trials: int


def document(outcome: Outcome, space: Space, aims: Aims, where: Circumstances) -> Tuning:
    """What a tuning found, in ratios and commands. `space` is all that was to be tuned."""
    setting = _recommendation(outcome, space)
    return Tuning(
        hypertare=__version__,
        clock=aims.clock,
        **{field.name: getattr(where, field.name) for field in fields(where)},
        throughput=aims.throughput.name,
        cpu=aims.cpu.name if aims.cpu else None,
        goal=aims.goal,
        design=outcome.design.kind if outcome.design else None,
        knobs=tuple(_knob(knob, outcome) for knob in (*space.knobs, *space.ladders)),
        effects=tuple(_effects(outcome, aims)),
        tried=tuple(_tried(outcome, aims)),
        confirmation=_confirmation(outcome.confirmed, aims),
        smallest=tuple(_smallest(one, aims.loss) for one in outcome.smallest),
        keep_default=not setting,
        recommendation=setting,
        steps=steps(setting, space.default),
        verdict=_verdict(outcome, aims, setting),
        warnings=tuple(outcome.warnings),
    )


def _recommendation(outcome: Outcome, space: Space) -> Setting:
    """What differs from the default and proved itself."""
    setting = dict(outcome.recommended or {})
    setting |= {one.knob.path: one.level for one in outcome.smallest if one.level is not None}
    default = space.default
    return {path: level for path, level in setting.items() if level != default.get(path, LEFT)}


def _knob(knob: Knob, outcome: Outcome) -> KnobTried:
    return KnobTried(
        path=knob.path,
        default=knob.default,
        levels=knob.levels,
        low=knob.range.low if knob.range else None,
        high=knob.range.high if knob.range else None,
        refused=outcome.refused.get(knob.path, {}),
    )


def _effects(outcome: Outcome, aims: Aims) -> list[EffectFound]:
    if outcome.design is None:
        return []
    knobs = {knob.path: knob for knob in outcome.design.knobs}
    return [
        EffectFound(
            knobs=effect.paths,
            levels=tuple((knobs[path].default, knobs[path].far) for path in effect.paths),
            response=response,
            change=math.expm1(effect.estimate),
            low=math.expm1(effect.low),
            high=math.expm1(effect.high),
            confidence=aims.confidence,
            p=effect.adjusted,
            shown=effect.shown,
            aliases=effect.aliases,
        )
        for response, effects in outcome.effects.items()
        for effect in effects
    ]


def _tried(outcome: Outcome, aims: Aims) -> list[Tried]:
    found = []
    for place, seen in enumerate(outcome.seen):
        throughput, cpu = seen.mean
        found.append(
            Tried(
                setting=seen.setting,
                throughput=_change(throughput, aims.throughput),
                cpu=_change(cpu, aims.cpu) if aims.cpu else None,
                n=len(seen.gains),
                front=place in outcome.front,
                knee=place == outcome.knee,
            )
        )
    return found


def _change(gain: float, response: Response) -> float:
    """From a log gain to the change of the response."""
    return math.expm1(gain if response.better == "higher" else -gain)


def _confirmation(confirmed: Confirmed | None, aims: Aims) -> Confirmation | None:
    if confirmed is None:
        return None
    interval = confirmed.mean.interval
    low, high = _ends(interval, aims)
    return Confirmation(
        setting=confirmed.setting,
        blocks=len(confirmed.duels),
        gain=math.expm1(interval.estimate),
        low=low,
        high=high,
        confidence=aims.confidence,
        threshold=aims.threshold,
        search_gain=math.expm1(confirmed.promised),
        confirmed=confirmed.verdict == "gains",
        changes=tuple(_response(confirmed, response, aims) for response in aims.responses),
    )


def _ends(interval: Interval, aims: Aims) -> tuple[float | None, float | None]:
    """The ends of an interval of log ratios as changes; exact ones in virtual time."""
    if interval.constant and aims.clock == "virtual":
        return math.expm1(interval.estimate), math.expm1(interval.estimate)
    if interval.low is None or interval.high is None:
        return None, None
    return math.expm1(interval.low), math.expm1(interval.high)


def _response(confirmed: Confirmed, response: Response, aims: Aims) -> Change:
    name = response.name
    winner = [duel.winner.values[name] for duel in confirmed.duels]
    default = [duel.default.values[name] for duel in confirmed.duels]
    logs = [math.log(a / b) for a, b in zip(winner, default, strict=True)]
    boots = [duel.winner.planned.boot for duel in confirmed.duels]
    mean = booting.mean(logs, boots, aims.confidence)
    low, high = _ends(mean.interval, aims)
    return Change(
        response=name,
        unit=response.unit,
        better=response.better,
        default=sum(default) / len(default),
        winner=sum(winner) / len(winner),
        change=math.expm1(mean.interval.estimate),
        low=low,
        high=high,
        verdict=aims.judge(mean, 1 if response.better == "higher" else -1),
    )


def _smallest(found: SmallestLevel, loss: float) -> Smallest:
    return Smallest(
        knob=found.knob.path,
        level=found.level,
        clean=found.clean,
        # None of n trials lost: at 95 %, at most this share of them does (Clopper & Pearson 1934).
        chance=1 - 0.05 ** (1 / found.clean) if found.clean else None,
        loss=loss,
        below=found.below,
        below_loss=found.below_loss,
    )


def _verdict(outcome: Outcome, aims: Aims, setting: Setting) -> str:
    """One sentence."""
    sentences = []
    confirmed = outcome.confirmed
    if confirmed is not None:
        gain, promised = (
            math.expm1(confirmed.mean.interval.estimate),
            math.expm1(confirmed.promised),
        )
        low, high = _ends(confirmed.mean.interval, aims)
        around = (
            f"{percent(low)} to {percent(high)}"
            if low is not None and high is not None
            else "exact"
        )
        figures = (
            f"{percent(gain)} ({around}) over {len(confirmed.duels)} fresh blocks; the search had "
            f"promised {percent(promised)}"
        )
        if confirmed.verdict == "gains":
            sentences.append(f"{_named(confirmed.setting, setting)} gains {figures}.")
        else:
            sentences.append(
                f"Keep the default: the best that was found was not confirmed, {figures}."
            )
    elif outcome.space.knobs:
        sentences.append("Keep the default: nothing that was tried seemed better.")
    sentences += [_about(one) for one in outcome.smallest]
    return " ".join(sentences)


def _named(setting: Setting, changed: Setting) -> str:
    return ", ".join(f"{path} = {level}" for path, level in setting.items() if path in changed)


def _about(one: SmallestLevel) -> str:
    if one.level is None:
        return f"{one.knob.path}: even the largest level loses, so none is recommended."
    return f"{one.knob.path} = {one.level} is the smallest that loses nothing ({one.clean} fresh trials)."
