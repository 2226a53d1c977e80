"""Batches, and what a study says of an emulated machine: pure."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

import pytest

from hypertare.base import figures
from hypertare.base.errors import InputError
from hypertare.design import planner
from hypertare.design.design import make
from hypertare.design.pc import Nic, Pc
from hypertare.design.planner import Chance, MachineResources
from hypertare.design.planner.network import HUB_INTERFACE
from hypertare.machines.batch import (
    Batch,
    TrialSlot,
    check_nics,
    nics_of,
    parts,
    records_of,
    seed_of,
    sort,
)
from hypertare.machines.batch import make as make_batch
from hypertare.machines.emulated import Output
from hypertare.protocol import plan
from hypertare.protocol.records import (
    BenchReady,
    Interval,
    Log,
    Record,
    Teardown,
    TrialBegin,
    TrialEnd,
)
from hypertare.study import StudyFile
from hypertare.workloads.responses import RESPONSES, of_clock

TEXT = """
name = "tiny"
question = "?"
machine = "emulated"
[workloads.udp]
type = "stream"
protocol = "udp"
direction = "receive"
"""


def file(more: str = "", **replace: str) -> StudyFile:
    text = TEXT
    for old, new in replace.items():
        text = text.replace(old, new)
    return StudyFile(text + more, "tiny.toml")


def on(seed: int) -> MachineResources:
    return MachineResources((0,), "tcg", {}, {}, chance=Chance(seed))


def test_an_emulated_machine_has_defaults_of_its_own() -> None:
    study = file().study()
    assert study.clock == "virtual"
    assert study.sut.platforms == ("native",)
    assert file(machine="clock = 'wall'\nmachine").study().clock == "wall"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[sut]\ncpus = 9", "in virtual time a machine has 1 to 8"),
        ("[factors]\n'sut.cpus' = [1, 16]", "in virtual time a machine has 1 to 8"),
        ("[emulated]\nquantum = 0", "within 1 ns to 10 ms"),
        ("[emulated]\nquantum = '11ms'", "within 1 ns to 10 ms"),
        ("[sut]\npaging = 'nested'", "of the platform guest: add it"),
        ("[factors]\n'sut.pages' = ['4K', '2M']", "of the platform guest: add it"),
        ("[sut]\nplatforms = ['native', 'guest']\npaging = 'both'", "'both' is not allowed"),
        (
            "[sut]\nplatforms = ['native', 'guest']\npages = '2M'\nmemory = '193M'",
            "no whole number of the pages of 2 MB",
        ),
        ("[emulated]\nshift = 11", "shift"),
        ("[emulated]\nwalks = ''", "emulated.walks"),
        ("[emulated]\ncache_share = 0", "cache_share"),
        ("[emulated]\nwalks = 'zen4'\nwalk_cost = 0.05", "walk_cost"),
        ("[emulated]\nwalks = 'zen4'\nwalk_cost = 11", "walk_cost"),
        ("[emulated]\nwalk_cost = 2", "page walks take no time here"),
        ("[emulated]\nwalks = 'zen4'\n[walk]", "leave one of the two out"),
        ("[emulated]\nshif = 1", "Did you mean 'shift'"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(more: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        file(more).study()
    assert said in str(caught.value)


def test_by_the_wall_clock_there_may_be_more_cpus() -> None:
    assert file("[sut]\ncpus = 16", machine="clock = 'wall'\nmachine").study().sut.cpus == 16


def test_a_pc_has_the_cpus_of_its_plot_and_no_others() -> None:
    study = file("[factors]\n'sut.cpus' = [1, 4]\n[emulated]\nquantum = '1us'")
    design = make(study.study(), 1)
    for plot in design.plots:
        variant = plot.variants[0]
        planned = design.trial(plot, variant, design.cells[0], 0, 0)
        made = make_batch(study, plot, 0, 1, [TrialSlot(variant, planned, plot.levels)], on(1))
        count = plot.levels["sut.cpus"]
        assert made.pc.cpus == count and made.pc.quantum_ns == 1000
        assert {node.cpus for node in made.bench.nodes} == {tuple(range(count))}


def test_page_walks_take_time_where_the_study_names_a_processor() -> None:
    study = file(
        "[factors]\n'emulated.walks' = ['none', 'mine.toml']\n[emulated]\ncache_share = 0.5"
    )
    design = make(study.study(), 1)
    where = replace(on(1), processors={"mine.toml": '{"name": "mine"}'})
    options = {}
    for plot in design.plots:
        variant = plot.variants[0]
        planned = design.trial(plot, variant, design.cells[0], 0, 0)
        made = make_batch(study, plot, 0, 1, [TrialSlot(variant, planned, plot.levels)], where)
        options[plot.levels["emulated.walks"]] = made.pc.options
    walks = ['--walks={"name": "mine"}', "--cache-share=0.5", "--walk-cost=1.0"]
    assert [one for one in options["mine.toml"] if one in walks] == walks
    assert not [one for one in options["none"] if one.startswith(("--walks", "--cache-share"))]


@pytest.mark.parametrize("machine", ["'emulated'\nclock = 'wall'", "'local'"])
def test_by_the_wall_clock_page_walks_are_this_host_s(machine: str) -> None:
    text = TEXT.replace('"emulated"', machine) + "[emulated]\nwalks = 'zen4'"
    with pytest.raises(InputError, match="only in virtual time"):
        StudyFile(text, "x").study()


def test_a_machine_in_which_no_kernel_fits_is_refused() -> None:
    with pytest.raises(InputError, match="needs 128 MiB"):
        file("[sut]\nmemory = '64M'").study()


def test_this_host_has_no_virtual_clock() -> None:
    with pytest.raises(InputError, match="no virtual clock"):
        StudyFile(TEXT.replace('"emulated"', '"local"\nclock = "virtual"'), "x").study()


def test_a_nic_is_the_machine_s_own_there() -> None:
    """As a factor it makes several benches, where on this host it makes several guests."""
    study = file("[factors]\n'sut.nic' = ['e1000', 'pcnet']").study()
    design = make(study, 1)
    assert [plot.levels for plot in design.plots] == [{"sut.nic": "e1000"}, {"sut.nic": "pcnet"}]
    assert all(len(plot.variants) == 1 for plot in design.plots)


def bench_of(seed: int, more: str = "[sut]\nnic = 'e1000'\nplatforms = ['native', 'container']"):
    study_file = file(more)
    study = study_file.study()
    plot = make(study, 1).plots[0]
    cells = {variant.node: study for variant in plot.variants}
    return study, plot, planner.make_bench(study, plot, cells, on(seed))


def test_every_node_has_a_nic_of_its_own_on_the_hub() -> None:
    _, _, bench = bench_of(7)
    assert [link.kind for link in bench.links] == ["hub"]
    nics = nics_of(bench)
    assert [nic.model for nic in nics] == ["e1000"] * 3
    assert len({nic.mac for nic in nics}) == 3
    host = next(node for node in bench.nodes if node.name == "host")
    assert host.interfaces[0].name == HUB_INTERFACE


def test_a_seed_moves_what_chance_moves() -> None:
    study, plot, bench = bench_of(7)
    _, _, same = bench_of(7)
    _, _, other = bench_of(8)
    assert bench == same != other
    variant = plot.variants[0]
    trials = [planner.make_trial(0, study, "udp", variant, plot, on(seed)) for seed in (7, 7, 8)]
    assert trials[0] == trials[1] != trials[2]
    names = [phase.name for phase in trials[0].phases]
    assert names == ["reach", "offset", "measure"]
    assert 0.001 <= Chance(7).offset_s(0) <= 0.0211
    assert Chance(7).offset_s(0) != Chance(7).offset_s(1)


def test_chance_is_the_same_on_every_host_and_python() -> None:
    """What a run draws is part of its records: these figures may never change."""
    drawn = (Chance(7).mac(0), Chance(7).port(5201), Chance(7).offset_s(3))
    assert drawn == ("52:54:00:dd:2e:02", 17498, 0.005255377)
    assert seed_of(1, {"sut.nic": "e1000"}, 2) == 1658092111


def test_a_boot_s_seed_does_not_depend_on_other_levels() -> None:
    assert seed_of(1, {"a": 1, "b": 2}, 0) == seed_of(1, {"b": 2, "a": 1}, 0)
    seeds = {seed_of(1, {"a": 1}, 0), seed_of(1, {"a": 1}, 1), seed_of(2, {"a": 1}, 0)}
    assert len(seeds | {seed_of(1, {"a": 2}, 0)}) == 4


def test_a_plan_does_not_know_its_place_in_the_run() -> None:
    _, _, bench = bench_of(7)
    pc = Pc("virtual", 3, 7, 1 << 28, 1, "debian", 60, 60.0)
    assert Batch(0, pc, bench, (), ()).steps == Batch(9, pc, bench, (), ()).steps


def test_records_are_taken_apart() -> None:
    reported: list[Record] = [
        BenchReady(bench="b", seconds_s=1),
        TrialBegin(trial=0, t_s=1),
        TrialEnd(trial=0, t_s=2, elapsed_s=1),
        TrialBegin(trial=1, t_s=3),
        Log(node="host", level="warning", text="half"),
    ]
    found = sort(reported)
    assert found.ready is not None and list(found.trials) == [0]


def test_units_of_virtual_time_say_so() -> None:
    goodput = next(one for one in RESPONSES["stream"] if one.name == "goodput")
    assert of_clock(goodput, "wall") == goodput
    unit = of_clock(goodput, "virtual").unit
    assert figures.quantity(3.386e8, unit) == "339 Mb/s (virtual)"


# --- platforms that need another PC

XEN = """
name = "xen"
question = "?"
machine = "emulated"
[sut]
platforms = ["native", "xen", "container"]
memory = "128M"
nic = "e1000"
guests = 2
[workloads.tcp]
type = "stream"
direction = "both"
[knobs]
driver_weight = 512
guest_weights = [256, 128, 64]
"""


def boots_of(text: str, seed: int = 7, **levels: int) -> list[Batch]:
    """What one boot of the first plot with a trial of every variant comes to: guests' PC first."""
    made = StudyFile(text, "xen.toml")
    design = make(made.study(), 1)
    plot, cell = design.plots[0], design.cells[0]
    planned = [design.trial(plot, variant, cell, 0, 0) for variant in plot.variants]
    own = {f"sut.{factor}": level for factor, level in levels.items()}
    places = [TrialSlot(v, p, own) for v, p in zip(plot.variants, planned, strict=True)]
    chance = MachineResources((0,), "tcg", {}, {})
    return [make_batch(made, plot, 0, seed, own, chance) for own in parts(places)]


