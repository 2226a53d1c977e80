"""From a knob to what a user types: the one table of commands. Nothing here is run.

Each entry says how to look first, apply, keep over a reboot, and undo. `{level}` is the level,
`{undo}` the default, or `OLD` (what was seen when looking first) where the default is the system's.
Interfaces are written IFACE, guests' names DOMAIN, applications in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from hypertare.summary import Level
from hypertare.tune.document import Step
from hypertare.tune.space import LEFT
from hypertare.units import parse_size

Where = Literal["host", "guest", "application", "study"]


@dataclass(frozen=True)
class Entry:
    where: Where
    look_first: tuple[str, ...] = ()
    apply: tuple[str, ...] = ()
    persist: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    xml: str | None = None
    note: str | None = None
    show: Callable[[Level], str] = str


_SIZES = (
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
)
_LIMITS = ("net.core.rmem_max", "net.core.wmem_max")
_SYSCTL_FILE = "/etc/sysctl.d/90-hypertare.conf"


def _bytes(level: Level) -> str:
    return str(parse_size(level))


def _on(level: Level) -> str:
    return "on" if level is True or level == "on" else "off"


def _sysctl(names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {
        "look_first": tuple(f"sysctl {name}" for name in names),
        "apply": tuple(f"sysctl -w {name}={{level}}" for name in names),
        "persist": tuple(f"echo '{name} = {{level}}' >> {_SYSCTL_FILE}" for name in names),
        "undo": (
            *(f"sysctl -w {name}={{undo}}" for name in names),
            f"rm -f {_SYSCTL_FILE}",
        ),
    }


def _application(what: str) -> Entry:
    return Entry("application", note=f"{what}: {{level}} (was {{undo}})")


_TABLE: dict[str, Entry] = {
    "knobs.mtu": Entry(
        "guest",
        ("ip link show dev IFACE",),
        ("ip link set dev IFACE mtu {level}",),
        (),
        ("ip link set dev IFACE mtu {undo}",),
        "<interface> <mtu size='{level}'/> </interface>",
        "Both ends and everything between them need it: the bridge and the TAP device too.",
    ),
    "knobs.offloads.*": Entry(
        "guest",
        ("ethtool -k IFACE",),
        ("ethtool -K IFACE {name} {level}",),
        (),
        ("ethtool -K IFACE {name} {undo}",),
        note="It was set on both ends of the link. Keep it with the interface's up script "
        "(systemd-networkd: a .link file).",
        show=_on,
    ),
    "knobs.socket_buffers": Entry(
        "guest",
        **_sysctl(_SIZES),
        note="TCP has limits of its own: net.ipv4.tcp_rmem and tcp_wmem, third value.",
        show=_bytes,
    ),
    "workloads.*.socket_buffer": Entry(
        "application",
        **_sysctl(_LIMITS),
        note="The application asks for it: SO_RCVBUF and SO_SNDBUF of {level} bytes "
        "(iperf3 -w {level}); the limits above must allow it.",
        show=_bytes,
    ),
    "knobs.interrupt_cpus": Entry(
        "guest",
        ("grep IFACE /proc/interrupts", "cat /proc/irq/N/smp_affinity_list"),
        ("echo {level} > /proc/irq/N/smp_affinity_list",),
        (),
        ("echo {undo} > /proc/irq/N/smp_affinity_list",),
        note="N: the interface's interrupts. irqbalance would undo it: stop it, or ban them there.",
    ),
    "knobs.receive_steering": Entry(
        "guest",
        ("cat /sys/class/net/IFACE/queues/rx-*/rps_cpus",),
        ("for q in /sys/class/net/IFACE/queues/rx-*; do echo MASK > $q/rps_cpus; done",),
        (),
        ("for q in /sys/class/net/IFACE/queues/rx-*; do echo 0 > $q/rps_cpus; done",),
        note="MASK: the CPUs {level} as a hexadecimal mask, CPU 0 is 1.",
    ),
    "knobs.napi_weight": Entry(
        "guest",
        ("modinfo -p virtio_net",),
        (),
        ("echo 'options virtio_net napi_weight={level}' > /etc/modprobe.d/hypertare-napi.conf",),
        ("rm /etc/modprobe.d/hypertare-napi.conf",),
        note="virtio-net reads it when its module is loaded (boot, or modprobe -r and modprobe). Other "
        "drivers have no such parameter and need hypertare's kernel module.",
    ),
    "knobs.napi_budget": Entry(
        "guest",
        **_sysctl(("net.core.netdev_budget",)),
    ),
    "knobs.napi_budget_usecs": Entry(
        "guest",
        **_sysctl(("net.core.netdev_budget_usecs",)),
    ),
    "sut.cpus": Entry(
        "host",
        ("virsh vcpucount DOMAIN",),
        (
            "virsh setvcpus DOMAIN {level} --config --maximum",
            "virsh setvcpus DOMAIN {level} --config",
        ),
        (),
        ("virsh setvcpus DOMAIN {undo} --config",),
        "<vcpu>{level}</vcpu>",
        "QEMU: -smp {level}. From the guest's next start.",
    ),
    "sut.memory": Entry(
        "host",
        ("virsh dominfo DOMAIN",),
        ("virsh setmaxmem DOMAIN {level}B --config", "virsh setmem DOMAIN {level}B --config"),
        (),
        ("virsh setmaxmem DOMAIN {undo}B --config", "virsh setmem DOMAIN {undo}B --config"),
        "<memory unit='b'>{level}</memory>",
        "QEMU: -m size={level}B. From the guest's next start.",
        _bytes,
    ),
    "sut.nic": Entry(
        "host",
        ("virsh dumpxml DOMAIN",),
        ("virsh edit DOMAIN  # the model of its interface, as below",),
        (),
        ("virsh edit DOMAIN  # the model {undo} again",),
        "<interface> <model type='{level}'/> </interface>",
        "QEMU: -device {qemu},netdev=... in place of the present one. From the guest's next start.",
        lambda level: "virtio" if level == "virtio-net" else str(level),
    ),
    "sut.cpu_model": Entry(
        "host",
        ("virsh dumpxml DOMAIN",),
        ("virsh edit DOMAIN  # the CPU model, as below",),
        (),
        ("virsh edit DOMAIN  # the CPU model {undo} again",),
        "<cpu mode='custom'> <model>{level}</model> </cpu>",
        "QEMU: -cpu {level}. From the guest's next start.",
    ),
    "sut.kernel": Entry("guest", note="Boot the guest with the kernel {level} (was {undo})."),
    "bench.mtu": Entry(
        "host",
        ("ip link show",),
        ("ip link set dev BRIDGE mtu {level}", "ip link set dev TAP mtu {level}"),
        (),
        ("ip link set dev BRIDGE mtu {undo}", "ip link set dev TAP mtu {undo}"),
        "<interface> <mtu size='{level}'/> </interface>",
        "In the guest too: ip link set dev IFACE mtu {level}.",
    ),
    "workloads.*.message": _application("Bytes that the application writes at a time"),
    "workloads.*.batch": _application("Datagrams that the application hands over in one call"),
    "workloads.*.flows": _application("Connections at once"),
    "workloads.*.segmentation": _application("UDP_SEGMENT in the application's socket"),
    "workloads.*.sender_cpus": _application("Bind the sender to CPUs (taskset -c)"),
    "workloads.*.receiver_cpus": _application("Bind the receiver to CPUs (taskset -c)"),
}
"""What is known of each knob, by path; `*` stands for one name."""


def steps(setting: Mapping[str, Level], default: Mapping[str, Level]) -> tuple[Step, ...]:
    """How to apply each change of a setting against the default, and how to take it back."""
    return tuple(
        step(path, level, default.get(path, LEFT))
        for path, level in setting.items()
        if level != default.get(path, LEFT)
    )


def step(path: str, level: Level, default: Level) -> Step:
    """How to set one knob. A knob that the table does not know is named in the study's words."""
    if level == LEFT:
        return Step(
            knob=path, level=level, where="study", note=f"Leave {path} as the system has it."
        )
    entry = _entry(path)
    if entry is None:
        return Step(
            knob=path,
            level=level,
            where="study",
            note=f"There is no command for {path} here. In a study: {path} = {level!r} "
            f"(was {default!r}).",
        )
    words = {
        "level": entry.show(level),
        "undo": "OLD" if default == LEFT else entry.show(default),
        "name": path.rpartition(".")[2],
        "qemu": "virtio-net-pci" if level == "virtio-net" else str(level),
    }

    def fill(lines: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(line.format(**words) for line in lines)

    return Step(
        knob=path,
        level=level,
        where=entry.where,
        look_first=fill(entry.look_first),
        apply=fill(entry.apply),
        persist=fill(entry.persist),
        undo=fill(entry.undo),
        xml=entry.xml and entry.xml.format(**words),
        note=entry.note and entry.note.format(**words),
    )


def _entry(path: str) -> Entry | None:
    parts = path.split(".")
    for pattern, entry in _TABLE.items():
        names = pattern.split(".")
        if len(names) == len(parts) and all(
            n in ("*", p) for n, p in zip(names, parts, strict=True)
        ):
            return entry
    return None
