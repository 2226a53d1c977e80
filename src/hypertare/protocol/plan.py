"""What goes to the agent.

Made from `schema/` by `python -m tests.protocol`: change `crates/plan`, not this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from hypertare.protocol.wire_type import WireType


class RunningAgent(WireType):
    """An agent outside of the sandbox in which all else of a bench is made: in a container of
    podman or docker, which only the engine can enter, or on a machine that was given. Whoever
    started it ends it.
    """

    described: str
    """The engine and its version, or how the machine is reached."""
    pipes: Path
    """Directory with the named pipes of its agent: `orders`, `records`, `messages`."""
    pid: int
    """Its first process, or the one that reaches it, as the machine numbers it."""


Accelerator = Literal["kvm", "tcg"]

MachineType = Literal["q35", "pc", "microvm"]
"""QEMU's boards for x86.
`q35`: PCI Express on Intel's chipset of 2007.
`pc`: PCI on Intel's chipset of 1996, which QEMU calls i440fx.
`microvm`: No PCI: virtio by registers in memory (virtio-mmio).
"""

Paging = Literal["nested", "shadow"]
"""`nested`: The hardware walks the guest's page tables and KVM's (AMD: NPT, Intel: EPT).
`shadow`: KVM keeps tables of its own in step with the guest's.
"""

Pages = Literal["4K", "2M", "thp"]
"""`4K`: Never huge ones.
`2M`: From the machine's pool of huge pages.
`thp`: Transparent huge pages, where the machine finds room for them.
"""

Datapath = Literal["qemu", "vhost", "vhost-user", "sidecore"]
"""What takes a guest's packets from the rings of its card to the machine's kernel, and back.
`qemu`: The VMM's own process.
`vhost`: The machine's kernel (vhost-net).
`vhost-user`: A process of the guest's own beside its VMM, which sleeps until it is
notified.
`sidecore`: One process for all guests of the bench that have this, which never sleeps.
"""

DiskDevice = Literal["virtio-blk", "virtio-scsi", "nvme", "ahci"]
"""A guest's disk, as its kernel sees it.
`virtio-blk`: A block device of virtio.
`virtio-scsi`: A SCSI disk behind a controller of virtio.
`nvme`: A controller of NVM Express, all of which QEMU emulates.
`ahci`: A SATA disk behind a controller as PCs have them, all of which QEMU emulates.
"""

DiskAio = Literal["threads", "native", "io_uring"]
"""`threads`: pread(2) and pwrite(2), by a pool of threads.
`native`: io_submit(2), which needs a medium past the page cache.
`io_uring`: Rings that the kernel and QEMU share.
"""

DiskCache = Literal["writeback", "writethrough", "none", "directsync", "unsafe"]
"""The cache modes of QEMU.
`writeback`: The machine's page cache holds it, and is written out when the guest asks for
that.
`writethrough`: The same, written out after every write.
`none`: Past the machine's page cache.
`directsync`: Past it, and written out after every write.
`unsafe`: The machine's page cache holds it, and is not written out when the guest asks for
that.
"""

DiskFormat = Literal["raw", "qcow2"]
"""`raw`: Each where it is on the disk.
`qcow2`: QEMU's own: clusters as they are first written, found by tables.
"""

FileSharing = Literal["9p", "virtiofs"]
"""How a guest reaches a directory of its machine.
`9p`: The protocol 9P2000.L, served by QEMU.
`virtiofs`: FUSE's protocol, served by virtiofsd in the guest's memory.
"""


class GuestSettings(WireType):
    """What a study may set of a guest. Python's `platforms/guest_settings.py` takes these fields
    over by name, with the rules of each and its words for libvirt and QEMU.
    """

    cpu_model: str | None = None
    """QEMU's CPU model; `None` means `host` with KVM, and without it `max` less what is slow to
    emulate.
    """
    kernel_args: tuple[str, ...] = ()
    """Appended to the kernel's command line."""
    machine_type: MachineType = "q35"
    """The board that its devices are on."""
    paging: Paging | None = None
    """How KVM is to translate the guest's addresses; none takes it as it is."""
    pages: Pages | None = None
    """By which pages the machine is to map the guest's memory; none leaves that to the machine."""
    datapath: Datapath = "qemu"
    """What moves the packets of its virtio-net; those of other models QEMU moves."""
    queues: int = 1
    """Pairs of queues of its virtio-net."""
    poll_us: int | None = None
    """How long vhost looks for more work before it sleeps, in µs; none leaves it at QEMU's
    default: not at all.
    """
    disk_device: DiskDevice = "virtio-blk"
    """What its disk is for it."""
    disk_aio: DiskAio = "threads"
    """By which calls QEMU reads and writes the medium of its disk."""
    disk_cache: DiskCache = "writeback"
    """What of its disk the machine's page cache holds, and what QEMU says is written."""
    disk_iothread: bool = False
    """A thread of QEMU's own serves its disk; else QEMU's main one, which serves all else too."""
    disk_queues: int | None = None
    """Queues of its disk; none leaves them at QEMU's default, one by each of its CPUs where a
    device can.
    """
    disk_format: DiskFormat = "raw"
    """How its blocks lie on the medium."""
    files: FileSharing | None = None
    """Its disk is no device, but a file in a directory of the machine that it shares by this."""


