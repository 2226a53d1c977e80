"""What comes back from the agent. Mirrors `crates/plan/src/record.rs`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from hypertare.protocol.plan import Accelerator, Knob, LinkKind, Paging, ProbeName, Scheduler, Seam

Values = dict[str, float]


class Hello(Seam):
    record: Literal["hello"] = "hello"
    node: str
    protocol: int
    agent: str
    kernel: str
    architecture: str
    cpus: int
    memory: int
    clocksource: str
    uptime_s: float


class Done(Seam):
    record: Literal["done"] = "done"
    node: str
    number: int
    error: str | None = None


class Backing(Seam):
    """Bytes: of a page set aside for the guest or of an ordinary one; touched; of those in huge pages."""

    page_size: int
    resident: int
    huge: int


class NodeReady(Seam):
    record: Literal["node"] = "node"
    node: str
    start_s: float
    ready_s: float
    accelerator: Accelerator | None = None
    vmm: str | None = None
    vmm_argv: tuple[str, ...] = ()
    cgroup: str | None = None
    paging: Paging | None = None
    backing: Backing | None = None
    joined: LinkKind | None = None
    scheduler: Scheduler | None = None


class InterfaceState(Seam):
    record: Literal["interface"] = "interface"
    node: str
    interface: str
    driver: str | None = None
    mtu: int
    offloads: dict[str, bool]
    rx_queues: int
    tx_queues: int


class BenchReady(Seam):
    record: Literal["bench"] = "bench"
    bench: str
    seconds_s: float
    error: str | None = None
    node: str | None = None


class Teardown(Seam):
    record: Literal["teardown"] = "teardown"
    seconds_s: float


class TrialBegin(Seam):
    record: Literal["trial_begin"] = "trial_begin"
    trial: int
    t_s: float


class TrialEnd(Seam):
    record: Literal["trial_end"] = "trial_end"
    trial: int
    t_s: float
    elapsed_s: float
    error: str | None = None
    lost: str | None = None


class Interval(Seam):
    record: Literal["interval"] = "interval"
    node: str
    trial: int
    phase: str
    task: str
    begin_s: float
    end_s: float
    values: Values
    heard_s: float | None = None
    """When the host agent heard it, on the clock of `t_s`; the other times are of the task's own clock."""


class Histogram(Seam):
    """`buckets`: pairs of the highest equivalent value and its count."""

    unit: str
    buckets: tuple[tuple[int, int], ...]


class TaskResult(Seam):
    record: Literal["result"] = "result"
    node: str
    trial: int
    phase: str
    task: str
    error: str | None = None
    values: Values = {}
    histograms: dict[str, Histogram] = {}
    text: dict[str, str] = {}


class ProbeValues(Seam):
    record: Literal["probe"] = "probe"
    node: str
    trial: int
    phase: str
    probe: ProbeName
    elapsed_s: float
    values: Values
    histograms: dict[str, Histogram] = {}
    unavailable: str | None = None
    absent: dict[str, str] = {}


class KnobOutcome(Seam):
    record: Literal["knob"] = "knob"
    node: str
    trial: int
    knob: Knob
    action: Literal["applied", "put_back"]
    before: str | None = None
    after: str | None = None
    error: str | None = None


class Log(Seam):
    record: Literal["log"] = "log"
    node: str
    level: Literal["info", "warning"]
    text: str


class Console(Seam):
    record: Literal["console"] = "console"
    node: str
    lines: tuple[str, ...]


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
    | Console,
    Field(discriminator="record"),
]

_ADAPTER: TypeAdapter[Record] = TypeAdapter(Record)


def parse(line: bytes | str) -> Record:
    """One line to one record.

    Raises:
        pydantic.ValidationError: the line is no record.
    """
    return _ADAPTER.validate_json(line)
