"""A run's directory and its file: how they are begun, and how a run ends.

It ends by itself, by Ctrl-C, or because its machine is gone. What it has is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hypertare import __version__
from hypertare.base import interrupt
from hypertare.base.errors import MachineError, writing
from hypertare.design import planner
from hypertare.design.planner import MachineResources
from hypertare.doctor import checks
from hypertare.engine.prepare import Prepared, on_users_xen
from hypertare.engine.runners.runner import runner_of
from hypertare.machines.asked import Asked
from hypertare.machines.host.keeper import NotPutBackError
from hypertare.machines.steps import AgentError
from hypertare.runs.store import INTERRUPTED, Meta, Store
from hypertare.study import BASELINE
from hypertare.workloads.responses import of_clock, of_workload

if TYPE_CHECKING:
    from hypertare.runs.summary import Summary


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
    for text in () if beside else checks.warnings():
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


@dataclass
class Ending:
    """How a run ended; `left` says which settings of this host could not be put back."""

    complete: bool = False
    interrupted: bool = False
    left: NotPutBackError | None = None


@contextmanager
def ending(store: Store, what: str, goes_on: str, kept: str) -> Iterator[Ending]:
    """Catches the exceptions that end a run early, and notes in the run's file how it ended.

    Ctrl-C, and settings of this host that could not be put back, end the block without an exception and
    are noted, so that the caller can sum up first. The block sets `complete` if nothing that was planned
    is missing.

    Args:
        store: the run's file.
        what: the run, in a sentence.
        goes_on: the command that goes on with it.
        kept: what follows `Every trial before is kept: ` when the agent is gone.

    Raises:
        AgentError: the agent is gone; it says what can be done with what there is.
    """
    end = Ending()
    try:
        yield end
    except KeyboardInterrupt:
        end.interrupted = True
        interrupt.heard()
        store.add_event(f"{what}{INTERRUPTED}{goes_on}` goes on with it")
    except NotPutBackError as error:
        end.left = error
        store.add_event(str(error))
    except AgentError as error:
        raise AgentError(error.what, f"Every trial before is kept: {kept}") from error
    finally:
        store.ended(end.complete)


@dataclass(frozen=True)
class Ended:
    """A run with its file written and summed up. `interrupted`: Ctrl-C ended it."""

    summary: Summary
    interrupted: bool


def sum_up(store: Store, folder: Path) -> Summary:
    """Writes `summary.json`, of an interrupted run too."""
    # A start need not wait for what only an end needs.
    from hypertare.findings.summarise import summarise

    summary = summarise(store)
    with writing(folder):
        (folder / "summary.json").write_text(summary.model_dump_json(indent=2) + "\n")
    return summary