TscMode = Literal["native", "emulate", "default"]
"""What a guest of Xen gets when it reads the time-stamp counter (`tsc_mode` of xl.cfg(5)).
`native`: The machine's counter.
`emulate`: A count that Xen makes: every reading traps.
`default`: Xen's choice: the machine's counter where that is invariant, else as `emulate`.
"""


class Host(WireType):
    """A process in the bench's own network namespace, which owns the bridges: the native baseline."""

    type: Literal["host"] = "host"


class Container(WireType):
    """A process in namespaces of its own, with a cgroup where the machine allows one."""

    type: Literal["container"] = "container"
    memory: int | None = None
    """Limit of the cgroup's memory, in bytes."""
    engine: RunningAgent | None = None
    """Given when the user's own engine made it, and it runs already; else it is made here."""


class Guest(WireType):
    """A virtual machine under QEMU."""

    type: Literal["guest"] = "guest"
    cpus: int
    memory: int
    """Bytes of guest memory."""
    accelerator: Accelerator
    kernel: Path
    """Uncompressed kernel (an ELF file with a PVH note boots fastest) or a bzImage."""
    initramfs: tuple[Path, ...]
    """Initramfs archives, loaded one after the other; the agent is their `/init`."""
    boot_limit_s: float
    """Time from starting the VMM to the agent's first record, in seconds; longer fails the node."""
    settings: GuestSettings = GuestSettings()
    shared_memory: int | None = None
    """Bytes of memory that it shares with the machine, for frames past its card; a power of two."""


class Domain(WireType):
    """A PV guest under Xen, of the driver domain that the host agent runs in."""

    type: Literal["domain"] = "domain"
    cpus: int
    memory: int
    """Bytes of guest memory."""
    weight: int | None = None
    """Of the scheduler, 1 to 65535; the hypervisor's default when absent."""
    tsc: TscMode = "native"
    """How it reads the time-stamp counter."""
    kernel: Path
    """Kernel in the driver domain's file system; uncompressed it is built into memory fastest."""
    initramfs: tuple[Path, ...]
    """Initramfs archives, loaded one after the other; the agent is their `/init`."""
    kernel_args: tuple[str, ...] = ()
    """The kernel's command line."""
    boot_limit_s: float
    """Time from creating it to the agent's first record, in seconds; longer fails the node."""


class Given(WireType):
    """A machine that was there before, and stays as it is."""

    type: Literal["given"] = "given"
    reach: tuple[str, ...]
    """The words of the program that reaches it, `ssh` first."""
    cpus: int
    """How many of its CPUs the work may use: the first ones."""
    settings: bool = False
    """Whether its own settings may be changed for a trial; else all knobs are refused there."""
    outside: int | None = None
    """The process of this machine that it is in, as the machine numbers it: its CPU time counts as
    the node's from outside. Nothing is known from outside without.
    """
    agent: RunningAgent | None = None
    """Given when its agent runs."""


NodeKind = Annotated[Host | Container | Guest | Domain | Given, Field(discriminator="type")]

NicModel = Literal["virtio-net", "e1000", "e1000e", "vmxnet3", "rtl8139", "pcnet"]


class Interface(WireType):
    """An interface of a node on a link."""

    name: str
    """Name inside the node. For a `host` node on a bridge it is ignored: its interface is the
    bridge.
    """
    link: str
    address: str
    """Address with prefix length, for example `10.77.0.2/24`."""
    more_addresses: tuple[str, ...] = ()
    """Further ones, IPv4 or IPv6, in the same form."""
    mac: str | None = None
    nic: NicModel | None = None
    """Model of a guest's NIC, or of the machine's on a hub; other nodes have a veth."""
    offloads: dict[str, bool] = dict[str, bool]()
    """Offloads to set (ethtool's short names, `tso: false`); absent ones keep their defaults."""


class Route(WireType):
    """How a node reaches a network that it is not on."""

    to: str
    """Network with prefix length, for example `10.78.2.0/24`, `fd78:2::/64`, `0.0.0.0/0`."""
    via: str
    """Address of the next router, on a link of this node."""


Discipline = Literal["pfifo", "pfifo_fast", "fq_codel", "noqueue"]
"""Queue disciplines of tc(8) at the root of an interface.
`pfifo`: First come, first served.
`pfifo_fast`: Three bands by type of service, each first come, first served.
`fq_codel`: Fair among flows, with controlled delay.
`noqueue`: None: what the driver does not take is lost.
"""


class Queue(WireType):
    discipline: Discipline | None = None
    length: int | None = None
    """Packets that may wait (the interface's `txqueuelen`, and the discipline's own limit)."""


class Daemon(WireType):
    """BIRD 2, which speaks OSPF for both families."""

    argv: tuple[str, ...]
    """The program as the node sees it, after its loader where it is not installed."""
    neighbours: tuple[str, ...]
    """Interfaces behind which the other routers are. Networks of the other interfaces are
    announced to them; nobody is heard there.
    """


