"""From a change of a study's settings to what a user types. Nothing here is run.

Knobs have their commands themselves; here are those of what a hypervisor gives, of the bench, and of
applications.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace

from hypertare.base.level import Level
from hypertare.base.words import level_text
from hypertare.findings.tuning import Step
from hypertare.knobs.commands import (
    OLD,
    Change,
    Entry,
    Maker,
    System,
    at_boot,
    in_bytes,
    of_memory,
    one_line,
    quoted,
    sysctls,
)
from hypertare.knobs.registry import KINDS
from hypertare.study import OUR_DATAPATHS
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
    change = Change(path, one_line(level_text(level)), old, system)
    maker = next((make for pattern, make in _TABLE.items() if _fits(pattern, path)), _unknown)
    entry = maker(change)
    return Step(
        knob=path,
        level=level,
        where=entry.where or system.name,
        look_first=entry.look_first,
        apply=entry.apply,
        persist=entry.persist,
        undo=entry.undo,
        xml=entry.xml,
        note=entry.note,
    )


def _fits(pattern: str, path: str) -> bool:
    names, parts = pattern.split("."), path.split(".")
    return len(names) == len(parts) and all(
        name in ("*", part) for name, part in zip(names, parts, strict=True)
    )


def _unknown(change: Change) -> Entry:
    return Entry(
        "study",
        note=f"There is no command for it: in the study, {change.path} = {change.new} "
        f"(was {change.was}).",
    )


# --- what a hypervisor gives


def _by_hypervisor(virtual: Maker, otherwise: str) -> Maker:
    """`otherwise`: what to do where there is none."""

    def entry(change: Change) -> Entry:
        if change.system.virtual:
            return virtual(change)
        return Entry(change.system.name, note=otherwise.format(level=change.new, old=change.was))

    return entry


def _vcpus(change: Change) -> Entry:
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


def _memory(change: Change) -> Entry:
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


def _edited(xml: Callable[[str], str], qemu: Callable[[str], str], what: str) -> Maker:
    """What virsh has no verb for: an element to be changed by hand."""

    def entry(change: Change) -> Entry:
        was = "what it was" if change.old == OLD else xml(change.old)
        return Entry(
            "host",
            ("virsh dumpxml DOMAIN",),
            (f"virsh edit DOMAIN  # {what}: as below",),
            (),
            (f"virsh edit DOMAIN  # {what}: {was}",),
            xml(change.new),
            f"QEMU alone: {qemu(change.new)}. From the guest's next start; it stays.",
        )

    return entry


def _nic_xml(nic: str) -> str:
    model = "virtio" if nic == "virtio-net" else nic
    return f"<interface> <model type={quoted(model)}/> </interface>"


def _nic_option(nic: str) -> str:
    device = "virtio-net-pci" if nic == "virtio-net" else nic
    return f"-device {shlex.quote(device)},netdev=... in place of the present one"


def _model_xml(model: str) -> str:
    return f"<cpu mode='custom'> <model>{quoted(model)[1:-1]}</model> </cpu>"


def _pages(change: Change) -> Entry:
    """Pages of the pool are libvirt's word; transparent ones are a setting of the host."""
    if change.new == "2M":
        return _edited(_huge_pages_xml, _huge_pages_option, "its memory")(change)
    # QEMU advises huge pages for a guest's memory, which `madvise` follows and `never` forbids.
    wanted = "never" if change.new == "4K" else "madvise"
    made = of_memory("transparent_hugepage/enabled", "host")
    return replace(
        made(replace(change, new=wanted, old=OLD)),
        note="For every program of the host, and for memory that a guest uses from then on: start it anew.",
    )


def _huge_pages_xml(pages: str) -> str:
    page = f"<page size={quoted(pages[:-1])} unit='M'/>"
    return f"<memoryBacking> <hugepages> {page} </hugepages> </memoryBacking>"


def _huge_pages_option(pages: str) -> str:
    return (
        f"-object memory-backend-memfd,id=ram,size=...,hugetlb=on,hugetlbsize={pages} -machine "
        "memory-backend=ram, and as many in the host's vm.nr_hugepages as it has memory"
    )


# --- what moves a guest's packets

