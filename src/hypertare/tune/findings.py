"""From what a tuner found, in log ratios, to `tune.json`: ratios, sentences, commands. Pure."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

from hypertare import __version__
from hypertare.base.response import Response
from hypertare.base.words import level_text, percent, word
from hypertare.findings.tuning import (
    Confirmation,
    EffectFound,
    Gain,
    KnobTried,
    Smallest,
    Tried,
    Tuning,
)
from hypertare.machine_kinds.registry import find as find_machine
from hypertare.platforms.commands import System
from hypertare.platforms.registry import find as find_platform
from hypertare.runs.machine_state import MachineState
from hypertare.stats import boots as booting
from hypertare.stats.interval import Interval
from hypertare.tune.commands import steps
from hypertare.tune.space import LEFT, Knob, Setting
from hypertare.tune.tuner import Aims, Confirmed, Outcome

if TYPE_CHECKING:
    from hypertare.tune.session import Prepared


def document(
    outcome: Outcome,
    prepared: Prepared,
    machine: MachineState,
    accelerator: str | None,
    started: datetime,
    ended: datetime,
    trials: int,
) -> Tuning:
    """What a tuning found on a machine in so many trials, in ratios and commands."""
    study, space, aims = prepared.run.study, prepared.space, prepared.aims
    proved = dict(outcome.recommended or {})
    proved |= {one.knob: one.level for one in outcome.smallest if one.level is not None}
    default = space.default
    setting = {path: level for path, level in proved.items() if level != default.get(path, LEFT)}
    return Tuning(
        hypertare=__version__,
        study=study.name,
        question=study.question,
        machine=machine,
        clock=aims.clock,
        accelerator=accelerator,
        seed=prepared.run.design.seed,
        started=started,
        ended=ended,
        platform=prepared.platform,
        workload=prepared.workload,
        budget=str(prepared.budget),
        trials=trials,
        throughput=aims.throughput.name,
        cpu=aims.cpu.name,
        goal=aims.goal,
        design=outcome.design.kind if outcome.design else None,
        knobs=tuple(_knob(knob, outcome) for knob in space.every),
        effects=tuple(_effects(outcome, aims)),
        left_out=outcome.left_out,
        tried=tuple(_tried(outcome, aims)),
        looks=tuple(outcome.looks),
        confirmation=_confirmation(outcome.confirmed, aims),
        smallest=tuple(outcome.smallest),
        keep_default=not setting,
        recommendation=setting,
        steps=steps(
            setting,
            default,
            System(
                find_platform(prepared.platform),
                str(setting.get("sut.nic", study.sut.nic)),
                find_machine(machine.kind).is_virtual,
            ),
        ),
        known=prepared.known.before if prepared.known else None,
        verdict=_verdict(outcome, aims, setting),
        warnings=tuple(outcome.warnings),
    )


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
    return [
        Tried(
            setting=seen.setting,
            throughput=throughput,
            cpu=cpu,
            n=len(seen.gains),
            front=place in outcome.front,
            knee=place == outcome.knee,
        )
        for place, seen in enumerate(outcome.seen)
        for throughput, cpu in [aims.changes(seen.mean)]
    ]


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
        search_gain=None if confirmed.promised is None else math.expm1(confirmed.promised),
        by_block=tuple(math.expm1(aims.value(duel.gains)) for duel in confirmed.duels),
        confirmed=confirmed.verdict == "gains",
        changes=tuple(_changes(confirmed, aims)),
    )


def _ends(interval: Interval, aims: Aims) -> tuple[float | None, float | None]:
    """The ends of an interval of log ratios as changes; exact ones in virtual time."""
    if interval.constant and aims.clock == "virtual":
        return math.expm1(interval.estimate), math.expm1(interval.estimate)
    if interval.low is None or interval.high is None:
        return None, None
    return math.expm1(interval.low), math.expm1(interval.high)


def _changes(confirmed: Confirmed, aims: Aims) -> list[Gain]:
    """Of the responses that every trial of the confirmation has."""
    trials = [trial for duel in confirmed.duels for trial in (duel.winner, duel.default)]
    return [
        _response(confirmed, response, aims)
        for response in aims.responses
        if all(trial.values.get(response.name, 0.0) > 0 for trial in trials)
    ]


def _response(confirmed: Confirmed, response: Response, aims: Aims) -> Gain:
    name = response.name
    winner = [duel.winner.values[name] for duel in confirmed.duels]
    default = [duel.default.values[name] for duel in confirmed.duels]
    logs = [math.log(a / b) for a, b in zip(winner, default, strict=True)]
    boots = [duel.winner.planned.boot for duel in confirmed.duels]
    mean = booting.mean(logs, boots, aims.confidence)
    low, high = _ends(mean.interval, aims)
    return Gain(
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


def _verdict(outcome: Outcome, aims: Aims, setting: Setting) -> str:
    """A sentence for the winner, and one for each knob that is to be small."""
    sentences = [_about_winner(outcome, aims, setting)] if outcome.space.knobs else []
    sentences += [_about(one) for one in outcome.smallest]
    return " ".join(sentences) or "Keep the default: no knob is left that could be tuned."


def _about_winner(outcome: Outcome, aims: Aims, setting: Setting) -> str:
    confirmed = outcome.confirmed
    if confirmed is not None:
        if aims.goal == "balance":
            name = f"mean gain of {word(aims.throughput.name)} and {word(aims.cpu.name)}"
        else:
            name = f"gain of {word(aims.wanted[0].name)}"
        figures = f"{_gain(confirmed, aims)} over {len(confirmed.duels)} fresh blocks"
        if confirmed.promised is not None:
            figures += f"; the search had promised {percent(math.expm1(confirmed.promised))}"
        if confirmed.verdict == "gains":
            changed = ", ".join(
                f"{path} = {level_text(level)}"
                for path, level in confirmed.setting.items()
                if path in setting
            )
            return f"{changed}: {name} {figures}.{_price(confirmed, aims)}"
        return f"Keep the default: the best that was found was not confirmed, {name} {figures}."
    if len(outcome.left_out) == len(outcome.space.knobs):
        return "Keep the default: no knob was shown to matter."
    if outcome.promised is None:
        return "Keep the default: no setting could be compared with it."
    if outcome.promised > math.log1p(aims.threshold):
        return "Keep the default: nothing better was confirmed."
    if outcome.promised <= 0:
        return "Keep the default: nothing that was tried was better."
    return (
        f"Keep the default: the best that was tried promised {percent(math.expm1(outcome.promised))} "
        f"at most, and less than {percent(aims.threshold)} does not matter."
    )


def _gain(confirmed: Confirmed, aims: Aims) -> str:
    interval = confirmed.mean.interval
    gain = percent(math.expm1(interval.estimate))
    low, high = _ends(interval, aims)
    if low is None or high is None:
        return f"{gain} in every block, without any spread,"
    if low == high:
        return f"{gain}, exactly,"
    return f"{gain} ({100 * aims.confidence:g} % interval {percent(low)} to {percent(high)})"


def _price(confirmed: Confirmed, aims: Aims) -> str:
    """What the gain costs of the response that the goal is not about."""
    wanted = [response.name for response in aims.wanted]
    costs = [
        f"{word(change.response)} {percent(change.change)}"
        for change in _changes(confirmed, aims)
        if change.verdict == "costs" and change.response not in wanted
    ]
    return f" It costs: {', '.join(costs)}." if costs else ""


def _about(one: Smallest) -> str:
    path = one.knob
    if one.level is None:
        return f"{path}: even {level_text(one.below or '')} loses, so none is recommended."
    found = (
        f"{path} = {level_text(one.level)} is the smallest that loses nothing "
        f"(in {one.clean} fresh trials)"
    )
    if one.below is None:
        return f"{found}; there is none below."
    if one.below_loss:
        return f"{found}; {level_text(one.below)} loses {100 * one.below_loss:.2g} %."
    return f"{found}; {level_text(one.below)} lost in the search, and not beside it."
