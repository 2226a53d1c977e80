"""From a change of a study's settings to what a user types. Nothing here is run.

Knobs have their commands themselves; here are those of what a hypervisor gives, of the bench, and of
applications.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

from hypertare.base.level import Level
from hypertare.base.words import level_text
from hypertare.findings.tuning import Step
from hypertare.knobs.registry import KINDS
from hypertare.platforms.commands import (
    OLD,
    Entry,
    KnobChange,
    Maker,
    System,
    at_boot,
    edited,
    in_bytes,
    into,
    one_line,
    quoted,
    slug,
    sysctls,
)
from hypertare.platforms.guest_settings import COMMANDS as GUEST_COMMANDS
from hypertare.tune.space import LEFT


def steps(
    setting: Mapping[str, Level], default: Mapping[str, Level], system: System
) -> tuple[Step, ...]:
    """How to apply each change of a setting against the default, and how to take it back."""
    return tuple(
        step(path, level, default.get(path, LEFT), system)
        for path, level in setting.items()
        if level != default.get(path, LEFT)
    )


def step(path: str, level: Level, default: Level, system: System) -> Step:
    """How to set one knob. One that the table does not know is named in the study's words."""
    if level == LEFT:
        note = f"Leave it as the system has it: no longer {one_line(level_text(default))}."
        return Step(knob=path, level=level, where="study", note=note)
    old = OLD if default == LEFT else one_line(level_text(default))
    change = KnobChange(path, one_line(level_text(level)), old, system)
    maker = next((make for pattern, make in _TABLE.items() if _fits(pattern, path)), _unknown)
    entry = maker(change)
    where = entry.where or system.name
    return Step(knob=path, level=level, **{**vars(entry), "where": where})


def _fits(pattern: str, path: str) -> bool:
    names, parts = pattern.split("."), path.split(".")
    return len(names) == len(parts) and all(
        name in ("*", part) for name, part in zip(names, parts, strict=True)
    )


def _unknown(change: KnobChange) -> Entry:
    return Entry(
        "study",
        note=f"There is no command for it: in the study, {change.path} = {change.new} "
        f"(was {change.was}).",
    )


# --- what a hypervisor gives


def _by_hypervisor(virtual: Maker, otherwise: str) -> Maker:
    """Returns a maker of commands for systems with a hypervisor, and of the note `otherwise` for others."""

    def entry(change: KnobChange) -> Entry:
        if change.system.virtual:
            return virtual(change)
        return Entry(change.system.name, note=otherwise.format(level=change.new, old=change.was))

    return entry


def _vcpus(change: KnobChange) -> Entry:
    apply, undo = change.each(
        lambda v: (
            f"virsh setvcpus DOMAIN {shlex.quote(v)} --config --maximum && "
            f"virsh setvcpus DOMAIN {shlex.quote(v)} --config"
        )
    )
    return Entry(
        "host",
        ("virsh vcpucount DOMAIN",),
        (apply,),
        (),
        (undo,),
        f"<vcpu>{int(change.new)}</vcpu>",
        f"QEMU alone: -smp {change.new}. From the guest's next start; it stays.",
    )


def _memory(change: KnobChange) -> Entry:
    sizes = change.shown(in_bytes)
    apply, undo = sizes.each(
        lambda v: f"virsh setmaxmem DOMAIN {v}B --config && virsh setmem DOMAIN {v}B --config"
    )
    return Entry(
        "host",
        ("virsh dominfo DOMAIN",),
        (apply,),
        (),
        (undo,),
        f"<memory unit='b'>{sizes.new}</memory>",
        f"QEMU alone: -m size={sizes.new}B. From the guest's next start; it stays.",
    )


_XL_TSC = {"native": "native", "emulate": "always_emulate", "default": "default"}


def _tsc(change: KnobChange) -> Entry:
    """In the words of xl.cfg(5)."""
    new, was = (_XL_TSC.get(mode, mode) for mode in (change.new, change.was))
    return Entry(
        "host",
        ("xl list -l DOMAIN",),
        note=f"In the guest's xl.cfg(5): tsc_mode = {quoted(new)} (was {was}). From its next start.",
    )


def _nic_xml(nic: str) -> str:
    model = "virtio" if nic == "virtio-net" else nic
    return f"<interface> <model type={quoted(model)}/> </interface>"


def _nic_option(nic: str) -> str:
    device = "virtio-net-pci" if nic == "virtio-net" else nic
    return f"-device {shlex.quote(device)},netdev=... in place of the present one"


# --- bench and applications


