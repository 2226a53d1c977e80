"""What the commands of a run printed, a file for each trial: for who looks into it."""

from __future__ import annotations

from pathlib import Path

from hypertare.base.errors import writing
from hypertare.protocol.records import TaskResult
from hypertare.runs.store import Store

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