def test_each_class_of_pc_boots_with_its_own_platforms_and_image() -> None:
    xen, plain = boots_of(XEN)
    assert (plain.pc.profile, xen.pc.profile) == ("emulated", "xen")
    assert {p.variant.platform for p in plain.places} == {"native", "container"}
    assert [p.variant.platform for p in xen.places] == ["xen"]
    assert [node.name for node in xen.bench.nodes] == [
        "host",
        "xen1-1",
        "xen1-2",
        "peer-1",
        "peer-2",
    ]
    # It is the same machine: memory, seed, and all NICs with their addresses.
    assert plain.pc.memory == xen.pc.memory > 2 * (128 << 20) + (448 << 20)
    assert plain.pc.seed == xen.pc.seed
    assert plain.pc.nics[0] == xen.pc.nics[0]
    assert set(xen.pc.nics) < set(plain.pc.nics)
    assert "--scheduler=credit" in xen.pc.options
    assert not any(option.startswith("--scheduler") for option in plain.pc.options)


def test_guests_of_xen_reach_their_peers_through_the_machine_s_own_nic() -> None:
    xen, _ = boots_of(XEN)
    lan, wire = xen.bench.links
    assert (lan.kind, wire.kind) == ("bridge", "hub")
    assert lan.uplink is not None and Nic(lan.uplink.nic or "", lan.uplink.mac) == xen.pc.nics[0]
    on = {node.name: node.interfaces[0].link for node in xen.bench.nodes if node.interfaces}
    assert on == {"xen1-1": "lan", "xen1-2": "lan", "peer-1": "wire", "peer-2": "wire"}


