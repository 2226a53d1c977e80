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


def test_where_the_time_went_for_warm_ups_it_says_so_and_how_much_is_needed(tmp_path: Path) -> None:
    """Four warm-ups of about 8 to 16 s in a minute: five rounds of such take four minutes more."""
    report = load(
        factory.write(
            tmp_path / "run", factory.Script(1, cells=({"workload": "build"},), fail=frozenset())
        )
    )
    ended = report.summary.started + timedelta(seconds=60)
    summary = report.summary.model_copy(update={"ended": ended})
    with pytest.raises(HypertareError) as caught:
        _require_results(replace(report, summary=summary), tmp_path, told=True)
    assert caught.value.what.startswith("The time limit went for boot and warm-ups: of native and")
    assert "nothing was measured in 1 min" in caught.value.what
    assert caught.value.do is not None and "about 7 min: --time-limit" in caught.value.do


def test_where_trials_failed_it_is_no_matter_of_time(tmp_path: Path) -> None:
    report = load(factory.write(tmp_path / "run", factory.Script(2, fail=frozenset(range(200)))))
    with pytest.raises(
        HypertareError, match="No trial succeeded on native and container and guest"
    ):
        _require_results(report, tmp_path, told=True)
