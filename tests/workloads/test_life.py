"""`life`: what it asks of an agent, what is made of its records, and what is refused."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.design import pc, planner
from hypertare.design.design import make
from hypertare.machines.batch import nics_of
from hypertare.protocol import plan
from hypertare.study import StudyFile
from hypertare.workloads import responses
from tests.made_guests import result

STUDY = """
name = "life"
question = "?"
machine = "{machine}"
[sut]
platforms = {platforms}
memory = "192M"
{sut}
[workloads.life]
type = "life"
{keys}
"""


def study(
    platforms: str = '["native", "container"]',
    sut: str = "",
    keys: str = "",
    machine: str = "local",
) -> StudyFile:
    text = STUDY.format(platforms=platforms, sut=sut, keys=keys, machine=machine)
    return StudyFile(text, "life.toml")


def test_a_node_like_each_that_works_lives_in_a_trial() -> None:
    file = study(sut="guests = 2")
    (plot,) = make(file.study(), 1).plots
    on = planner.MachineResources((0, 1), "tcg", {}, {})
    found = [
        planner.make_trial(1, file.study(), "life", variant, plot, on).phases[-1]
        for variant in plot.variants
    ]
    assert all(not phase.tasks for phase in found)
    native, container = (phase.lives for phase in found)
    assert [(life.id, life.of, life.node.name) for life in native] == [
        ("life.1", "host", "host-life1"),
        ("life.2", "host", "host-life2"),
    ]
    assert [(life.of, life.node.name) for life in container] == [
        ("container1-1", "container1-1-life1"),
        ("container1-2", "container1-2-life1"),
    ]
    assert {life.node.kind for life in native} == {plan.Host()}
    assert {life.node.kind for life in container} == {plan.Container(memory=192 << 20)}
    # There is nothing of a process that could be saved.
    assert not any(life.restored for life in (*native, *container))
    assert all(not life.node.interfaces and life.node.disk is None for life in native)
    assert all(life.reached is None and life.most is None for life in (*native, *container))
    works = [(life.work.node, life.work.workload) for life in native if life.work is not None]
    assert works == [("host-life1", plan.Cpuid(count=10)), ("host-life2", plan.Cpuid(count=10))]


def test_a_peer_asks_what_has_an_address_of_its_own_or_its_machines() -> None:
    file = study(keys="network = true")
    (plot,) = make(file.study(), 1).plots
    on = planner.MachineResources((0, 1), "tcg", {}, {})
    native, container = (
        planner.make_trial(1, file.study(), "life", variant, plot, on).phases[-1].lives[0]
        for variant in plot.variants
    )
    assert native.reached is not None and container.reached is not None
    assert not native.node.interfaces
    assert [one.address for one in container.node.interfaces] == ["10.77.0.253/24"]
    asked = [life.reached.ask for life in (native, container) if life.reached is not None]
    assert [ask.node for ask in asked] == ["peer", "peer"]
    assert [getattr(ask.workload, "to", None) for ask in asked] == [
        "10.77.0.2:7300",
        "10.77.0.253:7300",
    ]
    assert container.reached.answer.node == container.node.name == "container1-life1"


def test_a_pc_has_a_nic_for_what_lives_on_a_hub() -> None:
    file = study(keys="network = true", machine="emulated")
    (plot,) = make(file.study(), 1).plots
    on = planner.MachineResources((0,), "kvm", {}, {}, chance=planner.Chance(1))
    cells = {variant.node: file.cell(variant.levels) for variant in plot.variants}
    bench = planner.make_bench(file.study(), plot, cells, on)
    trials = [
        planner.make_trial(number, file.study(), "life", variant, plot, on)
        for variant in plot.variants
        for number in (1, 2)
    ]
    # The container that lives, in both of its trials.
    alone, all_of_them = nics_of(bench), nics_of(bench, trials)
    assert all_of_them[: len(alone)] == alone and len(all_of_them) == len(alone) + 1


def test_many_have_memory_on_a_machine_that_is_made_for_them() -> None:
    many = "most = 5\nrestore = false"
    here, there = (
        study('["native", "guest"]', keys=many, machine=machine).study()
        for machine in ("local", "emulated")
    )
    assert pc.guests_memory(here, 1) == 2 * (192 << 20)
    assert pc.memory(there) - pc.memory(study('["native"]', machine="emulated").study()) > 5 * (
        192 << 20
    )


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("most = 1", "most"),
        ("most = 5000", "most"),
        ("most = 4\nrestore = true", "leave one out"),
        ("most = 4\nnetwork = true", "leave 'network' out"),
        ("network = 3", "network"),
    ],
)
def test_nonsense_is_refused(keys: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(keys=keys).study()


def test_a_life_over_the_network_is_not_for_all() -> None:
    with pytest.raises(InputError, match="leave it out, or the platform xen"):
        study('["native", "xen"]', keys="network = true", machine="emulated").study()
    with pytest.raises(InputError, match="'routers'"):
        study(keys='network = true\n[bench]\ntopology = "routers"').study()
    with pytest.raises(InputError, match=r"sut.guests asks for several"):
        study(sut="guests = 2", keys="most = 4").study()


def test_memory_is_there_for_a_guest_its_like_and_what_that_is_saved_in() -> None:
    sizes = [
        pc.guests_memory(study('["native", "guest"]', keys=keys).study(), 1)
        for keys in ("restore = true", "restore = false")
    ]
    assert sizes == [3 * (192 << 20), 2 * (192 << 20)]


def test_figures_are_what_the_lives_reported() -> None:
    reported = [
        result(
            "life.1",
            {"answer_s": 2.0, "vmm_s": 0.5, "kernel_s": 1.0, "memory_bytes": 1e8, "restore_s": 0.5},
        ),
        result(
            "life.2",
            {"answer_s": 4.0, "vmm_s": 0.7, "kernel_s": 1.2, "memory_bytes": 3e8, "restore_s": 0.7},
        ),
    ]
    values = responses.measure("life", "guest", ("guest1-1", "guest1-2"), reported)
    assert values["answer"] == 3.0 and values["memory"] == 4e8
    assert values["restore"] == pytest.approx(0.6)
    assert values["init"] == pytest.approx(1.7)


def test_what_is_not_made_here_has_no_life_to_be_weighed() -> None:
    machine = '[given.a]\nreach = "ssh somewhere"'
    with pytest.raises(InputError, match="is made here: leave them out"):
        study('["native", "given"]', keys=machine).study()
    with pytest.raises(InputError, match="is made here: leave them out"):
        study(sut='image = "debian:12"').study()
