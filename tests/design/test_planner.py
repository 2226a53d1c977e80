"""Plans for the agent: both ends of a link, the same CPUs everywhere, what cannot be is refused."""

import dataclasses
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from hypertare.base.errors import InputError
from hypertare.design import planner
from hypertare.design.design import make
from hypertare.protocol import plan
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
ON = planner.MachineResources(
    cpus=(0, 1, 2, 3),
    accelerator="tcg",
    images={("debian", "guest"): SimpleNamespace(kernel=Path("/k"), initramfs=Path("/i"))},
    environment={"PATH": "/bin"},
    workdir=Path("/w"),
)


def bench(on: planner.MachineResources = ON) -> plan.Bench:
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
        bench(planner.MachineResources((0,), "tcg", ON.images, {}, None))


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


@pytest.mark.parametrize("node", ["host", "container1", "guest2"])
def test_what_is_off_is_off_between_both_ends(node: str) -> None:
    """Of the bridge each port, on the node that has it, after both ends."""
    offloads = [k for k in trial("tcp", node).knobs if isinstance(k.knob, plan.Offload)]
    assert [k.knob.ports for k in offloads] == [False, False, True]  # type: ignore[union-attr]
    assert (offloads[-1].node, offloads[-1].knob.interface) == ("host", "lan")  # type: ignore[union-attr]


def test_a_probe_that_takes_time_of_what_it_counts_is_asked_in_warm_ups_alone() -> None:
    file = StudyFile(TEXT, "probe.toml")
    plot = make(file.study(), 1).plots[0]
    variant = next(v for v in plot.variants if v.node == "guest2")
    for warmup in (False, True):
        made = planner.make_trial(7, file.study(), "tcp", variant, plot, ON, warmup=warmup)
        asked = {(request.node, request.probe) for request in made.phases[-1].probes}
        assert ("guest2", "napi") in asked
        assert (("guest2", "polls_traced") in asked) == warmup


def test_probes_see_the_guest_from_inside_and_outside() -> None:
    probes = {(p.node, p.probe) for p in trial("tcp", "guest2").phases[-1].probes}
    assert ("host", "stat") in probes
    assert ("guest2", "stat") in probes
    assert ("guest2", "outside") in probes


def test_a_command_starts_where_the_machines_own_programs_work() -> None:
    file = StudyFile(TEXT, "probe.toml")
    study = file.study()
    plot = make(study, 1).plots[0]
    on = dataclasses.replace(ON, workdir=None, directory=Path("/projects"))
    planned = planner.make_trial(7, study, "build", plot.variants[0], plot, on)
    work = planned.phases[-1].tasks[0].workload
    assert isinstance(work, plan.Command)
    assert work.cwd == Path("/projects") and not work.in_files


# --- several at once

MANY = """
name = "many"
question = "?"
[sut]
guests = 3
[workloads.tcp]
type = "stream"
[workloads.rtt]
type = "ping"
neighbours = { share = "90%" }
[workloads.streams]
type = "ping"
neighbours = { stream = "receive" }
[workloads.burn]
type = "burn"
"""


def many(workload: str, platform: str) -> plan.Trial:
    file = StudyFile(MANY, "many.toml")
    plot = make(file.study(), 1).plots[0]
    variant = next(v for v in plot.variants if v.platform == platform)
    return planner.make_trial(7, file.study(), workload, variant, plot, ON)


def test_every_guest_has_a_peer_and_addresses_of_their_own() -> None:
    file = StudyFile(MANY, "many.toml")
    plot = make(file.study(), 1).plots[0]
    cells = {v.node: file.study() for v in plot.variants}
    made = planner.make_bench(file.study(), plot, cells, ON)
    names = [node.name for node in made.nodes]
    assert names[:2] == ["host", "container1-1"] and names[-3:] == ["peer-1", "peer-2", "peer-3"]
    addresses = [node.interfaces[0].address for node in made.nodes]
    assert len(set(addresses)) == len(made.nodes) == 1 + 3 + 3 + 3
    assert {address.partition("/")[2] for address in addresses} == {"16"}
    macs = [node.interfaces[0].mac for node in made.nodes if node.kind.type == "guest"]
    assert len(set(macs)) == 3 and None not in macs


