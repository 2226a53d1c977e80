"""What a study may set of a guest under QEMU: keys of `[sut]`, what of them does not go together, and their
words for libvirt and QEMU.

A setting's name is its field in the plan (`crates/plan/src/guest.rs`), where the agent reads it. A new one
is that field with its use, a field here with its rule and its command, and a test.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import Field

from hypertare.base.arch import ARCH
from hypertare.base.closed import Settings
from hypertare.base.units import human_size
from hypertare.platforms.commands import OLD, Entry, KnobChange, Maker, edited, of_memory, quoted
from hypertare.protocol import plan
from hypertare.protocol.constants import HUGE_PAGE

MOST_QUEUES = 16
"""Of a card that a process of ours serves (crates/datapath)."""
MOST_POLL_US = 1000
WITH_DATAPATH: plan.NicModel = "virtio-net"
"""The card whose packets others than QEMU can move."""
OUR_DATAPATHS: frozenset[plan.Datapath] = frozenset({"vhost-user", "sidecore"})
"""Those that are processes of ours, which have the guest's memory in common with QEMU."""
BESIDE_GUESTS = 2
"""CPUs that are needed beside the guests' where what moves their packets has one: that, and the peers'."""


LOSE_DATA: Mapping[str, frozenset[str]] = {"sut.disk_cache": frozenset({"unsafe"})}
"""Levels with which a guest loses in a power cut what fdatasync had returned for."""

_DISKS_OF_VIRTIO = frozenset({"virtio-blk", "virtio-scsi"})
_PAST_THE_CACHE = frozenset({"none", "directsync"})


@dataclass(frozen=True)
class GuestFacts:
    """Facts about a study's guests beside their settings.

    `memory` is in bytes; `cpus` are a guest's, which `cpus_key` of `[sut]` sets, and `machine_cpus` those
    of the machine that they share. `on_emulated` says that this is the emulated one, `needs_disk` that a
    workload works on a disk, `disk_in_memory` that the disk's blocks are in the machine's memory, and
    `datapath_apart` that what moves packets has a CPU for itself in any case.
    """

    nic: plan.NicModel
    accelerator: Literal["auto", "kvm", "tcg"]
    memory: int
    cpus: int
    cpus_key: str
    machine_cpus: int
    on_emulated: bool
    needs_network: bool
    shares_memory: bool
    needs_disk: bool = False
    disk_in_memory: bool = True
    datapath_apart: bool = False


