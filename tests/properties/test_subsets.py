"""Whatever part of a run's trials is there, it is summed up and shown, and words and intervals agree."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from hypertare.base.variables import Cell
from hypertare.cli.report import Format
from hypertare.cli.report import report as show
from hypertare.findings.summarise import read
from hypertare.report import forest, model, verdict
from hypertare.runs.store import Store
from hypertare.runs.summary import Estimate, LevelChange
from hypertare.stats.practical import LARGE
from tests import factory
from tests.properties.mutations import searched

DIRECTION, MTU = "workloads.tcp.direction", "knobs.mtu"
FACTORS: dict[str, list[object]] = {DIRECTION: ["receive", "transmit"], MTU: [500, 1500, 9000]}
CELLS: tuple[Cell, ...] = tuple(
    {"workload": "tcp", DIRECTION: direction, MTU: mtu}
    for direction in ("receive", "transmit")
    for mtu in (500, 1500, 9000)
)
SCRIPTS = (
    factory.Script(blocks=4, cells=CELLS, factors=FACTORS, complete=False, fail=frozenset()),
    factory.Script(blocks=5, complete=False, fail=frozenset(), noise=0.3),
    factory.Script(
        blocks=6, complete=False, fail=frozenset(), slower=dict.fromkeys(factory.COST, 1.0)
    ),
)


def part_of(
    folder: Path, script: factory.Script, kept: frozenset[int], failed: frozenset[int]
) -> Path:
    """A run of which these trials, by number, ended; some of them failed."""
    script = replace(script, fail=failed)
    with Store.create(folder, factory.meta(script)) as store:
        store.add_bench(0, factory.bench_records(script))
        for trial in factory.planned(script):
            if trial.id in kept:
                finished = factory.finish(trial, script)
                store.append(finished, factory.records(finished, script))
    return folder


@st.composite
def parts(draw: Any) -> tuple[int, frozenset[int], frozenset[int]]:
    """A script, the trials that ended, and those of them that failed: an interrupted run has a beginning,
    a damaged one any of its trials.
    """
    number = draw(st.integers(0, len(SCRIPTS) - 1))
    of = sum(1 for _ in factory.planned(SCRIPTS[number]))
    whole = draw(st.integers(0, of))
    missing = draw(st.sets(st.integers(0, of - 1), max_size=of // 2))
    failed = draw(st.sets(st.integers(0, of - 1), max_size=6))
    return number, frozenset(range(whole)) - missing, frozenset(failed)


@searched(16)
@given(parts())
@example((0, frozenset(range(0)), frozenset()))
@example((0, frozenset(range(53)), frozenset()))
def test_any_part_of_a_run_is_summed_up_and_shown(
    part: tuple[int, frozenset[int], frozenset[int]],
) -> None:
    number, kept, failed = part
    with TemporaryDirectory() as scratch:
        folder = part_of(Path(scratch) / "run", SCRIPTS[number], kept, failed)
        found = read(folder)
        agree(found.summary.estimates, found.summary.levels)
        for form in (Format.table, Format.markdown, Format.csv, Format.json):
            with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
                show(folder, form, every=form is Format.table, html=None)
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
            show(folder, Format.table, every=False, html=folder / "page.html")
        with Store.open(folder) as store:
            rows_agree(model.gather(store, found.summary))


def agree(estimates: tuple[Estimate, ...], changes: tuple[LevelChange, ...]) -> None:
    """A verdict and the interval that stands beside it say the same."""
    for one in (*estimates, *changes):
        if one.verdict is None:
            continue
        low, high = (
            (one.cost_low, one.cost_high)
            if one.cost is not None
            else (one.difference_low, one.difference_high)
        )
        if low is None or high is None:
            assert one.verdict == "undecided" or one.reason == "size" or one.cost is not None
            continue
        if one.verdict in ("costs", "gains"):
            assert not low <= 0 <= high
            if one.cost is not None:
                assert (low > 0) == (one.verdict == "costs")
        elif one.reason in ("size", "floor"):
            assert one.verdict == verdict.NO_DIFFERENCE
        else:
            assert low <= 0 <= high
            if one.cost is not None:
                assert (one.verdict == "undecided") == (low < -LARGE or high > LARGE)


def rows_agree(report: model.Report) -> None:
    """A row's colour is its verdict's, its bar is its interval, and the headline claims no more."""
    for group in (*forest.of_platforms(report), *forest.of_levels(report)):
        for row in group.rows:
            if row.bar is not None and row.tone in ("costs", "gains"):
                assert row.bar.low > 0 or row.bar.high < 0
            if row.bar is not None and row.tone == "unknown":
                assert row.bar.low <= 0 <= row.bar.high
    shown = {verdict.tone(one) for one in report.leading}
    for answer in report.answers[-1:] if report.leading else ():
        if answer.tone == "mixed":
            assert {"costs", "gains"} <= shown
        elif answer.tone in ("costs", "gains"):
            assert answer.tone in shown
        else:
            assert not {"costs", "gains"} & shown
