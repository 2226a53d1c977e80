"""Machines whose loss is known: what arrives of what is sent, by rate and setting."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from hypertare.base.variables import Cell
from hypertare.design.trials import Ask, FinishedTrial, Kind, PlannedTrial
from hypertare.search.plan import Measured, Need, Search
from hypertare.search.replay import replay
from hypertare.search.rounds import RATE, UNPACED
from hypertare.study.analyses import SearchSettings

Arrives = Callable[[float, random.Random], float]
"""From what is sent to what arrives, both in b/s."""


@dataclass(frozen=True)
class Path:
    """A sender that sends no faster than `sender`, and a path with its loss."""

    arrives: Arrives
    sender: float = 1e9

    def trial(self, need: Need) -> Measured:
        sent = self.sender if need.rate is None else min(need.rate, self.sender)
        arrived = self.arrives(sent, random.Random(f"{need.rate}/{need.replicate}"))
        return Measured(need.rate, sent, max(0.0, 1 - arrived / sent))


def up_to(capacity: float) -> Arrives:
    """Nothing is lost up to the capacity, and everything above it."""
    return lambda sent, _: min(sent, capacity)


def livelock(capacity: float) -> Arrives:
    """Above its capacity it delivers the less the more is sent, down to nothing."""
    return lambda sent, _: sent if sent <= capacity else max(0.0, 2 * capacity - sent)


def noisy(capacity: float, deviation: float) -> Arrives:
    return lambda sent, chance: min(sent, capacity * (1 + chance.gauss(0, deviation)))


def settings(**given: object) -> SearchSettings:
    return SearchSettings.model_validate({"workload": "udp", **given})


def searched(path: Path, wanted: SearchSettings, known: Iterable[Measured] = ()) -> Search:
    """The whole search."""
    trials = list(known)
    while (need := (search := replay(wanted, trials)).need) is not None:
        assert len(trials) < wanted.most_trials
        trials.append(path.trial(need))
    return search


@dataclass
class MadeUpLab:
    """A trial_runner where each setting of one factor has a path of its own.

    `interrupt`: Ctrl-C comes after so many trials, in the middle of a block.
    """

    paths: dict[object, Path]
    factor: str = "knobs.napi_weight"
    platform: str = "native"
    interrupt: int | None = None
    fails: Callable[[PlannedTrial], str | None] = lambda planned: None
    journal: list[FinishedTrial] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    left_s: Callable[[], float] = lambda: 0.0
    clock: Callable[[], float] = lambda: 0.0

    def block(self, asks: Sequence[Ask], kind: Kind = "measured") -> list[FinishedTrial]:
        self.blocks.append(len(asks))
        return [self._trial(ask, kind) for ask in asks]

    def _trial(self, ask: Ask, kind: Kind) -> FinishedTrial:
        if self.interrupt == len(self.journal):
            raise KeyboardInterrupt
        cell: Cell = {"workload": "udp", **ask.cell}
        number = 1_000_000 + len(self.journal)
        planned = PlannedTrial(number, number, number, self.platform, cell, kind)
        reason = self.fails(planned)
        if reason is not None:
            finished = FinishedTrial(planned, "failed", reason, 1.0)
        else:
            finished = FinishedTrial(planned, "ok", None, 1.0, self._values(ask))
        self.journal.append(finished)
        return finished

    def _values(self, ask: Ask) -> dict[str, float]:
        assert (UNPACED in ask.cell) != (RATE in ask.cell)
        rate = ask.cell.get(RATE)
        assert ask.levels["workloads.udp.rate"] == rate
        assert ask.replicate is not None
        need = Need(None if rate is None else float(rate), ask.replicate)
        made = self.paths[ask.cell.get(self.factor)].trial(need)
        goodput = made.sent * (1 - made.loss)
        return {"goodput": goodput, "sent_rate": made.sent, "loss": made.loss}


def renumbered(trials: Iterable[FinishedTrial]) -> list[FinishedTrial]:
    """The same under the numbers of a store, from 0."""
    return [
        replace(one, planned=replace(one.planned, id=number)) for number, one in enumerate(trials)
    ]
