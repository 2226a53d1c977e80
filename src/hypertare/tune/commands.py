"""From a knob to what a user types: the one table of commands. Nothing here is run.

Each entry says how to look first, apply, keep over a reboot, and undo. `OLD` is what was seen when
looking first, where the default is the system's own. Interfaces are written IFACE, guests' names
DOMAIN. Values and names come from study files, so they are quoted for the shell and for XML.

Sources: sysctl net.core.*: Documentation/admin-guide/sysctl/net.rst; napi_defer_hard_irqs and
gro_flush_timeout: Documentation/networking/napi.rst; steering: Documentation/networking/scaling.rst;
huge pages and KSM: Documentation/admin-guide/mm; ethtool(8), virsh(1), modprobe.d(5),
systemd.service(5); libvirt's domain XML format.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from xml.sax.saxutils import quoteattr

from hypertare.base.level import Level
from hypertare.base.units import parse_size
from hypertare.base.words import level_text
from hypertare.findings.tuning import Step, Where
from hypertare.tune.space import LEFT

OLD = "OLD"


@dataclass(frozen=True)
class System:
    """What a setting is for: the platform on which machine, with which NIC."""

    machine: str = "local"
    platform: str = "guest"
    nic: str = "virtio-net"

    @property
    def virtual(self) -> bool:
        """Whether a hypervisor gives it its hardware; an emulated machine is such a guest itself."""
        return self.platform in ("guest", "xen") or self.machine == "emulated"

    @property
    def name(self) -> Where:
        if self.virtual:
            return "guest"
        return "container" if self.platform == "container" else "host"


@dataclass(frozen=True)
class Change:
    """A knob's new level and its old one, as text; `old` is OLD where only the system knows it."""

    path: str
    new: str
    old: str
    system: System

    @property
    def key(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    def each(self, make: Callable[[str], str]) -> tuple[str, str]:
        """A line for the new level, and the one that takes it back."""
        return make(self.new), make(self.old)

    def shown(self, show: Callable[[str], str]) -> Change:
        return replace(
            self, new=show(self.new), old=self.old if self.old == OLD else show(self.old)
        )


@dataclass(frozen=True)
class Entry:
    """`where` is the system under test unless it is named."""

    where: Where | None = None
    look_first: tuple[str, ...] = ()
    apply: tuple[str, ...] = ()
    persist: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    xml: str | None = None
    note: str | None = None


Maker = Callable[[Change], Entry]


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
        note = f"Leave it as the system has it: no longer {_line(level_text(default))}."
        return Step(knob=path, level=level, where="study", note=note)
    old = OLD if default == LEFT else _line(level_text(default))
    change = Change(path, _line(level_text(level)), old, system)
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
        f"(was {_was(change)}).",
    )


# --- texts


def _line(text: str) -> str:
    """One line: a line break would end a command."""
    return " ".join(text.split())


def _was(change: Change) -> str:
    return "the system's own" if change.old == OLD else change.old


def _bytes(text: str) -> str:
    return str(parse_size(text))


def _switch(text: str) -> str:
    return "on" if text in ("true", "on") else "off"


def _slug(path: str) -> str:
    return "hypertare-" + re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-")


def _into(file: str, *lines: str) -> str:
    """Writes these lines into a file."""
    return f"printf '%s\\n' {' '.join(map(shlex.quote, lines))} > {file}"


