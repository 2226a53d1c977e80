"""What the searches of a run found, from its trials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hypertare.design.trials import FinishedTrial
from hypertare.runs.summary import LossFreeRate, RateBound
from hypertare.search.plan import Setting, plan
from hypertare.search.rounds import key, measured, of_settings
from hypertare.search.search import Bound, Found, Search
from hypertare.study import StudyFile
from hypertare.workloads.responses import mark_of


def loss_free(file: StudyFile, trials: Iterable[FinishedTrial]) -> Iterator[LossFreeRate]:
    """The loss-free rates of every setting whose search has begun, in the study's order.

    Raises:
        InputError: the study's searches are damaged.
    """
    study = file.study()
    wanted = plan(file, study)
    if wanted is None:
        return
    # MLRsearch takes a third of a second to load, which a run without searches is not to pay.
    from hypertare.search.replay import replay

    unit = f"b/s{mark_of(study.clock)}"
    known = of_settings(wanted, trials)
    for place in wanted.places:
        made = known[key(place)]
        if made:
            search = replay(wanted.settings, [measured(trial) for trial in made])
            cell = {"workload": wanted.settings.workload, **place.levels}
            for found in search.found:
                yield _rate(Setting(place.platform, cell), unit, search, found)


def _rate(place: Setting, unit: str, search: Search, found: Found) -> LossFreeRate:
    return LossFreeRate(
        platform=place.platform,
        cell=place.levels,
        goal=found.goal,
        state=found.state,
        unit=unit,
        lower=_bound(found.lower),
        upper=_bound(found.upper),
        throughput=found.throughput,
        lowest=search.low,
        highest=search.high,
        sender=found.sender,
        good_above=found.good_above,
        bad_below=found.bad_below,
        trials=search.trials,
        reason=search.reason,
    )


def _bound(bound: Bound | None) -> RateBound | None:
    return (
        None if bound is None else RateBound(rate=bound.rate, loss=bound.loss, trials=bound.trials)
    )
