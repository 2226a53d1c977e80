"""The nodes of a variant on this machine: their kinds, CPUs, disks and datapaths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hypertare.design.design import Variant, WholePlot
from hypertare.design.planner.machine_resources import MachineResources, peer_cpus, sut_cpus
from hypertare.design.profiles import GUEST_INITRAMFS, GUEST_KERNEL
from hypertare.platforms.guest_settings import BESIDE_GUESTS, WITH_DATAPATH
from hypertare.platforms.platform import NodeInputs, PcClass, Platform
from hypertare.platforms.registry import has_own
from hypertare.protocol import plan
from hypertare.study import Study

OF_DATAPATH = "sut.datapath"


def cpus_of(
    variant: Variant, study: Study, under: PcClass | None, on: MachineResources
) -> tuple[int, ...]:
    """The CPUs that a system under test is bound to."""
    if not variant.kind.is_made:
        return ()
    if on.datapath_cpu is not None:
        return sut_cpus(cpus_under_test(study, under), on)
    if under is not None or (variant.kind.under_hypervisor and not variant.kind.is_host):
        # A scheduler below its kernel places it, that of the hypervisor or of the emulated machine; and the
        # driver domain sees its own CPUs alone.
        return () if variant.kind.is_host else cpus_beside_driver(study, under)
    return sut_cpus(study.sut.cpus, on)


def cpus_under_test(study: Study, under: PcClass | None) -> int:
    """How many CPUs of the machine a system under test has for itself: on a host of guests, the guest's."""
    return study.sut.cpus if under is None else study.sut.virtual_cpus(has_driver=False)


def datapath_cpu(
    plot: WholePlot, cells: Mapping[str, Study], study: Study, on: MachineResources
) -> int | None:
    """Returns the CPU of the process that moves the packets of the bench's guests.

    The guests have the last CPUs of the machine, this process the CPU before them, and the peers all CPUs
    before that. Returns None if the bench needs no such CPU or the machine has too few.
    """
    paths = [datapath_of(cells[v.node], on) for v in plot.variants if has_own(v.kind, OF_DATAPATH)]
    if "sidecore" not in paths and not (paths and study.sut.datapath_apart):
        return None
    spare = on.cpus[: -cpus_under_test(study, host_of_guests(study, plot))]
    return spare[-1] if len(spare) >= BESIDE_GUESTS else None


def cpus_beside_driver(study: Study, under: PcClass | None) -> tuple[int, ...]:
    """Returns the CPUs of guests, if the driver domain has CPUs for itself; else nothing."""
    apart = under is not None and under.has_driver_domain and study.sut.pinning == "apart"
    return study.sut.cpus_beside_driver if apart else ()


def host_of_guests(study: Study, plot: WholePlot) -> PcClass | None:
    """Returns the class of an emulated machine that has guests; None for any other machine."""
    kinds = {variant.kind.pc for variant in plot.variants if study.machine_kind.boots_whole_pcs}
    return next((kind for kind in kinds if kind.has_guests), None)


def kind_of(platform: Platform, study: Study, on: MachineResources) -> plan.NodeKind:
    """What a node of a platform is in a plan."""
    return platform.node(
        NodeInputs(
            cpus=study.sut.virtual_cpus(has_driver=platform.pc.has_driver_domain),
            memory=study.sut.memory,
            boot_limit_s=boot_limit_s(study),
            accelerator=accelerator_of(study, on),
            boots_from=_boots_from(platform, study, on),
            settings=study.sut.in_plan(datapath_of(study, on)),
            reach=machine.words if (machine := study.given_machine) else (),
            may_be_set=machine is not None and machine.settings,
            outside=on.processes_of_given.get(machine.outside or "") if machine else None,
            shared_memory=study.shared_memory,
            inner_seed=on.chance.seed if study.machine_kind.draws_chance else None,
            injects_once=on.emulator is not None,
            tsc=study.sut.tsc,
        )
    )


def disk_of(study: Study, variant: Variant) -> plan.Disk | None:
    """Returns the disk of a system under test, or None if no workload needs one.

    The baseline does the work of all guests, so its disk has room for each of them.
    """
    if not study.disk_bytes:
        return None
    parts = variant.guests if variant.kind.is_host else 1
    return plan.Disk(
        bytes=parts * study.disk_bytes,
        directory=study.sut.disk_directory,
        is_file=study.shares_files,
        latency_ns=round(study.sut.disk_latency * 1e9),
    )


def accelerator_of(study: Study, on: MachineResources) -> plan.Accelerator:
    """What runs guests of this host."""
    return on.accelerator if study.sut.accelerator == "auto" else study.sut.accelerator


def datapath_of(study: Study, on: MachineResources) -> plan.Datapath:
    """Returns the datapath of a guest's virtio-net card.

    With `auto` it is the one that libvirt takes: vhost for guests under KVM if this host has it, else QEMU.
    On an emulated machine `auto` is QEMU, so that figures stay comparable with earlier ones.
    """
    asked = study.sut.datapath
    if asked != "auto":
        return asked
    can = on.has_vhost and study.machine_kind.is_sandboxed
    is_usual = accelerator_of(study, on) == "kvm" and study.sut.nic == WITH_DATAPATH
    return "vhost" if can and is_usual else "qemu"


def _boots_from(platform: Platform, study: Study, on: MachineResources) -> tuple[Path, Path] | None:
    """Returns the kernel and initramfs from which a platform's nodes boot; None if the platform has no
    image.

    An emulated machine has its guests' files in its own initramfs.
    """
    if platform.image is None:
        return None
    if study.machine_kind.boots_whole_pcs:
        return Path("/") / GUEST_KERNEL, Path("/") / GUEST_INITRAMFS
    image = on.images[study.sut.kernel, platform.image]
    return image.kernel, image.initramfs


def peer_kind(study: Study, under: PcClass | None, on: MachineResources) -> plan.NodeKind:
    """Returns the kind of the peers' nodes: containers, or guests like the system under test."""
    if not are_guests(study, under):
        return plan.Container()
    platform = next(platform for platform in study.platforms if platform.has_guests_as_peers)
    return kind_of(platform, study, on)


def cpus_of_peer(study: Study, under: PcClass | None, on: MachineResources) -> tuple[int, ...]:
    """Returns the CPUs of a peer: those that the system under test leaves, or those of all guests for a
    guest.
    """
    if under is None or on.datapath_cpu is not None:
        return peer_cpus(cpus_under_test(study, under), on)
    return cpus_beside_driver(study, under) if are_guests(study, under) else ()


def are_guests(study: Study, under: PcClass | None) -> bool:
    """Whether peers are guests of the PC, as what is under test is."""
    return under is not None and study.bench.peers_are_guests


def boot_limit_s(study: Study) -> float:
    """Returns the most seconds that a boot may take; guests boot at the same time and share CPUs."""
    guests = study.bench_guests * (2 if study.bench.peers_are_guests else 1)
    return study.sut.boot_limit * guests
