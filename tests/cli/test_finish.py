"""How a run ends on the terminal where nothing was measured."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
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
    _require_results(report, tmp_path, is_shown=True)
    assert {one.verdict for one in report.leading} == {"undecided"}
    assert {one.n for one in report.leading} == {1}
    assert any("before anything of build was measured" in one for one in report.warnings)


def test_a_platform_for_which_no_time_was_left_is_named_with_how_much_is_needed(
    tmp_path: Path,
) -> None:
    """Two warm-ups of about 8 s in a minute, and none of the guest's."""
    script = factory.Script(
        1, cells=({"workload": "build"},), fail=frozenset(), variants=("native", "container")
    )
    report = load(factory.write(tmp_path / "run", script))
    ended = report.summary.started + timedelta(seconds=60)
    summary = report.summary.model_copy(update={"ended": ended})
    with pytest.raises(HypertareError) as caught:
        _require_results(replace(report, summary=summary), tmp_path, is_shown=True)
    assert caught.value.what.startswith(
        "The time limit went for boot and warm-ups: of guest nothing"
    )
    assert caught.value.do is not None and ": --time-limit of weigh" in caught.value.do


def test_where_trials_failed_it_is_no_matter_of_time(tmp_path: Path) -> None:
    report = load(factory.write(tmp_path / "run", factory.Script(2, fail=frozenset(range(200)))))
    with pytest.raises(
        HypertareError, match="No trial succeeded on native and container and guest"
    ):
        _require_results(report, tmp_path, is_shown=True)
