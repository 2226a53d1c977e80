"""A trial_runner whose truth is known: what each setting does, with noise and drift on top."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from hypertare.design.trials import Ask, FinishedTrial, Kind, PlannedTrial
from hypertare.study import DesignSettings
from hypertare.study.tune import PHASE
from hypertare.tune.space import Budget, BudgetTracker, Knob, Setting, Space
from hypertare.tune.tuner import Aims, Known, Outcome, Tuner
from hypertare.workloads.responses import RESPONSES

STREAM = {response.name: response for response in RESPONSES["stream"]}
Truth = Callable[[Setting], tuple[float, float]]
"""Logs of what a setting does to goodput and to CPU per byte."""


class MadeUp:
    """`boot_noise`: what a boot does to each setting, the same for all of its blocks."""

    def __init__(
        self,
        truth: Truth,
        seed: int = 1,
        noise: float = 0.03,
        drift: float = 0.1,
        boot_noise: float = 0.0,
        loss: Callable[[Setting], float] = lambda setting: 0.0,
        refuse: Callable[[Setting], str | None] = lambda setting: None,
    ) -> None:
        self.truth, self.noise, self.drift, self.boot_noise = truth, noise, drift, boot_noise
        self.loss, self.refuse = loss, refuse
        self.seed, self.random = seed, random.Random(seed)
        self.asked: list[Setting] = []
        self.boots = self.number = self.on_boot = 0

    @property
    def trials(self) -> int:
        return len(self.asked)

    def renew(self) -> None:
        self.boots, self.on_boot = self.boots + 1, 0

    def blocks(
        self, many: Sequence[Sequence[Ask]], kind: Kind = "measured", *, apart: bool = False
    ) -> list[list[FinishedTrial]]:
        return [self._block(asks, kind) for asks in many]

    def _block(self, asks: Sequence[Ask], kind: Kind) -> list[FinishedTrial]:
        """Every trial of a block shares its drift."""
        if self.on_boot >= DesignSettings().blocks_per_boot:
            self.renew()
        drift = self.random.gauss(0, self.drift)
        self.number += 1
        self.on_boot += 1
        return [self._trial(ask, kind, drift) for ask in asks]

    def _trial(self, ask: Ask, kind: Kind, drift: float) -> FinishedTrial:
        setting = {path: level for path, level in ask.cell.items() if path != PHASE}
        planned = PlannedTrial(len(self.asked), self.number, self.boots, "guest", ask.cell, kind)
        self.asked.append(dict(ask.cell))
        reason = self.refuse(setting)
        if reason is not None:
            return FinishedTrial(planned, "failed", reason, 1.0)
        goodput, cpu = self.truth(setting)
        goodput += self._of_boot(setting)
        values = {
            "goodput": 1e9 * math.exp(goodput + drift + self.random.gauss(0, self.noise)),
            "cpu_per_gigabyte": 2 * math.exp(cpu - drift + self.random.gauss(0, self.noise)),
            "loss": self.loss(setting),
        }
        return FinishedTrial(planned, "ok", None, 1.0, values)

    def _of_boot(self, setting: Setting) -> float:
        return random.Random(f"{self.seed}/{self.boots}/{setting}").gauss(0, self.boot_noise)


def aims(goal: str = "goodput", **more: object) -> Aims:
    return Aims(goal, STREAM["goodput"], STREAM["cpu_per_gigabyte"], 0.01, **more)  # type: ignore[arg-type]


def tune(
    lab: MadeUp,
    knobs: Sequence[Knob],
    goal: str = "goodput",
    budget: int = 100,
    seed: int = 1,
    ladders: Sequence[Knob] = (),
    known: Sequence[Known] = (),
    **more: object,
) -> Outcome:
    budget = BudgetTracker(Budget(trials=budget), lambda: lab.trials, clock=lambda: 0.0)
    space = Space(tuple(knobs), tuple(ladders))
    wanted = aims(goal, **more)
    return Tuner(lab, space, wanted, DesignSettings(), budget, seed, known=known).run()
