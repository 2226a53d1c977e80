"""The same work over runs: what is one series, where it changes, what differs there."""

from __future__ import annotations

import io
import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from hypertare.findings.history import History, Past, Trend, history
from hypertare.findings.summarise import summarise
from hypertare.report import history as shown
from hypertare.runs.store import Store
from hypertare.runs.summary import Summary
from hypertare.stats.interval import of_mean
from tests import factory
from tests.factory import Script

LEADING = {"build": "elapsed"}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    script = Script(blocks=4, cells=({"workload": "build"},), variants=("native", "container"))
    folder = factory.write(tmp_path_factory.mktemp("run"), replace(script, fail=frozenset()))
    with Store.open(folder) as store:
        return summarise(store)


def past(one: Summary, costs: list[float], kernels: str = "") -> list[Past]:
    """A run a day, in which the container costs so much; `kernels` has a letter for each day's kernel."""
    made = []
    for day, cost in enumerate(costs):
        estimates = tuple(
            e.model_copy(update={"cost": cost, "cost_low": cost - 0.01, "cost_high": cost + 0.01})
            if e.response == "elapsed" and e.platform == "container"
            else e
            for e in one.estimates
        )
        started = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day)
        machine = one.machine.model_copy(update={"kernel": f"6.1-{(kernels or 'a' * 99)[day]}"})
        update = {"estimates": estimates, "started": started, "machine": machine}
        made.append(Past(f"run-{day}", one.model_copy(update=update)))
    return made


def only(found: History) -> Trend:
    (trend,) = found.trends
    return trend


def test_each_run_is_one_value(one: Summary) -> None:
    costs = [0.05, 0.07, 0.06, 0.08]
    trend = only(history(past(one, costs), LEADING))
    assert (trend.platform, trend.response, trend.of) == ("container", "elapsed", "cost")
    assert [point.value for point in trend.points] == costs
    by_hand = of_mean([math.log1p(cost) for cost in costs])
    assert trend.mean == pytest.approx(math.expm1(by_hand.estimate))
    assert trend.low is not None and trend.low < 0.05
    assert trend.between == pytest.approx(math.expm1(by_hand.error * 2))
    assert trend.shifts == ()


def test_a_new_level_is_reported_with_what_changed_there(one: Summary) -> None:
    rng = random.Random(4)
    costs = [0.05 + rng.gauss(0, 0.004) for _ in range(9)]
    costs += [0.15 + rng.gauss(0, 0.004) for _ in range(7)]
    trend = only(history(past(one, costs, "a" * 9 + "b" * 7), LEADING))
    (shift,) = trend.shifts
    assert shift.run == "run-9" and shift.started.day == 10
    assert shift.before == pytest.approx(0.05, abs=0.005)
    assert shift.after == pytest.approx(0.15, abs=0.005)
    assert shift.differs == ("machine's kernel 6.1-b against 6.1-a",)
    assert trend.mean == pytest.approx(shift.after)
    text = shown.sentence(trend, shift)
    assert text.startswith("from run-9 (2026-11-10) on cost of elapsed of container")
    assert "kernel 6.1-b against 6.1-a" in text


def test_what_is_asked_for(one: Summary) -> None:
    runs = past(one, [0.05, 0.06])
    native = only(history(runs, LEADING, platforms=["native"]))
    assert (native.platform, native.of, native.unit) == ("native", "value", "s")
    user = only(history(runs, LEADING, responses=["user"]))
    assert user.response == "user" and user.of == "cost"


def test_a_single_run_has_no_interval(one: Summary) -> None:
    trend = only(history(past(one, [0.05]), LEADING, left_out=["other"]))
    assert trend.low is None and trend.between is None


def test_where_higher_is_better_a_loss_stays_a_loss(one: Summary) -> None:
    runs = [
        Past(
            run.name,
            run.summary.model_copy(
                update={
                    "estimates": tuple(
                        e.model_copy(update={"better": "higher"}) for e in run.summary.estimates
                    )
                }
            ),
        )
        for run in past(one, [0.2, 0.22, 0.18])
    ]
    trend = only(history(runs, LEADING))
    assert trend.low is not None and trend.high is not None
    assert trend.low < trend.mean < trend.high
    assert trend.mean == pytest.approx(0.2, abs=0.005)


def test_the_table_fits_a_terminal(one: Summary, tmp_path: Path) -> None:
    out = io.StringIO()
    found = history(past(one, [0.05 + 0.001 * n for n in range(30)]), LEADING, left_out=["other"])
    shown.show(found, Console(file=out, width=80))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "30 runs of the same work, 2026-11-01 to 2026-11-30" in lines[1]
    assert "cost of elapsed of container" in out.getvalue()
    assert "other" in out.getvalue()