ROUTED = XEN.replace("[workloads.tcp]", "[bench]\ndriver = 'route'\n[workloads.tcp]")


def test_a_driver_domain_that_routes_has_the_machine_s_nic_for_itself() -> None:
    xen, plain = boots_of(ROUTED)
    lan, wire = xen.bench.links
    assert (lan.kind, wire.kind) == ("route", "hub")
    host = xen.bench.nodes[0]
    (uplink,) = host.interfaces
    assert lan.uplink is not None and (uplink.link, uplink.mac) == (lan.name, lan.uplink.mac)
    assert host.router == plan.Router(ipv4=True, ipv6=False)
    # All are of one network, so that guests and peers know of no router.
    nodes = [*xen.bench.nodes, *plain.bench.nodes]
    ends = [ipaddress.ip_interface(i.address) for node in nodes for i in node.interfaces]
    assert len({end.network for end in ends}) == 1
    own = {i.address for node in xen.bench.nodes for i in node.interfaces}
    assert len(own) == 5
    assert all(not node.routes for node in nodes)
    # Nothing else differs from a bridge: NICs, guests, tasks; nor does the baseline at all.
    bridged, bridged_plain = boots_of(XEN)
    assert xen.pc == bridged.pc and xen.trials == bridged.trials
    assert xen.bench.nodes[1:] == bridged.bench.nodes[1:]
    assert plain.steps == bridged_plain.steps


