"""What goes to the agent. Mirrors `crates/plan`; a test holds both to `schema/`.

Seconds end in `_s`; sizes are bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

PROTOCOL = 1

Accelerator = Literal["kvm", "tcg"]
Paging = Literal["nested", "shadow"]
Pages = Literal["4K", "2M", "thp"]
HUGE_PAGE = 2 << 20
"""Bytes of a page of `2M`."""
NicModel = Literal["virtio-net", "e1000", "e1000e", "vmxnet3", "rtl8139", "pcnet"]
Scheduler = Literal["credit", "credit2"]
LinkKind = Literal["bridge", "route", "hub"]
Discipline = Literal["pfifo", "pfifo_fast", "fq_codel", "noqueue"]
ProbeName = Literal[
    "stat",
    "softirqs",
    "interrupts",
    "net_dev",
    "vmstat",
    "schedstat",
    "net_snmp",
    "outside",
    "napi",
    "drops",
    "kvm",
    "kvm_exits",
    "memory",
    "vmm_memory",
    "hardware",
]


class Seam(BaseModel):
    """Base of everything that crosses the seam: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, allow_inf_nan=False)


# --- bench


class Host(Seam):
    type: Literal["host"] = "host"


class Container(Seam):
    type: Literal["container"] = "container"
    memory: int | None = None


class Guest(Seam):
    type: Literal["guest"] = "guest"
    cpus: int
    memory: int
    accelerator: Accelerator
    kernel: Path
    initramfs: tuple[Path, ...]
    cpu_model: str | None = None
    kernel_args: tuple[str, ...] = ()
    boot_limit_s: float
    paging: Paging | None = None
    pages: Pages | None = None


class Domain(Seam):
    type: Literal["domain"] = "domain"
    cpus: int
    memory: int
    weight: int | None = None
    kernel: Path
    initramfs: tuple[Path, ...]
    kernel_args: tuple[str, ...] = ()
    boot_limit_s: float


NodeKind = Annotated[Host | Container | Guest | Domain, Field(discriminator="type")]


class Interface(Seam):
    name: str
    link: str
    address: str
    more_addresses: tuple[str, ...] = ()
    mac: str | None = None
    nic: NicModel | None = None
    offloads: dict[str, bool] = {}


class Route(Seam):
    to: str
    via: str


class Queue(Seam):
    discipline: Discipline | None = None
    length: int | None = None


class Daemon(Seam):
    argv: tuple[str, ...]
    neighbours: tuple[str, ...]


class Router(Seam):
    ipv4: bool = True
    ipv6: bool = True
    queue: Queue | None = None
    daemon: Daemon | None = None


class Files(Seam):
    workdir: Path
    memory: int
    devices: tuple[Path, ...] = ()


class Node(Seam):
    name: str
    kind: NodeKind
    cpus: tuple[int, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    routes: tuple[Route, ...] = ()
    router: Router | None = None
    files: Files | None = None


class Uplink(Seam):
    mac: str
    nic: NicModel | None = None
    wire: str | None = None


class Trunk(Seam):
    """A line to another bridge, of a limited rate in b/s each way with all that is on the wire."""

    to: str
    rate_bps: int


class Link(Seam):
    """`hub`: NICs of the machine itself, wired together outside of it, known by their addresses.
    `uplink`: one that is a port of the bridge, or that guests are routed to. `trunk`: a line to another
    bridge.
    """

    name: str
    kind: LinkKind = "bridge"
    mtu: int = 1500
    uplink: Uplink | None = None
    trunk: Trunk | None = None


class Bench(Seam):
    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...] = ()
    weights: bool = False
    scheduler: Scheduler | None = None


# --- workloads


class Command(Seam):
    type: Literal["command"] = "command"
    argv: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: Path | None = None
    in_files: bool = False
    prepare: str | None = None
    warmup: bool = False


class StreamSend(Seam):
    type: Literal["stream_send"] = "stream_send"
    protocol: Literal["tcp", "udp"]
    to: str
    duration_s: float
    flows: int = 1
    message: int
    rate_bps: float | None = None
    socket_buffer: int | None = None
    batch: int | None = None
    segmentation: bool = False
    interval_s: float = 0.5
    omit_s: float = 0.0


class StreamReceive(Seam):
    type: Literal["stream_receive"] = "stream_receive"
    protocol: Literal["tcp", "udp"]
    on: str
    flows: int = 1
    message: int
    socket_buffer: int | None = None
    batch: int | None = None
    interval_s: float = 0.5
    omit_s: float = 0.0


class PingRequest(Seam):
    type: Literal["ping_request"] = "ping_request"
    protocol: Literal["udp", "tcp", "icmp"]
    to: str
    message: int = 64
    count: int | None = None
    duration_s: float
    interval_s: float = 0.0
    timeout_s: float = 1.0
    omit: int = 0


