"""What the searches of a run found, from its trials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hypertare.design.trials import FinishedTrial
from hypertare.runs.summary import LossFreeRate
from hypertare.search.plan import plan
from hypertare.search.rounds import key, measured, of_settings
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
            for found in search.found:
                yield LossFreeRate(
                    platform=place.platform,
                    cell={"workload": wanted.settings.workload, **place.levels},
                    unit=unit,
                    lowest=search.low,
                    highest=search.high,
                    trials=search.trials,
                    reason=search.reason,
                    **vars(found),
                )
