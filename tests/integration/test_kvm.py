"""What an emulated machine that is a KVM host refuses (what it gives: `test_paging.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from hypertare.base import paths
from hypertare.design.pc import Pc
from hypertare.design.profiles import GUEST_INITRAMFS, GUEST_KERNEL
from hypertare.machines.batch import Batch
from hypertare.machines.emulated import EmulatedMachine, Output
from hypertare.machines.executor import Threads
from hypertare.machines.image import emulator
from hypertare.machines.image.build import build
from hypertare.machines.image.cache import Cache
from hypertare.platforms.guest import INNER_CPU, KVM_HOST
from hypertare.protocol import plan
from hypertare.protocol.records import BenchReady

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]


def guest(name: str, paging: plan.Paging, pages: Literal["4K", "2M"], memory: int) -> plan.Node:
    kind = plan.Guest(
        cpus=1,
        memory=memory,
        accelerator="kvm",
        kernel=Path("/") / GUEST_KERNEL,
        initramfs=(Path("/") / GUEST_INITRAMFS,),
        boot_limit_s=60,
        settings=plan.GuestSettings(cpu_model=INNER_CPU, paging=paging, pages=pages),
    )
    return plan.Node(name=name, kind=kind)


def batch(nodes: tuple[plan.Node, ...], cpu_model: str | None = None) -> Batch:
    """One that only makes a bench, on a PC of little memory."""
    bench = plan.Bench(name="b", nodes=nodes)
    machine = Pc(
        *("virtual", 3, 1, 768 << 20, 1, "debian", 120, 200.0),
        cpu_model=cpu_model,
        profile=KVM_HOST.profile,
        modules=KVM_HOST.modules,
    )
    return Batch(0, machine, bench, (), ())


def said(output: Output) -> str:
    (ready,) = [one for one in output.records if isinstance(one, BenchReady)]
    return ready.error or ""


@pytest.mark.timeout(900)
def test_what_a_kvm_host_cannot_give_is_said(tmp_path: Path) -> None:
    """A processor without nested paging, too few huge pages, and a module in use."""
    images = {("debian", KVM_HOST.profile): build("debian", KVM_HOST.profile)}
    machine = EmulatedMachine(
        paths.agent_binary(),
        images,
        executor=Threads(3),
        cache=Cache(tmp_path / "cache"),
        emulator=emulator.build(),
    )
    mixed = (guest("one", "nested", "4K", 128 << 20), guest("two", "shadow", "4K", 128 << 20))
    with machine:
        unnested, short, in_use = machine.run(
            [
                batch((guest("one", "nested", "4K", 128 << 20),), cpu_model="max,-npt"),
                batch((guest("one", "nested", "2M", 600 << 20),)),
                batch(mixed),
            ]
        )
    assert "no nested paging (NPT)" in said(unnested), unnested
    assert "300 huge pages of 2 MB are needed" in said(short), short
    assert "are free and no more could be had" in said(short), short
    assert "cannot be loaded anew, for it is in use" in said(in_use), in_use
