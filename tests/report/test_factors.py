"""The answer to "A or B" in reports: sentences, table, another reference."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from hypertare.base.errors import InputError
from hypertare.cli.report import load
from hypertare.report import answers, html, markdown, terminal
from hypertare.report.model import Report
from hypertare.runs.summary import LevelChange
from tests import factory

DIRECTION = "workloads.tcp.direction"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a platform costs does not depend on the direction."""
    script = factory.Script(factors={DIRECTION: ["receive", "transmit"]}, fail=frozenset())
    return factory.write(tmp_path_factory.mktemp("factors") / "run", script)


@pytest.fixture(scope="module")
def report(run: Path) -> Report:
    return load(run)


def test_each_platform_has_its_answer(report: Report) -> None:
    reported = [one.text for one in answers.verdicts(report.summary, report.wording)]
    assert [text.split(":")[0] for text in reported] == ["native", "container", "guest"]
    # Two NICs of the guest: the mean of both.
    assert "over 2 settings" in reported[2]
    native = next(text for text in reported if text.startswith("native: "))
    assert "transmit against receive: no difference shown in goodput" in native
    assert "98.3 % interval" in native and "n = 7 blocks" in native


def test_terminal_page_and_markdown_say_the_same(report: Report) -> None:
    out = io.StringIO()
    terminal.show(report, Console(file=out, width=200), every=True)
    first = next(iter(answers.verdicts(report.summary, report.wording))).text
    assert first in out.getvalue() and first in html.render(report)
    assert "What each factor changes of tcp" in html.render(report)
    assert "| native | transmit against receive | goodput in tcp" in markdown.render(report)
    short = io.StringIO()
    terminal.show(report, Console(file=short, width=80))
    # A row each; their table is a detail.
    rows = [line for line in short.getvalue().splitlines() if "transmit against receive" in line]
    assert rows[0].startswith("= transmit against receive: native: no difference shown")
    # Rows that differ in nothing but who: what is compared stands above them.
    lines = short.getvalue().splitlines()
    title = lines.index(next(row for row in rows[1:] if row.startswith("transmit against")))
    below = lines[title + 1 : title + 4]
    assert [row.split()[0] for row in below] == ["native", "container", "guest"]
    assert all("●" in row for row in below)
    assert "what each factor changes" not in short.getvalue()


def test_another_level_may_lead(run: Path) -> None:
    turned = load(run, references={DIRECTION: "transmit"}).summary.levels
    assert {(one.level, one.against) for one in turned} == {("receive", "transmit")}
    with pytest.raises(InputError, match="no level sideways"):
        load(run, references={DIRECTION: "sideways"})
    with pytest.raises(InputError, match=r"no factor 'workloads\.tcp\.directoin'.*Did you mean"):
        load(run, references={"workloads.tcp.directoin": "receive"})


def change(platform: str, cost: float, verdict: str, **more: object) -> LevelChange:
    return LevelChange.model_validate(
        {
            "factor": "bench.mtu",
            "level": 9000,
            "against": 1500,
            "platform": platform,
            "cell": {"workload": "tcp"},
            "response": "goodput",
            "unit": "b/s",
            "better": "higher",
            "settings": 1,
            "blocks": 8,
            "cost": cost,
            "cost_low": cost - 0.03,
            "cost_high": cost + 0.03,
            "verdict": verdict,
            **more,
        }
    )


def said(report: Report, *changes: LevelChange) -> list[str]:
    summary = report.summary.model_copy(update={"levels": changes})
    return [one.text for one in answers.verdicts(summary, report.wording)]


def test_how_the_cost_changes_is_reported_where_it_is_sure(report: Report) -> None:
    sure = {"cost_change": -0.08, "cost_change_low": -0.15, "cost_change_high": -0.01}
    (reported,) = said(report, change("guest", -0.12, "gains", **sure))
    assert reported == (
        "guest: mtu 9000 against 1500: +12.0 % goodput (95 % interval +9.0 to +15.0), n = 8 blocks, "
        "accelerator kvm; its cost is 8.0 points lower"
    )
    (reported,) = said(
        report, change("guest", -0.12, "gains", **{**sure, "cost_change_high": 0.01})
    )
    assert "points" not in reported


