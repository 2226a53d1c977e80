"""The way to the files is not what is weighed: after the warm-up the share is hardly asked any more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hypertare.protocol.records import TaskResult
from hypertare.runs.store import Store
from tests.integration.lab import Lab, statuses

pytestmark = pytest.mark.guest

COUNTED = """
set -e
if ! grep -q hypertare.share=counted /proc/cmdline; then exec sh ./build; fi
answers() { grep -e '-requests$' /proc/interrupts | tr -s ' ' | cut -d ' ' -f 3; }
before=$(answers)
sh ./build
after=$(answers)
echo "messages: $((after - before))"
"""
"""In the guest, each answer over the share is an interrupt of its device."""

BUILD = """
set -e
cc -O1 -c greet.c -o greet.o
cc greet.o -o greet
test "$(./greet)" = hello
find . -name 'greet*' | sort | xargs ls -l > listed
"""

STUDY = """
name = "share"
question = "How often is the share asked?"
[sut]
memory = "512M"
platforms = ["native", "guest"]
kernel_args = ["hypertare.share=counted"]
[workloads.build]
type = "command"
command = "sh ./counted"
[design]
warmup = 1
min_trials = 2
max_trials = 2
precision = "90%"
"""

MOST_LEFT = 1 / 20
"""Of the messages of a warm-up. 1 in 90 was seen; how many a tool chain needs differs."""


def test_what_was_used_once_is_asked_for_no_more(lab: Lab) -> None:
    (lab.work / "greet.c").write_text(
        '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'
    )
    (lab.work / "build").write_text(BUILD)
    (lab.work / "counted").write_text(COUNTED)
    lab.study(STUDY)
    ran = lab.run("run", "study.toml", "--out", "run")
    assert ran.status == 0, ran
    run = lab.work / "run"
    assert statuses(run, "guest", "build") == {"ok"}
    assert "file share is part of what is weighed" not in ran.said
    cold, warm = messages(run)
    assert min(cold) > 500, (cold, warm)
    assert len(warm) >= 2 and max(warm) <= MOST_LEFT * min(cold), (cold, warm)


def messages(run: Path) -> tuple[list[int], list[int]]:
    """In each of the guest's trials: those that warm it up, and those that count."""
    cold: list[int] = []
    warm: list[int] = []
    with Store.open(run) as store:
        for trial in store.trials():
            if trial.planned.platform != "guest":
                continue
            (result,) = (
                record
                for record in store.records(trial.planned.id)
                if isinstance(record, TaskResult)
            )
            found = re.search(r"messages: (\d+)", result.text["stdout"])
            assert found, result
            (cold if trial.planned.kind == "warmup" else warm).append(int(found[1]))
    return cold, warm
