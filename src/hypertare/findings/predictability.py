"""Do simple laws predict what more guests do? Fits and errors over a run's trials. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hypertare.base.variables import Level, Response, key
from hypertare.design.trials import FinishedTrial
from hypertare.findings.doubt import doubt
from hypertare.findings.series import Series, series
from hypertare.runs.summary import Clock, Predictability
from hypertare.runs.summary import Prediction as Foretold
from hypertare.stats import boots
from hypertare.stats.predictability import (
    DRIVER_CPU,
    FAIR_RATE,
    LOADED_RATE,
    LOADED_RATE_ALONE,
    UNIVERSAL_SCALABILITY,
    Law,
    Prediction,
    judge,
    predict,
)
from hypertare.study.analyses import PredictabilitySettings
from hypertare.study.factors import GUESTS
from hypertare.workloads.sending import THEORETICAL

OF_THE_LINE = ", R what the line carries"
"""Ends the formula of a law whose constant was not fitted but is the line's theoretical goodput."""

Values = Mapping[str, float]


Of = Callable[[Values, int], float]
"""A figure of a trial with so many guests. A trial that lacks what it needs raises KeyError."""


@dataclass(frozen=True)
class Subject:
    """A response that a law predicts.

    The law is fitted to the figure `fitted` at some numbers of guests, and its prediction is compared with
    the figure `measured` at the others. If the law predicts a figure over another measured one, such as a
    rate over a CPU share, `times` is that other figure and brings both to the unit of `response`. With
    `beside_load` the law concerns only guests beside neighbours that disturb.
    """

    law: Law
    response: str
    fitted: Of
    measured: Of
    times: Of = lambda values, n: 1.0
    beside_load: bool = False


def _goodput(values: Values, n: int) -> float:
    return values["goodput"]


def _fair_rate(values: Values, n: int) -> float:
    """Returns the fair rate of a guest: a share of the line's theoretical goodput, or of the goodput
    without a line.
    """
    return values.get(THEORETICAL, values["goodput"]) / n


def _workers_cpu(values: Values, n: int) -> float:
    """CPU time of the guests that stream, without those that are there to disturb."""
    return values["outside_cpu"] - values.get("neighbours_cpu", 0.0) if "goodput" in values else 0.0


def _driver_over_guests(values: Values, n: int) -> float:
    return values["driver_cpu"] / _workers_cpu(values, n)


def _workers_share(values: Values, n: int) -> float:
    """Returns the CPU share of the guests that stream. Seconds would not do: beside load a phase takes
    longer.
    """
    neighbours = values["neighbours_cpu_share"] if "neighbours_cpu" in values else 0.0
    return values["outside_cpu_share"] - neighbours


def _their_share(values: Values, n: int) -> float:
    """CPU share of the guests that stream and of the driver domain, which moves their packets."""
    return _workers_share(values, n) + values["driver_cpu_share"]


def _rate_over(share: Of) -> Of:
    return lambda values, n: values["goodput"] / share(values, n)


SUBJECTS = (
    # A mean that is predicted says nothing of guests of which one gets all: the law is of each R_i.
    Subject(
        FAIR_RATE, "least_rate", _fair_rate, lambda v, n: v.get("least_rate", v["goodput"] / n)
    ),
    Subject(FAIR_RATE, "most_rate", _fair_rate, lambda v, n: v.get("most_rate", v["goodput"] / n)),
    Subject(UNIVERSAL_SCALABILITY, "goodput", _goodput, _goodput),
    Subject(DRIVER_CPU, "driver_cpu", _driver_over_guests, _driver_over_guests, _workers_cpu),
    *(
        Subject(law, "goodput", _rate_over(share), _rate_over(share), share, beside_load=True)
        for law, share in ((LOADED_RATE, _their_share), (LOADED_RATE_ALONE, _workers_share))
    ),
)


def predictability(
    trials: Iterable[FinishedTrial],
    responses: Mapping[str, Response],
    settings: PredictabilitySettings,
    *,
    baseline: str,
    confidence: float,
    clock: Clock,
) -> Iterator[Predictability]:
    """Every law on every setting that was measured with several numbers of guests."""
    for group in _groups(trials, baseline):
        for subject in SUBJECTS:
            if subject.response in responses:
                unit = responses[subject.response].unit
                found = _judged(subject, group, unit, settings, confidence, clock)
                if found is not None:
                    yield found


