"""Virtual routers on this host: they forward, and what goes to one reaches no other."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hypertare import plan, routers
from hypertare.machine.local import LocalMachine
from hypertare.paths import agent_binary
from hypertare.records import BenchReady, Record, TaskResult, TrialEnd
from hypertare.routers import Network, networks

BOTH = ("ipv4", "ipv6")
EVERYWHERE = (plan.Route(to="0.0.0.0/0", via=""), plan.Route(to="::/0", via=""))


@pytest.fixture
def machine() -> Iterator[LocalMachine]:
    with LocalMachine(agent_binary()) as machine:
        yield machine


def make(machine: LocalMachine, bench: plan.Bench, limit_s: float = 30) -> None:
    ready = machine.make_bench(bench, limit_s)[-1]
    assert isinstance(ready, BenchReady) and ready.error is None, ready


def trial(
    machine: LocalMachine, *tasks: plan.Task, id: int = 1, limit_s: float = 20
) -> dict[str, TaskResult]:
    phase = plan.Phase(name="measure", tasks=tasks, limit_s=limit_s)
    records: list[Record] = machine.run(plan.Trial(id=id, phases=(phase,)))
    end = records[-1]
    assert isinstance(end, TrialEnd) and end.error is None, end
    return {one.task: one for one in records if isinstance(one, TaskResult)}


def ends(count: int, ways: Sequence[int] = (0,)) -> list[plan.Node]:
    sides = [side for number in range(1, count + 1) for side in networks(number)]
    return [routers.end(side, plan.Container(), ways=ways) for side in sides]


def brackets(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def streams(there: Network, family: routers.Family) -> list[plan.Task]:
    """TCP and UDP from one end to the other."""
    tasks = []
    to = brackets(there.end_address(family))
    wildcard = "[::]" if family == "ipv6" else "0.0.0.0"
    for port, protocol in enumerate(("tcp", "udp"), start=5000):
        receive = plan.StreamReceive(protocol=protocol, on=f"{wildcard}:{port}", message=1200)
        send = plan.StreamSend(
            protocol=protocol, to=f"{to}:{port}", duration_s=0.3, message=1200, rate_bps=2e7
        )
        tasks += [
            plan.Task(id=f"receive-{protocol}", node=there.end, background=True, workload=receive),
            plan.Task(id=f"send-{protocol}", node=there.other.end, workload=send),
        ]
    return tasks


@pytest.mark.runs
def test_hosts_and_containers_forward_side_by_side(machine: LocalMachine) -> None:
    native = routers.router("host", plan.Host(), (1, 2), way=0)
    queue = plan.Router(queue=plan.Queue(discipline="pfifo", length=100))
    contained = [
        routers.router(f"box-{number}", plan.Container(), (number,), way=1, settings=queue)
        for number in (1, 2)
    ]
    nodes = (native, *contained, *ends(2, (0, 1)))
    make(machine, plan.Bench(name="side-by-side", nodes=nodes, links=routers.links(2)))
    id = 0
    for way in (0, 1):
        for family in BOTH:
            id += 1
            there = Network(2, "b", way)
            results = trial(machine, *streams(there, family), id=id)
            sent = results["send-tcp"].values["sent_bytes"]
            assert results["receive-tcp"].values["received_bytes"] == sent > 1e5
            assert results["receive-udp"].values["received_messages"] > 50, results
