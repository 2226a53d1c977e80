"""A run with a search: what its file, its summary and its reports say of it."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path as FilePath

import jsonschema
import pytest
from rich.console import Console

from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.findings.compare import compare
from hypertare.findings.summarise import read, summarise
from hypertare.report import comparison, html, markdown, terminal
from hypertare.report.model import Report, gather
from hypertare.runs.store import Store
from hypertare.search.rounds import Rounds
from tests import factory
from tests.runs.test_summary import made
from tests.search.made_up import MadeUpLab, Path, livelock
from tests.search.test_rounds import PATHS, TEXT, planned

CLAIM = """
[[claims]]
text = "weight 64 takes five times as much"
response = "loss_free_rate"
platform = "native"
where = { "knobs.napi_weight" = 64, "search.loss" = "0.5%" }
against = { "knobs.napi_weight" = 1 }
measure = "ratio"
op = "above"
value = 5
"""


def written(folder: FilePath, trials: list[FinishedTrial], text: str = TEXT) -> Report:
    """Two trials of a cell, and those of the search."""
    meta = factory.meta(factory.Script()).model_copy(
        update={"settings": tomllib.loads(text), "study_text": text}
    )
    with Store.create(folder, meta) as store:
        for number in range(2):
            cell = {"workload": "udp", "knobs.napi_weight": 1, "workloads.udp.rate": "10M"}
            own = PlannedTrial(number, number, 0, "native", cell)
            store.append(FinishedTrial(own, "ok", None, 1.0, {"goodput": 9.9e6 + number}))
        for trial in trials:
            store.append(trial)
        store.ended(True)
    with Store.open(folder) as store:
        return gather(store, summarise(store))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    lab = MadeUpLab(PATHS)
    Rounds(planned(), "native", []).run(lab)
    return written(tmp_path_factory.mktemp("run"), lab.journal)


def test_its_trials_are_kept_and_in_no_estimate(report: Report) -> None:
    kinds = [trial.planned.kind for trial in report.trials]
    assert kinds.count("search") >= 10 and kinds.count("measured") == 2
    assert {estimate.n for estimate in report.summary.estimates} == {2}
    assert list(report.cells) == ["udp"]
    assert all(point.kind == "measured" for point in report.points)
    assert len(report.summary.loss_free) == 4


def test_the_summary_fits_its_schema(report: Report) -> None:
    import json

    document = json.loads(report.summary.model_dump_json())
    jsonschema.Draft202012Validator(made()).validate(document)
    assert document["loss_free"][0]["lower"]["rate"] > 0


def test_terminal_page_and_markdown_say_the_same(report: Report) -> None:
    out = io.StringIO()
    terminal.show(report, Console(file=out, width=80, highlight=False))
    shown = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert max(map(len, out.getvalue().splitlines())) <= 80
    written_out, page = markdown.render(report), html.render(report)
    for found in report.summary.loss_free:
        assert found.lower and found.upper
        name = f"native napi weight {found.cell['knobs.napi_weight']}"
        goal = f"{100 * found.goal:g} %"
        line = next(line for line in shown if line.startswith(f"{name} {goal} "))
        rate, unit, other = line.removeprefix(f"{name} {goal} ").split()[:3]
        assert float(rate) * 1e6 == pytest.approx(found.lower.rate, rel=0.01) and unit == "Mb/s"
        assert float(other) * 1e6 == pytest.approx(found.upper.rate, rel=0.01)
        assert f"| {name} | {goal} | {rate} Mb/s | {other} |" in written_out
        assert f'<td>{name}</td><td class="number">{goal}</td>' in page
        assert f'{rate} Mb/s</td><td class="number">{other}</td>' in page
    assert 'id="loss-free"' in page


def test_a_study_judges_what_its_searches_found(tmp_path: FilePath) -> None:
    lab = MadeUpLab(PATHS)
    Rounds(planned(), "native", []).run(lab)
    (claim,) = written(tmp_path / "run", lab.journal, TEXT + CLAIM).summary.claims
    assert claim.judgement == "holds" and "(searched: " in claim.evidence


def test_two_runs_are_compared_by_what_they_found(tmp_path: FilePath) -> None:
    for name, paths in (("a", PATHS), ("b", {**PATHS, 64: Path(livelock(1.5e8), sender=2e9)})):
        lab = MadeUpLab(paths)
        Rounds(planned(), "native", []).run(lab)
        written(tmp_path / name, lab.journal)
    a, b = (read(tmp_path / name) for name in "ab")
    found = compare(a, b)
    rates = [change for change in found.changes if change.response == "loss_free_rate"]
    assert len(rates) == 4 and len(found.worse) == 2
    out = io.StringIO()
    comparison.show(found, a, b, Console(file=out, width=160, highlight=False))
    for goal in (0, 0.005):
        line = f"worse: native loss {goal:g} loss free rate in napi weight 64 −50"
        assert line in out.getvalue()
    assert "(bounds " in out.getvalue()


def test_what_was_not_found_says_why(tmp_path: FilePath) -> None:
    lab = MadeUpLab({1: Path(lambda sent, _: sent / 2), 64: Path(lambda sent, _: sent)})
    Rounds(planned(), "native", []).run(lab)
    reported = markdown.render(written(tmp_path / "run", lab.journal))
    assert "the lowest rate of the search loses already" in reported
    assert "the sender cannot send faster" in reported


def test_a_run_without_a_search_shows_none(tmp_path: FilePath) -> None:
    with Store.open(factory.write(tmp_path / "run", factory.Script(4))) as store:
        found = gather(store, summarise(store))
    assert found.summary.loss_free == ()
    assert "oss-free" not in markdown.render(found) and "loss-free" not in html.render(found)
