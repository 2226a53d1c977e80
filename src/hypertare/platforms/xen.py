"""`xen`: a PV guest of Xen, whose packets the driver domain moves."""

from __future__ import annotations

from hypertare.platforms.platform import PcClass, Platform
from hypertare.protocol import plan
from hypertare.protocol.constants import LEAST_DOMAIN_MEMORY, MODULES_PARAMETER

_ARGUMENTS = (
    # Under PV each change of a page's protection is a hypercall: without it a boot takes seconds less.
    *("quiet", "rodata=off", "cryptomgr.notests", "panic=-1", "random.trust_cpu=off"),
    f"{MODULES_PARAMETER}xen_netfront",
)

XEN_HOST = PcClass(
    "xen",
    "xen",
    boot_s=9.0,
    guest_boot_s=8.0,
    has_guests=True,
    # An allowance for Xen itself and its tables; not measured. Up to 8 guests boot with it.
    own_memory=96 << 20,
    # An allowance a guest: page tables, grant tables, its console; not measured.
    guest_overhead=4 << 20,
    has_driver_domain=True,
)


XEN = Platform(
    name="xen",
    has_own_kernel=True,
    image="domain",
    least_memory=LEAST_DOMAIN_MEMORY,
    least_memory_of="a guest of Xen",
    hypervisor_settings=frozenset(
        {"scheduler", "driver_memory", "driver_cpus", "guest_cpus", "pinning", "tsc"}
    ),
    under_hypervisor=True,
    weighted_by="hypervisor",
    sees_host_files=False,
    packets_moved_by_host=True,
    nic="paravirtual",
    has_guests_as_peers=True,
    has_disk_of_file=False,
    pc=XEN_HOST,
    settings_typed_at="guest",
    kernel_typed_at="guest",
    caveat_of_baseline=(
        "native is this host's driver domain, which runs under Xen itself: what Xen takes from "
        "that is in no cost (machine = 'emulated' has a baseline without Xen)"
    ),
    node=lambda inputs: plan.Domain(
        cpus=inputs.cpus,
        memory=inputs.memory,
        kernel=inputs.kernel,
        initramfs=inputs.initramfs,
        kernel_args=(*_ARGUMENTS, *inputs.settings.kernel_args),
        boot_limit_s=inputs.boot_limit_s,
        tsc=inputs.tsc,
    ),
)