class PingReply(Seam):
    type: Literal["ping_reply"] = "ping_reply"
    protocol: Literal["udp", "tcp", "icmp"]
    on: str
    message: int = 64


class Burn(Seam):
    type: Literal["burn"] = "burn"
    share: float
    duration_s: float
    threads: int = 1


class Fork(Seam):
    type: Literal["fork"] = "fork"
    count: int
    touch: int = 0


class Touch(Seam):
    type: Literal["touch"] = "touch"
    memory: int
    pages: Pages | None = None
    count: int | None = None
    duration_s: float | None = None


class Sleep(Seam):
    type: Literal["sleep"] = "sleep"
    interval_s: float
    duration_s: float
    threads: int = 1


Workload = Annotated[
    Command | StreamSend | StreamReceive | PingRequest | PingReply | Burn | Fork | Touch | Sleep,
    Field(discriminator="type"),
]


# --- knobs and probes


class Mtu(Seam):
    type: Literal["mtu"] = "mtu"
    interface: str
    bytes: int


class Offload(Seam):
    type: Literal["offload"] = "offload"
    interface: str
    offload: str
    on: bool


class SocketBuffers(Seam):
    type: Literal["socket_buffers"] = "socket_buffers"
    bytes: int


class InterruptCpus(Seam):
    type: Literal["interrupt_cpus"] = "interrupt_cpus"
    interface: str
    cpus: tuple[int, ...]


class ReceiveSteering(Seam):
    type: Literal["receive_steering"] = "receive_steering"
    interface: str
    cpus: tuple[int, ...]


class NapiWeight(Seam):
    type: Literal["napi_weight"] = "napi_weight"
    interface: str
    weight: int


class NapiBudget(Seam):
    type: Literal["napi_budget"] = "napi_budget"
    packets: int
    microseconds: int | None = None


class DevWeight(Seam):
    type: Literal["dev_weight"] = "dev_weight"
    packets: int


class SchedulerWeight(Seam):
    """Of a guest of the bench or, without one, of the driver domain."""

    type: Literal["scheduler_weight"] = "scheduler_weight"
    weight: int
    guest: str | None = None


class InterruptCoalescing(Seam):
    type: Literal["interrupt_coalescing"] = "interrupt_coalescing"
    interface: str
    rx_usecs: int | None = None
    rx_frames: int | None = None
    tx_usecs: int | None = None
    tx_frames: int | None = None
    adaptive_rx: bool | None = None


class BusyPoll(Seam):
    type: Literal["busy_poll"] = "busy_poll"
    microseconds: int


class DeferHardIrqs(Seam):
    type: Literal["defer_hard_irqs"] = "defer_hard_irqs"
    interface: str
    polls: int
    flush_timeout_ns: int


ThpEnabled = Literal["always", "madvise", "never"]
ThpDefrag = Literal["always", "defer", "defer+madvise", "madvise", "never"]


class Thp(Seam):
    type: Literal["thp"] = "thp"
    enabled: ThpEnabled
    defrag: ThpDefrag | None = None
    scan_sleep_ms: int | None = None


class Ksm(Seam):
    type: Literal["ksm"] = "ksm"
    run: bool
    pages_to_scan: int | None = None
    sleep_ms: int | None = None


class HaltPollNs(Seam):
    type: Literal["halt_poll_ns"] = "halt_poll_ns"
    nanoseconds: int


Knob = Annotated[
    Mtu
    | Offload
    | SocketBuffers
    | InterruptCpus
    | ReceiveSteering
    | NapiWeight
    | NapiBudget
    | DevWeight
    | SchedulerWeight
    | InterruptCoalescing
    | BusyPoll
    | DeferHardIrqs
    | Thp
    | Ksm
    | HaltPollNs,
    Field(discriminator="type"),
]


class KnobSetting(Seam):
    node: str
    knob: Knob


class ProbeRequest(Seam):
    node: str
    probe: ProbeName


# --- steps


class Task(Seam):
    id: str
    node: str
    background: bool = False
    cpus: tuple[int, ...] = ()
    workload: Workload


class Phase(Seam):
    name: str
    tasks: tuple[Task, ...]
    probes: tuple[ProbeRequest, ...] = ()
    limit_s: float


class Trial(Seam):
    id: int
    knobs: tuple[KnobSetting, ...] = ()
    phases: tuple[Phase, ...]


class HelloStep(Seam):
    step: Literal["hello"] = "hello"
    protocol: int = PROTOCOL


class BenchStep(Seam):
    step: Literal["bench"] = "bench"
    bench: Bench


class TrialStep(Seam):
    step: Literal["trial"] = "trial"
    trial: Trial


class TeardownStep(Seam):
    step: Literal["teardown"] = "teardown"


Step = Annotated[HelloStep | BenchStep | TrialStep | TeardownStep, Field(discriminator="step")]