def test_by_the_wall_clock_a_trial_may_take_as_long_as_a_busy_host_does() -> None:
    virtual, _ = boots_of(XEN)
    wall, _ = boots_of(XEN.replace("[sut]", "clock = 'wall'\n[sut]"))
    limits = [one.trials[0].phases[-1].limit_s for one in (virtual, wall)]
    assert limits[1] > limits[0] + 10
    tasks = [one.trials[0].phases[-1].tasks for one in (virtual, wall)]
    assert tasks[0] == tasks[1]


def test_peers_that_are_guests_keep_their_bridge() -> None:
    xen, _ = boots_of(ROUTED.replace("driver = 'route'", "driver = 'route'\npeers = 'guest'"))
    assert [link.kind for link in xen.bench.links] == ["route", "bridge"]


def test_the_machine_must_run_the_scheduler_that_was_asked_for() -> None:
    xen, plain = boots_of(XEN.replace("[sut]", "[sut]\nscheduler = 'credit2'"))
    assert xen.bench.scheduler == "credit2" and "--scheduler=credit2" in xen.pc.options
    assert plain.bench.scheduler is None


def test_how_the_driver_domain_joins_guests_is_hard_to_change() -> None:
    text = XEN + '[factors]\n"bench.driver" = ["bridge", "route"]\n'
    design = make(StudyFile(text, "xen.toml").study(), 1)
    assert {plot.levels["bench.driver"] for plot in design.plots} == {"bridge", "route"}
    assert all(
        [v.platform for v in plot.variants] == ["native", "xen", "container"]
        for plot in design.plots
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ROUTED.replace('"xen", ', ""), "the platform driver or xen"),
        (ROUTED.replace('"emulated"', '"local"'), "needs machine = 'emulated'"),
        (ROUTED.replace("= 'route'", "= 'nat'"), "Allowed: bridge, route"),
        (
            ROUTED.replace("driver = 'route'", "driver = 'route'\ntopology = 'routers'"),
            "topology 'hosts'",
        ),
    ],
)
def test_what_cannot_be_routed(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        StudyFile(text, "xen.toml").study()


def test_records_of_a_trial_that_lost_a_guest_are_kept_and_marked() -> None:
    xen, _ = boots_of(XEN)
    kept = Interval(
        node="xen1-2", trial=0, phase="measure", task="send.2", begin_s=0.0, end_s=0.1, values={}
    )
    why = "node xen1-1 failed: it has ended: its kernel has crashed: sysrq triggered crash"
    end = TrialEnd(trial=0, t_s=1.0, elapsed_s=1.0, error=why, lost="xen1-1")
    records = (TrialBegin(trial=0, t_s=0.0), kept, end, Teardown(seconds_s=0.0))
    (one,) = records_of(xen, Output(records, None, (), None, 1.0))[1]
    assert one.error == why and any(isinstance(record, Interval) for record in one.records)


def test_weights_are_of_those_that_work_and_of_the_driver_domain() -> None:
    xen, plain = boots_of(XEN)
    weights = [(k.node, k.knob.guest, k.knob.weight) for k in xen.trials[0].knobs]
    assert weights == [("host", None, 512), ("host", "xen1-1", 256), ("host", "xen1-2", 128)]
    assert plain.trials[0].knobs == ()


def test_the_driver_domain_s_time_is_read_from_outside() -> None:
    xen, _ = boots_of(XEN)
    outside = {p.node for p in xen.trials[0].phases[-1].probes if p.probe == "outside"}
    assert outside == {"host", "xen1-1", "xen1-2"}


def of_four(more: str = "") -> tuple[Batch, Batch]:
    xen, plain = boots_of(XEN.replace("[sut]", f"[sut]\ncpus = 4\n{more}"))
    return xen, plain


def virtual_cpus(batch: Batch) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Of its guests: how many, and the CPUs on which they run."""
    domains = [node for node in batch.bench.nodes if isinstance(node.kind, plan.Domain)]
    return {node.name: (node.kind.cpus, node.cpus) for node in domains}


def test_how_the_counter_is_read_is_a_guest_s_and_no_other_s() -> None:
    for mode in ("native", "emulate", "default"):
        xen, plain = of_four(f"tsc = '{mode}'")
        domains = [node.kind for node in xen.bench.nodes if isinstance(node.kind, plan.Domain)]
        assert domains and all(domain.tsc == mode for domain in domains)
        assert plain.machine == of_four()[1].machine
    with pytest.raises(InputError, match=r"sut\.tsc"):
        of_four("tsc = 'sometimes'")
    native = XEN.replace('"xen", ', "").replace('nic = "e1000"', "tsc = 'native'")
    with pytest.raises(InputError, match=r"sut\.tsc is of the platform xen"):
        StudyFile(native, "xen.toml").study()


def test_xen_s_domains_share_all_cpus_unless_the_driver_domain_has_some_for_itself() -> None:
    xen, plain = of_four()
    assert virtual_cpus(xen) == {"xen1-1": (4, ()), "xen1-2": (4, ())}
    assert xen.bench.driver == plan.VirtualCpus(count=4)
    assert "--driver-cpus=4" in xen.pc.options and "--driver-bound" not in xen.pc.options
    assert plain.bench.driver is None and "--driver-cpus=4" not in plain.pc.options
    xen, plain = of_four("pinning = 'apart'")
    assert virtual_cpus(xen) == {"xen1-1": (3, (1, 2, 3)), "xen1-2": (3, (1, 2, 3))}
    assert xen.bench.driver == plan.VirtualCpus(count=1, on=(0,))
    assert {"--cpus=4", "--driver-cpus=1", "--driver-bound"} <= set(xen.pc.options)
    # The baseline has the whole machine, and is the same whatever Xen does with its CPUs.
    assert plain.machine == of_four("driver_cpus = 2\nguest_cpus = 1")[1].machine
    assert plain.bench.nodes[0].cpus == (0, 1, 2, 3)


def test_peers_that_are_guests_leave_the_driver_domain_its_cpus_too() -> None:
    text = XEN.replace("[sut]", "[sut]\ncpus = 4\npinning = 'apart'\ndriver_cpus = 2")
    xen, _ = boots_of(text.replace("[workloads.tcp]", "[bench]\npeers = 'guest'\n[workloads.tcp]"))
    assert set(virtual_cpus(xen).values()) == {(2, (2, 3))} and len(virtual_cpus(xen)) == 4


def test_a_guest_may_have_fewer_cpus_than_its_machine() -> None:
    xen, _ = of_four("guest_cpus = 1")
    assert virtual_cpus(xen) == {"xen1-1": (1, ()), "xen1-2": (1, ())}
    assert xen.bench.driver == plan.VirtualCpus(count=4)
    text = XEN.replace('"xen", "container"', '"guest"').replace("guest_weights", "# guest_weights")
    text = text.replace("driver_weight", "# driver_weight")
    kvm, _ = boots_of(text.replace("[sut]", "[sut]\ncpus = 2\nguest_cpus = 1"))
    kinds = [node.kind for node in kvm.bench.nodes if isinstance(node.kind, plan.Guest)]
    assert [kind.cpus for kind in kinds] == [1, 1] and kvm.pc.cpus == 2


def test_what_a_baseline_does_not_know_of_is_not_in_its_seed() -> None:
    both = seed_of(1, {"sut.cpus": 2, "sut.pinning": "none", "sut.driver_cpus": 1}, 0)
    assert both == seed_of(1, {"sut.cpus": 2, "sut.pinning": "apart"}, 0)
    assert both != seed_of(1, {"sut.cpus": 4, "sut.pinning": "apart"}, 0)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("driver_cpus = 5", "sut.driver_cpus is 5, but the machine has sut.cpus = 4"),
        ("driver_cpus = 0", "sut.driver_cpus"),
        ("pinning = 'apart'\ndriver_cpus = 4", "Set sut.cpus = 5 or more"),
        ("pinning = 'apart'\nguest_cpus = 4", "there are 3 for guests"),
        ("guest_cpus = 5", "sut.guest_cpus is 5, but there are 4"),
        ("pinning = 'beside'", "Allowed: none, apart"),
    ],
)
def test_cpus_that_are_not_there(more: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        of_four(more)
    assert said in str(caught.value)


@pytest.mark.parametrize("key", ["driver_cpus = 1", "pinning = 'none'", "guest_cpus = 2"])
def test_cpus_of_xen_s_domains_are_of_xen_on_an_emulated_machine(key: str) -> None:
    here = XEN.replace('"emulated"', '"local"').replace('nic = "e1000"', key)
    with pytest.raises(InputError, match=r"needs machine = 'emulated'.*xl vcpu-pin"):
        StudyFile(here, "xen.toml").study()
    alone = XEN.replace('"xen", ', "").replace('nic = "e1000"', key)
    with pytest.raises(InputError, match=r"to sut\.platforms"):
        StudyFile(alone, "xen.toml").study()


def test_a_guest_of_this_host_may_be_said_to_have_the_cpus_that_it_has_anyway() -> None:
    here = XEN.replace('"emulated"', '"local"').replace('nic = "e1000"', "cpus = 2\nguest_cpus = 2")
    assert StudyFile(here, "xen.toml").study().sut.guest_cpus == 2


def test_work_fits_the_guest_with_the_fewest_cpus() -> None:
    text = XEN.replace('type = "stream"\ndirection = "both"', 'type = "sleep"\nthreads = 4')
    apart = text.replace("[sut]", "[sut]\ncpus = 4\npinning = 'apart'")
    StudyFile(apart.replace("pinning = 'apart'", ""), "xen.toml").study()
    with pytest.raises(InputError, match="each with a CPU of its own, but it has 3"):
        StudyFile(apart, "xen.toml").study()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("guests = 65", "sut.guests"),
        ("guests = 4", "knobs.guest_weights has 3 of them for sut.guests = 4"),
        ("memory = '111M'", "needs 112 MiB"),
        ("driver_memory = '300M'", "needs 384 MiB"),
        ("scheduler = 'rtds'", "credit2"),
    ],
)
def test_what_xen_cannot_be_asked_for(more: str, said: str) -> None:
    key = more.split()[0]
    lines = [line for line in XEN.splitlines() if not line.startswith(f"{key} =")]
    text = "\n".join(lines).replace("[sut]", f"[sut]\n{more}")
    with pytest.raises(InputError) as caught:
        StudyFile(text, "xen.toml").study()
    assert said in str(caught.value)


@pytest.mark.parametrize("weight", [0, 65536])
def test_an_impossible_weight_is_refused(weight: int) -> None:
    with pytest.raises(InputError, match="driver_weight"):
        StudyFile(XEN.replace("= 512", f"= {weight}"), "xen.toml").study()
    with pytest.raises(InputError, match="guest_weights"):
        StudyFile(XEN.replace("256,", f"{weight},"), "xen.toml").study()


def test_peers_may_be_guests_behind_a_wire() -> None:
    xen, plain = boots_of(
        XEN.replace("[workloads.tcp]", "[bench]\npeers = 'guest'\n[workloads.tcp]")
    )
    kinds = {node.name: node.kind.type for node in xen.bench.nodes}
    assert kinds["peer-1"] == kinds["peer-2"] == "domain"
    assert {node.kind.type for node in plain.bench.nodes if node.name == "peer-1"} == {"container"}
    far = xen.bench.links[1]
    assert far.kind == "bridge" and far.uplink is not None
    assert len(xen.pc.nics) == len(set(xen.pc.nics)) == 2
    macs = [i.mac for node in xen.bench.nodes for i in node.interfaces] + [far.uplink.mac]
    assert len(set(macs)) == len(macs)
    assert xen.pc.memory > 4 * (128 << 20) + (448 << 20)


def probed(batch: Batch) -> set[str]:
    probes = batch.trials[0].phases[-1].probes
    return {one.node for one in probes if one.probe == "outside"}


def test_every_domain_of_the_machine_is_accounted_for() -> None:
    """The one that is idle in this trial too, for natively the whole machine counts."""
    one = XEN + '[factors]\n"sut.guests" = [1, 2]\n'
    xen, plain = boots_of(one, guests=1)
    assert [task.node for task in xen.trials[0].phases[-1].tasks].count("xen1-2") == 0
    assert probed(xen) == {"host", "xen1-1", "xen1-2"}
    assert "host" not in probed(plain)
    peers = one.replace("[workloads.tcp]", "[bench]\npeers = 'guest'\n[workloads.tcp]")
    xen, _ = boots_of(peers, guests=1)
    assert probed(xen) == {"host", "xen1-1", "xen1-2", "peer-1", "peer-2"}
    routed = peers.replace("peers =", "topology = 'routers'\npeers =").replace(
        '"both"', '"forward"'
    )
    xen, _ = boots_of(routed, guests=1)
    assert probed(xen) >= {"host", "xen1-2", "a-1", "b-1", "a-2", "b-2"}
    assert probed(xen) <= {node.name for node in xen.bench.nodes}


def test_peers_that_are_guests_need_xen() -> None:
    with pytest.raises(InputError, match="platform xen"):
        StudyFile(TEXT + "[bench]\npeers = 'guest'\n", "x").study()


KVM = """
name = "kvm"
question = "?"
machine = "emulated"
[sut]
platforms = ["native", "guest"]
memory = "256M"
kernel_args = ["quiet"]
[workloads.work]
type = "burn"
[factors]
"sut.paging" = ["nested", "shadow"]
"sut.pages" = ["4K", "2M", "thp"]
"""


def test_page_tables_and_pages_are_hard_to_change() -> None:
    design = make(StudyFile(KVM, "kvm.toml").study(), 1)
    levels = [(plot.levels["sut.paging"], plot.levels["sut.pages"]) for plot in design.plots]
    assert len(set(levels)) == len(levels) == 6
    assert all([v.platform for v in plot.variants] == ["native", "guest"] for plot in design.plots)


def test_a_guest_s_pc_is_a_kvm_host_and_the_baseline_s_has_no_guest() -> None:
    guest, plain = boots_of(KVM)
    assert (plain.pc.profile, guest.pc.profile) == ("emulated", "kvm")
    assert [node.name for node in plain.bench.nodes] == ["host"]
    assert [node.name for node in guest.bench.nodes] == ["host", "guest1"]
    assert plain.pc.memory == guest.pc.memory > 256 << 20
    assert plain.pc.seed == guest.pc.seed and plain.pc.cpu_model == guest.pc.cpu_model
    kind = guest.bench.nodes[1].kind
    assert isinstance(kind, plan.Guest)
    assert (kind.accelerator, kind.settings.paging, kind.settings.pages) == ("kvm", "nested", "4K")
    assert str(kind.kernel) == "/guest/kernel"
    # What it has of chance comes from the seed, and its kernel gets what the study says.
    inner = {"pci=noearly,lastbus=0", "random.trust_cpu=off", "hypertare.seed=7", "quiet"}
    assert inner <= set(kind.settings.kernel_args)
    assert boots_of(KVM, 8)[0].steps != guest.steps == boots_of(KVM)[0].steps


def test_a_machine_has_room_for_so_many_nics() -> None:
    text = """
    name = "crowd"
    question = "?"
    machine = "emulated"
    [sut]
    platforms = ["native", "xen"]
    guests = 46
    memory = "128M"
    [bench]
    topology = "routers"
    [workloads.tcp]
    type = "stream"
    direction = "forward"
    """
    on = MachineResources((0,), "tcg", {}, {})
    for count, said in ((46, None), (47, "47 guests .* need 188 NICs .* room for 184: 46 fit")):
        study = StudyFile(text.replace("46", str(count)), "crowd.toml")
        plot = make(study.study(), 1).plots[0]
        if said is None:
            check_nics(study, plot, on)
        else:
            with pytest.raises(InputError, match=said):
                check_nics(study, plot, on)
