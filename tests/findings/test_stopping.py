"""The stop rule sees the pairs that the estimates see."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest

from hypertare.findings.progress import Watched
from hypertare.stats.stop import Decision
from hypertare.study import Study, StudyFile
from tests.stats.coverage import decide

TEXT = """
name = "probe"
question = "?"
[workloads.build]
type = "command"
command = "make"
[design]
min_trials = 5
max_trials = 20
precision = "2%"
"""


@pytest.fixture(scope="module")
def study() -> Study:
    return StudyFile(TEXT, "probe.toml").study()


def watched(study: Study) -> Watched:
    return Watched(study, "host", ["guest1"], 1)


def test_as_the_rule_on_log_ratios_says(study: Study) -> None:
    rng = random.Random(3)
    watch, logs = watched(study), []
    for block in range(20):
        native, guest = rng.lognormvariate(0, 0.02), rng.lognormvariate(0.3, 0.02)
        logs.append(math.log(guest / native))
        watch.add("host", block, block // 2, native)
        watch.add("guest1", block, block // 2, guest)
        boots = [b // 2 for b in range(block + 1)]
        assert watch.decide("guest1") is decide(
            logs, boots=boots, precision=0.02, min_trials=5, max_trials=20
        )


def test_blocks_may_end_in_any_order(study: Study) -> None:
    pairs = [(1 + 0.01 * (n % 3), 1.3 + 0.02 * (n % 5)) for n in range(12)]
    forward, backward = watched(study), watched(study)
    for block, (native, guest) in enumerate(pairs):
        forward.add("host", block, 0, native)
        forward.add("guest1", block, 0, guest)
    for block, (native, guest) in reversed(list(enumerate(pairs))):
        backward.add("guest1", block, 0, guest)
        backward.add("host", block, 0, native)
    assert forward.decide("guest1") is backward.decide("guest1")


def test_a_block_that_lost_nothing_counts(study: Study) -> None:
    """Leaving it out would keep only the blocks that lost: nine such are nine blocks of two values."""
    watch = watched(study)
    for block in range(9):
        watch.add("host", block, 0, 0.0)
        watch.add("guest1", block, 0, 0.5 if block % 2 else 0.0)
    assert watch.decide("guest1") is Decision.CONTINUE
    for block in range(9, 20):
        watch.add("host", block, 0, 0.0)
        watch.add("guest1", block, 0, 0.5 if block % 2 else 0.0)
    assert watch.decide("guest1") is Decision.LIMIT


def test_zeros_that_never_vary_are_precise(study: Study) -> None:
    watch = watched(study)
    for block in range(5):
        watch.add("host", block, 0, 0.0)
        watch.add("guest1", block, 0, 0.0)
    assert watch.decide("guest1") is Decision.PRECISE


def test_a_baseline_alone_is_weighed_by_its_spread(study: Study) -> None:
    watch = Watched(study, "host", ["host"], 1)
    decisions = []
    for block in range(8):
        watch.add("host", block, 0, 2.0 + 0.001 * (block % 2))
        decisions.append(watch.decide("host"))
    assert decisions[3] is Decision.CONTINUE
    assert decisions[4] is Decision.PRECISE
    assert all(late is Decision.PRECISE for _, late in pairwise(decisions[4:]))


def test_attempts_are_blocks_begun(study: Study) -> None:
    watch = watched(study)
    for block in (0, 0, 1, 2):
        watch.begin(block)
    assert watch.attempts == 3
