"""Where the packets went, in real machines: sent is received and dropped by place, to the packet."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.probes.napi import NAPI
from hypertare.protocol.records import KnobOutcome
from hypertare.runs.store import Store
from hypertare.workloads.packets import Account, account
from tests.integration.lab import Lab

pytestmark = pytest.mark.guest

# Without GRO each datagram is counted for itself wherever it is dropped.
STUDY = """
name = "where"
question = "Where did the packets go?"
{machine}
[workloads.overload]
type = "stream"
protocol = "udp"
direction = "receive"
duration = "{duration}"
omit = "20ms"
{load}
[workloads.small]
type = "stream"
protocol = "udp"
direction = "receive"
socket_buffer = "4K"
duration = "{duration}"
omit = "20ms"
{load}
[knobs]
offloads = {{ gro = false }}
napi_weight = 1
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""
LOCAL = STUDY.format(
    machine='[sut]\nplatforms = ["native", "guest"]\nmemory = "192M"\nnic = "e1000"',
    duration="300ms",
    load="",
)
# One CPU sends and receives: only what the kernel cuts into datagrams comes faster than it is taken.
EMULATED = STUDY.format(
    machine='machine = "emulated"\n[sut]\nmemory = "192M"\nnic = "rtl8139"',
    duration="100ms",
    load="message = 64\nsegmentation = true",
)


def accounts(run: Path, node: str, platform: str) -> dict[str, list[Account]]:
    """By workload, of every trial of the platform; all polls were of one packet at most."""
    found: dict[str, list[Account]] = {}
    with Store.open(run) as store:
        for trial in store.trials():
            if trial.planned.platform != platform:
                continue
            assert trial.status == "ok", trial.error
            records = store.records(trial.planned.id)
            one = account(records, node)
            assert one is not None
            found.setdefault(trial.planned.workload, []).append(one)
            # With a weight of 1. A guest that is always behind has no poll that finds nothing.
            assert {1} <= set(NAPI.histogram(records, node)) <= {0, 1}
            ended = [r for r in records if isinstance(r, KnobOutcome) and r.action == "put_back"]
            assert all(r.error is None for r in ended)
            assert any(r.knob.type == "napi_weight" and r.before != r.after for r in ended)
    return found


UNDER_WAY = 1000
"""What a tap (500), a card's ring (256) and QEMU between them may still hold when a receiver on a busy host
has waited long enough. In virtual time nothing is under way then."""


def check(found: dict[str, list[Account]], before_the_stack: str, under_way: int = 0) -> None:
    assert {name: len(some) for name, some in found.items()} == {"overload": 2, "small": 2}
    every = [one for some in found.values() for one in some]
    left = [one.unexplained for one in every if not one.adds_up]
    # The bridge and its other ports send frames of their own, which a tap drops among the rest.
    assert all(-under_way / 50 <= one <= under_way for one in left), (left, found)
    assert all(one.dropped[before_the_stack] for one in found["overload"]), found
    assert all(one.dropped["socket"] for one in found["small"]), found


@pytest.mark.xdist_group("machines")
def test_in_a_guest(lab: Lab) -> None:
    ran = lab.run("run", lab.study(LOCAL), "--out", "run")
    assert ran.status == 0, ran.said
    assert "knobs.napi_weight is for guests" in ran.said
    check(accounts(lab.work / "run", "guest1", "guest"), "tap", UNDER_WAY)


@pytest.mark.xdist_group("emulated")
def test_in_an_emulated_machine(lab: Lab) -> None:
    ran = lab.run("run", lab.study(EMULATED), "--fresh", "--out", "run")
    assert ran.status == 0, ran.said
    found = accounts(lab.work / "run", "host", "native")
    check(found, "ring")
    assert {one.unexplained for some in found.values() for one in some} == {0}