def _bench_mtu(change: KnobChange) -> Entry:
    apply, undo = change.each(
        lambda value: f"for i in BRIDGE TAP; do ip link set dev $i mtu {shlex.quote(value)}; done"
    )
    keep, forget = at_boot(change.path, apply)
    return Entry(
        "host",
        ("ip link show",),
        (apply,),
        keep,
        (undo, *forget),
        f"<interface> <mtu size={quoted(change.new)}/> </interface>",
        f"At both ends too: ip link set dev IFACE mtu {change.new}.",
    )


def _asked_buffer(change: KnobChange) -> Entry:
    """Of one application: it asks, and the limits allow."""
    sizes = change.shown(in_bytes)
    limits = ("net.core.rmem_max", "net.core.wmem_max")
    entry = sysctls(limits)(replace(sizes, old=OLD))
    old = "leave them out again" if change.old == OLD else f"{sizes.old} bytes again"
    return replace(
        entry,
        # A larger limit is for others: it is never lowered.
        apply=tuple(
            f"[ $(sysctl -n {name}) -ge {sizes.new} ] || sysctl -w {name}={sizes.new}"
            for name in limits
        ),
        note=f"The application asks for it: setsockopt SO_RCVBUF and SO_SNDBUF of {sizes.new} bytes "
        f"(iperf3 -w {sizes.new}); to undo, {old}. The limits must be at least as large: keep and undo "
        "them only where they had to be raised.",
    )


def _program_on_cpus(change: KnobChange) -> Entry:
    """Which CPUs a program may use; where its packets come in is the NIC's."""
    apply, undo = change.each(lambda cpus: f"taskset -acp {shlex.quote(cpus)} $(pidof PROGRAM)")
    file = f"/etc/systemd/system/SERVICE.service.d/{slug(change.path)}.conf"
    return Entry(
        None,
        ("taskset -acp $(pidof PROGRAM)",),
        (apply,),
        (into(file, "[Service]", f"CPUAffinity={change.new}"), "systemctl daemon-reload"),
        (undo, f"rm -f {file}", "systemctl daemon-reload"),
        note="Which CPU takes the NIC's interrupts counts as well: grep IFACE /proc/interrupts shows it, "
        "ethtool -l IFACE how many queues there are to spread; irqbalance moves them, so stop it "
        "(systemctl stop irqbalance) before binding them.",
    )


def _application(what: str) -> Maker:
    return lambda change: Entry("application", note=f"{what}: {change.new} (was {change.was}).")


_TABLE: dict[str, Maker] = {
    **{
        ".".join(("knobs", kind.name, *key.split())): maker
        for kind in KINDS
        for key, maker in kind.commands.items()
    },
    "sut.cpus": _by_hypervisor(
        _vcpus,
        "Bind it to {level} CPUs (was {old}): a program with taskset -c, a service with AllowedCPUs= "
        "(systemd.resource-control(5)), a container with --cpuset-cpus (docker, podman).",
    ),
    "sut.memory": _by_hypervisor(
        _memory,
        "Limit it to {level} (was {old}): a service with MemoryMax=, a container with --memory; native "
        "programs have no limit.",
    ),
    "sut.nic": _by_hypervisor(
        edited(_nic_xml, _nic_option, "the model of its interface"), "There is no NIC to change."
    ),
    **{
        f"sut.{key}": _by_hypervisor(maker, f"There is no guest with sut.{key}.")
        for key, maker in GUEST_COMMANDS.items()
    },
    "sut.tsc": _by_hypervisor(
        _tsc, "There is no guest of Xen whose counter could be read otherwise."
    ),
    "sut.accelerator": _by_hypervisor(
        edited(
            lambda name: f"<domain type={quoted('kvm' if name == 'kvm' else 'qemu')}>",
            lambda name: f"-accel {shlex.quote(name)}",
            "its type",
        ),
        "There is no accelerator to choose.",
    ),
    "sut.kernel": _by_hypervisor(
        lambda change: Entry(
            "guest", note=f"Boot it with the kernel {change.new} (was {change.was})."
        ),
        "Boot with the kernel {level} (was {old}).",
    ),
    "bench.mtu": _bench_mtu,
    "workloads.*.socket_buffer": _asked_buffer,
    "workloads.*.receiver_cpus": _program_on_cpus,
    "workloads.*.sender_cpus": _program_on_cpus,
    "workloads.*.message": _application("What the application writes or sends in one call"),
    "workloads.*.batch": _application("Datagrams that the application hands over in one call"),
    "workloads.*.flows": _application("Connections at once"),
    "workloads.*.segmentation": _application("UDP_SEGMENT in the application's socket (udp(7))"),
    "workloads.*.nodelay": _application("TCP_NODELAY in the application's socket (tcp(7))"),
    "workloads.*.threads": _application("Threads at once"),
}
"""What is known of each knob, by path; `*` stands for one name."""
