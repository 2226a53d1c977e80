"""Which trials, in which order. Pure, and the same for the same study and seed.

- A **variant** is a platform with the levels of the factors that only it has (a guest per NIC model).
- A **plot** is a combination of hard-to-change levels (a new bench): the outermost loop.
- A **block** is one trial of every variant for one combination of easy levels, taken close together
  in random order. Costs are ratios within a block, so what drifts slowly falls out.
- A **boot** is one life of a plot's bench; every plot is visited again and again, in random order,
  until each of its cells is precise or at its limit, so that boots are replicated too.

This is a split-plot design: Montgomery, Design and Analysis of Experiments, chapter 14.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypertare.base.errors import InputError
from hypertare.base.variables import Cell
from hypertare.design.trials import PlannedTrial
from hypertare.machine_kinds.registry import KINDS as MACHINES
from hypertare.platforms.platform import Platform
from hypertare.platforms.registry import KINDS as PLATFORMS
from hypertare.platforms.registry import has_own
from hypertare.study import Study, combinations
from hypertare.study.factors import GUESTS

_OF_MACHINES = (table for kind in MACHINES.values() for table in kind.own_tables)
HARD_TABLES = ("sut", "bench", *_OF_MACHINES)
"""Tables of a study whose settings need a new bench, but for what guests of one bench may differ in."""

MAX_GUESTS = 4
"""Guests that differ on one bench at a time; more variants make more plots."""


@dataclass(frozen=True)
class Variant:
    """A platform with the levels that only it has.

    `node` names its nodes, `index` is its place on the bench, and `guests` is the number of its nodes. The
    baseline has a single node, which does the work of all.
    """

    platform: str
    levels: Cell = field(default_factory=dict)
    node: str = ""
    index: int = 0
    guests: int = 1

    @property
    def kind(self) -> Platform:
        return PLATFORMS[self.platform]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of its nodes, in the order in which they are made."""
        if self.kind.is_host:
            return (self.node,)
        return numbered(self.node, self.guests)


def numbered(name: str, count: int) -> tuple[str, ...]:
    """Returns the names of `count` nodes: `name` itself for one, else `name-1`, `name-2` and so on."""
    if count == 1:
        return (name,)
    return tuple(f"{name}-{number}" for number in range(1, count + 1))


def is_hard(path: str) -> bool:
    """Whether a setting is one of the bench, or of a guest on it."""
    return path.partition(".")[0] in HARD_TABLES and path != GUESTS


@dataclass(frozen=True)
class WholePlot:
    """Hard-to-change levels, with the variants that share the bench."""

    levels: Cell
    variants: tuple[Variant, ...]

    @property
    def boots(self) -> bool:
        """Whether a kernel of its own boots on its bench on this host."""
        return any(variant.kind.image is not None for variant in self.variants)


@dataclass(frozen=True)
class EasyCell:
    """A workload with the levels of its factors and of the knobs."""

    levels: Cell

    @property
    def workload(self) -> str:
        return str(self.levels["workload"])


@dataclass(frozen=True)
class Design:
    """All cells of a study, and their order."""

    plots: tuple[WholePlot, ...]
    cells: tuple[EasyCell, ...]
    seed: int

    @property
    def platforms(self) -> dict[str, str]:
        """The platform of each node under test, by the node's name."""
        variants = (variant for plot in self.plots for variant in plot.variants)
        return {node: variant.platform for variant in variants for node in variant.nodes}

    @property
    def trials_per_round(self) -> int:
        """Trials when every cell of every plot gets one block."""
        return sum(len(plot.variants) for plot in self.plots) * len(self.cells)

    def plot_order(self, boot_round: int) -> list[int]:
        """Indices of the plots in the order of this visit."""
        return self._shuffled(range(len(self.plots)), "plots", boot_round)

    def cell_order(self, boot: int, repetition: int) -> list[int]:
        """Indices of the easy cells in the order of this repetition in this boot."""
        return self._shuffled(range(len(self.cells)), "cells", boot, repetition)

    def block(
        self, plot: WholePlot, cell: EasyCell, block: int, boot: int, *order: int
    ) -> Iterator[PlannedTrial]:
        """Yields one trial of every variant in random order. All trials have the id 0; the caller sets it.

        The order follows from the seed and from `order`, or from the number of the block without `order`.
        """
        for index in self._shuffled(range(len(plot.variants)), "variants", *(order or (block,))):
            yield self.trial(plot, plot.variants[index], cell, block, boot)

    def trial(
        self, plot: WholePlot, variant: Variant, cell: EasyCell, block: int, boot: int
    ) -> PlannedTrial:
        levels = {**cell.levels, **plot.levels, **variant.levels}
        return PlannedTrial(0, block, boot, variant.platform, levels)

    def _shuffled(self, indices: range, *key: object) -> list[int]:
        order = list(indices)
        random.Random(f"{self.seed}/{'/'.join(map(str, key))}").shuffle(order)
        return order


def make(study: Study, seed: int) -> Design:
    """The design of a study.

    Raises:
        InputError: a factor fits nothing in this study.
    """
    hard, side_by_side = _bench_factors(study)
    others = [Variant(kind.name) for kind in study.platforms if not kind.own_settings]
    guests = [
        Variant(kind.name, levels)
        for kind in study.platforms
        if kind.own_settings
        for levels in combinations({p: v for p, v in side_by_side.items() if has_own(kind, p)})
    ]
    groups = [guests[i : i + MAX_GUESTS] for i in range(0, len(guests), MAX_GUESTS)] or [[]]
    plots = [
        WholePlot(levels, tuple(name_nodes([*others, *group], study.bench_guests)))
        for levels in combinations(hard)
        for group in groups
    ]
    cells = [
        EasyCell({"workload": workload, **levels})
        for workload in study.workloads
        for levels in combinations(study.factors_of(workload))
    ]
    return Design(tuple(plots), tuple(cells), seed)


def name_nodes(variants: Sequence[Variant], guests: int) -> Iterator[Variant]:
    """Yields the variants with the name of their nodes, their place on the bench and their number of
    guests.
    """
    for index, variant in enumerate(variants):
        node = "host" if variant.kind.is_baseline else f"{variant.platform}{index}"
        yield Variant(variant.platform, variant.levels, node, index, guests)


def _bench_factors(study: Study) -> tuple[dict[str, Any], dict[str, Any]]:
    """The factors that need another bench, and those that make another guest of the same one."""
    tables = ("sut", "bench", *study.machine_kind.own_tables, "workloads", "knobs")
    hard: dict[str, Any] = {}
    side_by_side: dict[str, Any] = {}
    for path, levels in study.factors.items():
        if path == "sut.platforms" or path.partition(".")[0] not in tables:
            raise InputError(
                f'factors: "{path}" cannot be a factor.',
                "A factor is a key of sut, bench, workloads.NAME or knobs, for example sut.nic.",
            )
        if study.makes_variants(path):
            side_by_side[path] = levels
        elif is_hard(path):
            hard[path] = levels
    return hard, side_by_side
