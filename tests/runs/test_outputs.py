"""Outputs of commands as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.base.errors import MachineError
from hypertare.runs.kept import write_outputs
from hypertare.runs.store import Store
from tests import factory


def test_each_trial_has_a_file_with_what_was_printed(tmp_path: Path) -> None:
    script = factory.Script(2, text="CC main.o\nLD prog\n", fail=frozenset({1}))
    folder = factory.write(tmp_path / "run", script)
    with Store.open(folder) as store:
        trials = list(store.trials())
        place = write_outputs(store, folder)
    assert place == folder / "output"
    assert len(list(place.iterdir())) == len(trials)
    first = (place / f"0000-{trials[0].planned.platform}.log").read_text()
    assert first.startswith("trial 0, ") and first.endswith("stdout\nCC main.o\nLD prog\n")
    assert ", failed" in (place / f"0001-{trials[1].planned.platform}.log").read_text()


def test_where_it_cannot_be_written_it_says_so(tmp_path: Path) -> None:
    folder = factory.write(tmp_path / "run", factory.Script(1))
    (folder / "output").write_text("in the way")
    with Store.open(folder) as store, pytest.raises(MachineError, match="cannot be written"):
        write_outputs(store, folder)
