"""What other programs get."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import polars
import pytest
from markdown_it import MarkdownIt

from hypertare.report import data, markdown
from hypertare.report.model import Report
from hypertare.runs.summary import JudgedClaim, Summary
from tests import factory
from tests.report.conftest import read


def _values(frame: polars.DataFrame) -> dict[tuple[int, str], float]:
    rows = frame.filter(polars.col("response").is_not_null()).to_dicts()
    return {(row["trial"], row["response"]): row["value"] for row in rows}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_every_value_of_every_trial_comes_back(report: Report, kind: str) -> None:
    if kind == "csv":
        frame = polars.read_csv(io.StringIO(data.csv(report)))
    else:
        frame = polars.read_parquet(io.BytesIO(data.parquet(report)))
    expected = {
        (trial.planned.id, name): value
        for trial in report.trials
        for name, value in trial.values.items()
    }
    assert _values(frame) == expected
    failed = frame.filter(polars.col("status") == "failed")
    assert failed["trial"].to_list() == [9, 41]
    assert failed["error"].to_list() == ["the guest panicked"] * 2
    assert failed["value"].null_count() == 2


def test_factors_are_columns_with_types(tmp_path: Path) -> None:
    cells = ({"workload": "build", "sut.cpus": 1, "x": "a"}, {"workload": "build", "sut.cpus": 2})
    mixed = ({"workload": "build", "sut.cpus": 1, "x": 5},)
    script = factory.Script(2, cells=(*cells, *mixed), fail=frozenset())
    frame = data.frame(read(factory.write(tmp_path / "run", script)))
    assert frame.schema["sut.cpus"] == polars.Int64
    assert frame.schema["x"] == polars.String
    assert set(frame["x"]) == {"a", "5", None}


def test_a_run_without_trials_exports(tmp_path: Path) -> None:
    report = read(factory.write(tmp_path / "run", factory.Script(cells=())))
    assert data.frame(report).is_empty()
    assert data.csv(report).startswith("trial,block,boot,platform")
    assert data.parquet(report)
    assert markdown.render(report)


def test_json_is_the_summary(report: Report) -> None:
    assert Summary.model_validate_json(data.json(report)) == report.summary


def test_markdown_holds_verdicts_and_tables_and_escapes(tmp_path: Path, report: Report) -> None:
    text = markdown.render(report)
    assert "guest (kvm) costs in " in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    # Comparisons with their bars, how much later round trips are, and the tables of all responses.
    assert widths == {6, 8, 10}
    assert "●" in text
    reported = text.partition("## How")[2]
    assert f"{report.summary.started:%d %B %Y}, seed {report.summary.seed}, " in reported
    assert all(f"{name} {version}" in reported for name, version in report.summary.versions.items())
    script = factory.Script(2, study="<img src=x>|a*b*", fail=frozenset({0}), failure="a|b\n# c")
    hostile = markdown.render(read(factory.write(tmp_path / "run", script)))
    assert "<img" not in hostile.replace("\\<img", "")
    assert "\n# c" not in hostile
    assert "a\\|b" in hostile


def test_markdown_holds_judged_claims(report: Report) -> None:
    claim = JudgedClaim(text="guests | cost", judgement="holds", evidence="by 3 to 5 %")
    judged = replace(report, summary=report.summary.model_copy(update={"claims": (claim,)}))
    text = markdown.render(judged)
    assert "| guests \\| cost | holds | by 3 to 5 % |" in text
    page = MarkdownIt().enable("table").render(text)
    assert page.count("<table>") == sum(line.startswith("|---") for line in text.splitlines()) > 2


def test_json_has_no_nan(report: Report) -> None:
    def refuse(name: str) -> float:
        raise AssertionError(name)

    json.loads(data.json(report), parse_constant=refuse)