def _at_boot(path: str, command: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Repeats a command at every boot, and forgets it again."""
    unit = f"{_slug(path)}.service"
    # systemd would fill in $ and % itself.
    escaped = command.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$")
    escaped = escaped.replace('"', '\\"')
    lines = (
        "[Unit]",
        "After=network.target",
        "[Service]",
        "Type=oneshot",
        f'ExecStart=/bin/sh -c "{escaped}"',
        "[Install]",
        "WantedBy=multi-user.target",
    )
    place = f"/etc/systemd/system/{unit}"
    keep = (_into(place, *lines), f"systemctl enable {unit}")
    return keep, (f"systemctl disable {unit}", f"rm -f {place}")


# --- kinds of entries


def _commanded(
    look_first: str, make: Callable[[Change, str], str], note: str | None = None
) -> Callable[[Change], Entry]:
    """One command that sets a value and does not outlive a reboot."""

    def entry(change: Change) -> Entry:
        apply, undo = change.each(lambda value: make(change, value))
        keep, forget = _at_boot(change.path, apply)
        return Entry(None, (look_first,), (apply,), keep, (undo, *forget), note=note)

    return entry


def _sysctls(
    names: Sequence[str], value: Callable[[str, str], str] = lambda name, text: text
) -> Callable[[Change], Entry]:
    """`value` makes a sysctl's value from its name and the level."""

    def entry(change: Change) -> Entry:
        file = f"/etc/sysctl.d/90-{_slug(change.path)}.conf"

        def lines(text: str) -> tuple[str, ...]:
            return tuple(
                f"sysctl -w {shlex.quote(f'{n}={OLD if text == OLD else value(n, text)}')}"
                for n in names
            )

        keep = _into(file, *(f"{name} = {value(name, change.new)}" for name in names))
        note = None
        if change.system.name == "container":
            note = "It belongs to the host's kernel: set it on the host, where it is for all."
        return Entry(
            "host" if note else None,
            tuple(f"sysctl {name}" for name in names),
            lines(change.new),
            (keep,),
            (*lines(change.old), f"rm -f {file}"),
            note=note,
        )

    return entry


_TCP_LEAST = 4096
_CORE_SIZES = ("rmem_default", "rmem_max", "wmem_default", "wmem_max")
_SIZES = (*(f"net.core.{name}" for name in _CORE_SIZES), "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")


def _size_of(name: str, text: str) -> str:
    """TCP's have three: least, default, most."""
    return f"{min(_TCP_LEAST, int(text))} {text} {text}" if name.startswith("net.ipv4") else text


def _socket_buffers(change: Change) -> Entry:
    return _sysctls(_SIZES, _size_of)(change.shown(_bytes))


def _asked_buffer(change: Change) -> Entry:
    """Of one application: it asks, and the limits allow."""
    sizes = change.shown(_bytes)
    limits = ("net.core.rmem_max", "net.core.wmem_max")
    entry = _sysctls(limits)(replace(sizes, old=OLD))
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


def _offload(change: Change) -> Entry:
    name = shlex.quote(change.key)
    return _commanded(
        "ethtool -k IFACE",
        lambda _, value: f"ethtool -K IFACE {name} {value}",
        note="It was set on both ends of the link.",
    )(change.shown(_switch))


def _coalescing(change: Change) -> Entry:
    name = change.key.replace("_", "-")
    show = _switch if name.startswith("adaptive") else _line
    return _commanded(
        "ethtool -c IFACE",
        lambda _, value: f"ethtool -C IFACE {shlex.quote(name)} {shlex.quote(value)}",
    )(change.shown(show))


def _sysfs(file: str, note: str | None = None) -> Maker:
    return _commanded(
        f"cat /sys/class/net/IFACE/{file}",
        lambda _, value: f"echo {shlex.quote(value)} > /sys/class/net/IFACE/{file}",
        note=note,
    )


def _memory_setting(file: str, where: Where | None = None, note: str | None = None) -> Maker:
    """A file below /sys/kernel/mm, the same for all of a machine."""
    path = f"/sys/kernel/mm/{file}"

    def entry(change: Change) -> Entry:
        made = _commanded(
            f"cat {path}", lambda _, value: f"echo {shlex.quote(value)} > {path}", note=note
        )(change)
        shared: Where | None = "host" if change.system.name == "container" else None
        return replace(made, where=where or shared)

    return entry


_THP = "transparent_hugepage"


def _ksm_run(change: Change) -> Entry:
    """0 alone would leave merged pages merged."""
    made = _memory_setting("ksm/run", "host", "2 takes apart what was merged, and stops it.")
    number = {"true": "1", "false": "2"}
    return made(change.shown(lambda text: number.get(text, text)))


def _mtu(change: Change) -> Entry:
    entry = _commanded(
        "ip link show dev IFACE",
        lambda _, value: f"ip link set dev IFACE mtu {shlex.quote(value)}",
        note="Both ends and everything between them need it: the bridge and the TAP device too.",
    )(change)
    xml = f"<interface> <mtu size={quoteattr(change.new)}/> </interface>"
    return replace(entry, xml=xml if change.system.virtual else None)


def _bench_mtu(change: Change) -> Entry:
    apply, undo = change.each(
        lambda value: f"for i in BRIDGE TAP; do ip link set dev $i mtu {shlex.quote(value)}; done"
    )
    keep, forget = _at_boot(change.path, apply)
    return Entry(
        "host",
        ("ip link show",),
        (apply,),
        keep,
        (undo, *forget),
        f"<interface> <mtu size={quoteattr(change.new)}/> </interface>",
        f"At both ends too: ip link set dev IFACE mtu {change.new}.",
    )


def _interrupt_cpus(change: Change) -> Entry:
    return _commanded(
        "grep IFACE /proc/interrupts",
        lambda _, value: (
            "for n in $(grep IFACE /proc/interrupts | cut -d: -f1); do "
            f"echo {shlex.quote(value)} > /proc/irq/$n/smp_affinity_list; done"
        ),
        note="OLD: what /proc/irq/N/smp_affinity_list holds, N being the interface's numbers. irqbalance "
        "would undo it: stop it.",
    )(change)


def _steering(change: Change) -> Entry:
    return _commanded(
        "cat /sys/class/net/IFACE/queues/rx-*/rps_cpus",
        lambda _, value: (
            "for q in /sys/class/net/IFACE/queues/rx-*; do "
            f"echo {shlex.quote(value)} > $q/rps_cpus; done"
        ),
        note="The value is a hexadecimal mask of CPUs: CPU 0 is 1, CPU 1 is 2, both are 3.",
    )(change.shown(_mask))


def _mask(cpus: str) -> str:
    """From `0,2-3` to `d`."""
    mask = 0
    for part in cpus.strip("[]() ").split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            continue
        for cpu in range(int(first), int(last or first) + 1):
            mask |= 1 << cpu
    return f"{mask:x}"


def _napi_weight(change: Change) -> Entry:
    return _virtio_weight(change) if change.system.nic == "virtio-net" else _any_weight(change)


def _virtio_weight(change: Change) -> Entry:
    """virtio_net reads its parameter when it is loaded, often already from the initramfs."""
    file = f"/etc/modprobe.d/{_slug(change.path)}.conf"
    return Entry(
        None,
        ("cat /sys/module/virtio_net/parameters/napi_weight",),
        (_into(file, f"options virtio_net napi_weight={change.new}"), "update-initramfs -u"),
        (),
        (f"rm -f {file}", "update-initramfs -u"),
        note="From the next boot; it stays. update-initramfs is Debian's (others: dracut -f). At once, "
        "and for any driver, with hypertare's kernel module: kernel/README.md.",
    )


_WEIGHT = "/sys/module/hypertare_napi/parameters/weight"


def _any_weight(change: Change) -> Entry:
    entry = _commanded(
        f"cat {_WEIGHT}",
        lambda _, value: f"echo {shlex.quote(f'IFACE {value}')} > {_WEIGHT}",
        note="The driver has no such parameter: load hypertare's kernel module first "
        "(kernel/README.md says how to build it). Nearly all drivers choose 64.",
    )(change)
    return replace(entry, undo=(*entry.undo, "rmmod hypertare_napi"))


# --- what a hypervisor gives


def _by_hypervisor(virtual: Maker, otherwise: str) -> Maker:
    """`otherwise`: what to do where there is none."""

    def entry(change: Change) -> Entry:
        if change.system.virtual:
            return virtual(change)
        where: Where = "container" if change.system.platform == "container" else "host"
        return Entry(where, note=otherwise.format(level=change.new, old=_was(change)))

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


def _driver_weight(change: Change) -> Entry:
    """Source: xl(1), sched-credit; libxl's domains have it from their configuration, dom0 has none."""
    apply, undo = change.each(lambda v: f"xl sched-credit -d Domain-0 -w {shlex.quote(v)}")
    keep, forget = _at_boot(change.path, apply)
    note = "With the scheduler credit2 it is `xl sched-credit2`."
    return Entry(
        "host", ("xl sched-credit -d Domain-0",), (apply,), keep, (undo, *forget), note=note
    )


def _guest_weights(change: Change) -> Entry:
    """The same for guests, in their order: `cpu_weight` of xl.cfg(5) keeps it."""
    note = (
        f"One a guest, in their order: {change.new} (was {_was(change)}): xl sched-credit -d GUEST -w "
        "WEIGHT now, and `cpu_weight = WEIGHT` in its configuration for its next start."
    )
    return Entry("host", look_first=("xl sched-credit",), note=note)


def _memory(change: Change) -> Entry:
    sizes = change.shown(_bytes)
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
    return f"<interface> <model type={quoteattr(model)}/> </interface>"


def _nic_option(nic: str) -> str:
    device = "virtio-net-pci" if nic == "virtio-net" else nic
    return f"-device {shlex.quote(device)},netdev=... in place of the present one"


def _model_xml(model: str) -> str:
    return f"<cpu mode='custom'> <model>{quoteattr(model)[1:-1]}</model> </cpu>"


def _application(what: str) -> Maker:
    return lambda change: Entry("application", note=f"{what}: {change.new} (was {_was(change)}).")


_TABLE: dict[str, Maker] = {
    "knobs.mtu": _mtu,
    "knobs.offloads.*": _offload,
    "knobs.socket_buffers": _socket_buffers,
    "knobs.interrupt_cpus": _interrupt_cpus,
    "knobs.receive_steering": _steering,
    "knobs.napi_weight": _napi_weight,
    "knobs.napi_budget.packets": _sysctls(("net.core.netdev_budget",)),
    "knobs.napi_budget.microseconds": _sysctls(("net.core.netdev_budget_usecs",)),
    "knobs.dev_weight": _sysctls(("net.core.dev_weight",)),
    "knobs.interrupt_coalescing.*": _coalescing,
    "knobs.busy_poll": _sysctls(("net.core.busy_poll", "net.core.busy_read")),
    "knobs.defer_hard_irqs.polls": _sysfs("napi_defer_hard_irqs"),
    "knobs.defer_hard_irqs.flush_timeout_ns": _sysfs("gro_flush_timeout", "In nanoseconds."),
    "knobs.thp": _memory_setting(f"{_THP}/enabled"),
    "knobs.thp.enabled": _memory_setting(f"{_THP}/enabled"),
    "knobs.thp.defrag": _memory_setting(f"{_THP}/defrag"),
    "knobs.thp.scan_sleep_ms": _memory_setting(f"{_THP}/khugepaged/scan_sleep_millisecs"),
    "knobs.host_thp": _memory_setting(f"{_THP}/enabled", "host"),
    "knobs.host_thp.enabled": _memory_setting(f"{_THP}/enabled", "host"),
    "knobs.host_thp.defrag": _memory_setting(f"{_THP}/defrag", "host"),
    "knobs.host_thp.scan_sleep_ms": _memory_setting(
        f"{_THP}/khugepaged/scan_sleep_millisecs", "host"
    ),
    "knobs.ksm": _ksm_run,
    "knobs.ksm.run": _ksm_run,
    "knobs.ksm.pages_to_scan": _memory_setting("ksm/pages_to_scan", "host"),
    "knobs.ksm.sleep_ms": _memory_setting("ksm/sleep_millisecs", "host"),
    "knobs.driver_weight": _driver_weight,
    "knobs.guest_weights": _guest_weights,
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
    "sut.cpu_model": _by_hypervisor(
        _edited(_model_xml, lambda model: f"-cpu {shlex.quote(model)}", "its CPU"),
        "There is no CPU model to change.",
    ),
    "sut.accelerator": _by_hypervisor(
        _edited(
            lambda name: f"<domain type={quoteattr('kvm' if name == 'kvm' else 'qemu')}>",
            lambda name: f"-accel {shlex.quote(name)}",
            "its type",
        ),
        "There is no accelerator to choose.",
    ),
    "sut.kernel": _by_hypervisor(
        lambda change: Entry(
            "guest", note=f"Boot it with the kernel {change.new} (was {_was(change)})."
        ),
        "Boot with the kernel {level} (was {old}).",
    ),
    "bench.mtu": _bench_mtu,
    "workloads.*.socket_buffer": _asked_buffer,
    "workloads.*.message": _application("What the application writes or sends in one call"),
    "workloads.*.batch": _application("Datagrams that the application hands over in one call"),
    "workloads.*.flows": _application("Connections at once"),
    "workloads.*.segmentation": _application("UDP_SEGMENT in the application's socket (udp(7))"),
    "workloads.*.threads": _application("Threads at once"),
}
"""What is known of each knob, by path; `*` stands for one name."""