class Router(WireType):
    """What a node forwards, and how packets wait in it. It takes in no IPv4 packet whose source is
    not reached through the interface that it came from (strict reverse path, RFC 3704).
    """

    ipv4: bool = True
    ipv6: bool = True
    queue: Queue | None = None
    """Where packets wait that are to be sent, on each of its interfaces; the kernel's choice when
    absent.
    """
    daemon: Daemon | None = None
    """Given when it learns of networks from other routers."""


LimitedResource = Literal["open_files", "processes", "pending_signals", "locked_memory", "stack"]


class ResourceLimit(WireType):
    """What one process may have of a resource, as getrlimit(2) has it."""

    resource: LimitedResource
    soft: int | None = None
    """None: no limit."""
    hard: int | None = None
    """Up to which the process may raise it."""


class Files(WireType):
    """The machine's own files as a node sees them: everything readable, every write in memory."""

    workdir: Path
    """Copied to memory when the bench is made, and laid afresh, at the same path, for every trial."""
    memory: int
    """Bytes that writes may take in memory."""
    devices: tuple[Path, ...] = ()
    """Devices of the node that commands see beside those that every program has, `/dev/fuse`."""
    root: Path | None = None
    """Root file system of an image, in place of the machine's own. The work directory is the
    machine's all the same.
    """
    host_name: str | None = None
    """Of the machine, for a node that has another."""
    limits: tuple[ResourceLimit, ...] = ()
    """Of the machine's commands, for a node whose own are others."""


class Disk(WireType):
    """A disk of a node's own, empty when the bench is made and gone with it. A process has the
    medium itself, a guest a device of its VMM that stands on it: so both work on the same.
    """

    bytes: int
    directory: Path | None = None
    """Where the machine keeps its blocks: in a file without a name in this directory; in memory
    when absent.
    """
    is_file: bool = False
    """It is a file in memory on an experiment's own machine too, and not a block device there: for
    guests that share files with it.
    """
    write_cache: bool = False
    """Its medium keeps what is written in a cache of its own that loses it with the power, until
    it is flushed. Only an experiment's own machine has such a medium.
    """
    latency_ns: int = 0
    """How long its medium takes for an operation, beside what the processor does for it. Only an
    experiment's own machine has such a medium.
    """


class Node(WireType):
    """One endpoint. Its name is unique on the bench."""

    name: str
    kind: NodeKind
    cpus: tuple[int, ...] = ()
    """CPUs of the machine that this node's work may use; none means all. For a guest they are the
    CPUs of its virtual CPUs' threads, one to one; the VMM's other threads are not bound. A
    guest of Xen may run each of its virtual CPUs on any of them.
    """
    interfaces: tuple[Interface, ...] = ()
    routes: tuple[Route, ...] = ()
    """How it reaches networks that it is not on."""
    router: Router | None = None
    """Given when the node forwards between its interfaces; else it does not."""
    files: Files | None = None
    """Given when the node runs programs of the machine's own root."""
    disk: Disk | None = None
    """Given when its work needs a disk."""


LinkKind = Literal["bridge", "route", "hub"]
"""`bridge`: A bridge in the bench's own network namespace.
`route`: No bridge: the driver domain forwards by IP between Xen's guests on the link and
its uplink, which is an interface of the node `host`, a router. All of them are of one IPv4
network: each guest is reached by a route of its own, and ARP is answered in the name of who
is behind.
`hub`: NICs of the machine itself, wired together outside of it. Every interface on it names
its NIC by the MAC address; a container's is moved into its namespace.
"""


class Uplink(WireType):
    mac: str
    nic: NicModel | None = None
    wire: str | None = None
    """What it is plugged into: a hub of the bench, or a wire whose name other uplinks have too.
    The first hub when absent.
    """


class Trunk(WireType):
    """A line of a limited rate between two bridges. Each of its ends sends frame after frame, each
    as long on the wire as its bytes with preamble, check and gap take.
    """

    to: str
    """The other bridge."""
    rate_bps: int
    """In b/s each way, of all that is on the wire."""


class Link(WireType):
    """What joins nodes."""

    name: str
    kind: LinkKind = "bridge"
    mtu: int = 1500
    uplink: Uplink | None = None
    """A NIC of the machine itself that is a port of the bridge: what is beyond it is on the link
    too. Of a link that is routed it is what guests are routed to.
    """
    trunk: Trunk | None = None
    """A line to another bridge."""


Scheduler = Literal["credit", "credit2"]
"""How Xen's hypervisor gives CPUs to its guests."""


class VirtualCpus(WireType):
    """Virtual CPUs of a domain of Xen, and the machine's CPUs that they may run on; none of these
    means all.
    """

    count: int
    on: tuple[int, ...] = ()


