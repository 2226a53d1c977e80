"""What comes back from the agent.

Made from `schema/` by `python -m tests.protocol`: change `crates/plan`, not this.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hypertare.protocol.plan import (
    Accelerator,
    Datapath,
    Knob,
    LinkKind,
    Paging,
    ProbeName,
    Purpose,
    Scheduler,
    TscMode,
    VirtualCpus,
)
from hypertare.protocol.wire_type import WireType


class Backing(WireType):
    """How the machine's own page tables map a guest's memory, in bytes."""

    page_size: int
    """Of the pages that it is made of: 2 MB from the pool of huge pages, else 4 KB."""
    resident: int
    """Touched by now."""
    huge: int
    """Of those, what is mapped by huge pages, from the pool or transparent ones."""


class Histogram(WireType):
    """Counts by value: each bucket is its highest equivalent value and how often it was seen."""

    unit: str
    """Of the values, for example `ns`."""
    buckets: tuple[tuple[int, int], ...]


KnobAction = Literal["applied", "put_back"]

LogLevel = Literal["info", "warning"]


class Hello(WireType):
    """First record of every agent."""

    record: Literal["hello"] = "hello"
    node: str
    """Empty until the agent knows its name."""
    protocol: int
    agent: str
    kernel: str
    architecture: str
    cpus: int
    memory: int
    """Bytes of memory."""
    clocksource: str
    processor: str | None = None
    """As its kernel calls it; of a machine that was given, for others have this machine's."""
    uptime_s: float
    """Seconds since the node's kernel started."""
    began_s: float | None = None
    """The same when its agent began, which is the first process of what boots for it; of others
    absent.
    """


class Done(WireType):
    """An order was carried out, or could not be."""

    record: Literal["done"] = "done"
    node: str
    number: int
    error: str | None = None
    clock_s: float
    """The node's monotonic clock when it answered."""


class NodeReady(WireType):
    """A node is ready to work."""

    record: Literal["node"] = "node"
    node: str
    start_s: float
    """From starting the node to its agent's first record."""
    ready_s: float
    """From starting the node to having carried out its setup."""
    accelerator: Accelerator | None = None
    """What the VMM reports to be using; guests only."""
    vmm: str | None = None
    """The VMM's version; guests only."""
    vmm_argv: tuple[str, ...] = ()
    """The VMM's command line; guests only."""
    cgroup: str | None = None
    """Whether a cgroup accounts for the node, and which version."""
    paging: Paging | None = None
    """The page tables that KVM gives its guests, as its module says; guests under KVM only."""
    backing: Backing | None = None
    """By which pages the machine maps the guest's memory; guests only."""
    datapath: Datapath | None = None
    """What moves its packets; guests with a virtio-net only."""
    datapath_cpus: tuple[int, ...] = ()
    """CPUs of the machine that what moves them may use, where that is bound, as the machine says."""
    joined: LinkKind | None = None
    """How the driver domain is found to join its interfaces, and what gives it CPUs; guests of Xen
    only.
    """
    scheduler: Scheduler | None = None
    tsc: TscMode | None = None
    """How it reads the time-stamp counter, as Xen says; guests of Xen only."""
    placed: VirtualCpus | None = None
    """Its virtual CPUs, and the machine's that they may run on; guests of Xen, and those that are
    bound.
    """
    driver: VirtualCpus | None = None
    """Those of Xen's driver domain; guests of Xen only."""


class InterfaceState(WireType):
    """An interface as it is, after what was asked for was set."""

    record: Literal["interface"] = "interface"
    node: str
    interface: str
    driver: str | None = None
    mtu: int
    offloads: dict[str, bool]
    """Offloads by ethtool's short names."""
    rx_queues: int
    tx_queues: int


class BenchReady(WireType):
    """A bench is ready, or could not be made; `node` is the one to blame, if one is."""

    record: Literal["bench"] = "bench"
    bench: str
    seconds_s: float
    error: str | None = None
    node: str | None = None


