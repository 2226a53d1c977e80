"""The report in a terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from hypertare.report import terminal
from hypertare.report.model import Report
from tests import factory
from tests.report.conftest import read


def shown(report: Report, every: bool = False, **options: object) -> str:
    out = io.StringIO()
    console = Console(file=out, highlight=False, width=80, **options)  # type: ignore[arg-type]
    terminal.show(report, console, every=every)
    return out.getvalue()


def test_the_verdict_stands_first(report: Report) -> None:
    lines = shown(report).splitlines()
    assert lines[0].startswith("first-look")
    first = next(i for i, line in enumerate(lines) if "guest e1000 costs +" in line)
    table = next(i for i, line in enumerate(lines) if line.strip() == "build")
    assert first < table
    assert any("failed in 1 of 8 trials of build" in line for line in lines[:table])


def test_it_fits_eighty_columns_and_nothing_is_cut(report: Report) -> None:
    text = shown(report)
    assert max(map(cell_len, text.splitlines())) <= 80
    assert "…" not in text


def test_every_estimate_has_its_line_if_wanted(report: Report) -> None:
    lines = [line for line in shown(report, every=True).splitlines() if line.startswith("  ")]
    for estimate in report.summary.estimates:
        name = report.wording.platform(estimate.platform, estimate.cell)
        assert any(line.startswith(f"  {name} ") for line in lines)
    assert sum(line.startswith("  native ") for line in lines) == 11


def test_of_several_cells_the_leading_responses_are_shown_and_the_others_named(
    report: Report,
) -> None:
    text = shown(report)
    lines = [line for line in text.splitlines() if line.startswith("  native ")]
    assert len(lines) == len(report.cells()) > 1
    assert "also measured: " in text and "--all" in text
    assert "also measured" not in shown(report, every=True)


def test_of_one_cell_what_says_nothing_is_left_out(report: Report) -> None:
    cell = {"workload": "build"}
    label = report.wording.label(cell)
    ofone = [one for one in report.estimates(label) if one.response == "elapsed"]
    nought = [one.model_copy(update={"response": "major_faults", "estimate": 0.0}) for one in ofone]
    alone = [one.model_copy(update={"response": "own_cpu", "baseline": None}) for one in ofone]
    summary = report.summary.model_copy(update={"estimates": (*ofone, *nought, *alone)})
    trials = tuple(trial for trial in report.trials if trial.planned.workload == "build")
    text = shown(replace(report, summary=summary, trials=trials))
    assert "also measured: major faults, own cpu" in text.replace("\n", " ")
    assert sum(line.startswith("  native ") for line in text.splitlines()) == 1


def test_where_it_leaves_the_screen_the_verdicts_stand_last_too(report: Report) -> None:
    first = report.sentences[0].text.split(",")[0]
    assert shown(report).count(first) == 1
    assert shown(report, force_terminal=True, height=500).count(first) == 1
    text = shown(report, force_terminal=True, height=24)
    assert text.count(first) == 2 and first in "\n".join(text.splitlines()[-12:])


def test_of_many_warnings_the_rest_is_counted(report: Report) -> None:
    many = replace(report, warnings=tuple(f"warning number {n}" for n in range(9)))
    assert "and 6 more" in shown(many) and "warning number 8" not in shown(many)
    assert "warning number 8" in shown(many, every=True)


def test_colours_only_where_they_are_wanted(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" not in shown(report)
    assert "\x1b[31m" in shown(report, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in shown(report, force_terminal=True)


def test_what_a_guest_says_is_only_text(tmp_path: Path) -> None:
    script = replace(
        factory.Script(2),
        failure="[bold red]gone\x1b[2J[/]",
        console=("\x1b]0;title\x07 [link=http://x]y[/link]",),
        fail=frozenset({1}),
    )
    text = shown(read(factory.write(tmp_path / "run", script)), force_terminal=True)
    assert "\x1b[2J" not in text and "\x1b]" not in text and "\x07" not in text
    assert "[bold red]gone" in text and "[link=http://x]y[/link]" in text


def test_a_reason_stands_once_with_its_verdict(tmp_path: Path) -> None:
    script = replace(factory.Script(2), failure="out of luck", fail=frozenset({1}))
    lines = shown(read(factory.write(tmp_path / "run", script))).splitlines()
    told = [place for place, line in enumerate(lines) if "out of luck" in line]
    assert len(told) == 1
    assert told[0] < next(i for i, line in enumerate(lines) if line.strip() == "build")
    failed = next(i for i, line in enumerate(lines) if "trials failed" in line)
    assert lines[failed + 1].strip().startswith("trial 1: ")


def test_a_reason_that_no_verdict_tells_stands_with_its_trials(report: Report) -> None:
    one = report.failures[0]
    failures = [replace(one, trial=trial, reason="another one") for trial in (3, 4)]
    text = shown(replace(report, failures=(one, *failures)))
    assert f"trials 3, 4: {one.platform}, {one.cell}: another one" in " ".join(text.split())
    assert text.count("another one") == 1
    assert text.count(one.console[-1]) == 2, "the last lines of each reason"


def test_above_many_verdicts_stands_one_over_all(report: Report) -> None:
    first, second, *_ = report.sentences
    assert first.text.startswith("guest costs in ") and " comparisons, " in first.text
    assert first.text not in second.text
    lines = shown(report).splitlines()
    place = next(i for i, line in enumerate(lines) if "costs" in line)
    assert "comparisons" in lines[place]
