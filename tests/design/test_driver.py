"""The driver domain as the system under test: its bench, its trials, and what it does not go with."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.design import pc, planner
from hypertare.design.design import make
from hypertare.machines.batch import Batch, TrialSlot, nics_of, parts
from hypertare.machines.batch import make as make_batch
from hypertare.protocol import plan
from hypertare.study import StudyFile

TEXT = """
name = "driver"
question = "?"
machine = "{machine}"
[sut]
platforms = ["native", "driver", "xen"]
memory = "192M"
{more}
[knobs]
mtu = 500
offloads = {{ gro = false, tso = true }}
[workloads.tcp]
type = "stream"
"""


def study(machine: str = "emulated", more: str = "") -> StudyFile:
    return StudyFile(TEXT.format(machine=machine, more=more), "driver.toml")


def batches(file: StudyFile) -> dict[str, Batch]:
    """By class of PC."""
    design = make(file.study(), 1)
    (plot,) = design.plots
    block = {trial.platform: trial for trial in design.block(plot, design.cells[0], 0, 0)}
    places = [TrialSlot(variant, block[variant.platform], {}) for variant in plot.variants]
    on = planner.MachineResources((0,), "tcg", {}, {})
    return {
        b.kind.name: b for b in (make_batch(file, plot, 0, 1, part, on) for part in parts(places))
    }


def test_its_pc_is_that_of_xen_without_guests() -> None:
    made = batches(study())
    assert set(made) == {"pc", "xen0", "xen"}
    driver, xen = made["xen0"].pc, made["xen"].pc
    assert driver == xen and driver.profile == "xen" and driver.nics == xen.nics
    assert [node.name for node in made["xen0"].bench.nodes] == ["host", "driver1", "peer"]
    assert pc.make(made["pc"].kind, study().study(), 1, driver.nics).memory == driver.memory


def test_its_end_is_the_bridge() -> None:
    batch = batches(study())["xen0"]
    nodes = {node.name: node for node in batch.bench.nodes}
    links = {link.name: link for link in batch.bench.links}
    assert nodes["driver1"].kind == plan.Host() and nodes["driver1"].interfaces[0].link == "lan"
    assert links["lan"].kind == "bridge" and links["lan"].uplink is not None
    # The NICs of the machine are the bridge's and the peer's; it has none.
    assert len(nics_of(batch.bench)) == 2
    (trial,) = batch.trials
    reported = {(k.node, k.knob.type, getattr(k.knob, "interface", "")) for k in trial.knobs}
    assert reported == {
        ("driver1", "mtu", "lan"),
        ("peer", "mtu", "eth0"),
        ("driver1", "offload", "lan"),
        ("peer", "offload", "eth0"),
        ("host", "offload", "lan"),
    }


def test_ports_are_reported_what_is_off_only() -> None:
    (trial,) = batches(study())["xen"].trials
    reported = [
        k.knob for k in trial.knobs if isinstance(k.knob, plan.Offload) and k.node == "host"
    ]
    assert [(knob.offload, knob.on, knob.ports) for knob in reported] == [("gro", False, True)]


def test_the_driver_domain_is_accounted_for_once() -> None:
    (trial,) = batches(study())["xen0"].trials
    outside = [p.node for p in trial.phases[-1].probes if p.probe == "outside"]
    assert outside == ["host"]
    assert ("driver1", "net_dev") in {(p.node, p.probe) for p in trial.phases[-1].probes}


def test_a_line_is_beyond_its_bridge() -> None:
    batch = batches(study(more='[bench]\nline_rate = "20M"'))["xen0"]
    assert {link.name: link.kind for link in batch.bench.links} == {
        "lan": "bridge",
        "wire": "bridge",
    }
    (trial,) = batch.trials
    ports = {
        k.knob.interface for k in trial.knobs if isinstance(k.knob, plan.Offload) and k.knob.ports
    }
    assert ports == {"lan", "wire"}


def test_one_node_does_the_work_of_several_guests() -> None:
    (trial,) = batches(study(more="guests = 2"))["xen0"].trials
    senders = [task for task in trial.phases[-1].tasks if not task.background]
    assert [task.node for task in senders] == ["driver1", "driver1"]


def test_on_a_host_of_ones_own_it_stands_beside_native() -> None:
    file = study("local")
    file.override(['sut.platforms=["native", "driver"]'], quick=False)
    (plot,) = make(file.study(), 1).plots
    on = planner.MachineResources((0,), "tcg", {}, {})
    bench = planner.make_bench(
        file.study(), plot, {v.node: file.study() for v in plot.variants}, on
    )
    nodes = {node.name: node for node in bench.nodes}
    assert nodes["host"].kind == nodes["driver1"].kind == plan.Host()
    assert nodes["host"].cpus == nodes["driver1"].cpus
    addresses = {node.interfaces[0].address for node in nodes.values()}
    assert len(addresses) == 3
    assert any("native is the same one" in text for text in planner.warnings(file.study(), on))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[bench]\ndriver = "route"', "bench.driver = 'bridge'"),
        ('[bench]\ntopology = "routers"', "topology 'hosts'"),
    ],
)
def test_what_it_does_not_go_with(more: str, said: str) -> None:
    text = TEXT.format(machine="emulated", more=more)
    if "routers" in more:
        text += 'direction = "forward"\n'
    with pytest.raises(InputError, match=said):
        StudyFile(text, "driver.toml").study()


def test_it_needs_xen() -> None:
    """Under KVM of this host there is none: `guest` and `driver` do not stand together."""
    text = TEXT.format(machine="local", more="").replace('"xen"', '"guest"')
    with pytest.raises(InputError, match="guest and driver do not stand on one host"):
        StudyFile(text, "driver.toml").study()


def test_it_is_bound_to_no_cpu_that_its_guests_have_for_themselves() -> None:
    more = "cpus = 3\ndriver_cpus = 2\nguest_cpus = 1\npinning = 'apart'"
    made = batches(study(more=more))
    (driver,) = (node for node in made["xen0"].bench.nodes if node.name == "driver1")
    guests = [node for node in made["xen"].bench.nodes if isinstance(node.kind, plan.Domain)]
    assert driver.cpus == () and [guest.cpus for guest in guests] == [(2,)]
    assert made["xen0"].bench.driver == plan.VirtualCpus(count=2, on=(0, 1))


def test_without_guests_it_may_have_cpus_set_apart_too() -> None:
    alone = StudyFile(
        TEXT.format(
            machine="emulated", more="cpus = 3\ndriver_cpus = 2\npinning = 'apart'"
        ).replace(', "xen"', ""),
        "driver.toml",
    )
    assert set(batches(alone)) == {"pc", "xen0"}
    alone.override(["sut.guest_cpus=1"], quick=False)
    with pytest.raises(InputError, match=r"sut\.guest_cpus is of the platform guest or xen"):
        alone.study()
