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


def shown(report: Report, **options: object) -> str:
    out = io.StringIO()
    terminal.show(report, Console(file=out, highlight=False, width=80, **options))  # type: ignore[arg-type]
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


def test_every_estimate_has_its_line(report: Report) -> None:
    lines = [line for line in shown(report).splitlines() if line.startswith("  ")]
    for estimate in report.summary.estimates:
        name = report.wording.platform(estimate.platform, estimate.cell)
        assert any(line.startswith(f"  {name} ") for line in lines)
    assert sum(line.startswith("  native ") for line in lines) == 11


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
