"""`tune.json` and `over.json`: what tunings found, for programs.

Schemas: `schema/tune.schema.json`, `schema/tune-over.schema.json`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from hypertare.base.closed import Closed
from hypertare.base.variables import Better, Level
from hypertare.platforms.commands import Where
from hypertare.runs.machine_state import MachineState
from hypertare.runs.summary import Clock
from hypertare.stats.practical import Verdict
from hypertare.study.tune import Goal


class KnobTried(Closed):
    """A knob: its default, what it was tried at, and levels that this system refused, with reasons."""

    path: str
    default: Level
    levels: tuple[Level, ...] = ()
    low: int | None = None
    high: int | None = None
    refused: dict[str, str] = {}


class EffectFound(Closed):
    """What going from `levels[i][0]` (default) to `levels[i][1]` of `knobs[i]` does to a response.

    `change` is a ratio - 1, with its interval at `confidence`, over the levels of the other knobs; of
    two knobs it is their interaction: half of what the second's change does to the effect of the
    first. `p` is adjusted for the number of effects (Holm). `aliases` are pairs that the design
    cannot separate from this one.
    """

    knobs: tuple[str, ...]
    levels: tuple[tuple[Level, Level], ...]
    response: str
    change: float
    low: float
    high: float
    confidence: float
    p: float
    shown: bool
    aliases: tuple[tuple[str, ...], ...] = ()


class Tried(Closed):
    """A setting of the search: changes against the default, a ratio - 1, the mean of `n` blocks.

    These figures chose the winner, so the best of them flatter: see `Confirmation`.
    """

    setting: dict[str, Level]
    throughput: float
    cpu: float | None
    n: int
    front: bool = False
    knee: bool = False


class Look(Closed):
    """One trial of the screening, the search or the race, in its order, against its block's default."""

    phase: Literal["screen", "search", "race"]
    setting: dict[str, Level]
    throughput: float
    cpu: float | None


class Gain(Closed):
    """A response of the winner against the default, from fresh trials: a ratio - 1."""

    response: str
    unit: str
    better: Better
    default: float
    winner: float
    change: float
    low: float | None
    high: float | None
    verdict: Verdict


class Confirmation(Closed):
    """Fresh trials of the winner against the default, interleaved; none of the search is among them.

    `gain` is the goal's: of throughput, of CPU (less is a gain), or for `balance` the geometric mean
    of both, a ratio - 1, positive for better, and `by_block` that of each block. `search_gain` is
    what the search had promised; there is none where a law, and no search, chose the setting.
    """

    setting: dict[str, Level]
    blocks: int
    gain: float
    low: float | None
    high: float | None
    confidence: float
    threshold: float
    search_gain: float | None
    by_block: tuple[float, ...]
    confirmed: bool
    changes: tuple[Gain, ...]


class Smallest(Closed):
    """The smallest level of a knob that loses nothing, from fresh trials of it.

    `level` is absent where even the largest lost. All of `clean` fresh trials lost at most `loss`;
    a level that loses in more than `chance` of its trials would have shown it with the confidence of
    95 %. `below` is the next smaller level and the share that it lost.
    """

    knob: str
    level: Level | None
    clean: int
    chance: float | None
    loss: float
    below: Level | None = None
    below_loss: float | None = None


class Step(Closed):
    """How to apply one change, and how to take it back. `where`: on the host, inside the guest or the
    container, in the application, or only in the study, where no command does it. `xml` is libvirt's,
    where it has a word for it. In commands, IFACE is the interface, DOMAIN the guest's name, and OLD
    what `look_first` showed.
    """

    knob: str
    level: Level
    where: Where
    look_first: tuple[str, ...] = ()
    apply: tuple[str, ...] = ()
    persist: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    xml: str | None = None
    note: str | None = None


class KnownBefore(Closed):
    """What the search knew from an earlier run: so many of its settings, of so many trials. No other part
    of a tuning has them in it. `left_out` says of which of its cells nothing was taken over, and why.
    """

    run: str
    settings: int
    trials: int
    left_out: tuple[str, ...] = ()


class Tuning(Closed):
    """The whole of it. `recommendation` is empty where the default is to be kept. `left_out` names the
    knobs that the screening showed not to matter.
    """

    hypertare: str
    study: str
    question: str
    machine: MachineState
    clock: Clock
    accelerator: str | None
    seed: int
    started: datetime
    ended: datetime
    platform: str
    workload: str
    goal: Goal
    budget: str
    trials: int
    throughput: str
    cpu: str | None
    design: str | None
    knobs: tuple[KnobTried, ...]
    effects: tuple[EffectFound, ...]
    left_out: tuple[str, ...]
    tried: tuple[Tried, ...]
    looks: tuple[Look, ...]
    confirmation: Confirmation | None
    smallest: tuple[Smallest, ...]
    keep_default: bool
    recommendation: dict[str, Level]
    steps: tuple[Step, ...]
    known: KnownBefore | None = None
    verdict: str
    warnings: tuple[str, ...] = ()


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