class GuestSettings(Settings):
    """Keys of `[sut]` that are a guest's."""

    cpu_model: str | None = None
    """The CPU of a guest, by QEMU's name. Default: `host` with KVM, else one chosen for TCG."""
    kernel_args: tuple[str, ...] = ()
    """Words that are appended to the guest kernel's command line."""
    machine_type: plan.MachineType = "q35"
    """The guest's board in QEMU; or `pc` (i440fx), `microvm` (no PCI: virtio-net alone; not on an emulated
    machine).
    """
    paging: plan.Paging | None = None
    """[KVM's page tables](kvm-host.md): `nested` or `shadow`. What this host does not have needs
    `--allow-module-reload`.
    """
    pages: plan.Pages | None = None
    """Pages that map the guest's memory: `4K`; `2M` (hugetlb); `thp`, the default unless the host forbids
    it.
    """
    datapath: Literal["auto", plan.Datapath] = "auto"
    """The process that moves [a virtio-net's packets](kvm-drivers.md): `qemu`, `vhost`, `vhost-user`,
    `sidecore`.
    """
    queues: Annotated[int, Field(ge=1, le=MOST_QUEUES)] = 1
    """Pairs of queues of a virtio-net card; read back."""
    poll_us: Annotated[int, Field(ge=0, le=MOST_POLL_US)] | None = None
    """How long `vhost` polls for more work before it sleeps, in µs. Default: not at all."""
    disk_device: plan.DiskDevice = "virtio-blk"
    """The device that a guest's disk is; or `virtio-scsi`, `nvme`, `ahci`."""
    disk_aio: plan.DiskAio = "threads"
    """How QEMU reads and writes the disk; or `native`, `io_uring`."""
    disk_cache: plan.DiskCache = "writeback"
    """QEMU's cache mode; or `writethrough`, `none`, `directsync`; or `unsafe`, which [loses data in a
    power cut](disks.md#after-a-power-cut) and is no choice of `tune`.
    """
    disk_iothread: bool = False
    """The disk has a thread of QEMU's own."""
    disk_queues: Annotated[int, Field(ge=1, le=MOST_QUEUES)] | None = None
    """Queues of the disk (virtio-blk, virtio-scsi, nvme), 1 to 16, at most the guest's CPUs. Default:
    QEMU's.
    """
    disk_format: plan.DiskFormat = "raw"
    """How the blocks of a disk lie on the medium; or `qcow2`, empty at first: a block is given its place
    when it is first written.
    """
    files: Literal["none", plan.FileSharing] = "none"
    """`9p` or `virtiofs`: in the place of a disk the guest has a directory of its machine, and works on a
    file there; then every platform works on a [file in memory](disks.md#files).
    """

    def in_plan(self, datapath: plan.Datapath) -> plan.GuestSettings:
        """The same for the agent, with the datapath that `auto` stands for."""
        settings: dict[str, Any] = {
            name: getattr(self, name) for name in GuestSettings.model_fields
        }
        files = None if self.files == "none" else self.files
        return plan.GuestSettings(**{**settings, "datapath": datapath, "files": files})

    def asked_of_hypervisor(self) -> list[str]:
        """Keys that only a guest has, of those that are not left as they are."""
        fields = GuestSettings.model_fields
        return [
            key
            for key in fields
            if key in OF_HYPERVISOR and getattr(self, key) != fields[key].default
        ]

    def problem(self, facts: GuestFacts) -> str | None:
        """What of these settings does not go together, with what to do: the first that is found."""
        problems = chain(
            self._of_memory(facts),
            self._of_board(facts),
            self._of_card(facts),
            self._of_disk(facts),
        )
        return next(problems, None)

    def _of_memory(self, facts: GuestFacts) -> Iterator[str]:
        if self.paging is not None and facts.accelerator == "tcg":
            yield (
                f"sut.paging is {self.paging}, but nested and shadow page tables are KVM's, and "
                "sut.accelerator is tcg: leave one of them out"
            )
        if self.pages == "2M" and facts.memory % HUGE_PAGE:
            yield (
                f"sut.memory is {human_size(facts.memory)}, which is no whole number of the pages "
                "of 2 MB that sut.pages asks for"
            )
        if self.pages == "thp" and self.datapath in OUR_DATAPATHS:
            yield (
                f"sut.pages = 'thp' is for memory of QEMU's own, but with sut.datapath = '{self.datapath}' "
                "the guest's is shared with what moves its packets: take '2M' or '4K'"
            )
        if self.pages == "thp" and self.files == "virtiofs":
            yield (
                "sut.pages = 'thp' is for memory of QEMU's own, but with sut.files = 'virtiofs' it "
                "is shared with what serves the guest's files: take '2M' or '4K', or '9p'"
            )

    def _of_board(self, facts: GuestFacts) -> Iterator[str]:
        """A microvm has no PCI, and QEMU's other cards are PCI's."""
        if self.machine_type != "microvm":
            return
        is_microvm = "sut.machine_type = 'microvm'"
        if facts.on_emulated:
            yield (
                f"{is_microvm} is for guests of this host: the image of the emulated machine has no "
                "firmware for it. Take 'q35' or 'pc', or machine = 'local'"
            )
        if facts.needs_network and facts.nic != WITH_DATAPATH:
            yield (
                f"{is_microvm} has no PCI, and sut.nic = '{facts.nic}' is a card for PCI: take "
                f"sut.nic = '{WITH_DATAPATH}', or 'q35' or 'pc'"
            )
        if facts.shares_memory:
            yield (
                f"{is_microvm} has no PCI, which the memory that a workload shares with its peer is a card "
                "of: take 'q35' or 'pc'"
            )

    def _of_card(self, facts: GuestFacts) -> Iterator[str]:
        chosen = [] if self.datapath in ("auto", "qemu") else [f"sut.datapath = '{self.datapath}'"]
        chosen += [f"sut.queues = {self.queues}"] if self.queues > 1 else []
        if chosen and facts.nic != WITH_DATAPATH:
            yield (
                f"{chosen[0]} is for sut.nic = '{WITH_DATAPATH}', not '{facts.nic}': QEMU itself moves the "
                "packets of its other cards, by one queue"
            )
        yield from _beyond_cpus("queues", self.queues, facts)
        if self.poll_us is not None and self.datapath != "vhost":
            yield (
                "sut.poll_us is how long vhost looks for more work, but sut.datapath is "
                f"'{self.datapath}': set sut.datapath = 'vhost', or leave it out"
            )
        # An emulated machine has the CPUs that the study gives it, and no others.
        polls = self.datapath == "sidecore"
        needs_cpu = facts.on_emulated and (polls or facts.datapath_apart)
        if needs_cpu and facts.machine_cpus < facts.cpus + BESIDE_GUESTS:
            fits = max(facts.machine_cpus - BESIDE_GUESTS, 1)
            asks = "sut.datapath = 'sidecore'" if polls else "sut.datapath_apart = true"
            instead = "take 'vhost-user'" if polls else "leave it out"
            yield (
                f"{asks} needs a CPU for what moves packets and one for the peers, beside the guest's: the "
                f"machine has {facts.machine_cpus}, and the guest {facts.cpus}. Set sut.cpus = "
                f"{fits + BESIDE_GUESTS} or more and sut.guest_cpus = {fits}, or {instead}"
            )

    def _of_disk(self, facts: GuestFacts) -> Iterator[str]:
        asked = [key for key in self.asked_of_hypervisor() if key.startswith("disk_")]
        if asked and not facts.needs_disk:
            yield (
                f"sut.{asked[0]} is for the disk that a workload of the type 'io' has, or a command with "
                "'disk', and there is none"
            )
        # Each needs a bus, and a thread of its own a device that can have one.
        if self.machine_type == "microvm" and self.disk_device not in _DISKS_OF_VIRTIO:
            yield (
                f"sut.machine_type = 'microvm' has no PCI, and sut.disk_device = '{self.disk_device}' is "
                "behind a controller for PCI: take 'virtio-blk' or 'virtio-scsi', or 'q35' or 'pc'"
            )
        if self.disk_iothread and self.disk_device not in _DISKS_OF_VIRTIO:
            yield (
                f"sut.disk_iothread is for disks of virtio, and sut.disk_device is '{self.disk_device}': "
                "QEMU's main thread serves its others"
            )
        if self.disk_queues is not None and self.disk_device == "ahci":
            yield (
                "sut.disk_queues is for disks with several, and sut.disk_device is 'ahci', which has one: "
                "take 'virtio-blk', 'virtio-scsi' or 'nvme'"
            )
        yield from _beyond_cpus("disk_queues", self.disk_queues or 1, facts)
        if self.files != "none":
            yield from self._of_files(facts, asked)
            return
        # A file in memory is in the page cache and nowhere else.
        direct = self.disk_cache in _PAST_THE_CACHE
        if self.disk_aio == "native" and not direct:
            yield (
                f"sut.disk_aio = 'native' works past the host's page cache, and sut.disk_cache is "
                f"'{self.disk_cache}': take sut.disk_cache = 'none' or 'directsync', or another disk_aio"
            )
        if direct and facts.disk_in_memory:
            yield (
                f"sut.disk_cache = '{self.disk_cache}' goes past the host's page cache, and the disk is in "
                "memory, which is nothing else: name a directory of a real disk (sut.disk_directory), or "
                "take 'writeback'"
            )

    def _of_files(self, facts: GuestFacts, asked_of_disk: list[str]) -> Iterator[str]:
        """A directory takes the place of the disk."""
        is_files = f"sut.files = '{self.files}'"
        if not facts.needs_disk:
            yield (
                f"{is_files} is for the file that a workload of the type 'io' works on, or a command with "
                "'disk', and there is none"
            )
        if asked_of_disk:
            yield (
                f"{is_files} gives the guest a directory of its machine in the place of a disk, and "
                f"sut.{asked_of_disk[0]} is of a disk: leave one of them out"
            )
        if self.files == "virtiofs" and self.datapath in OUR_DATAPATHS:
            yield (
                f"{is_files} and sut.datapath = '{self.datapath}' would have two processes work for the "
                "guest beside QEMU, and the CPU time of one is counted: take another datapath, or '9p'"
            )
        if not facts.disk_in_memory:
            yield (
                f"{is_files} shares a directory in memory, and sut.disk_directory asks for another: leave "
                "one out"
            )


