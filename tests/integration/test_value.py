"""A figure that a command prints, weighed natively and in a container."""

from __future__ import annotations

import re

import pytest

from tests.integration.lab import Lab, summary, trials

pytestmark = pytest.mark.runs

FEW = ("--on", "native,container", "--warmup", "0", "--min-trials", "3", "--max-trials", "3")
"""Its work takes the same time everywhere, as a benchmark's that gets how long."""

TIMED = """
import json, sys, time
began, done = time.monotonic(), 0
while time.monotonic() - began < 0.05:
    done += sum(range(1000)) > 0
print(json.dumps({"end": {"runs": [{"done": done}]}}))
print("events per second: ", done / 0.05, file=sys.stderr)
"""


def test_a_figure_of_the_commands_own_leads(lab: Lab) -> None:
    words = ("--value", r"events per second: +([0-9.]+)", "--higher-is-better")
    ran = lab.run("weigh", *FEW, *words, "--out", "run", "--", "python3", "-c", TIMED)
    assert ran.status == 0, ran
    found = summary(lab.work / "run")
    assert found["failed"] == []
    leading = [one for one in found["estimates"] if one["response"] == "events_per_second"]
    assert {one["platform"] for one in leading} == {"native", "container"}
    assert all(one["better"] == "higher" and one["estimate"] > 100 for one in leading)
    assert "events per second (higher is better), n = 3 blocks" in ran.out
    assert "elapsed (" not in ran.out


NONE = "echo ops: 0"
LESS, MORE = (f"echo ops: {hundreds}0$(date +%N | tail -c 4)" for hundreds in (3, 5))
"""One prints 30,000 to 30,999, the other 50,000 to 50,999, hardly the same twice."""


@pytest.mark.parametrize(
    ("options", "other", "best", "by"),
    [
        (("--higher-is-better",), LESS, MORE, r"1\.[67]\d? times as good"),
        ((), MORE, LESS, r"1\.[67]\d? times as good"),
        ((), MORE, NONE, r"\+5[01],\d{3}(\.\d+)?"),
    ],
)
def test_of_two_commands_the_one_with_the_better_figure_is_named(
    lab: Lab, options: tuple[str, ...], other: str, best: str, by: str
) -> None:
    figure = ("--value", "ops: ([0-9]+)", *options)
    ran = lab.run("weigh", *FEW, *figure, "--out", "run", other, best)
    assert ran.status == 0, ran
    found = summary(lab.work / "run")
    assert {one["against"] for one in found["fastest"]} == {best}
    assert found["question"].startswith("Which is better, on every platform: ")
    assert f"{best} is the best by ops natively; against {other}: " in ran.said
    assert re.search(rf": {by} natively.*, {by} in the container", ran.said), ran


def test_json_has_a_way_to_it_and_a_run_without_the_figure_fails(lab: Lab) -> None:
    words = ("--value-json", "end.runs.0.done", "--value-unit", "rounds")
    ran = lab.run("weigh", *FEW, *words, "--out", "run", "--", "python3", "-c", TIMED)
    assert ran.status == 0, ran
    (one, _) = [e for e in summary(lab.work / "run")["estimates"] if e["response"] == "done"]
    assert (one["unit"], one["better"]) == ("rounds", "lower")
    ran = lab.run("weigh", *FEW, "--value", "rate: ([0-9]+)", "--out", "none", "--", "echo", "oops")
    assert ran.status != 0
    errors = {str(trial[6]) for trial in trials(lab.work / "none")}
    assert len(errors) == 1 and "its last line is: oops" in errors.pop(), ran