class Bench(WireType):
    """Nodes and links that the host agent makes, and removes again."""

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...] = ()
    weights: bool = False
    """Virtual CPUs of guests under QEMU, and what moves their packets, are groups with a CPU
    weight each, which the knob `scheduler_weight` of the node `host` turns.
    """
    scheduler: Scheduler | None = None
    """Xen's, which the machine must have been booted with; none takes it as it is."""
    driver: VirtualCpus | None = None
    """Virtual CPUs of Xen's driver domain, which the machine must have been booted with; none
    takes them as they are.
    """
    datapath_cpu: int | None = None
    """CPU of the machine for what moves guests' packets, which nothing else of the bench may use:
    one that never sleeps ([`Datapath::Sidecore`]), vhost's threads, a process beside QEMU, or
    QEMU's threads beside its virtual CPUs. None leaves them where the machine puts them.
    """


ThpEnabled = Literal["always", "madvise", "never"]
"""`always`: Every program.
`madvise`: Where a program asks for it.
`never`: None.
"""

ThpDefrag = Literal["always", "defer", "defer+madvise", "madvise", "never"]
"""`always`: A page fault waits until a huge page is made free.
`defer`: It does not wait, but wakes who makes some.
`defer+madvise`: As `defer`; where a program asks for it, as `always`.
`madvise`: As `always` where a program asks for it.
`never`: None.
"""


class MarkedClass(WireType):
    """The class of IPv4 packets with a mark; all others are of another. Each may use what the
    other leaves of the rate that they share.
    """

    dscp: int
    """Differentiated services code point (RFC 2474), 0 to 63."""
    rate_bps: int
    """What it has in any case, in b/s; the other class has the rest."""
    first: bool
    """Rate that no class uses goes to it first; else to both alike."""


class Mtu(WireType):
    """MTU of an interface, in bytes."""

    type: Literal["mtu"] = "mtu"
    interface: str
    bytes: int


class Offload(WireType):
    """An offload by ethtool's short name: rx, tx, sg, tso, gso, gro, lro, ufo, rxvlan, txvlan.
    With `ports` it is that of each port of the bridge `interface`, and not of the bridge
    itself.
    """

    type: Literal["offload"] = "offload"
    interface: str
    offload: str
    on: bool
    ports: bool = False


class SocketBuffers(WireType):
    """Default and largest socket buffers (net.core.[rw]mem_default/_max, net.ipv4.tcp_[rw]mem)."""

    type: Literal["socket_buffers"] = "socket_buffers"
    bytes: int


class Sysctls(WireType):
    """Settings of the network by their names below /proc/sys (`net/ipv4/tcp_notsent_lowat`)."""

    type: Literal["sysctls"] = "sysctls"
    values: dict[str, str]


class InterruptCpus(WireType):
    """CPUs that serve an interface's interrupts, counted as the node counts them."""

    type: Literal["interrupt_cpus"] = "interrupt_cpus"
    interface: str
    cpus: tuple[int, ...]


class ReceiveSteering(WireType):
    """CPUs of receive packet steering of every queue of an interface; none switches it off."""

    type: Literal["receive_steering"] = "receive_steering"
    interface: str
    cpus: tuple[int, ...]


class NapiWeight(WireType):
    """Packets that one poll may take from each NAPI instance of an interface, 1 to 1024."""

    type: Literal["napi_weight"] = "napi_weight"
    interface: str
    weight: int


class NapiBudget(WireType):
    """What one softirq may take from all instances (net.core.netdev_budget, netdev_budget_usecs);
    without `microseconds` that limit stays as it is.
    """

    type: Literal["napi_budget"] = "napi_budget"
    packets: int
    microseconds: int | None = None


class DevWeight(WireType):
    """Packets that one poll may take from a CPU's backlog (net.core.dev_weight). The weight of a
    driver's instances is another.
    """

    type: Literal["dev_weight"] = "dev_weight"
    packets: int


class RingSizes(WireType):
    """Descriptors of the rings of an interface, or of the machine's NIC with this MAC address, as
    in ethtool(8); what is not given stays as it is.
    """

    type: Literal["ring_sizes"] = "ring_sizes"
    interface: str
    rx: int | None = None
    tx: int | None = None


class InterruptCoalescing(WireType):
    """Interrupt coalescing as in ethtool(8); what is not given stays as it is."""

    type: Literal["interrupt_coalescing"] = "interrupt_coalescing"
    interface: str
    rx_usecs: int | None = None
    rx_frames: int | None = None
    tx_usecs: int | None = None
    tx_frames: int | None = None
    adaptive_rx: bool | None = None


class BusyPoll(WireType):
    """Time for which a waiting socket polls its NIC itself (net.core.busy_poll and busy_read; the
    latter is SO_BUSY_POLL of every socket made from then on); 0 switches it off.
    """

    type: Literal["busy_poll"] = "busy_poll"
    microseconds: int


class DeferHardIrqs(WireType):
    """Polls without packets before an interface's interrupt is switched on again, and the time, in
    ns, after which a timer polls; both 0 is the default.
    """

    type: Literal["defer_hard_irqs"] = "defer_hard_irqs"
    interface: str
    polls: int
    flush_timeout_ns: int


class Thp(WireType):
    """Transparent huge pages of a machine (sysfs, transparent_hugepage): who gets them, how hard
    the kernel tries in a page fault, and how long khugepaged sleeps between looks for small
    pages to turn into huge ones; what is not given stays as it is.
    """

    type: Literal["thp"] = "thp"
    enabled: ThpEnabled
    defrag: ThpDefrag | None = None
    scan_sleep_ms: int | None = None