_SOCKET = "/run/hypertare-DOMAIN.sock"
_SHARED = "<memoryBacking> <source type='memfd'/> <access mode='shared'/> </memoryBacking>"
_BACK_END = (
    "It needs a back end that listens there and has the host's network: Open vSwitch with DPDK, VPP, or "
    "another; hypertare's is for experiments. And the guest's memory shared with it: "
)
_OWN_CPU = (
    " A back end that polls wants a CPU that nobody else has (Open vSwitch: other_config:pmd-cpu-mask; "
    "<vcpupin> for the guest's)."
)


def _datapath(change: Change) -> Entry:
    """By libvirt's words; two of them have a back end that is somebody else's."""
    shared = change.new in OUR_DATAPATHS
    more = f" {_BACK_END}{_SHARED}." if shared else ""
    more += _OWN_CPU if change.new == "sidecore" else ""
    return _of_card(change, _datapath_xml, _datapath_option, "who moves its packets", more)


def _datapath_xml(datapath: str) -> str:
    if datapath in OUR_DATAPATHS:
        return (
            f"<interface type='vhostuser'> <source type='unix' path={quoted(_SOCKET)} mode='client'/> "
            "<model type='virtio'/> </interface>"
        )
    if datapath == "auto":
        return "<interface> <model type='virtio'/> </interface>"
    return f"<interface> <model type='virtio'/> <driver name={quoted(datapath)}/> </interface>"


def _datapath_option(datapath: str) -> str:
    if datapath in OUR_DATAPATHS:
        return (
            f"-chardev socket,id=way0,path={_SOCKET} -netdev vhost-user,id=...,chardev=way0 and "
            "-object memory-backend-memfd,id=ram,size=...,share=on -machine memory-backend=ram"
        )
    # What libvirt takes by itself.
    return f"-netdev tap,id=...,vhost={'off' if datapath == 'qemu' else 'on'}"


def _queues(change: Change) -> Entry:
    return _of_card(
        change,
        lambda queues: (
            f"<interface> <model type='virtio'/> <driver queues={quoted(queues)}/> </interface>"
        ),
        lambda queues: (
            f"-netdev tap,id=...,queues={queues} -device virtio-net-pci,netdev=...,mq=on,"
            f"vectors={2 * int(queues) + 2}"
        ),
        "its queues",
        " It uses one by each of its CPUs: `ethtool -l IFACE` in it says how many.",
    )


def _poll_us(change: Change) -> Entry:
    """libvirt's domain XML has no word for it."""
    was = "leave poll-us out again" if change.old == OLD else f"poll-us={change.old} again"
    return Entry(
        "host",
        ("virsh dumpxml DOMAIN", "ps -o args -C qemu-system-x86_64"),
        note=f"QEMU alone: -netdev tap,id=...,vhost=on,poll-us={change.new}; to undo, {was}. From the "
        "guest's next start. libvirt has no word for it: where libvirt starts QEMU this cannot be set.",
    )


def _of_card(
    change: Change, xml: Callable[[str], str], qemu: Callable[[str], str], what: str, more: str
) -> Entry:
    entry = _edited(xml, qemu, what)(change)
    return replace(entry, note=f"{entry.note}{more}")


def _of_guests(virtual: Maker) -> Maker:
    return _by_hypervisor(virtual, "There is no guest whose packets somebody moves.")


# --- bench and applications


def _bench_mtu(change: Change) -> Entry:
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


def _asked_buffer(change: Change) -> Entry:
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
        _edited(_nic_xml, _nic_option, "the model of its interface"), "There is no NIC to change."
    ),
    "sut.datapath": _of_guests(_datapath),
    "sut.pages": _by_hypervisor(_pages, "There is no guest whose memory has pages of its own."),
    "sut.queues": _of_guests(_queues),
    "sut.poll_us": _of_guests(_poll_us),
    "sut.cpu_model": _by_hypervisor(
        _edited(_model_xml, lambda model: f"-cpu {shlex.quote(model)}", "its CPU"),
        "There is no CPU model to change.",
    ),
    "sut.accelerator": _by_hypervisor(
        _edited(
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
    "workloads.*.message": _application("What the application writes or sends in one call"),
    "workloads.*.batch": _application("Datagrams that the application hands over in one call"),
    "workloads.*.flows": _application("Connections at once"),
    "workloads.*.segmentation": _application("UDP_SEGMENT in the application's socket (udp(7))"),
    "workloads.*.nodelay": _application("TCP_NODELAY in the application's socket (tcp(7))"),
    "workloads.*.threads": _application("Threads at once"),
}
"""What is known of each knob, by path; `*` stands for one name."""