class Teardown(WireType):
    record: Literal["teardown"] = "teardown"
    seconds_s: float


class TrialBegin(WireType):
    record: Literal["trial_begin"] = "trial_begin"
    trial: int
    t_s: float


class TrialEnd(WireType):
    """`error` is absent when every phase ended in good order; `lost` names a node that is gone, so
    that the bench has to be made anew.
    """

    record: Literal["trial_end"] = "trial_end"
    trial: int
    t_s: float
    elapsed_s: float
    error: str | None = None
    lost: str | None = None


class Interval(WireType):
    """One interval of a stream, reported by the end that counts."""

    record: Literal["interval"] = "interval"
    node: str
    trial: int
    phase: str
    task: str
    begin_s: float
    """Seconds since the task began to count."""
    end_s: float
    values: dict[str, float]
    heard_s: float | None = None
    """When the host agent heard it, on the clock of `t_s`. Whatever a node says here is replaced.
    Nodes have clocks of their own: this is what sets those of tasks against each other.
    """
    purpose: Purpose | None = None
    """Of the task, as its plan says. Whatever a node says here is replaced."""


class TaskResult(WireType):
    """How a task ended."""

    record: Literal["result"] = "result"
    node: str
    trial: int
    phase: str
    task: str
    error: str | None = None
    """Absent when the task did what it should."""
    values: dict[str, float] = dict[str, float]()
    histograms: dict[str, Histogram] = dict[str, Histogram]()
    text: dict[str, str] = dict[str, str]()
    """For example the last part of a command's output."""
    purpose: Purpose | None = None
    """Of the task, as its plan says. Whatever a node says here is replaced."""


class ProbeValues(WireType):
    """Differences of counters over a phase."""

    record: Literal["probe"] = "probe"
    node: str
    trial: int
    phase: str
    probe: ProbeName
    elapsed_s: float
    """Seconds between the two readings."""
    values: dict[str, float]
    histograms: dict[str, Histogram] = dict[str, Histogram]()
    unavailable: str | None = None
    """Given when the probe is not available here; `values` is then empty."""
    absent: dict[str, str] = dict[str, str]()
    """Values that this machine cannot give, by name (`*` for any text), each with the reason."""


class KnobOutcome(WireType):
    """A knob was applied or put back, or is not available here."""

    record: Literal["knob"] = "knob"
    node: str
    trial: int
    knob: Knob
    action: KnobAction
    before: str | None = None
    """How it was before, and how it is now, as read back."""
    after: str | None = None
    error: str | None = None
    """Given when it could not be applied or put back."""


class Log(WireType):
    """Something a person should know; never needed to compute a response."""

    record: Literal["log"] = "log"
    node: str
    level: LogLevel
    text: str


class Console(WireType):
    """The last lines of a node's console, after it failed."""

    record: Literal["console"] = "console"
    node: str
    lines: tuple[str, ...]


class Survey(WireType):
    """What a host is that benches are to be made on: the only record of `hypertare-agent survey`."""

    record: Literal["survey"] = "survey"
    host_name: str
    processor: str
    """As its kernel calls it."""
    kernel: str
    architecture: str
    distribution: str
    cpus: tuple[int, ...]
    """By number, those that the agent may use."""
    online: int
    """How many it has."""
    memory: int
    """Bytes."""
    available: int
    load: float
    """Of the last minute: tasks that ran or waited to."""
    qemu: str | None = None
    """QEMU's version."""
    absent: dict[str, str]
    """What it cannot, of `sandbox`, `qemu`, `kvm`, `tun`, `vhost`, `cgroup` and `xen`, each with
    the reason.
    """


Record = Annotated[
    Hello
    | Done
    | NodeReady
    | InterfaceState
    | BenchReady
    | Teardown
    | TrialBegin
    | TrialEnd
    | Interval
    | TaskResult
    | ProbeValues
    | KnobOutcome
    | Log
    | Console
    | Survey,
    Field(discriminator="record"),
]