class Ksm(WireType):
    """Same-page merging of a machine (sysfs, ksm), of memory that asks for it. Switching it off
    takes apart what was merged.
    """

    type: Literal["ksm"] = "ksm"
    run: bool
    pages_to_scan: int | None = None
    sleep_ms: int | None = None


class HaltPollNs(WireType):
    """How long KVM polls for a halted virtual CPU's wake-up before it lets others have its CPU, at
    most (parameter halt_poll_ns of the module kvm); 0 switches it off.
    """

    type: Literal["halt_poll_ns"] = "halt_poll_ns"
    nanoseconds: int


class SchedulerWeight(WireType):
    """Weight in Xen's scheduler, 1 to 65535, of a guest of the bench or, without one, of the
    driver domain; on the node `host` only. Elsewhere of cgroups, if the bench has `weights`: of
    a guest's virtual CPUs, or of the threads that move packets for guests.
    """

    type: Literal["scheduler_weight"] = "scheduler_weight"
    weight: int
    guest: str | None = None


class TrafficClasses(WireType):
    """What the machine's NIC with this MAC address sends, by which guests reach others, waits for
    a rate, in b/s on the wire: packets with a mark in a class of their own, or all in one.
    """

    type: Literal["traffic_classes"] = "traffic_classes"
    uplink: str
    rate_bps: int
    marked: MarkedClass | None = None


Knob = Annotated[
    Mtu
    | Offload
    | SocketBuffers
    | Sysctls
    | InterruptCpus
    | ReceiveSteering
    | NapiWeight
    | NapiBudget
    | DevWeight
    | RingSizes
    | InterruptCoalescing
    | BusyPoll
    | DeferHardIrqs
    | Thp
    | Ksm
    | HaltPollNs
    | SchedulerWeight
    | TrafficClasses,
    Field(discriminator="type"),
]


class KnobSetting(WireType):
    node: str
    knob: Knob


Direction = Literal["out", "back"]
"""From one end of a pair to the other.
`out`: From the system under test, or through it, to its peer.
`back`: To the system under test.
"""


class Purpose(WireType):
    """What a task is there for, among those of its phase."""

    role: str
    """In the words of the workload that it is part of: `send`, `receive`, `load`."""
    pair: int | None = None
    """Number of its system under test with its peer, from 1, where several work at once."""
    direction: Direction | None = None
    """Of the stream that it is an end of."""


StreamProtocol = Literal["tcp", "udp"]

PingProtocol = Literal["udp", "tcp", "icmp", "frame"]
"""`frame`: Frames of the local experimental EtherType, past both IP stacks."""

FrameVia = Literal["socket", "packet", "xdp", "shared"]
"""How frames come to a program, or from it.
`socket`: A packet socket: the kernel copies frames for calls that ask for many of them.
`packet`: A ring of frames that the kernel and the program share (PACKET_MMAP).
`xdp`: The same where they come in, before the kernel's network sees them (AF_XDP).
`shared`: Memory that a guest shares with its machine, which writes them there: past the
guest's card.
"""

IoPattern = Literal["random", "sequential"]
"""The order in which blocks are read and written."""

IoEngine = Literal["io_uring", "pread"]
"""By which system calls blocks are read and written.
`io_uring`: Rings that the kernel and the program share.
`pread`: pread(2) and pwrite(2): one operation at a time.
"""


class DurableWrites(WireType):
    """Writes at random that are made durable again and again, by system calls: [`Io`] that
    acknowledges.
    """

    block: int
    span: int
    jobs: int
    sync_every: int
    direct: bool
    seed: int


class Command(WireType):
    """A program with its arguments. Its elapsed time, `wait4` usage and exit status are measured."""

    type: Literal["command"] = "command"
    argv: tuple[str, ...]
    env: dict[str, str] = dict[str, str]()
    """The whole environment; a PATH is added if there is none."""
    cwd: Path | None = None
    in_files: bool = False
    """Run in the node's view of the machine's files, with the work directory laid afresh first."""
    prepare: str | None = None
    """A shell command run before the measured one, in the same place, not measured."""
    input: Path | None = None
    """The file that it has as standard input, from its beginning; without, /dev/null."""
    warmup: bool = False
    """It is not counted: a guest looks on, to have in memory what the next ones use of the share."""
    watch_syncs: bool = False
    """Count its calls that wait for a disk, which slows these: of a run that is not counted."""
    tty: bool = False
    """It has a terminal of its own as its standard input, output and error."""


class StreamSend(WireType):
    type: Literal["stream_send"] = "stream_send"
    protocol: StreamProtocol
    to: str
    """Address and port of the receiver, `10.77.0.2:5201`. Flow k uses port + k."""
    duration_s: float
    flows: int = 1
    message: int
    """Bytes of one message: one `write` for TCP, one datagram's payload for UDP."""
    rate_bps: float | None = None
    """Offered payload rate over all flows, in bits per second; none means as fast as it goes."""
    socket_buffer: int | None = None
    """SO_SNDBUF in bytes; none keeps the kernel's."""
    batch: int | None = None
    """Messages handed to the kernel in one call, at most (UDP)."""
    segmentation: bool = False
    """UDP segmentation by the kernel (UDP_SEGMENT)."""
    nodelay: bool = True
    """Small messages go at once (TCP_NODELAY); else TCP collects them while any are under way."""
    interval_s: float = 0.5
    omit_s: float = 0.0
    """Seconds at the start that are sent but not counted."""
    dscp: int | None = None
    """Mark of each packet (DSCP, RFC 2474), 0 to 63; none keeps the kernel's, which is 0."""