def test_all_work_at_once_each_with_its_own_peer() -> None:
    tasks = many("tcp", "guest").phases[-1].tasks
    assert [(t.id, t.node) for t in tasks] == [
        ("receive.1", "peer-1"),
        ("send.1", "guest2-1"),
        ("receive.2", "peer-2"),
        ("send.2", "guest2-2"),
        ("receive.3", "peer-3"),
        ("send.3", "guest2-3"),
    ]
    assert [t.purpose for t in tasks] == [
        plan.Purpose(role=role, pair=pair, direction="out")
        for pair in (1, 2, 3)
        for role in ("receive", "send")
    ]
    assert len({t.workload.to for t in tasks if t.id.startswith("send")}) == 3
    assert [t.id for t in many("burn", "container").phases[-1].tasks] == [
        "burn.1",
        "burn.2",
        "burn.3",
    ]


def test_natively_one_node_does_the_work_of_all() -> None:
    tasks = many("tcp", "native").phases[-1].tasks
    assert {t.node for t in tasks if t.id.startswith("send")} == {"host"}
    assert {t.node for t in tasks if t.id.startswith("receive")} == {"peer-1", "peer-2", "peer-3"}
    burns = many("rtt", "native").phases[-1].tasks
    assert {t.node for t in burns if t.id.startswith("load")} == {"host"}


def test_neighbours_load_while_the_first_is_measured() -> None:
    tasks = many("rtt", "guest").phases[-1].tasks
    load = [t for t in tasks if t.id.startswith("load")]
    assert [(t.id, t.node, t.background) for t in load] == [
        ("load.2", "guest2-2", True),
        ("load.3", "guest2-3", True),
    ]
    assert [t.purpose for t in load] == [plan.Purpose(role="load", pair=pair) for pair in (2, 3)]
    measured = [t for t in tasks if t not in load]
    assert [(t.id, t.node) for t in measured] == [("reply.1", "peer-1"), ("request.1", "guest2-1")]
    # The load outlasts what is measured: the phase ends it.
    limit = many("rtt", "guest").phases[-1].limit_s
    assert all(t.workload.share == 0.9 and t.workload.duration_s >= limit for t in load)


def test_neighbours_may_stream_and_are_no_part_of_the_measured_streams() -> None:
    tasks = many("streams", "guest").phases[-1].tasks
    load = [(t.id, t.node) for t in tasks if t.purpose.role == "load"]
    assert load == [
        ("load-sink.2", "guest2-2"),
        ("load-stream.2", "peer-2"),
        ("load-sink.3", "guest2-3"),
        ("load-stream.3", "peer-3"),
    ]


def cell_of_many(workload: str, more: str, platform: str = "guest") -> list[plan.Task]:
    file = StudyFile(
        MANY.replace(f"[workloads.{workload}]", f"[workloads.{workload}]\n{more}"), "x"
    )
    study = file.study()
    plot = make(study, 1).plots[0]
    variant = next(v for v in plot.variants if v.platform == platform)
    return list(planner.make_trial(7, study, workload, variant, plot, ON).phases[-1].tasks)


def test_another_guest_than_the_first_is_measured_and_neighbours_share_a_rate() -> None:
    file = StudyFile(
        MANY.replace(
            'neighbours = { stream = "receive" }',
            'neighbours = { stream = "receive", rate = "6M", socket_buffer = "32K", measured = 3 }',
        ),
        "x",
    )
    study = file.study()
    plot = make(study, 1).plots[0]
    variant = next(v for v in plot.variants if v.platform == "guest")
    tasks = planner.make_trial(7, study, "streams", variant, plot, ON).phases[-1].tasks
    sends = [t for t in tasks if t.id.startswith("load-stream")]
    assert [t.id for t in sends] == ["load-stream.1", "load-stream.2"]
    assert [(t.workload.rate_bps, t.workload.socket_buffer) for t in sends] == [(3e6, 32768)] * 2
    assert [t.id for t in tasks if t.purpose.role != "load"] == ["reply.3", "request.3"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "measured = 4",
            "neighbours.measured = 4 names a guest that is not there: sut.guests is 3",
        ),
        ("measured = 0", "measured"),
        ('rate = "1M"', "'rate' is of the neighbours' streams"),
    ],
)
def test_wrong_neighbours_are_refused(more: str, said: str) -> None:
    text = MANY.replace(
        'neighbours = { share = "90%" }', f'neighbours = {{ share = "90%", {more} }}'
    )
    with pytest.raises(InputError, match=re.escape(said)):
        StudyFile(text, "x").study()


