"""A run's directory and its file, as they are begun."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

from hypertare import __version__
from hypertare.base.errors import MachineError
from hypertare.design import planner
from hypertare.design.planner import MachineResources
from hypertare.doctor import quick
from hypertare.engine.prepare import Prepared, on_users_xen
from hypertare.engine.runners.registry import runner_of
from hypertare.machines.asked import Asked
from hypertare.runs.store import Meta, Store
from hypertare.study import BASELINE
from hypertare.workloads.responses import of_clock, of_workload


def create(
    prepared: Prepared, on: MachineResources, folder: Path, asked: Asked | None = None
) -> Store:
    """Starts the file of a run in its directory; `asked` are programs that were asked before."""
    study = prepared.study
    runner = runner_of(study.machine_kind)
    meta = Meta(
        hypertare=__version__,
        study=study.name,
        question=study.question,
        study_text=prepared.file.text,
        settings=prepared.file.raw,
        folder=str(prepared.file.folder),
        argv=tuple(sys.argv),
        seed=prepared.design.seed,
        machine=runner.state(prepared, on),
        hosts=tuple(runner.state(prepared, one) for one in on.hosts) if on.further else (),
        clock=study.clock,
        accelerator=on.accelerator if on.images and not on_users_xen(study) else None,
        versions=runner.versions(on, asked),
        platforms=study.sut.platforms,
        nodes=prepared.design.platforms,
        baseline=BASELINE,
        responses={
            name: tuple(
                of_clock(one, study.clock) for one in of_workload(work, walked=name in study.walked)
            )
            for name, work in study.workloads.items()
        },
        headline={name: work.headline for name, work in study.workloads.items()},
        threshold=study.design.threshold,
        published=prepared.published,
    )
    store = Store.create(folder, meta)
    # A busy host cannot change what is measured in virtual time, nor this one what is measured elsewhere.
    beside = study.clock_kind.repeats or study.machine_kind.is_reached
    for text in () if beside else quick.warnings():
        store.add_event(text)
    for text in (*planner.warnings(study, on), *runner.warnings(prepared, on)):
        store.add_event(text)
    return store


def new_folder(name: str, base: Path) -> Path:
    """Makes a run directory: study, date, time, and a number where several begin in one second.

    Raises:
        MachineError: it cannot be made.
    """
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        folder = base / (f"{name}-{stamp}" if number == 1 else f"{name}-{stamp}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise MachineError(
                f"The run directory {folder} cannot be made: {error.strerror}.",
                "Give another place with `--out`.",
            ) from error
        return folder
    raise MachineError(f"There is no free name for a run in {base}.", "Give one with `--out`.")
