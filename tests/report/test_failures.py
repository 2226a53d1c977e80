"""Failures are said once and in their own words."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from hypertare.report import html, terminal
from hypertare.report.caveats import NO_INSTRUCTION, NO_MEMORY, NO_NETWORK, Reason, sentences
from hypertare.report.model import Report
from hypertare.report.verdict import Wording
from hypertare.runs.summary import FailedTrial
from tests import factory
from tests.report.conftest import read

TRACEBACK = (
    "task command on {node} failed: `python3` ended with exit status 1; the end of its standard error:\n"
    '  File "request.py", line 1351, in do_open\n'
    "    raise URLError(err)\n"
    "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>"
)
OOPS = (
    "task command on {node} failed: `bash` ended with exit status 3; "
    "the end of its standard error:\noops"
)
WORDING = Wording({"build": frozenset({"workload"})}, frozenset(), 1, "wall", {})


def failed(*reasons: tuple[str, str]) -> list[FailedTrial]:
    """Of platform and reason each."""
    return [
        FailedTrial(
            trial=number,
            platform=platform,
            cell={"workload": "build"},
            reason=reason.format(node=platform),
        )
        for number, (platform, reason) in enumerate(reasons)
    ]


def reported(found: list[FailedTrial], of: int = 1) -> list[str]:
    trials = {(one.platform, "build"): of for one in found}
    return [one.text for one in sentences(found, "native", WORDING, trials)]


def test_what_fails_natively_already_is_reported_once_for_all() -> None:
    everywhere = failed(*((platform, OOPS) for platform in ("container", "native", "guest")))
    assert reported(everywhere) == [
        "`bash` ends with exit status 3 natively already, so build was left out: oops"
    ]


def test_what_fails_in_a_guest_alone_is_reported_of_it() -> None:
    assert reported(failed(("guest", OOPS), ("guest", OOPS)), of=8) == [
        "guest failed in 2 of 8 trials of build: `bash` ended with exit status 3: oops"
    ]
    # Not in every trial: then the others' failures are their own.
    some = failed(("native", OOPS), ("guest", OOPS))
    assert len(reported(some, of=8)) == 2


def test_a_traceback_keeps_its_lines_and_its_last_one_stands_first() -> None:
    (said, network) = sentences(
        failed(("native", TRACEBACK)), "native", WORDING, {("native", "build"): 1}
    )
    assert said.text.endswith(
        "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>"
    )
    assert said.lines == ('  File "request.py", line 1351, in do_open', "    raise URLError(err)")
    assert network.text == NO_NETWORK


@pytest.mark.parametrize(
    "text", ["connect: Network is unreachable", "curl: (6) Could not resolve host: example.com"]
)
def test_who_looks_for_a_network_hears_that_there_is_none(text: str) -> None:
    assert reported(failed(("guest", text)))[-1] == NO_NETWORK
    assert NO_NETWORK not in reported(failed(("guest", "out of memory")))


def test_a_reason_that_is_no_program_s_is_itself() -> None:
    assert Reason.of("node guest1 failed: the guest panicked") == Reason(
        "node guest1 failed: the guest panicked", ()
    )


@pytest.fixture
def report(tmp_path: Path) -> Report:
    script = factory.Script(
        2, failure=TRACEBACK.format(node="x"), fail=frozenset(range(200)), console=()
    )
    return read(factory.write(tmp_path / "run", script))


def test_in_a_terminal_and_on_a_page_its_lines_are_not_made_one_paragraph(report: Report) -> None:
    out = io.StringIO()
    terminal.show(report, Console(file=out, width=80))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert "        raise URLError(err)" in lines
    assert sum("raise URLError" in line for line in lines) == len(report.cells), "once a cell"
    assert "    raise URLError(err)</pre>" in html.render(report)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("`python3` ended with exit status 1; the end of its standard error:\nMemoryError", NO_MEMORY),
        ("`db` was killed by SIGBUS and printed nothing", NO_MEMORY),
        ("`cp` ended with exit status 1; the end of its standard error:\ncp: error writing 'b': No space "
         "left on device", NO_MEMORY),
        ("`sort` was killed by SIGKILL; give more with --memory: Cannot allocate memory", None),
        ("`x265` was killed by SIGILL and printed nothing", NO_INSTRUCTION),
        ("`false` ended with exit status 1 and printed nothing", None),
    ],
)  # fmt: skip
def test_what_a_guest_lacks_is_said_with_what_to_do(said: str, hint: str | None) -> None:
    def hints(platform: str) -> list[str]:
        found = reported(failed((platform, f"task command on {{node}} failed: {said}")), of=2)
        return [text for text in found if text in (NO_MEMORY, NO_INSTRUCTION)]

    assert hints("guest") == ([hint] if hint else [])
    assert hints("native") == []