class StreamReceive(WireType):
    """Listens, says `ready`, counts what arrives; ends when asked to."""

    type: Literal["stream_receive"] = "stream_receive"
    protocol: StreamProtocol
    on: str
    """Address and port to bind, `0.0.0.0:5201`. Flow k uses port + k."""
    flows: int = 1
    message: int
    """Largest message expected, in bytes."""
    socket_buffer: int | None = None
    """SO_RCVBUF in bytes; none keeps the kernel's."""
    batch: int | None = None
    interval_s: float = 0.5
    omit_s: float = 0.0
    every_ns: float | None = None
    """Given where gaps between messages and their jitter are to be reported, over UDP: one of a
    flow is sent each so many ns.
    """


class PingRequest(WireType):
    """Sends a request, waits for its answer, notes the round-trip time, and so on."""

    type: Literal["ping_request"] = "ping_request"
    protocol: PingProtocol
    to: str
    """`10.77.0.2:7000`; for ICMP and frames the address alone."""
    message: int = 64
    """Bytes of a request and of its answer; of a frame behind its header."""
    count: int | None = None
    """Ends after so many counted requests, or after `duration_s`, whichever is first."""
    duration_s: float
    interval_s: float = 0.0
    """Seconds between requests; 0 sends the next as soon as the answer is there."""
    timeout_s: float = 1.0
    """An answer later than this is lost."""
    omit: int = 0
    """Requests before those, which are not counted and not in `duration_s`."""
    via: FrameVia | None = None
    """How frames come in; what comes in by shared memory goes out by it."""
    past_card: bool = False
    """To the memory that who answers, a guest, shares with its machine, past its card."""
    dscp: int | None = None
    """Mark of each request (DSCP, RFC 2474), 0 to 63, over UDP or TCP; none keeps the kernel's,
    which is 0.
    """


class PingReply(WireType):
    """Answers UDP or TCP requests, or frames, until asked to stop. ICMP is answered by the kernel
    itself.
    """

    type: Literal["ping_reply"] = "ping_reply"
    protocol: PingProtocol
    on: str
    """Address and port; for frames the address alone, which gives the interface."""
    message: int = 64
    """Largest request that is answered, in bytes."""
    via: FrameVia | None = None
    """How frames come in; what comes in by shared memory goes out by it."""


class Burn(WireType):
    """Uses a share of each of `cpus` CPUs."""

    type: Literal["burn"] = "burn"
    share: float
    """0 to 1, of each CPU."""
    duration_s: float
    threads: int = 1


class Fork(WireType):
    """Forks, executes a program that writes to memory and ends, and waits for it, again and again:
    what makes and unmakes page tables.
    """

    type: Literal["fork"] = "fork"
    count: int
    touch: int = 0
    """Bytes that each program writes to, one byte a page of 4 KB."""


class Touch(WireType):
    """Reads memory in random order, each read after the one before: what needs page tables and
    changes none. Ends after `count` reads or after `duration_s`; exactly one of them is given.
    """

    type: Literal["touch"] = "touch"
    memory: int
    """Bytes of the working set."""
    pages: Pages | None = None
    """Pages of the working set in the node; none leaves them to its kernel."""
    count: int | None = None
    duration_s: float | None = None


class Sleep(WireType):
    """Sleeps to a time, sees how late it woke, and so on, each thread for itself: on a CPU of its
    own where there are several.
    """

    type: Literal["sleep"] = "sleep"
    interval_s: float
    """Seconds from one wake-up to the next; at most those in which a task must heed a stop."""
    duration_s: float
    threads: int = 1


class FrameSend(WireType):
    """Sends numbered frames of the local experimental EtherType."""

    type: Literal["frame_send"] = "frame_send"
    to: str
    """IP address of who receives them: its neighbour table has the MAC address that they are sent
    to.
    """
    past_card: bool = False
    """To the memory that the receiver, a guest, shares with its machine, past its card."""
    session: int
    """Frames of another one are not counted."""
    frame: int
    """Bytes of one with its header, without FCS."""
    duration_s: float
    rate_bps: float | None = None
    """Bits of frames a second; none means as fast as it goes."""
    burst: int
    """Frames handed to the kernel in one call, at most."""
    interval_s: float = 0.5
    omit_s: float = 0.0
    """Seconds at the start that are sent but not counted."""


class FrameCapture(WireType):
    """Says `ready`, counts what arrives of a session; ends when asked to."""

    type: Literal["frame_capture"] = "frame_capture"
    on: str
    """IP address of its own, which gives the interface."""
    via: FrameVia
    session: int
    frame: int
    """Longest frame expected, in bytes with its header."""
    ring: int
    """Bytes of memory in which frames wait to be taken."""
    interval_s: float = 0.5
    omit_s: float = 0.0


