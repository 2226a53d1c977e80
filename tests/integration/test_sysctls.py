"""Settings of the network by name: set for a trial at both ends, read back, put back; refused where the
kernel has one for all namespaces.
"""

from __future__ import annotations

import pytest

from hypertare.protocol.records import KnobOutcome
from hypertare.runs.store import Store
from tests.integration.lab import Lab

pytestmark = pytest.mark.runs

STUDY = """
name = "sysctls"
question = "?"
factors."knobs.sysctls.{name}" = [{levels}]
[sut]
platforms = ["native", "container"]
[workloads.bulk]
type = "stream"
duration = "300ms"
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


def test_it_is_set_at_both_ends_and_put_back(lab: Lab) -> None:
    lab.study(STUDY.format(name="net/ipv4/tcp_notsent_lowat", levels="4096, 16384"))
    ran = lab.run("run", "study.toml", "--out", "run")
    assert ran.status == 0, ran
    with Store.open(lab.work / "run") as store:
        for trial in store.trials():
            reported = [
                one for one in store.records(trial.planned.id) if isinstance(one, KnobOutcome)
            ]
            level = str(trial.planned.cell["knobs.sysctls.net/ipv4/tcp_notsent_lowat"])
            assert {one.after for one in reported if one.action == "applied"} == {level}
            assert len({one.node for one in reported}) == 2
            back = {one.node: one.after for one in reported if one.action == "put_back"}
            before = {one.node: one.before for one in reported if one.action == "applied"}
            assert back == before and level not in before.values()


def test_what_is_one_for_all_namespaces_is_refused_with_the_reason(lab: Lab) -> None:
    lab.study(STUDY.format(name="net/core/netdev_max_backlog", levels="100, 1000"))
    ran = lab.run("run", "study.toml", "--out", "run")
    assert "it belongs to the machine's first network namespace" in ran.said, ran
