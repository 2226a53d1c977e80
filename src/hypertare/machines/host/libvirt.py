"""libvirt as a directory of virtual machines: what it knows of its domains, in our words. By virsh. Nothing
is changed, but that a domain which is off can be started for a run.

Sources: virsh(1); libvirt's domain XML format.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from hypertare.base.errors import InputError, MachineError
from hypertare.base.host_files import Host
from hypertare.base.units import human_size

_LIMIT_S = 20.0
_MOST_XML = 1 << 20
"""Characters of a domain's description."""

_UNITS = {
    "b": 1,
    "bytes": 1,
    "KB": 10**3,
    "k": 1 << 10,
    "KiB": 1 << 10,
    "MB": 10**6,
    "M": 1 << 20,
    "MiB": 1 << 20,
    "GB": 10**9,
    "G": 1 << 30,
    "GiB": 1 << 30,
    "TB": 10**12,
    "TiB": 1 << 40,
}


@dataclass(frozen=True)
class Card:
    """A NIC: its model, who moves its packets, and its pairs of queues; none where nothing is said."""

    model: str | None
    moved_by: str | None
    queues: int | None


@dataclass(frozen=True)
class Domain:
    """A virtual machine as libvirt describes it; what it does not say is none. `memory` is in bytes."""

    name: str
    state: str
    hypervisor: str
    machine_type: str | None
    cpus: int
    memory: int
    pages: str | None
    cpu: str | None
    pinned: bool
    cards: tuple[Card, ...]

    @property
    def what(self) -> str:
        """For `what` of a machine that is given: `kvm, q35, 2 vCPU, 2.0 GiB, virtio by vhost`."""
        cpus = f"{self.cpus} vCPU{' (pinned)' if self.pinned else ''}"
        parts = (self.hypervisor, self.machine_type, self.cpu, cpus, human_size(self.memory))
        pages = f"{self.pages} pages" if self.pages else None
        return ", ".join(filter(None, (*parts, pages, *map(_card, self.cards))))


def _card(card: Card) -> str:
    by = f" by {card.moved_by}" if card.moved_by else ""
    queues = f", {card.queues} queues" if card.queues else ""
    return f"{card.model or 'a NIC'}{by}{queues}"


def domains(connect: str, host: Host | None = None) -> list[Domain]:
    """All that libvirt knows there, those that are off too.

    Raises:
        MachineError: there is no virsh, or it has no way to libvirt.
    """
    asked = host or Host()
    return [
        parse(_virsh(asked, connect, "dumpxml", "--", name), _state(asked, connect, name))
        for name in _virsh(asked, connect, "list", "--all", "--name").splitlines()
        if name.strip()
    ]


def _state(host: Host, connect: str, name: str) -> str:
    return _virsh(host, connect, "domstate", "--", name).strip()


def _virsh(host: Host, connect: str, *words: str) -> str:
    said = host.run(("virsh", "--quiet", "--connect", connect, *words), _LIMIT_S)
    if said.ok:
        return said.out
    if "is not installed" in said.err:
        raise MachineError(
            "There is no virsh here.", "Install it (Debian, root: apt-get install libvirt-clients)."
        )
    raise MachineError(
        f"libvirt at {connect} says nothing: {said.said}",
        "Does `virsh --connect URI list` work? Others: qemu:///system, qemu+ssh://HOST/system, "
        "vbox:///session, esx://HOST, xen:///system.",
    )


_SHUT_DOWN = r"""
trap "" INT TERM HUP
cat > /dev/null
exec virsh --quiet --connect "$1" shutdown -- "$2" > /dev/null 2>&1
"""
_started: list[subprocess.Popen[bytes]] = []
"""Shells that shut down what was started, once this process has ended, whatever ended it."""


def start(connect: str, name: str, host: Host | None = None) -> bool:
    """Has a domain run that is off; it is shut down when this process ends.

    Returns:
        Whether it was off: what runs already is left alone.

    Raises:
        MachineError: there is none of that name, or it neither runs nor is off.
    """
    asked = host or Host()
    state = _state(asked, connect, name)
    if state == "running":
        return False
    if state != "shut off":
        # virsh(1): `resume` is for those that are paused, `dompmwakeup` for those that sleep.
        verb = {"paused": "resume", "pmsuspended": "dompmwakeup", "crashed": "destroy"}.get(state)
        raise MachineError(
            f"libvirt's domain {name} is {state}, so it can be neither reached nor started.",
            f"virsh --connect {connect} {verb} {name}" if verb else "Try again when it is off.",
        )
    shell = subprocess.Popen(
        ("/bin/sh", "-c", _SHUT_DOWN, "sh", connect, name),
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _virsh(asked, connect, "start", "--", name)
    except BaseException:
        shell.kill()
        shell.wait()
        raise
    _started.append(shell)
    return True


def parse(text: str, state: str) -> Domain:
    """A domain from its XML.

    Raises:
        InputError: it is no description of a domain.
    """
    if len(text) > _MOST_XML:
        raise InputError(f"A domain's description has more than {_MOST_XML} characters.")
    try:
        root = ElementTree.fromstring(text)
        return _domain(root, state)
    except (ElementTree.ParseError, ValueError, KeyError) as error:
        raise InputError(f"libvirt's description of a domain is not to be read: {error}") from None


def _domain(root: Element, state: str) -> Domain:
    if root.tag != "domain":
        raise ValueError(f"it is a <{root.tag}>")
    kind, cpu, page = map(root.find, ("os/type", "cpu", "memoryBacking/hugepages/page"))
    size = "huge" if page is None else f"{page.get('size')} {page.get('unit', 'KiB')}"
    return Domain(
        name=_text(root, "name") or "",
        state=state,
        hypervisor=root.get("type", ""),
        machine_type=None if kind is None else kind.get("machine"),
        cpus=int(_text(root, "vcpu") or 1),
        memory=_memory(root),
        pages=None if root.find("memoryBacking/hugepages") is None else size,
        cpu=None if cpu is None else _text(cpu, "model") or cpu.get("mode"),
        pinned=root.find("cputune/vcpupin") is not None,
        cards=tuple(_cards(root)),
    )


def _text(root: Element, path: str) -> str | None:
    found = root.findtext(path)
    return found.strip() if found else None


def _memory(root: Element) -> int:
    element = root.find("currentMemory")
    element = root.find("memory") if element is None else element
    if element is None or not element.text:
        raise ValueError("it has no memory")
    return int(element.text) * _UNITS[element.get("unit", "KiB")]


def _cards(root: Element) -> Iterator[Card]:
    for interface in root.iterfind("devices/interface"):
        model, driver = interface.find("model"), interface.find("driver")
        queues = None if driver is None else driver.get("queues")
        moved_by = None if driver is None else driver.get("name")
        if interface.get("type") == "vhostuser":
            moved_by = "vhost-user"
        yield Card(
            None if model is None else model.get("type"), moved_by, int(queues) if queues else None
        )
