"""Plans for the agent: both ends of a link, the same CPUs everywhere, what cannot be is refused."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from hypertare import plan, planner
from hypertare.design import make
from hypertare.errors import InputError
from hypertare.study import StudyFile

TEXT = """
name = "probe"
question = "?"
[sut]
cpus = 2
[workloads.tcp]
type = "stream"
direction = "both"
[workloads.rtt]
type = "ping"
direction = "receive"
[workloads.build]
type = "command"
command = "make"
[workloads.icmp]
type = "ping"
protocol = "icmp"
[knobs]
mtu = 900
offloads = { tso = false }
[factors]
"sut.nic" = ["virtio-net", "e1000"]
"""
ON = planner.Surroundings(
    cpus=(0, 1, 2, 3),
    accelerator="tcg",
    images={("debian", "guest"): SimpleNamespace(kernel=Path("/k"), initramfs=Path("/i"))},
    environment={"PATH": "/bin"},
    workdir=Path("/w"),
)


def bench(on: planner.Surroundings = ON) -> plan.Bench:
    file = StudyFile(TEXT, "probe.toml")
    study = file.study()
    plot = make(study, 1).plots[0]
    cells = {v.node: file.cell(v.levels) for v in plot.variants}
    return planner.make_bench(study, plot, cells, on)


def trial(workload: str, node: str) -> plan.Trial:
    file = StudyFile(TEXT, "probe.toml")
    study = file.study()
    plot = make(study, 1).plots[0]
    variant = next(v for v in plot.variants if v.node == node)
    return planner.make_trial(7, study, workload, variant, plot, ON)


def test_a_bench_has_every_platform_and_the_peer() -> None:
    made = bench()
    assert [node.name for node in made.nodes] == ["host", "container1", "guest2", "guest3", "peer"]
    assert [link.name for link in made.links] == ["lan"]
    addresses = [node.interfaces[0].address for node in made.nodes]
    assert len(set(addresses)) == 5
    macs = [node.interfaces[0].mac for node in made.nodes if node.kind.type == "guest"]
    assert len(set(macs)) == 2 and None not in macs


def test_the_same_cpus_everywhere_and_the_others_for_the_peer() -> None:
    by_name = {node.name: node for node in bench().nodes}
    for name in ("host", "container1", "guest2", "guest3"):
        assert by_name[name].cpus == (2, 3)
    assert by_name["peer"].cpus == (0, 1)
    assert by_name["guest3"].kind.cpus == 2
    assert by_name["guest3"].interfaces[0].nic == "e1000"


def test_more_cpus_than_there_are() -> None:
    with pytest.raises(InputError, match="at most 1"):
        bench(planner.Surroundings((0,), "tcg", ON.images, {}, None))


def test_streams_in_both_directions_have_their_own_ports() -> None:
    tasks = trial("tcp", "guest2").phases[-1].tasks
    receivers = [t for t in tasks if t.background]
    senders = [t for t in tasks if not t.background]
    assert [t.node for t in receivers] == ["peer", "guest2"]
    assert [t.node for t in senders] == ["guest2", "peer"]
    assert senders[0].workload.to == "10.77.0.254:5201"
    assert senders[1].workload.to == "10.77.0.4:5202"


def test_a_ping_is_answered_at_the_other_end_and_icmp_by_the_kernel() -> None:
    reply, request = trial("rtt", "host").phases[-1].tasks
    assert (reply.node, request.node) == ("host", "peer")
    assert request.workload.to == "10.77.0.2:7000"
    (icmp,) = trial("icmp", "guest3").phases[-1].tasks
    assert icmp.workload.to == "10.77.0.254"


def test_a_command_runs_in_the_files_with_the_environment() -> None:
    (task,) = trial("build", "guest2").phases[-1].tasks
    assert task.workload.argv == ("/bin/sh", "-c", "make")
    assert task.workload.in_files and task.workload.env == {"PATH": "/bin"}


def test_knobs_of_a_link_go_to_both_ends() -> None:
    knobs = trial("tcp", "host").knobs
    assert {(k.node, k.knob.type, k.knob.interface) for k in knobs} == {
        ("host", "mtu", "lan"),
        ("peer", "mtu", "eth0"),
        ("host", "offload", "lan"),
        ("peer", "offload", "eth0"),
    }


def test_probes_see_the_guest_from_inside_and_outside() -> None:
    probes = {(p.node, p.probe) for p in trial("tcp", "guest2").phases[-1].probes}
    assert ("host", "stat") in probes
    assert ("guest2", "stat") in probes
    assert ("guest2", "outside") in probes
