"""The report in a terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from hypertare.report import forest, terminal, verdict
from hypertare.report.model import Report
from tests import factory
from tests.report.conftest import read


def shown(report: Report, every: bool = False, **options: object) -> str:
    out = io.StringIO()
    console = Console(file=out, highlight=False, width=80, **options)  # type: ignore[arg-type]
    terminal.show(report, console, every=every)
    return out.getvalue()


def test_the_answer_stands_first(report: Report) -> None:
    lines = shown(report).splitlines()
    assert lines[0].startswith("first-look")
    first = next(i for i, line in enumerate(lines) if "guest (kvm) costs in " in line)
    row = next(i for i, line in enumerate(lines) if line.strip().startswith("build guest e1000"))
    assert first < row
    assert "●" in lines[row] and "%" in lines[row]
    assert any("failed in 1 of 8 trials of build" in line for line in lines)


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


def test_each_comparison_of_a_leading_response_is_a_row(report: Report) -> None:
    text = shown(report)
    for one in report.leading:
        name = f"{report.wording.label(one.cell)} {report.wording.platform(one.platform, one.cell)}"
        assert name in " ".join(text.split())
    assert "more responses" in text and "--all" in text
    assert "more responses" not in shown(report, every=True)


def weighed(tmp_path: Path, blocks: int = 12, **changes: object) -> Report:
    """A command on three platforms."""
    script = factory.Script(
        blocks,
        cells=({"workload": "build"},),
        variants=("native", "container", "guest virtio-net"),
        study="weigh",
        question="What does virtualisation cost `make`?",
        fail=frozenset(),
        warnings=tuple(f"{'a long warning ' * 12}{n}. More of it." for n in range(5)),
        **changes,  # type: ignore[arg-type]
    )
    return read(factory.write(tmp_path / "run", script))


def test_a_command_on_three_platforms_is_one_screen(tmp_path: Path) -> None:
    lines = shown(weighed(tmp_path)).splitlines()
    assert len(lines) + 2 <= 24, "the place of the page is printed after it"
    assert max(map(cell_len, lines)) <= 80
    rows = [line.split() for line in lines if line.startswith("  ") and "more" not in line]
    assert [row[0] for row in rows if row[0] in factory.COST or row[0] == "guest"] == [
        "native",
        "container",
        "guest",
    ]
    # The baseline's own figure, and no bar; the others' with a mark where nothing changes.
    native, container, guest = (
        line for line in lines if line.split()[:1] in (["native"], ["container"], ["guest"])
    )
    assert "s" in native and "●" not in native
    assert "●" in container and "●" in guest
    assert guest.index("●") > container.index("●")
    assert any("a long warning" in line for line in lines)
    assert not any("More of it" in line for line in lines)


@pytest.mark.parametrize("width", [40, 80])
def test_letters_that_the_output_does_not_know_are_replaced(tmp_path: Path, width: int) -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", newline="")
    terminal.show(weighed(tmp_path), Console(file=out, highlight=False, width=width))
    out.flush()
    text = raw.getvalue().decode("ascii")
    assert max(map(len, text.splitlines())) <= width
    assert "^ guest (kvm) costs 37" in text and "?" not in text.replace("`make`?", "")
    if width == 80:
        assert "--o--" in text or "-o-" in text


def test_at_forty_columns_a_row_is_a_paragraph_and_nothing_is_lost(tmp_path: Path) -> None:
    report = weighed(tmp_path)
    out = io.StringIO()
    terminal.show(report, Console(file=out, highlight=False, width=40))
    assert max(map(cell_len, out.getvalue().splitlines())) <= 40
    said = " ".join(out.getvalue().split())
    for row in forest.of_platforms(report)[0].rows:
        assert row.change in said and row.interval in said


def test_what_is_undecided_is_shown_with_its_interval_and_without_a_bar(tmp_path: Path) -> None:
    report = weighed(tmp_path, 4, noise=1.2)
    text = shown(report)
    assert "? " in text and "too few trials to say" in text and "no difference shown" not in text
    wide = next(one for one in report.leading if one.verdict == "undecided")
    _, interval = verdict.cost_text(wide, report.wording)
    assert interval in text and "●" not in text


def test_where_it_leaves_the_screen_the_answer_stands_last_too(report: Report) -> None:
    first = report.answers[0].text.split(",")[0]
    assert shown(report).count(first) == 1
    assert shown(report, force_terminal=True, height=500).count(first) == 1
    text = shown(report, force_terminal=True, height=24)
    assert text.count(first) == 2 and first in "\n".join(text.splitlines()[-4:])


def test_of_many_warnings_the_rest_is_counted(report: Report) -> None:
    many = replace(report, warnings=tuple(f"warning number {n}" for n in range(9)))
    assert "7 more warnings: " in shown(many) and "warning number 8" not in shown(many)
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
    reported = [place for place, line in enumerate(lines) if "out of luck" in line]
    assert len(reported) == 1
    failed = next(i for i, line in enumerate(lines) if "trials failed" in line)
    assert lines[failed + 1].strip().startswith("trial 1: ")


def test_a_reason_that_no_verdict_reports_stands_with_its_trials(report: Report) -> None:
    one = report.failures[0]
    failures = [replace(one, trial=trial, reason="another one") for trial in (3, 4)]
    text = shown(replace(report, failures=(one, *failures)))
    assert f"trials 3, 4: {one.platform}, {one.cell}: another one" in " ".join(text.split())
    assert text.count("another one") == 1
    assert text.count(one.console[-1]) == 2, "the last lines of each reason"
