"""Estimates the seconds and boots that a run will take, before its first trial. Pure."""

from __future__ import annotations

import math
from collections import Counter

from hypertare.design import pc
from hypertare.design.design import Design, WholePlot
from hypertare.machines.batch import seed_of
from hypertare.platforms.platform import PcClass
from hypertare.study import Study
from hypertare.study.factors import expected_trial_s

_BOOT_S = 6.0
_BENCH_S = 0.2
"""Seconds that a bench takes to make if nothing boots on it."""

_HOST_PER_VIRTUAL_S = 3.0
"""Seconds of the host that a second of virtual time at work takes."""

_TRIALS_OF_A_BOOT = 3
"""Trials of a tuning's block that share a boot at most. A boot costs more than a trial, but a block in one
boot would leave all CPUs but one idle."""

_BLOCK = 4
"""Trials that a tuning's blocks usually have; one block waits for the one before it."""


def visits(study: Study, design: Design, plot: WholePlot, blocks: float) -> float:
    """Returns the number of benches that `blocks` blocks of a plot take, which may be a fraction."""
    if not plot.boots and len(design.plots) == 1:
        return min(1.0, blocks)
    return blocks / study.design.blocks_of_a_boot


def bench_s(plot: WholePlot) -> float:
    """Seconds that making a plot's bench takes."""
    return _BOOT_S if plot.boots else _BENCH_S


def expected_run_s(study: Study, design: Design, blocks: int) -> float:
    """Seconds of a run that takes this many blocks of every cell."""
    seconds = 0.0
    for plot in design.plots:
        boots = math.ceil(visits(study, design, plot, blocks))
        seconds += boots * bench_s(plot)
        for cell in design.cells:
            warms_up = study.workloads[cell.workload].kind.warms_up
            times = blocks + (boots * study.design.warmup if warms_up else 0)
            seconds += times * len(plot.variants) * expected_trial_s(study, cell.workload)
    return seconds


# --- of an emulated machine


def boots_of_plot(study: Study) -> tuple[int, int]:
    """Returns the number of boots of each plot in the first wave, and the most of a run."""
    settings = study.design
    most = math.ceil(settings.max_trials / settings.blocks_per_boot)
    least = math.ceil(settings.min_trials / settings.blocks_per_boot)
    return min(max(least, settings.min_boots), most), most


def cuts(study: Study, design: Design) -> int:
    """Boots that a round of a plot is cut into, as long as all of its cells are open."""
    most = study.design.trials_per_boot
    if most is None:
        return 1
    kinds = Counter(variant.kind.pc for variant in design.plots[0].variants)
    cells_per_boot = max(1, most // (study.design.blocks_per_boot * max(kinds.values())))
    return math.ceil(len(design.cells) / cells_per_boot)


def expected_boots(study: Study, design: Design) -> tuple[int, int]:
    """The least and the most boots of PCs of a whole run."""
    least, most = boots_of_plot(study)
    plots = len(design.plots)
    # The baseline's may be the same one in several plots.
    baselines = len({seed_of(design.seed, plot.levels, 0) for plot in design.plots})
    machines = sum(plots if kind.has_guests else baselines for kind in pc.classes(study))
    each = cuts(study, design) * machines
    return least * each, most * each


def most_asked_of_boot(study: Study) -> int:
    """Returns the most trials of a tuning's block that share a boot."""
    return min(study.design.trials_per_boot or _TRIALS_OF_A_BOOT, _TRIALS_OF_A_BOOT)


def asked_s(
    study: Study, kind: PcClass, trials: int, trial_s: float, jobs: int, *, hard: bool
) -> float:
    """Seconds of this host that so many trials of a tuning take; with `hard` each needs its own machine."""
    most = 1 if hard else most_asked_of_boot(study)
    boots_of_block = math.ceil(_BLOCK / most)
    boots = trials * boots_of_block / _BLOCK
    seconds = boots * _alone_s(study, kind) + trials * _HOST_PER_VIRTUAL_S * trial_s
    return seconds / min(jobs, boots_of_block)


def expected_boots_s(study: Study, design: Design, boots: int, jobs: int) -> float:
    """Seconds of this host that so many boots take."""
    return math.ceil(boots / jobs) * boot_s(study, design)


def boot_s(study: Study, design: Design) -> float:
    """Seconds of this host that the boot of one PC with its trials takes, on average."""
    a_round = sum(
        expected_trial_s(study, cell.workload) * len(plot.variants)
        for plot in design.plots
        for cell in design.cells
    ) / len(design.plots)
    kinds = pc.classes(study)
    boots = sum(_alone_s(study, kind) for kind in kinds)
    trials = _HOST_PER_VIRTUAL_S * study.design.blocks_per_boot * a_round
    return (boots + trials / cuts(study, design)) / len(kinds)


def _alone_s(study: Study, kind: PcClass) -> float:
    """Seconds of this host that a boot without trials takes."""
    return kind.boot_s + kind.guest_boot_s * study.bench_guests