def test_where_platforms_disagree_it_says_so(report: Report) -> None:
    reported = turned(report, change("native", -0.2, "gains"), change("guest", 0.1, "costs"))
    assert (
        reported[-1] == "which is better depends on the platform: mtu 9000 on native, 1500 on guest"
    )
    reported = turned(report, change("native", -0.2, "gains"), change("guest", -0.1, "gains"))
    assert not reported


def turned(report: Report, *changes: LevelChange) -> list[str]:
    return [one.text for one in answers.turned(changes, report.wording)]


def test_of_many_the_largest_are_reported(report: Report) -> None:
    many = [change(f"guest{n}", -0.01 * n, "gains") for n in range(2, 12)]
    every = (*many, change("native", 0.0, "no difference shown"))
    reported = said(report, *every)
    assert len(reported) == answers.MOST and reported[0].startswith("guest11")
    summary = report.summary.model_copy(update={"levels": every})
    counted = answers.answer(summary, report.wording)
    assert counted is not None
    assert counted.text == "levels of factors: 10 of 11 comparisons show a difference"


def raced(platform: str, other: str, cost: float, verdict: str, **more: object) -> LevelChange:
    """A command against `zstd`, by elapsed time."""
    return change(
        platform,
        cost,
        verdict,
        factor="workloads.command.command",
        level=other,
        against="zstd",
        response="elapsed",
        unit="s",
        better="lower",
        cell={"workload": "tcp"},
        **more,
    )


def test_of_several_commands_the_fastest_is_named_first(report: Report) -> None:
    many = (
        raced("native", "gzip", 9.7, "costs", cost_low=7.1, cost_high=13.0),
        raced("guest", "gzip", 8.8, "costs", cost_low=6.0, cost_high=12.0),
        raced("native", "pigz", 0.02, "no difference shown"),
        raced("guest", "pigz", -0.5, "gains", cost_low=-0.6, cost_high=-0.4),
    )
    reported = answers.fastest(report.summary.model_copy(update={"fastest": many}), report.wording)
    assert reported is not None and reported.tone == "same"
    assert reported.text == (
        "zstd leads natively, not shown to be the fastest; "
        "against gzip: 11 times as fast natively (8.1 to 14), "
        "9.8 times as fast in the guest (7.0 to 13); against pigz: no difference shown natively "
        "(0.99 to 1.1), 2.0 times as slow in the guest (1.7 to 2.5)"
    )
    clear = report.summary.model_copy(update={"fastest": many[:2]})
    reported = answers.fastest(clear, report.wording)
    assert reported is not None and reported.tone == "gains"
    assert reported.text.startswith("zstd is the fastest natively; against gzip: 11 times as fast")
    assert answers.fastest(report.summary, report.wording) is None


def test_what_has_no_ratio_to_the_best_has_a_difference(report: Report) -> None:
    nought = {
        "cost": None,
        "cost_low": None,
        "cost_high": None,
        "difference": -500.0,
        "better": "higher",
        "response": "ops",
        "unit": "",
    }
    one = raced("native", "gzip", 0.0, "costs").model_copy(update=nought)
    summary = report.summary.model_copy(update={"fastest": (one,)})
    reported = answers.fastest(summary, report.wording)
    assert reported is not None
    assert reported.text == "zstd is the best by ops natively; against gzip: −500 natively"


def test_the_best_by_a_figure_of_its_own_is_called_so(report: Report) -> None:
    """Half of the figure is lost (40 to 60 %) where more is better: twice as good, 1.7 to 2.5 times."""
    own = {"response": "ops", "unit": "", "better": "higher"}
    one = raced("native", "gzip", 0.5, "costs", cost_low=0.4, cost_high=0.6)
    summary = report.summary.model_copy(update={"fastest": (one.model_copy(update=own),)})
    reported = answers.fastest(summary, report.wording)
    assert reported is not None and reported.text == (
        "zstd is the best by ops natively; against gzip: 2.0 times as good natively (1.7 to 2.5)"
    )
