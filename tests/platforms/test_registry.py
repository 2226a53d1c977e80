"""Every platform is known to studies, is something in a plan, and says what goes together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from hypertare.base.errors import InputError
from hypertare.design import planner
from hypertare.design.design import make
from hypertare.design.profiles import PROFILES
from hypertare.machines.batch import TrialSlot, parts
from hypertare.machines.batch import make as make_batch
from hypertare.platforms.platform import NodeInputs, Platform
from hypertare.platforms.registry import BASELINE, KINDS, PlatformName, find, is_own_setting
from hypertare.protocol import plan
from hypertare.study import StudyFile
from hypertare.study.sut import Sut

EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
MADE = pytest.mark.parametrize(
    "kind", [kind for kind in KINDS.values() if kind.is_made], ids=lambda kind: kind.name
)
BOOTS_FROM = Path("/kernel"), Path("/initramfs")
INPUTS = NodeInputs(
    cpus=2,
    memory=1 << 28,
    boot_limit_s=9.0,
    accelerator="tcg",
    settings=plan.GuestSettings(),
    boots_from=BOOTS_FROM,
)
NODES = get_args(get_args(plan.NodeKind)[0])


def study(kind: Platform, machine: str) -> StudyFile:
    """One that compares a platform with the baseline."""
    platforms = list(dict.fromkeys((BASELINE, kind.name)))
    raw = {
        "name": "x",
        "question": "?",
        "machine": machine,
        "sut": {"platforms": platforms},
        "workloads": {"work": {"type": "stream"}},
    }
    if not kind.is_made:
        raw |= {"given": {"vm": {"reach": "ssh vm"}}, "workloads": {"work": {"type": "burn"}}}
    return StudyFile.of(raw, "x")


def test_studies_may_name_each() -> None:
    assert tuple(KINDS) == get_args(PlatformName)
    assert Sut(platforms=tuple(KINDS)).platforms == tuple(KINDS)  # type: ignore[arg-type]


def test_one_is_the_baseline() -> None:
    assert [kind.name for kind in KINDS.values() if kind.is_baseline] == [BASELINE]
    assert not find(BASELINE).has_own_kernel


def test_what_is_none_is_said() -> None:
    with pytest.raises(InputError, match=f"no platform 'vax'; there are: {', '.join(KINDS)}"):
        find("vax")


@EVERY
def test_it_is_a_node_of_a_plan(kind: Platform) -> None:
    node = kind.node(INPUTS)
    assert isinstance(node, NODES)
    if kind.image:
        assert node.kernel == BOOTS_FROM[0] and node.initramfs == BOOTS_FROM[1:]  # type: ignore[union-attr]


@EVERY
def test_what_it_says_goes_together(kind: Platform) -> None:
    # What was there before has a kernel that nobody boots.
    assert kind.has_own_kernel == (kind.image is not None or not kind.is_made)
    # A driver domain is on the PC of guests, and none of them.
    assert (kind.image is not None or kind.under_hypervisor) == kind.pc.has_guests
    assert bool(kind.least_memory) == bool(kind.least_memory_of)
    assert not (kind.uses_accelerator and kind.under_hypervisor)
    assert kind.under_hypervisor == kind.pc.has_driver_domain
    assert kind.translates_twice <= kind.has_own_kernel
    assert kind.is_counted_by_kvm <= kind.uses_accelerator
    assert (kind.nic == "the machine's") == (kind.image is None)
    assert kind.own_settings <= set(Sut.model_fields)
    assert all(is_own_setting(f"sut.{key}") for key in kind.own_settings)


@EVERY
def test_there_are_images_for_it(kind: Platform) -> None:
    assert kind.pc.profile in PROFILES
    assert kind.image is None or kind.image in PROFILES


@EVERY
def test_it_stands_on_a_bench_of_this_host(kind: Platform) -> None:
    file = study(kind, "local")
    (plot,) = make(file.study(), 1).plots
    images = {}
    if kind.image is not None:
        images["debian", kind.image] = SimpleNamespace(kernel=Path("/k"), initramfs=Path("/i"))
    on = planner.MachineResources((0, 1), "tcg", images, {})
    cells = {variant.node: file.cell({}) for variant in plot.variants}
    bench = planner.make_bench(file.study(), plot, cells, on)
    _is_there(kind, plot.variants[-1].node, bench)
    assert planner.make_trial(1, file.study(), "work", plot.variants[-1], plot, on).phases


@MADE
def test_an_emulated_pc_is_made_for_it(kind: Platform) -> None:
    file = study(kind, "emulated")
    design = make(file.study(), 1)
    (plot,) = design.plots
    block = {trial.platform: trial for trial in design.block(plot, design.cells[0], 0, 0)}
    places = [TrialSlot(variant, block[variant.platform], {}) for variant in plot.variants]
    on = planner.MachineResources((0,), "tcg", {}, {})
    (batch,) = (
        batch
        for batch in (make_batch(file, plot, 0, 1, part, on) for part in parts(places))
        if any(place.variant.kind is kind for place in batch.places)
    )
    assert batch.kind is kind.pc and batch.pc.profile == kind.pc.profile
    _is_there(kind, plot.variants[-1].node, batch.bench)


def _is_there(kind: Platform, name: str, bench: plan.Bench) -> None:
    (node,) = (node for node in bench.nodes if node.name == name)
    assert type(node.kind) is type(kind.node(INPUTS))
