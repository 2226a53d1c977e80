"""What moves guests' packets: what may be asked for, and what becomes of it in plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hypertare.base.errors import InputError
from hypertare.design import planner
from hypertare.design.design import WholePlot, make
from hypertare.machines import batch
from hypertare.protocol import plan
from hypertare.study import StudyFile
from tests.design.test_memory_plans import on

TEXT = """
name = "datapaths"
question = "?"
[sut]
platforms = ["native", "guest"]
[workloads.bulk]
type = "stream"
"""
FACTOR = 'factors."sut.datapath" = ["qemu", "vhost", "vhost-user", "sidecore"]\n'
"""Before all tables."""


def study_file(sut: str = "", machine: str = "local", before: str = "") -> StudyFile:
    text = TEXT.replace("[sut]\n", f"[sut]\n{sut}\n")
    return StudyFile(f'machine = "{machine}"\n{before}{text}', "datapaths.toml")


def guests(file: StudyFile, there: planner.MachineResources) -> list[plan.Guest]:
    design = make(file.study(), 1)
    return [
        node.kind
        for plot in design.plots
        for node in planner.make_bench(file.cell(plot.levels), plot, cells(file, plot), there).nodes
        if isinstance(node.kind, plan.Guest)
    ]


def cells(file: StudyFile, plot: WholePlot) -> dict[str, Any]:
    return {v.node: file.cell({**plot.levels, **v.levels}) for v in plot.variants}


@pytest.mark.parametrize(
    ("machine", "has_vhost", "accelerator", "sut", "expected"),
    [
        ("local", True, "kvm", "", "vhost"),
        ("local", False, "kvm", "", "qemu"),
        ("local", True, "tcg", "", "qemu"),
        ("local", True, "kvm", 'nic = "e1000"', "qemu"),
        ("local", True, "kvm", 'datapath = "qemu"', "qemu"),
        ("local", False, "tcg", 'datapath = "vhost-user"', "vhost-user"),
        ("emulated", True, "kvm", "", "qemu"),
        ("emulated", False, "tcg", 'datapath = "vhost"', "vhost"),
    ],
)
def test_auto_is_what_libvirt_does_and_qemu_on_an_emulated_machine(
    machine: str, has_vhost: bool, accelerator: plan.Accelerator, sut: str, expected: str
) -> None:
    there = replace(on(accelerator), has_vhost=has_vhost)
    (guest,) = guests(study_file(sut, machine), there)
    assert guest.settings.datapath == expected


def test_levels_are_guests_of_one_bench_and_share_a_baseline() -> None:
    file = study_file(before=FACTOR)
    assert len(make(file.study(), 1).plots) == 1
    found = [guest.settings.datapath for guest in guests(file, on())]
    assert found == ["qemu", "vhost", "vhost-user", "sidecore"]
    with_paths = {"sut.datapath": "vhost", "sut.queues": 2}
    assert batch.seed_of(1, with_paths, 0) == batch.seed_of(1, {}, 0)


def test_settings_reach_the_plan_and_only_our_processes_are_read() -> None:
    sut = 'cpus = 2\nqueues = 2\npoll_us = 50\ndatapath = "vhost"'
    (guest,) = guests(study_file(sut), replace(on(), cpus=(0, 1)))
    assert (guest.settings.queues, guest.settings.poll_us) == (2, 50)
    for datapath, reads in (("vhost", False), ("vhost-user", True), ("sidecore", True)):
        file = study_file(f'datapath = "{datapath}"')
        plot = make(file.study(), 1).plots[0]
        for variant in plot.variants:
            cell = file.cell(variant.levels)
            trial = planner.make_trial(1, cell, "bulk", variant, plot, on(), warmup=False)
            every = [one for phase in trial.phases for one in phase.probes]
            asked = {one.node for one in every if one.probe == "datapath"}
            assert asked == ({"guest1"} if reads and variant.platform == "guest" else set())


@pytest.mark.parametrize(
    ("sut", "machine", "said"),
    [
        ('datapath = "vhost"\nnic = "e1000"', "local", "QEMU itself moves the packets"),
        ("queues = 2", "local", "set sut.cpus = 2 too"),
        ("queues = 2\ncpus = 2\nguest_cpus = 1", "emulated", r"set sut.guest_cpus = 2 too"),
        ('queues = 2\ncpus = 2\nnic = "e1000e"', "local", "sut.queues = 2 is for sut.nic"),
        ("poll_us = 50", "local", "set sut.datapath = 'vhost'"),
        ('datapath = "sidecore"\npages = "thp"', "local", "shared with what moves its packets"),
        ('datapath = "sidecore"', "emulated", r"has 1, and the guest 1. Set sut.cpus = 3 or more"),
        ('datapath = "sidecore"\ncpus = 3', "emulated", "and sut.guest_cpus = 1, or"),
        ('datapath = "sidecore"\ncpus = 3\nguest_cpus = 2', "emulated", "and the guest 2"),
        ("datapath_apart = true", "emulated", "datapath_apart = true needs a CPU for what moves"),
        ("datapath_apart = true", "local", "a core that polls alone"),
        ("cpus = 2\nguest_cpus = 3", "emulated", "guest_cpus is 3, but there are 2 for guests"),
        ('datapath = "vhots"', "local", "vhost"),
        ("queues = 17\ncpus = 17", "local", "16"),
        ("poll_us = 1001", "local", "1000"),
    ],
)
def test_what_cannot_be_had_is_refused_with_what_to_do(sut: str, machine: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        study_file(sut, machine).study()


@pytest.mark.parametrize(
    ("sut", "machine"), [('datapath = "vhost"', "local"), ("datapath_apart = true", "emulated")]
)
def test_without_a_guest_nothing_is_moved(sut: str, machine: str) -> None:
    text = study_file(sut, machine).text.replace(', "guest"', "")
    with pytest.raises(InputError, match=r"sut\.datapath\w* is of the platform guest"):
        StudyFile(text, "datapaths.toml").study()


def test_a_peer_has_only_the_cpus_that_are_left() -> None:
    sut = "datapath_apart = true\ncpus = 3\nguest_cpus = 1"
    text = study_file(sut, "emulated").text.replace(
        'type = "stream"', 'type = "stream"\nreceiver_cpus = [1]'
    )
    with pytest.raises(InputError, match="receiver_cpus names CPU 1, and there are 1"):
        StudyFile(text, "datapaths.toml").study()


def test_how_guests_differ_from_those_that_people_have_is_said() -> None:
    def said(file: StudyFile, there: planner.MachineResources) -> str:
        return " ".join(planner.warnings(file.study(), there))

    with_vhost = replace(on("kvm"), has_vhost=True, cpus=(0, 1, 2))
    assert "QEMU's process" in said(study_file(), on("kvm"))
    assert "QEMU's process" not in said(study_file(), with_vhost)
    assert "QEMU's process" not in said(study_file(before=FACTOR), on("kvm"))
    assert "shares its CPU" in said(study_file(before=FACTOR), on("kvm"))
    assert "shares its CPU" not in said(study_file(before=FACTOR), with_vhost)
    assert "shares its CPU" not in said(study_file(), on("kvm"))


@pytest.mark.parametrize(
    ("machine", "sut", "cpus", "sidecore", "guest", "peer"),
    [
        ("local", "", 4, 2, (3,), (0, 1)),
        ("local", "cpus = 2", 5, 2, (3, 4), (0, 1)),
        ("local", "", 3, 1, (2,), (0,)),
        ("local", "", 2, None, (1,), (0,)),
        ("local", "", 1, None, (0,), (0,)),
        ("emulated", "cpus = 3\nguest_cpus = 1", 3, 1, (2,), (0,)),
        ("emulated", "cpus = 5\nguest_cpus = 2", 5, 2, (3, 4), (0, 1)),
    ],
)
def test_a_core_that_polls_has_a_cpu_for_itself_where_there_is_one(
    machine: str, sut: str, cpus: int, sidecore: int | None, guest: Any, peer: Any
) -> None:
    """Between the peers' and the guests', for whatever guest of the bench it polls."""
    file = study_file(sut, machine, 'factors."sut.datapath" = ["qemu", "sidecore"]\n')
    # An emulated machine is booted for each, and what moves packets there is the last one's.
    plot = make(file.study(), 1).plots[-1]
    if machine == "emulated":
        plot = replace(plot, variants=tuple(v for v in plot.variants if v.platform == "guest"))
    there = replace(on(), cpus=tuple(range(cpus)))
    bench = planner.make_bench(file.cell(plot.levels), plot, cells(file, plot), there)
    assert bench.datapath_cpu == sidecore
    assert {one.cpus for one in bench.nodes if isinstance(one.kind, plan.Guest)} == {guest}
    assert {one.cpus for one in bench.nodes if one.name.startswith("peer")} == {peer}


@pytest.mark.parametrize("datapath", ["qemu", "vhost", "vhost-user", "sidecore"])
def test_apart_every_path_has_the_same_cpus(datapath: str) -> None:
    sut = f'datapath_apart = true\ndatapath = "{datapath}"\ncpus = 3\nguest_cpus = 1\nguests = 4'
    file = study_file(sut, "emulated")
    (plot,) = make(file.study(), 1).plots
    there = replace(on(), cpus=(0, 1, 2))
    # An emulated machine is booted for each; without a guest nobody is kept from a CPU.
    for variant in plot.variants:
        own = replace(plot, variants=(variant,))
        bench = planner.make_bench(file.cell(plot.levels), own, cells(file, own), there)
        of = {
            kind: {node.cpus for node in bench.nodes if node.name.startswith(kind)}
            for kind in ("guest", "peer", "host")
        }
        if variant.platform == "guest":
            assert bench.datapath_cpu == 1
            assert of == {"guest": {(2,)}, "peer": {(0,)}, "host": {()}}
        else:
            assert bench.datapath_cpu is None
            assert of == {"guest": set(), "peer": {(0, 1, 2)}, "host": {(0, 1, 2)}}


def test_without_a_core_that_polls_nobody_is_kept_from_a_cpu() -> None:
    file = study_file('datapath = "vhost-user"\ncpus = 3\nguest_cpus = 1', "emulated")
    plot = make(file.study(), 1).plots[0]
    there = replace(on(), cpus=(0, 1, 2))
    bench = planner.make_bench(file.cell(plot.levels), plot, cells(file, plot), there)
    assert bench.datapath_cpu is None
    assert all(one.cpus == () for one in bench.nodes if isinstance(one.kind, plan.Guest))
