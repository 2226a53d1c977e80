"""A tuning of several levels whose best settings are known, as the document that it ends in."""

from __future__ import annotations

from collections.abc import Mapping

from hypertare.findings.tuning import AtLevel, KnobTried, Tuning, TuningOver
from hypertare.study import find
from hypertare.tune import over
from hypertare.tune.over import Sweep
from tests.tune.made_tuning import made as made_tuning

WEIGHT = "knobs.driver_weight"


def sweep(levels: str = "1,2,4,8", confirm: str | None = None) -> Sweep:
    file = find("scheduler-weights")
    return over.prepare(file, over.asked(file, f"sut.guests={levels}", confirm, 1))


def at(level: int, weight: int, text: str = "buffers") -> AtLevel:
    """The tuning of a level: 256 is the default."""
    found: Tuning = made_tuning(text).model_copy(
        update={
            "knobs": (KnobTried(path=WEIGHT, default=256, levels=(256, 512, 1024, 4096)),),
            "recommendation": {} if weight == 256 else {WEIGHT: weight},
            "keep_default": weight == 256,
        }
    )
    return AtLevel(level=level, folder=f"{level}", found=found)


def made(best: Mapping[int, int], text: str = "buffers", *, confirm: bool = True) -> TuningOver:
    whole = sweep(",".join(map(str, best)))
    tuned = [at(level, weight, text) for level, weight in best.items()]
    return over.document(whole, tuned, at(6, 4096, text) if confirm else None, complete=True)
