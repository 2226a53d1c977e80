"""`guest`: a virtual machine of QEMU's, by KVM or TCG."""

from __future__ import annotations

from hypertare.platforms.guest_settings import OF_HYPERVISOR, ON_ONE_BENCH
from hypertare.platforms.platform import NodeInputs, PcClass, Platform
from hypertare.protocol import plan
from hypertare.protocol.constants import SEED_PARAMETER

INNER_CPU = "host,-kvm-poll-control"
"""The emulated processor's. A guest that polls before it halts would take its host's only CPU."""

_ONE_BUS = "pci=noearly,lastbus=0"
"""A kernel looks for cards on 256 buses, three times, and each look is an exit: under an emulated
hypervisor a fifth of the virtual time of a guest's boot. All that a guest here has is on the first bus.
Source: the kernel's Documentation/admin-guide/kernel-parameters.txt.
"""

UNMENDED = ",-kvm-pv-eoi"
"""Further, where the distribution's QEMU emulates SVM: it gives a guest an interrupt twice when its
host's timer runs out before the guest leaves for the first time, which is when it ends the interrupt.
With the paravirtual EOI it does not leave for that, and most guests then wait for ever for a lock that
they hold (emulator/02-svm-vmrun.patch).
"""

KVM_HOST = PcClass(
    "kvm",
    "kvm",
    boot_s=10.0,
    guest_boot_s=8.0,
    has_guests=True,
    modules=("bridge", "tun"),
    own_memory=640 << 20,  # its image is there twice while it is unpacked
    guest_overhead=96 << 20,  # QEMU's
    unpacks_programs=True,
    kernel_args=("rodata=off",),  # else a sixth of its boot is a check of all its page tables
)


def _node(inputs: NodeInputs) -> plan.NodeKind:
    """A guest of an emulated machine has that as its KVM host."""
    accelerator, settings = inputs.accelerator, inputs.settings
    if inputs.inner_seed is not None:
        accelerator = "kvm"
        of_chance = ("random.trust_cpu=off", f"{SEED_PARAMETER}{inputs.inner_seed}")
        settings = settings.model_copy(
            update={
                "cpu_model": INNER_CPU + ("" if inputs.injects_once else UNMENDED),
                "kernel_args": (_ONE_BUS, *of_chance, *settings.kernel_args),
            }
        )
    return plan.Guest(
        cpus=inputs.cpus,
        memory=inputs.memory,
        accelerator=accelerator,
        kernel=inputs.kernel,
        initramfs=inputs.initramfs,
        boot_limit_s=inputs.boot_limit_s,
        settings=settings,
        shared_memory=inputs.shared_memory,
    )


GUEST = Platform(
    name="guest",
    has_own_kernel=True,
    image="guest",
    own_settings=ON_ONE_BENCH | {"nic", "kernel", "accelerator"},
    hypervisor_settings=OF_HYPERVISOR | {"guest_cpus", "datapath_apart"},
    uses_accelerator=True,
    is_counted_by_kvm=True,
    weighted_by="cgroups",
    is_backed_by_host=True,
    translates_twice=True,
    packets_moved_by_host=True,
    shares_memory=True,
    nic="modelled",
    pc=KVM_HOST,
    settings_typed_at="guest",
    kernel_typed_at="guest",
    unlike_by_datapath={
        "qemu": "guests' packets go through QEMU's process (sut.datapath): under libvirt, Proxmox or "
        "OpenStack the host's kernel moves those of virtio-net (vhost-net), which costs less"
    },
    node=_node,
)
