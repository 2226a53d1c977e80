"""`hypertare history` over kept runs: those of the same work, and no others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hypertare.base import paths
from hypertare.base.errors import InputError
from hypertare.cli.compare import history
from hypertare.runs.store import Store
from tests import factory
from tests.factory import Script

SMALL = Script(
    blocks=4, cells=({"workload": "build"},), variants=("native", "container"), fail=frozenset()
)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "runs_dir", lambda: tmp_path)
    monkeypatch.setattr(paths, "kept_runs_dir", lambda: tmp_path / "none")
    for day in range(1, 4):
        factory.write(tmp_path / f"first-look-2026110{day}-120000", replace(SMALL, seed=day))
    return tmp_path


def test_runs_of_the_same_work(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history(Path("first-look"), json=True)
    found = json.loads(capsys.readouterr().out)
    assert len(found["runs"]) == 3 and found["left_out"] == []
    (trend,) = found["trends"]
    assert trend["platform"] == "container" and len(trend["points"]) == 3
    history(Path("last"))
    assert "3 runs of the same work" in capsys.readouterr().out


def test_other_work_is_left_out(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"workloads": {"build": {"command": "make other"}}}
    other = factory.meta(SMALL).model_copy(update={"settings": settings})
    mine = other.model_copy(update={"settings": {"workloads": {"build": {"command": "make"}}}})
    for day, meta in ((4, other), (5, mine)):
        folder = kept / f"first-look-2026110{day}-120000"
        with Store.create(folder, meta) as store:
            store.add_bench(0, factory.bench_records(SMALL))
            for planned in factory.planned(SMALL):
                finished = factory.finish(planned, SMALL)
                store.append(finished, factory.records(finished, SMALL))
    history(Path("first-look"), json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["left_out"] == ["first-look-20261104-120000"]


def test_names_that_no_run_has(kept: Path) -> None:
    with pytest.raises(InputError, match="--on gest: the run has none of that name"):
        history(Path("first-look"), on=["gest"])
    with pytest.raises(InputError, match="There is no run secnd-look"):
        history(Path("secnd-look"))