class FrameFeed(WireType):
    """Says `ready`, writes a guest's frames of a session into the memory that it shares with its
    machine; ends when asked to. On the node that has the guest's bridge.
    """

    type: Literal["frame_feed"] = "frame_feed"
    guest: str
    """The guest's node."""
    session: int
    frame: int
    """Longest frame expected, in bytes with its header."""
    ring: int
    """Bytes of memory in which frames wait to be written there."""


class FrameRelay(WireType):
    """Says `ready`, moves frames between a guest's bridge and the memory that the guest shares
    with its machine, both ways, past the guest's card; ends when asked to. On the node that has
    the bridge. Where a core polls for the guest's card, that core does it.
    """

    type: Literal["frame_relay"] = "frame_relay"
    guest: str
    """The guest's node."""
    frame: int
    """Longest frame, in bytes with its header."""


class Cpuid(WireType):
    """Executes CPUID so often, for which a guest with hardware virtualisation leaves for its
    hypervisor.
    """

    type: Literal["cpuid"] = "cpuid"
    count: int


class Serve(WireType):
    """A program that others speak with. Says `ready` once it listens; ends when asked to, and not
    before.
    """

    type: Literal["serve"] = "serve"
    argv: tuple[str, ...]
    env: dict[str, str] = dict[str, str]()
    """The whole environment; a PATH is added if there is none."""
    cwd: Path | None = None
    in_files: bool = False
    """Run in the node's view of the machine's files, with the work directory laid afresh first."""


class Io(WireType):
    """Reads and writes blocks of its node's disk, which [`IoFill`] has filled. Every block says
    which one it is and which writing of it, so that a block that is not what was written last
    is an error.
    """

    type: Literal["io"] = "io"
    pattern: IoPattern
    engine: IoEngine = "io_uring"
    block: int
    """Bytes that one operation reads or writes: a multiple of 512."""
    span: int
    """Bytes of the disk that are worked on: a multiple of `block`."""
    start: int = 0
    """Byte of the disk at which they begin: a multiple of `block`."""
    depth: int
    """Operations under way at once, of each job."""
    jobs: int = 1
    """Threads, each with a part of the span for itself."""
    read_share: float
    """Of the operations, 0 to 1, that read; the others write."""
    direct: bool = True
    """Past the page cache of the node's kernel (O_DIRECT)."""
    sync_every: int | None = None
    """What was written is made durable (fdatasync) after so many writes of a job; none: never."""
    rate: float | None = None
    """Operations a second that are begun, over all jobs; none: as fast as it goes."""
    count: int | None = None
    """Ends after so many operations of all jobs, or after `duration_s`, whichever is first."""
    duration_s: float
    seed: int = 0
    """Of the random order of blocks."""
    acknowledges: bool = False
    """Says after every fdatasync, in an interval, how many writes of which job are durable. Of
    work that only writes, by the engine `pread`: then the order of writes is known to
    [`IoVerify`].
    """


class IoFill(WireType):
    """Writes every block of a span of its node's disk, makes that durable, says `ready`; ends when
    asked to.
    """

    type: Literal["io_fill"] = "io_fill"
    block: int
    """The same as those of who works on them."""
    span: int
    start: int = 0
    direct: bool = True
    seed: int = 0


class IoVerify(WireType):
    """Reads every block of work that acknowledged until it was ended, and counts those that are
    older than what had been made durable.
    """

    type: Literal["io_verify"] = "io_verify"
    writes: DurableWrites
    durable: tuple[int, ...]
    """Writes of each job that fdatasync had returned for."""


Workload = Annotated[
    Command
    | StreamSend
    | StreamReceive
    | PingRequest
    | PingReply
    | Burn
    | Fork
    | Touch
    | Sleep
    | FrameSend
    | FrameCapture
    | FrameFeed
    | FrameRelay
    | Cpuid
    | Serve
    | Io
    | IoFill
    | IoVerify,
    Field(discriminator="type"),
]


class Task(WireType):
    """One workload on one node. Its `id` is unique in its phase."""

    id: str
    node: str
    background: bool = False
    """Runs until the phase's foreground tasks have ended (a receiver, an echo, a neighbour's
    load).
    """
    cpus: tuple[int, ...] = ()
    """CPUs to bind to, counted from 0 among those that the node may use; none means all of them."""
    purpose: Purpose | None = None
    """Passed on with what the task reports; nothing is done by it."""
    workload: Workload


