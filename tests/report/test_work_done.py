"""A command that does nothing is weighed with a word about it."""

from __future__ import annotations

import pytest

from hypertare.protocol.records import TaskResult
from hypertare.report.verdict import Wording
from hypertare.report.work_done import last_line, sentences, waiting
from hypertare.runs.summary import Estimate
from tests.made_tasks import purpose_of

WORDING = Wording({}, {"command": frozenset({"workload"})}, frozenset(), 1, "wall", {})


def result(**text: str) -> TaskResult:
    return TaskResult(
        node="host", trial=1, phase="measure", task="work", purpose=purpose_of("work"), text=text
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ({"stdout": "cc a.c\nmake: 'prog' is up to date.\n\n"}, "make: 'prog' is up to date."),
        ({"stdout": "", "stderr": "nothing to do\n"}, "nothing to do"),
        ({"stdout": "x" * 5000}, "x" * 200),
        ({}, ""),
    ],
)
def test_the_last_line_of_what_was_printed(text: dict[str, str], line: str) -> None:
    assert last_line([result(**text)]) == line


class Summary:
    def __init__(self, *estimates: Estimate, disturbed: bool = False) -> None:
        self.estimates = estimates
        self.disturbances = ("another program",) if disturbed else ()


def took(seconds: float, platform: str = "native", unit: str = "s") -> Estimate:
    return Estimate(
        response="elapsed",
        unit=unit,
        better="lower",
        cell={"workload": "command"},
        platform=platform,
        n=5,
        estimate=seconds,
    )


def said(one: Estimate, printed: str = "") -> list[str]:
    found = sentences(Summary(one), "native", WORDING, {"command": printed})  # type: ignore[arg-type]
    return [sentence.text for sentence in found]


def test_below_five_milliseconds_it_says_so_and_what_to_do() -> None:
    (text,) = said(took(0.0016), "make: 'prog' is up to date")
    assert text.startswith(
        "command takes 1.6 ms natively, mostly the start of a program, and prints"
    )
    assert "\"make: 'prog' is up to date\"" in text and "--prepare 'make clean'" in text
    assert "prints nothing" in said(took(0.0016))[0]


def test_of_other_runs_there_is_nothing_to_say() -> None:
    assert not said(took(0.0051))
    assert not said(took(0.0016, "guest"))
    assert not said(took(0.0016, unit="s (virtual)"))


def spent(platform: str, seconds: float, cpu: float, cost: float | None = None) -> list[Estimate]:
    elapsed = took(seconds, platform).model_copy(update={"cost": cost})
    times = (("user", cpu), ("system", 0.0))
    return [
        elapsed,
        *(elapsed.model_copy(update={"response": name, "estimate": time}) for name, time in times),
    ]


def waits(*estimates: Estimate) -> list[str]:
    emulated = Wording(
        {}, {"command": frozenset({"workload"})}, frozenset(), 1, "wall", {"guest": "tcg"}
    )
    found = waiting(Summary(*estimates), "native", emulated)  # type: ignore[arg-type]
    return [sentence.text for sentence in found]


def test_what_waits_for_most_of_its_time_is_said_once() -> None:
    (text,) = waits(*spent("native", 2.0, 0.02), *spent("container", 2.0, 0.02, 0.0))
    assert text.startswith("command waits for 99 % of its time natively")
    assert not waits(*spent("native", 2.0, 1.9), *spent("container", 2.0, 1.9, 0.0))
    assert not waits(took(2.0))
    # Beside other programs it may have waited for a CPU.
    busy = Summary(*spent("native", 2.0, 0.02), disturbed=True)
    assert not list(waiting(busy, "native", WORDING))  # type: ignore[arg-type]


def test_a_busy_program_that_emulation_does_not_slow_runs_for_a_fixed_time() -> None:
    native = spent("native", 2.0, 2.0)
    (text,) = waits(*native, *spent("guest", 2.4, 2.3, 0.2))
    assert "Give it so much work, not so much time" in text
    assert not waits(*native, *spent("guest", 20.0, 20.0, 9.0))
    assert not waits(*native, *spent("container", 2.0, 2.0, 0.0))