def _groups(trials: Iterable[FinishedTrial], baseline: str) -> Iterator[dict[int, Series]]:
    """Yields groups of series that differ in nothing but the number of guests, by that number."""
    groups: dict[object, dict[int, Series]] = {}
    for one in series(trials):
        guests = one.cell.get(GUESTS)
        if one.platform != baseline and isinstance(guests, int) and one.good:
            groups.setdefault((one.platform, key(_rest(one))), {})[guests] = one
    for group in groups.values():
        if len(group) > 1:
            yield dict(sorted(group.items()))


def _rest(one: Series) -> dict[str, Level]:
    return {factor: level for factor, level in one.cell.items() if factor != GUESTS}


def _judged(
    subject: Subject,
    group: Mapping[int, Series],
    unit: str,
    settings: PredictabilitySettings,
    confidence: float,
    clock: Clock,
) -> Predictability | None:
    measured = [trial.values for one in group.values() for trial in one.good]
    if subject.beside_load != any("neighbours_cpu" in values for values in measured):
        return None
    # Then the law's one constant is what the line carries, and nothing is fitted.
    by_line = subject.law is FAIR_RATE and any(THEORETICAL in values for values in measured)
    having = [n for n, one in group.items() if _values(one, n, subject.fitted)]
    if len(having) < 2:
        return None
    held_out = _held_out(subject, having, settings)
    fitted = tuple(n for n in having if n not in held_out)
    known = {n: _values(group[n], n, subject.fitted) for n in fitted}
    known |= {n: _values(group[n], n, subject.measured) for n in held_out}
    predictions: Sequence[Prediction] = ()
    reason = None
    if len(fitted) < subject.law.least:
        reason = f"the law needs {subject.law.least} numbers of guests to be fitted, and has {len(fitted)}"
    else:
        predictions = predict(subject.law, known, held_out, confidence, exact=clock == "virtual")
    some = next(iter(group.values()))
    doubts = {n: _doubt(subject, group, (*(() if by_line else fitted), n)) for n in held_out}
    certain = predictions and not any(doubts.values())
    return Predictability(
        law=subject.law.name,
        formula=subject.law.formula + (OF_THE_LINE if by_line else ""),
        platform=some.platform,
        cell=_rest(some),
        response=subject.response,
        unit=unit,
        fitted=() if by_line else fitted,
        predictions=tuple(
            _in_its_unit(one, subject, group[one.guests], doubts[one.guests]) for one in predictions
        ),
        most=settings.error,
        verdict=judge(predictions, settings.error) if certain else "undecided",
        reason=reason,
    )


def _held_out(
    subject: Subject, having: Sequence[int], settings: PredictabilitySettings
) -> list[int]:
    """Returns the numbers of guests that the law is not fitted to.

    A law beside load is fitted to the least number alone, whatever the study asks for.
    """
    if subject.beside_load:
        return [n for n in having if n > min(having)]
    chosen = [n for n in having if n in settings.held_out]
    return chosen if 0 < len(chosen) < len(having) else [max(having)]


def _values(one: Series, guests: int, of: Of) -> list[float]:
    """Returns the values of a figure that are above 0: of each trial, or the mean of each boot if boots
    differ.

    Trials of one boot are alike then.
    """
    found: list[tuple[float, int]] = []
    for trial in one.good:
        try:
            value = of(trial.values, guests)
        except (KeyError, ZeroDivisionError):
            continue
        if math.isfinite(value) and value > 0:
            found.append((value, trial.planned.boot))
    if len(found) < 2:
        return [value for value, _ in found]
    logs, where = np.log([value for value, _ in found]), [boot for _, boot in found]
    if not boots.mean(logs, where).by_boot:
        return [value for value, _ in found]
    of_boots = [
        [log for log, at in zip(logs, where, strict=True) if at == boot]
        for boot in dict.fromkeys(where)
    ]
    return [math.exp(sum(some) / len(some)) for some in of_boots]


def _doubt(subject: Subject, group: Mapping[int, Series], used: Iterable[int]) -> str | None:
    """Why a prediction that rests on these numbers of guests decides nothing."""
    reasons = {n: doubt(subject.response, group[n].good) for n in used}
    return next((f"with {n} guests: {why}" for n, why in reasons.items() if why), None)


def _in_its_unit(one: Prediction, subject: Subject, of: Series, doubt: str | None) -> Foretold:
    scale = math.exp(float(np.log(_values(of, one.guests, subject.times)).mean()))
    return Foretold(
        guests=one.guests,
        predicted=one.predicted * scale,
        measured=one.measured * scale,
        error=one.error,
        error_low=one.low,
        error_high=one.high,
        doubt=doubt,
    )
