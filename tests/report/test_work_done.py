"""A command that does nothing is weighed with a word about it."""

from __future__ import annotations

import pytest

from hypertare.protocol.records import TaskResult
from hypertare.report.caveats import Besides, fixed_time, last_line, no_work, waiting
from hypertare.report.verdict import Wording
from hypertare.runs.summary import Estimate
from tests.made_tasks import purpose_of

WORDING = Wording({"command": frozenset({"workload"})}, frozenset(), 1, "wall", {})


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
    found = no_work(Summary(one), "native", WORDING, {"command": printed})  # type: ignore[arg-type]
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


OF = {"command"}


def waits(*estimates: Estimate, disturbed: bool = False, of: set[str] = OF) -> list[str]:
    summary = Summary(*estimates, disturbed=disturbed)
    return [one.text for one in waiting(summary, "native", WORDING, of)]  # type: ignore[arg-type]


def ends_by_the_clock(*estimates: Estimate) -> list[str]:
    emulated = Wording(
        {"command": frozenset({"workload"})}, frozenset(), 1, "wall", {"guest": "tcg"}
    )
    found = fixed_time(Summary(*estimates), "native", emulated, OF)  # type: ignore[arg-type]
    return [one.text for one in found]


def test_what_waits_for_most_of_its_time_is_said_once() -> None:
    waiting_ones = (*spent("native", 2.0, 0.02), *spent("container", 2.0, 0.02, 0.0))
    (text,) = waits(*waiting_ones)
    assert text.startswith("command waits for 99 % of its time natively")
    assert not waits(*spent("native", 2.0, 1.9), *spent("container", 2.0, 1.9, 0.0))
    assert not waits(took(2.0))
    assert not waits(*waiting_ones, of=set()), "its own figure leads"
    # Beside other programs it may have waited for a CPU.
    assert not waits(*waiting_ones, disturbed=True)


def test_a_busy_program_that_emulation_does_not_slow_runs_for_a_fixed_time() -> None:
    native = spent("native", 2.3, 2.3)
    (text,) = ends_by_the_clock(*native, *spent("guest", 2.6, 2.5, 0.2))
    assert "--value" in text and "so much work, not so much time" in text
    assert not ends_by_the_clock(*native, *spent("guest", 20.0, 20.0, 9.0))
    assert not ends_by_the_clock(*native, *spent("container", 2.3, 2.3, 0.0))


def test_so_does_one_that_takes_the_same_whole_seconds_everywhere() -> None:
    native = spent("native", 2.003, 2.0)
    assert ends_by_the_clock(*native, *spent("container", 2.004, 2.0, 0.0))
    assert not ends_by_the_clock(*native), "nothing is beside it"
    assert not ends_by_the_clock(*native, *spent("container", 2.2, 2.2, 0.1))
    assert not ends_by_the_clock(*native, *spent("container", 3.003, 3.0, 0.5))
    assert not ends_by_the_clock(*spent("native", 2.003, 0.1), *spent("container", 2.0, 0.1, 0.0))
    assert not ends_by_the_clock(*spent("native", 0.02, 0.02), *spent("container", 0.02, 0.02, 0))


def besides(*records: TaskResult) -> list[str]:
    found = Besides()
    for record in records:
        found.add("command", [record])
    return [sentence.text for sentence in found.sentences()]


def test_what_a_command_leaves_running_is_named_once() -> None:
    (text,) = besides(result(left="sleep\ngpg-agent"), result(left="sleep"), result(stdout="x"))
    assert text.startswith("command ends before what it has started (gpg-agent, sleep)")
    assert not besides(result(stdout="left"))


def test_calls_that_wait_for_a_disk_are_said() -> None:
    seen = [result().model_copy(update={"values": {"syncs": n}}) for n in (1200.0, 0.0)]
    (text,) = besides(*seen)
    assert "1,200 calls of fsync" in text and "its files are in memory" in text
    assert not besides(seen[1])
