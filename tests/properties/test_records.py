"""Whatever a node reports: a line is refused, or a record; and what records say is an outcome."""

from __future__ import annotations

import json
import math
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.findings.outcome import outcome, warnings
from hypertare.probes.napi import NAPI
from hypertare.protocol.phase import PHASE, parse
from hypertare.protocol.records import Record
from hypertare.workloads import packets
from tests.made_tasks import work_of
from tests.properties.made_records import MADE, TRIAL, Made
from tests.properties.mutations import corpus, damaged, mutated, searched
from tests.protocol import test_protocol

LIMIT_S = 5.0
"""Of CPU time, for what takes milliseconds."""


def heard(line: bytes) -> Record | None:
    """A record, the same after another trip through the protocol; none where the line is refused."""
    try:
        record = parse(line)
    except ValidationError:
        return None
    assert parse(record.model_dump_json()) == record
    return record


def outcome_of(made: Made, records: list[Record]) -> FinishedTrial:
    """That of a trial on which the machine itself found nothing wrong."""
    planned = PlannedTrial(TRIAL, 0, 0, made.platform, {"workload": "work"}, "measured")
    begun = time.process_time()
    found = outcome(work_of(made.kind), planned, made.nodes, records, None, 1.0)
    warnings(records)
    packets.account(records, made.nodes[0])
    NAPI.histogram(records, made.nodes[0])
    assert time.process_time() - begun < LIMIT_S
    assert found.status == "ok" or found.error
    for values in (found.values, *found.guests):
        assert all(math.isfinite(value) for value in values.values())
    return found


@cache
def lines_of(number: int) -> list[Any]:
    return [json.loads(record.model_dump_json()) for record in MADE[number].records]


@cache
def all_lines() -> list[Any]:
    """Records of every type."""
    found = [json.loads(record.model_dump_json()) for record in test_protocol.made_records()]
    return found + [line for number in range(len(MADE)) for line in lines_of(number)]


@pytest.mark.parametrize("path", corpus("records"), ids=lambda path: path.stem)
def test_the_corpus(path: Path) -> None:
    """Lines of a trial: each is refused, or an outcome of every kind of trial is made with it."""
    records = [record for line in path.read_bytes().splitlines() if (record := heard(line))]
    for made in MADE:
        outcome_of(made, records)
        outcome_of(made, [*made.records[:-1], *records, made.records[-1]])


@pytest.mark.parametrize("made", MADE, ids=lambda made: f"{made.kind}-{made.platform}")
def test_what_they_are_made_from_is_right(made: Made) -> None:
    assert outcome_of(made, list(made.records)).error is None


@searched(600)
@given(mutated(all_lines))
def test_changed_records(record: Any) -> None:
    heard(json.dumps(record).encode())


@searched(300)
@given(st.data())
def test_damaged_lines(data: st.DataObject) -> None:
    whole = all_lines()[data.draw(st.integers(0, len(all_lines()) - 1))]
    heard(data.draw(damaged(json.dumps(whole).encode())))


@searched(250)
@given(st.integers(0, len(MADE) - 1), st.data())
def test_trials_of_changed_records(number: int, data: st.DataObject) -> None:
    reported = data.draw(mutated(lambda: [lines_of(number)]))
    records = [record for one in reported if (record := heard(json.dumps(one).encode()))]
    outcome_of(MADE[number], records)


def test_a_trial_whose_records_cannot_be_true_has_failed_and_says_why() -> None:
    made = next(one for one in MADE if one.kind == "touch")
    reported = [json.loads(record.model_dump_json()) for record in made.records]
    for one in reported:
        if one["record"] == "result" and one["phase"] == PHASE:
            one["values"] |= {"accesses": 1e308, "elapsed_s": 1e-308}
    found = outcome_of(made, [parse(json.dumps(one)) for one in reported])
    assert found.error == "what its nodes reported cannot be: access_rate would be inf"
    assert found.values == {}
