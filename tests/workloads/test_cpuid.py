"""`cpuid`: its settings, and what is made of its records."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.study import StudyFile
from hypertare.workloads import responses
from hypertare.workloads.registry import KINDS
from tests.made_guests import result

STUDY = 'name = "x"\nquestion = "?"\n[sut]\nplatforms = ["native"]\n[workloads.w]\ntype = "cpuid"\n'


def test_the_time_of_one_is_the_mean_of_all() -> None:
    reported = result("cpuid", {"elapsed_s": 0.5, "cpuids": 100_000.0})
    values = responses.measure("cpuid", "guest", ("guest1",), [reported])
    assert values["cpuid_time"] == pytest.approx(5e-6)
    assert KINDS["cpuid"].headline == "cpuid_time"


def test_several_guests_have_the_mean_of_all() -> None:
    records = [
        result("cpuid.1", {"elapsed_s": 1.0, "cpuids": 1000.0}),
        result("cpuid.2", {"elapsed_s": 3.0, "cpuids": 1000.0}),
    ]
    nodes = ("guest1-1", "guest1-2")
    assert responses.measure("cpuid", "guest", nodes, records)["cpuid_time"] == pytest.approx(2e-3)


@pytest.mark.parametrize("setting", ["count = 0", "count = 2000000000", 'count = "much"'])
def test_what_cannot_be_done_is_refused_before_a_run(setting: str) -> None:
    with pytest.raises(InputError, match="count"):
        StudyFile(STUDY + setting, "x.toml").study()
