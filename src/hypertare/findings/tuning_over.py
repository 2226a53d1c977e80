"""`over.json`: a tuning for each level of a factor, and the law of its best settings. For programs; schema:
`schema/tune-over.schema.json`.
"""

from __future__ import annotations

from typing import Any

from hypertare.base.closed import Closed
from hypertare.base.level import Level
from hypertare.findings.tuning import Tuning


class AskedOver(Closed):
    """What was asked for: `confirm` is the level that is not tuned, at which the law is tried. The rest is
    the study, as `run.sqlite` has it.
    """

    factor: str
    levels: tuple[Level, ...]
    confirm: Level | None
    seed: int
    study_text: str
    settings: dict[str, Any]
    folder: str


class AtLevel(Closed):
    """The tuning of one level, or the confirmation at a level that was not tuned, in its directory below
    that of `over.json`.
    """

    level: Level
    folder: str
    found: Tuning


class LawFitted(Closed):
    """A law of a knob's best settings by the factor's level: `scale` is its w. `residual` and `left_out`
    are root mean squares of log2(best setting / law): over all levels, and over each level with the law
    fitted to the others. The one with the least `left_out` is `preferred`. `best` are the levels with the
    settings that it was fitted to; `at` is its value at each of them and, where there is one, at
    `confirm`.
    """

    knob: str
    law: str
    formula: str
    scale: float
    residual: float
    left_out: float
    preferred: bool
    best: tuple[tuple[float, float], ...]
    at: tuple[tuple[float, float], ...]


class TuningOver(Closed):
    """The whole of it, as far as it has come: `complete` says that nothing is missing."""

    asked: AskedOver
    complete: bool
    tuned: tuple[AtLevel, ...]
    laws: tuple[LawFitted, ...] = ()
    confirmed: AtLevel | None = None
    verdict: str
    warnings: tuple[str, ...] = ()