def test_streams_begin_with_the_last_guest_where_that_is_asked_for() -> None:
    sent = [t.id for t in cell_of_many("tcp", 'start_order = "reverse"') if not t.background]
    assert sent == ["send.3", "send.2", "send.1"]


def test_each_guest_marks_its_packets() -> None:
    marks = [t.workload.dscp for t in cell_of_many("tcp", "dscp = [46, 0]") if not t.background]
    assert marks == [46, 0, None]
    assert cell_of_many("rtt", "dscp = 46")[-1].workload.dscp == 46


POLLS = """
name = "polls"
question = "How many polls does it take?"
sut.platforms = ["native", "container"]
workloads.tcp.type = "stream"
"""


@pytest.mark.parametrize(
    ("more", "counts"),
    [("", False), ('probes = ["napi"]', True), ('probes = ["drops"]', False)],
)
def test_polls_of_a_host_that_is_somebodys_are_counted_where_they_are_asked_for(
    more: str, counts: bool
) -> None:
    study = StudyFile(f"{more}\n{POLLS}", "x").study()
    assert planner.counts_in_warmups(study, dataclasses.replace(ON, images={})) is counts


LINES = """
name = "lines"
question = "How long is what waits for the line?"
machine = "emulated"
sut.platforms = PLATFORMS
sut.memory = "128M"
sut.guests = 2
bench.line_rate = "8 Mb/s"
workloads.tcp.type = "stream"
knobs.line_ring = 32
"""


@pytest.mark.parametrize("platforms", [["native"], ["native", "guest"], ["native", "xen"]])
def test_rings_are_those_of_both_cards_at_the_line(platforms: list[str]) -> None:
    study = StudyFile(LINES.replace("PLATFORMS", json.dumps(platforms)), "x").study()
    plot = make(study, 1).plots[0]
    bench = planner.make_bench(study, plot, {v.node: study for v in plot.variants}, ON)
    cards = [("host", link.uplink.mac) for link in bench.links if link.uplink is not None]
    if platforms == ["native"]:
        # No host of guests is between: it has the near card itself.
        cards.append(("host", "sut0"))
    assert len(cards) == 2
    wanted = [(node, plan.RingSizes(interface=card, tx=32)) for node, card in cards]
    for variant in plot.variants:
        trial = planner.make_trial(7, study, "tcp", variant, plot, ON)
        assert [(one.node, one.knob) for one in trial.knobs] == wanted


CLASSES = """
name = "classes"
question = "Do marked packets go first?"
machine = "emulated"
sut.platforms = ["native", "xen"]
sut.memory = "128M"
sut.guests = 2
bench.line_rate = "8 Mb/s"
workloads.tcp.type = "stream"
knobs.traffic_classes = { rate = "7 Mb/s", scheme = "share", share = "25 %" }
"""


