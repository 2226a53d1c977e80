"""Run directories: which are kept where runs go by themselves, and what a run's commands printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from hypertare.base import paths
from hypertare.base.errors import HypertareError, InputError, writing
from hypertare.base.figures import did_you_mean
from hypertare.protocol.constants import RUN_FILE
from hypertare.protocol.records import TaskResult
from hypertare.runs.store import Store

LAST = "last"
"""In place of a name: the run that was started last."""

_NAME = re.compile(r"(?P<study>.+)-(?P<stamp>\d{8}-\d{6})(?P<number>-\d+)?$")
"""As `hypertare.engine.run_directory` makes it: with a number where several began in one second."""

State = Literal["complete", "stopped", "not ended", "unreadable"]
_STATES: dict[str, State] = {"completed": "complete", "stopped": "stopped"}


@dataclass(frozen=True)
class Kept:
    """A run's directory, and what its file says of it; `state` is "not ended" while it goes on, and after
    it was killed.
    """

    folder: Path
    study: str
    question: str
    started: datetime | None
    trials: int
    state: State


def folders() -> list[Path]:
    """Run directories where runs go by themselves, the last one first."""
    places = (paths.runs_dir(), paths.kept_runs_dir())
    found = [path.parent for place in places for path in place.glob(f"*/{RUN_FILE}")]
    return sorted(found, key=_written, reverse=True)


def runs() -> Iterator[Kept]:
    """The runs in these directories, the last one first."""
    for folder in folders():
        try:
            with Store.open(folder) as store:
                meta, milestones = store.meta, store.milestones()
                state = _STATES.get(milestones[-1].what, "not ended")
                started, trials = milestones[0].at, store.count()
        except HypertareError:
            yield Kept(folder, "", "", None, 0, "unreadable")
        else:
            yield Kept(folder, meta.study, meta.question, started, trials, state)


def of_study(study: str) -> list[Path]:
    """The directories of its runs, the last one first."""
    return [folder for folder in folders() if _study_of(folder) == study]


def find(asked: Path) -> Path:
    """The run that is meant: a path, the name of a kept run, the name of a study for its last run, or
    `last`.

    Raises:
        InputError: nothing is called so.
    """
    if asked.exists() or len(asked.parts) != 1:
        return asked
    known = folders()
    name = str(asked)
    if name == LAST and known:
        return known[0]
    by_name = {folder.name: folder for folder in reversed(known)}
    if name in by_name:
        return by_name[name]
    its = of_study(name)
    if its:
        return its[0]
    raise InputError(
        f"There is no run {name}.{did_you_mean(name, [LAST, *by_name])}",
        "`hypertare runs` lists those that are kept; of any other, give the directory.",
    )


def _written(folder: Path) -> str:
    """Returns the date and time by which a run is sorted: those in its name, or its directory's."""
    named = _NAME.match(folder.name)
    made = datetime.fromtimestamp(folder.stat().st_ctime)
    return f"{named['stamp']}{named['number'] or ''}" if named else f"{made:%Y%m%d-%H%M%S}"


def _study_of(folder: Path) -> str:
    """Returns the study of a run from its directory's name, without opening the run."""
    named = _NAME.match(folder.name)
    return named["study"] if named else folder.name


FOLDER = "output"


def write_outputs(store: Store, folder: Path) -> Path:
    """Writes the last part of both streams of every task, as much of it as the run's file holds.

    Returns:
        The directory, with a file `0007-guest.log` for trial 7.

    Raises:
        MachineError: it cannot be written.
    """
    place = folder / FOLDER
    with writing(place):
        place.mkdir(exist_ok=True)
        for trial in store.trials():
            planned = trial.planned
            said = [
                f"== {record.node}, {record.task}, {stream}\n{text.rstrip()}\n"
                for record in store.records(planned.id)
                if isinstance(record, TaskResult)
                for stream, text in record.text.items()
            ]
            head = f"trial {planned.id}, {planned.platform}, {planned.kind}, {trial.status}\n"
            name = f"{planned.id:04}-{planned.platform}.log"
            (place / name).write_text("".join([head, *said]), encoding="utf-8")
    return place
