"""What a variant's nodes are on this machine."""

from __future__ import annotations

from pathlib import Path

from hypertare.design.design import Plot, Variant
from hypertare.design.pc import PcClass, class_of
from hypertare.design.planner.surroundings import Chance, Surroundings
from hypertare.design.profiles import DEFAULT_PROFILE, DOMAIN, GUEST_INITRAMFS, GUEST_KERNEL
from hypertare.protocol import plan
from hypertare.protocol.constants import MODULES_PARAMETER, SEED_PARAMETER
from hypertare.study import Study


def is_placed_by_others(variant: Variant, under: PcClass | None) -> bool:
    """Under a hypervisor its scheduler, or that of the emulated machine, says what runs where: the CPUs
    that a driver domain sees are not the machine's.
    """
    return under is not None or variant.platform == "xen"


def host_of_guests(plot: Plot, on: Surroundings) -> PcClass | None:
    """What an emulated machine is that has guests, so that its host moves their packets."""
    kinds = {class_of(variant.platform) for variant in plot.variants}
    return next((kind for kind in kinds if kind.has_guests and on.chance), None)


_DOMAIN_ARGUMENTS = (
    # Under PV each change of a page's protection is a hypercall: without it a boot takes seconds less.
    *("quiet", "rodata=off", "cryptomgr.notests", "panic=-1", "random.trust_cpu=off"),
    f"{MODULES_PARAMETER}xen_netfront",
)


def kind_of(variant: Variant, study: Study, on: Surroundings) -> plan.NodeKind:
    if variant.platform == "native":
        return plan.Host()
    if variant.platform == "container":
        return plan.Container(memory=study.sut.memory)
    if variant.platform == "xen":
        return domain(study, on)
    if on.chance:
        return _inner_guest(study, on.chance)
    image = on.images[study.sut.kernel, DEFAULT_PROFILE]
    accelerator = on.accelerator if study.sut.accelerator == "auto" else study.sut.accelerator
    return plan.Guest(
        cpus=study.sut.cpus,
        memory=study.sut.memory,
        accelerator=accelerator,
        kernel=image.kernel,
        initramfs=(image.initramfs,),
        cpu_model=study.sut.cpu_model,
        kernel_args=study.sut.kernel_args,
        boot_limit_s=boot_limit_s(study),
        paging=study.sut.paging,
        pages=study.sut.pages,
    )


INNER_CPU = "host,-kvm-pv-eoi,-kvm-poll-control"
"""The emulated processor's. TCG's SVM gives a guest an interrupt twice when its host's timer runs out
before the guest leaves for the first time, which is when it ends the interrupt; with the paravirtual
EOI it does not leave for that, and most guests then wait for ever for a lock that they hold
(docs/virtual-time.md). A guest that polls before it halts would take its host's only CPU.
"""


def _inner_guest(study: Study, chance: Chance) -> plan.Guest:
    """A guest of an emulated machine, which is its KVM host."""
    return plan.Guest(
        cpus=study.sut.cpus,
        memory=study.sut.memory,
        accelerator="kvm",
        kernel=Path("/") / GUEST_KERNEL,
        initramfs=(Path("/") / GUEST_INITRAMFS,),
        cpu_model=INNER_CPU,
        kernel_args=(
            "random.trust_cpu=off",
            f"{SEED_PARAMETER}{chance.seed}",
            *study.sut.kernel_args,
        ),
        boot_limit_s=boot_limit_s(study),
        paging=study.sut.paging,
        pages=study.sut.pages,
    )


def boot_limit_s(study: Study) -> float:
    """Guests boot at the same time, on CPUs that they share."""
    guests = study.bench_guests * (2 if study.bench.peers == "guest" else 1)
    return study.sut.boot_limit * guests


def domain(study: Study, on: Surroundings) -> plan.Domain:
    """An emulated machine has what its guests boot from in its own initramfs."""
    kernel, initramfs = Path("/") / GUEST_KERNEL, Path("/") / GUEST_INITRAMFS
    if on.chance is None:
        image = on.images[study.sut.kernel, DOMAIN.name]
        kernel, initramfs = image.kernel, image.initramfs
    return plan.Domain(
        cpus=study.sut.cpus,
        memory=study.sut.memory,
        kernel=kernel,
        initramfs=(initramfs,),
        kernel_args=(*_DOMAIN_ARGUMENTS, *study.sut.kernel_args),
        boot_limit_s=boot_limit_s(study),
    )