ProbeName = Literal[
    "stat",
    "softirqs",
    "interrupts",
    "net_dev",
    "vmstat",
    "schedstat",
    "net_snmp",
    "outside",
    "cpu_modes",
    "napi",
    "polls_traced",
    "drops",
    "kvm",
    "kvm_exits",
    "memory",
    "vmm_memory",
    "hardware",
    "datapath",
    "conditions",
]
"""`stat`: CPU seconds by mode, context switches and forks, from /proc/stat.
`softirqs`: Softirqs by kind, from /proc/softirqs.
`interrupts`: Interrupts by device, from /proc/interrupts.
`net_dev`: Packets, bytes, drops and errors by interface, from /proc/net/dev.
`vmstat`: Page faults, swapping, THP and KSM events, from /proc/vmstat.
`schedstat`: Run and wait time of CPUs, from /proc/schedstat.
`net_snmp`: Protocol counters, from /proc/net/snmp, /proc/net/netstat and
/proc/net/softnet_stat.
`outside`: CPU time of the node's VMM (and of its vhost threads) as its machine sees it. For
a container: of its cgroup. Under Xen: of the domain, also the driver domain's of the node
`host`.
`cpu_modes`: In which mode the machine's CPUs worked, and for whom: samples of guests' code,
of their virtual CPUs' threads, of their VMMs' other threads, and of all else. Taking one
takes time.
`napi`: Packets per poll by interface, counted by the project's kernel module; the
interrupts of those interfaces; CPU time of ksoftirqd.
`polls_traced`: Packets per poll by interface where the module does not count them: by the
kernel's own tracepoint napi:napi_poll. That takes microseconds of every poll.
`drops`: Packets dropped, by place: NIC ring, driver, qdisc, backlog, socket buffer.
`kvm`: KVM's own counters of a guest, read on its host: exits, page faults, TLB flushes,
shadow pages.
`kvm_exits`: Exits of a KVM guest by reason and page faults by error code, counted on its
host by the kernel's own tracepoints kvm:kvm_exit and kvm:kvm_page_fault. That takes time in
every exit.
`memory`: Huge pages, THP and KSM: /proc/vmstat, /sys/kernel/mm; CPU time of ksmd and
khugepaged.
`vmm_memory`: Memory of the node's VMM: resident and proportional set, pages of hugetlb.
`hardware`: Counters of the node's CPUs: instructions, cycles, TLB misses, cycles of page
walks.
`datapath`: What the process that moves a guest's packets counts: kicks, calls, polls,
frames.
`conditions`: What the machine was like meanwhile: CPU time of others, pressure (PSI), clock
speed.
"""


class ProbeRequest(WireType):
    node: str
    probe: ProbeName


class Reached(WireType):
    """A first answer over the network."""

    answer: Task
    """Listens on the node that lives."""
    ask: Task
    """Asks once, from a node of the bench."""


class PowerCut(WireType):
    """A node ends at once, and with it all that the machine below it holds of its disk but the
    disk itself.
    """

    writes: DurableWrites
    after_s: float
    """Seconds from the beginning of the writes."""


class Life(WireType):
    """A node beside those of the bench that lives as long as one phase: it is made, answers,
    works, is saved and restored, and ends. What each of these took is a result of the node
    `of`.
    """

    id: str
    of: str
    """The node of the bench that it is like."""
    node: Node
    """On links of the bench, without files, and without a disk unless its power is cut. No node of
    the bench has its name.
    """
    work: Task | None = None
    """A task of its own that ends by itself: the first work that it does once it has answered."""
    reached: Reached | None = None
    """How it is reached over the network, after that."""
    most: int | None = None
    """More like it are made beside it, one after the other, until there are so many, the last one
    took twice as long to answer as the first, or memory gives out. They are on no link.
    """
    restored: bool = False
    """Save its state, end it, and make it anew from that: for what is a virtual machine under
    QEMU.
    """
    power_cut: PowerCut | None = None
    """Cut its power while it writes, make it anew with the same disk, and look for what was made
    durable.
    """
    purpose: Purpose | None = None


class Phase(WireType):
    """Tasks that run at the same time. Background tasks start first: those that listen (receivers,
    echoes), all at once, and when they are ready all others at once. When these are ready too,
    all foreground tasks start. The phase ends when every foreground task has ended; the
    background ones are then stopped, those that listen last.
    """

    name: str
    tasks: tuple[Task, ...]
    probes: tuple[ProbeRequest, ...] = ()
    lives: tuple[Life, ...] = ()
    """Nodes that are made and ended within it, all at once, when its foreground tasks have ended."""
    limit_s: float
    """Seconds after which whatever still runs is killed and the trial is failed."""


class Trial(WireType):
    """One execution of one cell."""

    id: int
    knobs: tuple[KnobSetting, ...] = ()
    """Applied before the first phase, put back after the last one."""
    phases: tuple[Phase, ...]


class HelloStep(WireType):
    """First line, always."""

    step: Literal["hello"] = "hello"
    protocol: Literal[1] = 1


class BenchStep(WireType):
    """Make a bench. Answered by `bench` records."""

    step: Literal["bench"] = "bench"
    bench: Bench


class TrialStep(WireType):
    """Execute one trial on the bench. Answered by `trial_end`."""

    step: Literal["trial"] = "trial"
    trial: Trial


class TeardownStep(WireType):
    """Remove the bench; another may follow. Answered by `teardown`."""

    step: Literal["teardown"] = "teardown"


Step = Annotated[HelloStep | BenchStep | TrialStep | TeardownStep, Field(discriminator="step")]
"""One line of a plan. The end of the input is the end of the plan: everything made is removed."""