def _beyond_cpus(key: str, queues: int, facts: GuestFacts) -> Iterator[str]:
    if queues > facts.cpus:
        yield (
            f"sut.{key} is {queues}, but the guest has {facts.cpus} CPUs and uses a queue by each: "
            f"set sut.{facts.cpus_key} = {queues} too"
        )


_OF_ANY_PC = frozenset({"cpu_model", "kernel_args"})
"""The emulated machine itself has them too, for every platform."""

_OF_ITS_HOST = frozenset({"paging", "pages"})
"""Guests that differ in them cannot stand on one bench: KVM's module is loaded with the one or the other,
and pages come from a pool that is the host's."""

OF_HYPERVISOR = frozenset(GuestSettings.model_fields) - _OF_ANY_PC
ON_ONE_BENCH = frozenset(GuestSettings.model_fields) - _OF_ITS_HOST


# --- their words


def _machine_type(change: KnobChange) -> Entry:
    if "microvm" not in (change.new, change.old):
        return edited(
            lambda board: f"<os> <type machine={quoted(board)}>hvm</type> </os>",
            lambda board: f"-machine {shlex.quote(board)}",
            "its board",
        )(change)
    return Entry(
        "host",
        ("virsh dumpxml DOMAIN",),
        note=f"QEMU alone: -machine {shlex.quote(change.new)}; virtio's cards are -device "
        "virtio-net-device, ... on a microvm, and virtio-net-pci, ... on others. From the guest's next "
        "start.",
    )


