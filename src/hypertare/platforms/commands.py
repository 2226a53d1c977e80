"""What a person types to set something: to look first, apply, keep over a reboot, and undo.

`OLD` is what was seen when looking first, where the default is the system's own. Interfaces are written
IFACE, guests' names DOMAIN. Values and names come from study files, so they are quoted for the shell and
for XML. Nothing here is run.

Sources: sysctl net.core.*: Documentation/admin-guide/sysctl/net.rst; napi_defer_hard_irqs and
gro_flush_timeout: Documentation/networking/napi.rst; steering: Documentation/networking/scaling.rst;
huge pages and KSM: Documentation/admin-guide/mm; ethtool(8), virsh(1), modprobe.d(5),
systemd.service(5); libvirt's domain XML format.
"""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hypertare.base.units import parse_size
from hypertare.platforms.platform import Platform

Where = Literal["host", "guest", "container", "application", "study"]
"""Where a change is made; `study`: only there, for no command does it."""

OLD = "OLD"


@dataclass(frozen=True)
class System:
    """What a setting is for: the platform, with which NIC, and whether its machine is a guest itself."""

    platform: Platform
    nic: str = "virtio-net"
    machine_is_virtual: bool = False

    @property
    def virtual(self) -> bool:
        """Whether a hypervisor gives it its hardware."""
        return self.platform.has_own_kernel or self.machine_is_virtual

    @property
    def name(self) -> Where:
        return "guest" if self.virtual else self.platform.settings_typed_at

    @property
    def kernel(self) -> Where:
        """Where its kernel's settings are changed."""
        return "guest" if self.virtual else self.platform.kernel_typed_at


@dataclass(frozen=True)
class KnobChange:
    """A knob's new level and its old one, as text; `old` is OLD where only the system knows it."""

    path: str
    new: str
    old: str
    system: System

    @property
    def key(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def was(self) -> str:
        """The old level, for people."""
        return "the system's own" if self.old == OLD else self.old

    def each(self, make: Callable[[str], str]) -> tuple[str, str]:
        """A line for the new level, and the one that takes it back."""
        return make(self.new), make(self.old)

    def shown(self, show: Callable[[str], str]) -> KnobChange:
        return replace(
            self, new=show(self.new), old=self.old if self.old == OLD else show(self.old)
        )


@dataclass(frozen=True)
class Entry:
    """The commands for one change, and how to take it back. `where` None is the system under test."""

    where: Where | None = None
    look_first: tuple[str, ...] = ()
    apply: tuple[str, ...] = ()
    persist: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    xml: str | None = None
    note: str | None = None


Maker = Callable[[KnobChange], Entry]


def one_line(text: str) -> str:
    """One line: a line break would end a command."""
    return " ".join(text.split())


def quoted(text: str) -> str:
    """Returns a text as the value of an XML attribute. `html` loads faster than `xml.sax`, which loads
    http.
    """
    return f'"{html.escape(text)}"'


def in_bytes(text: str) -> str:
    return str(parse_size(text))


def on_or_off(text: str) -> str:
    return "on" if text in ("true", "on") else "off"


def slug(path: str) -> str:
    return "hypertare-" + re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-")


def into(file: str, *lines: str) -> str:
    """Writes these lines into a file."""
    return f"printf '%s\\n' {' '.join(map(shlex.quote, lines))} > {file}"


def at_boot(path: str, command: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Repeats a command at every boot, and forgets it again."""
    unit = f"{slug(path)}.service"
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
    keep = (into(place, *lines), f"systemctl enable {unit}")
    return keep, (f"systemctl disable {unit}", f"rm -f {place}")


def commanded(
    look_first: str, make: Callable[[KnobChange, str], str], note: str | None = None
) -> Maker:
    """One command that sets a value and does not outlive a reboot."""

    def entry(change: KnobChange) -> Entry:
        apply, undo = change.each(lambda value: make(change, value))
        keep, forget = at_boot(change.path, apply)
        return Entry(None, (look_first,), (apply,), keep, (undo, *forget), note=note)

    return entry


def by_ethtool(
    change: KnobChange, option: str, name: str, show: Callable[[str], str] = one_line
) -> Entry:
    """A parameter that ethtool(8) shows by a small letter (`-g`) and sets by the large one."""
    return commanded(
        f"ethtool -{option} IFACE",
        lambda _, value: (
            f"ethtool -{option.upper()} IFACE {shlex.quote(name)} {shlex.quote(value)}"
        ),
    )(change.shown(show))


def sysctls(
    names: Sequence[str], value: Callable[[str, str], str] = lambda name, text: text
) -> Maker:
    """`value` makes a sysctl's value from its name and the level."""

    def entry(change: KnobChange) -> Entry:
        file = f"/etc/sysctl.d/90-{slug(change.path)}.conf"

        def lines(text: str) -> tuple[str, ...]:
            return tuple(
                f"sysctl -w {shlex.quote(f'{n}={OLD if text == OLD else value(n, text)}')}"
                for n in names
            )

        keep = into(file, *(f"{name} = {value(name, change.new)}" for name in names))
        note = None
        if change.system.kernel != change.system.name:
            note = "It belongs to the host's kernel: set it on the host, where it is for all."
        return Entry(
            change.system.kernel,
            tuple(f"sysctl {name}" for name in names),
            lines(change.new),
            (keep,),
            (*lines(change.old), f"rm -f {file}"),
            note=note,
        )

    return entry


def of_interface(file: str, note: str | None = None) -> Maker:
    return commanded(
        f"cat /sys/class/net/IFACE/{file}",
        lambda _, value: f"echo {shlex.quote(value)} > /sys/class/net/IFACE/{file}",
        note=note,
    )


def of_memory(file: str, where: Where | None = None, note: str | None = None) -> Maker:
    """A file below /sys/kernel/mm, the same for all of a machine."""
    path = f"/sys/kernel/mm/{file}"

    def entry(change: KnobChange) -> Entry:
        made = commanded(
            f"cat {path}", lambda _, value: f"echo {shlex.quote(value)} > {path}", note=note
        )(change)
        return replace(made, where=where or change.system.kernel)

    return entry


def edited(xml: Callable[[str], str], qemu: Callable[[str], str], what: str) -> Maker:
    """An element of a domain's XML that virsh has no verb for, to be changed by hand."""

    def entry(change: KnobChange) -> Entry:
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