def test_traffic_waits_in_classes_at_the_driver_domain_s_nic_alone() -> None:
    file = StudyFile(CLASSES, "x")
    study = file.study()
    set_by = {}
    for plot in make(study, 1).plots:
        for variant in plot.variants:
            trial = planner.make_trial(7, study, "tcp", variant, plot, ON)
            set_by[variant.platform] = trial.knobs
            if variant.platform == "xen":
                bench = planner.make_bench(study, plot, {v.node: study for v in plot.variants}, ON)
    (setting,) = set_by["xen"]
    near = next(link for link in bench.links if link.name == "lan")
    assert near.uplink is not None
    marked = plan.MarkedClass(dscp=46, rate_bps=1_750_000, first=False)
    knob = plan.TrafficClasses(uplink=near.uplink.mac, rate_bps=7_000_000, marked=marked)
    assert (setting.node, setting.knob) == ("host", knob) and set_by["native"] == ()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('["native", "xen"]', '["native"]', "of the driver domain that sends what guests do"),
        ('"7 Mb/s"', '"8 Mb/s"', "take at most 95 % of the line's"),
        ('"25 %"', '"100 %"', "the other class has the rest"),
        ('share = "25 %"', "dscp = 64", "dscp"),
    ],
)
def test_wrong_classes_are_refused(before: str, after: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        StudyFile(CLASSES.replace(before, after), "x").study()


def test_ports_of_a_node_that_works_for_all_are_apart() -> None:
    file = StudyFile(
        MANY.replace("[workloads.rtt]", 'direction = "both"\nflows = 4\n[workloads.rtt]'), "x"
    )
    plot = make(file.study(), 1).plots[0]
    trial = planner.make_trial(7, file.study(), "tcp", plot.variants[0], plot, ON)
    on_host = [
        int(t.workload.on.rpartition(":")[2]) + flow
        for t in trial.phases[-1].tasks
        if t.background and t.node == "host"
        for flow in range(t.workload.flows)
    ]
    assert len(on_host) == len(set(on_host)) == 3 * 4


def test_of_a_bench_of_many_the_first_ones_work() -> None:
    file = StudyFile(MANY + '[factors]\n"sut.guests" = [1, 2, 3]\n', "many.toml")
    plot = make(file.study(), 1).plots[0]
    for count, marks in ((1, [""]), (2, [".1", ".2"])):
        study = file.cell({"sut.guests": count})
        trial = planner.make_trial(7, study, "burn", plot.variants[2], plot, ON)
        tasks = trial.phases[-1].tasks
        assert [t.id for t in tasks] == [f"burn{mark}" for mark in marks]
        assert [t.node for t in tasks] == [f"guest2-{k + 1}" for k in range(count)]


def test_weights_of_guests_of_this_host_are_made_where_they_are_asked_for() -> None:
    def made(more: str) -> tuple[bool, list[plan.KnobSetting]]:
        file = StudyFile(f"{MANY}{more}", "many.toml")
        plot = make(file.study(), 1).plots[0]
        guest = next(v for v in plot.variants if v.platform == "guest")
        cells = {v.node: file.study() for v in plot.variants}
        bench = planner.make_bench(file.study(), plot, cells, ON)
        found = planner.make_trial(7, file.study(), "tcp", guest, plot, ON).knobs
        return bench.weights, [s for s in found if isinstance(s.knob, plan.SchedulerWeight)]

    assert made("") == (False, [])
    weights, settings = made("[knobs]\ndriver_weight = 512\nguest_weights = [1, 2, 3]")
    assert weights and {setting.node for setting in settings} == {"host"}
    assert [(s.knob.guest, s.knob.weight) for s in settings] == [  # type: ignore[union-attr]
        (None, 512),
        *((f"guest2-{n}", n) for n in (1, 2, 3)),
    ]
    assert made('[factors]\n"knobs.driver_weight" = [256, 512]')[0]


def test_weights_of_guests_are_varied_as_lists() -> None:
    levels = '[factors]\n"knobs.guest_weights" = [[1, 2, 3], [3, 2, 1]]'
    file = StudyFile(f"{MANY}{levels}", "many.toml")
    plot = make(file.study(), 1).plots[0]
    guest = next(v for v in plot.variants if v.platform == "guest")
    for level in file.study().all_factors["knobs.guest_weights"]:
        study = file.cell({"knobs.guest_weights": level})
        found = planner.make_trial(7, study, "tcp", guest, plot, ON).knobs
        weights = [s.knob.weight for s in found if isinstance(s.knob, plan.SchedulerWeight)]
        assert ",".join(map(str, weights)) == level
    too_few = StudyFile(f"{MANY}{levels.replace('[3, 2, 1]', '[3, 2]')}", "many.toml")
    with pytest.raises(InputError, match=r"guest_weights has 2 of them for sut\.guests = 3"):
        too_few.study()
