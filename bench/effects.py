"""How long a report thinks about which factor matters: the effects of a factorial of 4 x 3 x 7 x 8 cells,
from its finished trials, one of each cell in each of four boots.

Counted is user and system time: it starts nothing and waits for nothing.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Sequence

import common
from common import Row

from hypertare.base.variables import Cell, Level
from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.findings.effects import effects
from hypertare.findings.series import Rules
from hypertare.study.analyses import EffectsSettings
from hypertare.workloads.responses import RESPONSES

TARGET_S = 2.0
SHAPE = {
    "knobs.mtu": (500, 1500, 4000, 9000),
    "knobs.offloads": ("none", "some", "all"),
    "workloads.tcp.socket_buffer": ("4K", "8K", "16K", "64K", "112K", "128K", "256K"),
    "workloads.tcp.message": (512, "1K", "2K", "4K", "8K", "32K", "64K", "1M"),
}
BOOTS = 4


def main(argv: Sequence[str]) -> list[Row]:
    quick = common.options(__doc__, argv).quick
    levels: dict[str, tuple[Level, ...]] = {**SHAPE}
    trials = made(levels)
    goodput = next(one for one in RESPONSES["stream"] if one.name == "goodput")
    rules = Rules("native", 0.95, 0.01, "wall")
    seconds = []
    for _ in range(1 if quick else 5):
        began = time.process_time()
        (found,) = effects(trials, levels, {"tcp": [goodput]}, EffectsSettings(), rules)
        seconds.append(time.process_time() - began)
        assert found.reason is None and found.trials == len(trials)
    return [
        common.at_most("effects of 672 cells in 4 boots", "s", statistics.median(seconds), TARGET_S)
    ]


def made(levels: dict[str, tuple[Level, ...]]) -> list[FinishedTrial]:
    chance = random.Random(1)
    cells: list[Cell] = [
        {"workload": "tcp", **dict(zip(levels, each, strict=True))}
        for each in itertools.product(*levels.values())
    ]
    of_cell = [chance.gauss(20, 1) for _ in cells]
    return [
        FinishedTrial(
            PlannedTrial(0, boot * len(cells) + place, boot, "native", cell),
            "ok",
            None,
            1.0,
            {"goodput": 2 ** (of_cell[place] + chance.gauss(0, 0.05))},
        )
        for boot in range(BOOTS)
        for place, cell in enumerate(cells)
    ]


if __name__ == "__main__":
    common.run_alone(main)
