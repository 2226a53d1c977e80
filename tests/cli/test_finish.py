"""How a run ends on the terminal where nothing was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.base.errors import HypertareError
from hypertare.cli.report import load
from hypertare.cli.run import _require_results
from tests import factory


def test_where_the_time_went_for_warm_ups_those_are_the_answer(tmp_path: Path) -> None:
    """Four warm-ups, and nothing else: they stand for what was asked, and it is said."""
    report = load(
        factory.write(
            tmp_path / "run", factory.Script(1, cells=({"workload": "build"},), fail=frozenset())
        )
    )
    _require_results(report, tmp_path, told=True)
    assert {one.verdict for one in report.leading} == {"undecided"}
    assert {one.n for one in report.leading} == {1}
    assert any("before anything of build was measured" in one for one in report.warnings)


def test_where_trials_failed_it_is_no_matter_of_time(tmp_path: Path) -> None:
    report = load(factory.write(tmp_path / "run", factory.Script(2, fail=frozenset(range(200)))))
    with pytest.raises(
        HypertareError, match="No trial succeeded on native and container and guest"
    ):
        _require_results(report, tmp_path, told=True)