def _pages(change: KnobChange) -> Entry:
    """Pages of the pool are libvirt's word; transparent ones are a setting of the host."""
    if change.new == "2M":
        return edited(
            lambda pages: (
                f"<memoryBacking> <hugepages> <page size={quoted(pages[:-1])} unit='M'/> </hugepages> "
                "</memoryBacking>"
            ),
            lambda pages: (
                f"-object memory-backend-memfd,id=ram,size=...,hugetlb=on,hugetlbsize={pages} -machine "
                "memory-backend=ram, and as many in the host's vm.nr_hugepages as it has memory"
            ),
            "its memory",
        )(change)
    # QEMU advises huge pages for a guest's memory, which `madvise` follows and `never` forbids.
    wanted = "never" if change.new == "4K" else "madvise"
    made = of_memory("transparent_hugepage/enabled", "host")
    return replace(
        made(replace(change, new=wanted, old=OLD)),
        note="For every program of the host, and for memory that a guest uses from then on: start it anew.",
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


def _datapath(change: KnobChange) -> Entry:
    """By libvirt's words; two of them have a back end that is somebody else's."""
    shared = change.new in OUR_DATAPATHS
    more = f" {_BACK_END}{_SHARED}." if shared else ""
    more += _OWN_CPU if change.new == "sidecore" else ""
    entry = edited(_datapath_xml, _datapath_option, "who moves its packets")(change)
    return replace(entry, note=f"{entry.note}{more}")


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


def _queues(change: KnobChange) -> Entry:
    entry = edited(
        lambda queues: (
            f"<interface> <model type='virtio'/> <driver queues={quoted(queues)}/> </interface>"
        ),
        lambda queues: (
            f"-netdev tap,id=...,queues={queues} -device virtio-net-pci,netdev=...,mq=on,"
            f"vectors={2 * int(queues) + 2}"
        ),
        "its queues",
    )(change)
    uses = "It uses one by each of its CPUs: `ethtool -l IFACE` in it says how many."
    return replace(entry, note=f"{entry.note} {uses}")


def _poll_us(change: KnobChange) -> Entry:
    """libvirt's domain XML has no word for it."""
    was = "leave poll-us out again" if change.old == OLD else f"poll-us={change.old} again"
    return Entry(
        "host",
        ("virsh dumpxml DOMAIN", f"ps -o args -C {ARCH.qemu}"),
        note=f"QEMU alone: -netdev tap,id=...,vhost=on,poll-us={change.new}; to undo, {was}. From the "
        "guest's next start. libvirt has no word for it: where libvirt starts QEMU this cannot be set.",
    )


def _disk_device(change: KnobChange) -> Entry:
    bus = {"virtio-blk": "virtio", "virtio-scsi": "scsi", "nvme": "nvme", "ahci": "sata"}
    device = {
        "virtio-blk": "virtio-blk-pci",
        "virtio-scsi": "virtio-scsi-pci and scsi-hd",
        "nvme": "nvme,serial=...",
        "ahci": "ide-hd",
    }
    entry = edited(
        lambda kind: f"<disk> <target dev='...' bus={quoted(bus[kind])}/> </disk>",
        lambda kind: f"-device {device[kind]},drive=...",
        "its disk",
    )(change)
    if "nvme" not in (change.new, change.old):
        return entry
    return replace(
        entry, note=f"{entry.note} libvirt has no word for QEMU's emulated NVMe: QEMU alone."
    )


def _disk_driver(attribute: str, option: str) -> Maker:
    """An attribute of the disk's `<driver>`."""
    return edited(
        lambda value: f"<disk> <driver name='qemu' {attribute}={quoted(value)}/> </disk>",
        lambda value: f"-drive ...,{option}={value}",
        "its disk",
    )


def _disk_format(change: KnobChange) -> Entry:
    entry = _disk_driver("type", "format")(change)
    turned = f"qemu-img convert -f {change.old} -O {change.new} OLD NEW"
    return replace(
        entry, note=f"{entry.note} The image is converted first, the guest off: {turned}."
    )


def _files(change: KnobChange) -> Entry:
    """A directory beside a disk: what it is called in the guest is the user's to say."""
    entry = edited(_files_xml, lambda kind: _FILE_OPTIONS[kind], "a directory that it works in")(
        change
    )
    if change.new == "none":
        return entry
    shared = f" Its memory is shared with virtiofsd: {_SHARED}." if change.new == "virtiofs" else ""
    mount = f" In the guest: mount -t {change.new} files /mnt."
    return replace(entry, note=f"{entry.note}{shared}{mount}")


def _files_xml(kind: str) -> str:
    if kind == "none":
        return "no <filesystem>, and a <disk>"
    return (
        f"<filesystem type='mount'> <driver type={quoted(_FILE_SERVERS[kind])}/> <source dir='...'/> "
        "<target dir='files'/> </filesystem>"
    )


_FILE_SERVERS = {"9p": "path", "virtiofs": "virtiofs"}
_FILE_OPTIONS = {
    "none": "neither -fsdev nor vhost-user-fs, and a disk",
    "9p": "-fsdev local,id=files,path=...,security_model=none -device "
    "virtio-9p-pci,fsdev=files,mount_tag=files",
    "virtiofs": "-chardev socket,id=files,path=... -device vhost-user-fs-pci,chardev=files,tag=files",
}


COMMANDS: Mapping[str, Maker] = {
    "cpu_model": edited(
        lambda model: f"<cpu mode='custom'> <model>{quoted(model)[1:-1]}</model> </cpu>",
        lambda model: f"-cpu {shlex.quote(model)}",
        "its CPU",
    ),
    "machine_type": _machine_type,
    "pages": _pages,
    "datapath": _datapath,
    "queues": _queues,
    "poll_us": _poll_us,
    "disk_device": _disk_device,
    "disk_aio": _disk_driver("io", "aio"),
    "disk_cache": _disk_driver("cache", "cache"),
    "disk_iothread": edited(
        lambda _: "<iothreads>1</iothreads> <disk> <driver name='qemu' iothread='1'/> </disk>",
        lambda _: "-object iothread,id=disk-thread -device ...,iothread=disk-thread",
        "its disk",
    ),
    # Of virtio-blk, as libvirt has it; other devices have other words.
    "disk_queues": edited(
        lambda queues: f"<disk> <driver name='qemu' queues={quoted(queues)}/> </disk>",
        lambda queues: f"-device virtio-blk-pci,...,num-queues={queues}",
        "its disk",
    ),
    "disk_format": _disk_format,
    "files": _files,
}
"""How to set each by hand, where there are words for it."""
