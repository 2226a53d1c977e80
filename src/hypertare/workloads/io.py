"""`io`: blocks of a disk are read and written, and each one that is read is checked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hypertare.base.quantities import Share, Size, Working
from hypertare.base.units import human_size
from hypertare.base.variables import Found, OfGuests, Response, Values
from hypertare.probes.cpu_modes import CPU_MODES
from hypertare.probes.cpu_time import SCHEDSTAT
from hypertare.probes.kvm import KVM
from hypertare.probes.kvm_exits import KVM_EXITS
from hypertare.probes.outside import OUTSIDE
from hypertare.probes.probe import HOST
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase, sum_of_known
from hypertare.workloads import packet_work
from hypertare.workloads.latencies import in_seconds, percentiles
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import (
    SETTLE_S,
    NodeFacts,
    TaskInputs,
    Workload,
    WorkloadSettings,
    disk_misfit,
)

SECTOR = 512
_SETUP_BPS = 2 << 20
"""Bytes a second with which a disk is written before the time that counts, at the least."""
_KINDS = ("read", "write", "sync")
_LATENCIES = (
    *("read_p50", "read_p99", "read_p999"),
    *("write_p50", "write_p99", "write_p999"),
    *("sync_p50", "sync_p99"),
)


class IoSettings(WorkloadSettings):
    type: Literal["io"]
    pattern: plan.IoPattern = "random"
    """The order of blocks; or `sequential`."""
    engine: plan.IoEngine = "io_uring"
    """The interface to the kernel; or `pread`: one operation of a job at a time."""
    read: Share = 1.0
    """The share of reads among the operations; the others write."""
    block: Annotated[Size, Field(ge=SECTOR, le=64 << 20)] = 4096
    """Bytes of an operation."""
    span: Annotated[Size, Field(ge=SECTOR, le=1 << 44)] = 64 << 20
    """Bytes of the disk."""
    depth: Annotated[int, Field(ge=1, le=4096)] = 1
    """Operations of a job that are under way at once."""
    jobs: Annotated[int, Field(ge=1, le=256)] = 1
    """Threads, each with a part of the span."""
    direct: bool = True
    """Operations pass by the page cache of the node's kernel (O_DIRECT)."""
    sync_every: Annotated[int, Field(ge=1, lt=1 << 32)] | None = None
    """Writes of a job after which they are made durable (fdatasync). Default: never."""
    rate: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Operations a second that are begun, late ones too. Default: as fast as possible."""
    count: Annotated[int, Field(ge=1, lt=1 << 63)] | None = None
    """Operations after which a trial ends before its time."""
    duration: Working = 2.0
    """The length of a trial."""

    @model_validator(mode="after")
    def _fits(self) -> IoSettings:
        if self.block % SECTOR:
            raise ValueError(
                f"'block' is {self.block} bytes: it must be a multiple of {SECTOR}, a disk's sector"
            )
        if self.span % self.block:
            raise ValueError(
                f"'span' is {human_size(self.span)}, which is no multiple of 'block', "
                f"{human_size(self.block)}"
            )
        if self.engine == "pread" and self.depth > 1:
            raise ValueError(
                f"'depth' is {self.depth}, but by engine = 'pread' a job has one operation at a time: take "
                "engine = 'io_uring', or raise 'jobs'"
            )
        blocks = self.span // self.block // self.jobs
        if blocks < 2 * self.depth:
            raise ValueError(
                f"'depth' is {self.depth}, but a job has {blocks} blocks of the 'span', and needs two for "
                "each operation under way: raise 'span'"
            )
        return self

    @property
    def disk_bytes(self) -> int:
        return self.span

    @property
    def expected_s(self) -> float | None:
        return self.duration

    @property
    def limit_s(self) -> float:
        return self.duration + SETTLE_S + self.span / _SETUP_BPS

    def misfit(self, node: NodeFacts) -> str | None:
        return disk_misfit(node)

    def tasks(self, pair: Pair, inputs: TaskInputs) -> list[plan.Task]:
        # The same order of blocks in every trial and on every platform.
        seed = 1
        # Several that work on one disk have a part of it each.
        start = pair.place * self.span
        fill = plan.IoFill(
            block=self.block, span=self.span, start=start, direct=self.direct, seed=seed
        )
        work = plan.Io(
            pattern=self.pattern,
            engine=self.engine,
            block=self.block,
            span=self.span,
            start=start,
            depth=self.depth,
            jobs=self.jobs,
            read_share=self.read,
            direct=self.direct,
            sync_every=self.sync_every,
            rate=self.rate,
            count=self.count,
            duration_s=self.duration,
            seed=seed,
        )
        return [
            pair.task("fill", pair.node, fill, background=True),
            pair.task("io", pair.node, work),
        ]


def _for_each(name: str, unit: str, title: str, of_guests: OfGuests = "sum") -> Response:
    """What a read or write costs."""
    return Response(f"{name}_per_operation", unit, "lower", title, of_guests)


class Io(Workload):
    name = "io"
    settings = IoSettings
    own_responses = (
        Response("iops", "operations/s", "higher", "reads and writes over time"),
        Response("throughput", "B/s", "higher", "bytes read and written over time"),
        Response("read_p50", "s", "lower", "median latency of a read", "mean"),
        Response("read_p99", "s", "lower", "99th percentile of the latency of a read", "most"),
        Response("read_p999", "s", "lower", "99.9th percentile of the latency of a read", "most"),
        Response("write_p50", "s", "lower", "median latency of a write", "mean"),
        Response("write_p99", "s", "lower", "99th percentile of the latency of a write", "most"),
        Response("write_p999", "s", "lower", "99.9th percentile of the latency of a write", "most"),
        Response("sync_p50", "s", "lower", "median latency of making writes durable", "mean"),
        Response(
            "sync_p99",
            "s",
            "lower",
            "99th percentile of the latency of making writes durable",
            "most",
        ),
        _for_each("cpu", "s", "CPU time of the whole machine for a read or write"),
        _for_each(
            "task_cpu",
            "s",
            "the task's own time in user mode and in its kernel for a read or write",
            "mean",
        ),
        _for_each(
            "run",
            "s",
            "CPU time of all tasks of the machine for one, without interrupts of idle CPUs",
        ),
        _for_each(
            "task_switches", "switches", "context switches of the task for a read or write", "mean"
        ),
        _for_each("exits", "exits", "exits of the guest for one", "mean"),
        _for_each("halts", "exits", "of these, exits because the guest had nothing to do", "mean"),
        _for_each(
            "kicks",
            "writes",
            "the guest's writes to registers of devices, by which it notifies them, for one",
            "mean",
        ),
        _for_each("interrupts", "interrupts", "interrupts of devices for one", "mean"),
        _for_each("guest_cpu", "s", "CPU time of its virtual CPUs for one"),
        _for_each("driver_cpu", "s", "CPU time of Xen's driver domain for one"),
        _for_each(
            "vmm_cpu",
            "s",
            "CPU time of its VMM's other threads, and of what serves its files beside it, for one",
        ),
        _for_each("program", "s", "CPU time of the program in user mode for one"),
        _for_each("system", "s", "CPU time of its kernel, the machine's or the guest's, for one"),
        _for_each(
            "vcpu_user", "s", "CPU time of the VMM's own code in virtual CPUs' threads for one"
        ),
        _for_each(
            "vcpu_system",
            "s",
            "CPU time of the machine's kernel for virtual CPUs, KVM included, for one",
        ),
        _for_each("vmm_user", "s", "CPU time of the VMM's other threads in user mode for one"),
        _for_each(
            "vmm_system",
            "s",
            "CPU time of the machine's kernel for the VMM's other threads for one",
        ),
        _for_each(
            "guest_switches",
            "switches",
            "context switches of its virtual CPUs' threads for one",
            "mean",
        ),
        _for_each(
            "vmm_switches",
            "switches",
            "context switches of its VMM's other threads for one",
            "mean",
        ),
    )
    headline = "iops"
    is_timed = True

    def measure(self, phase: Phase) -> Found:
        return {
            "iops": phase.task_rate("io", "operations"),
            "throughput": phase.task_rate("io", "bytes"),
            **in_seconds(phase, "io", _LATENCIES),
            "task_cpu_per_operation": _each(phase, _task_cpu(phase)),
            "task_switches_per_operation": _each(phase, phase.total("io", "switches")),
        }

    def measure_together(self, parts: dict[int, Values], joined: Values, phase: Phase) -> Found:
        """Percentiles come from one histogram of all operations of all guests."""
        return {
            name: value
            for kind in _KINDS
            for name, value in percentiles(phase, "io", kind).items()
            if name in _LATENCIES
        }

    def measure_node(self, phase: Phase, node: str) -> Found:
        """Returns a guest's counters per operation; nothing for a node that its machine does not see from
        outside.
        """
        counts = packet_work.of_guest(phase, node)
        if node != HOST and (HOST, OUTSIDE.name) in phase.probes:
            # Domains of Xen: no threads of virtual CPUs and of a VMM.
            counts["guest_cpu"] = phase.probe(node, OUTSIDE.name, "cpu_s")
        elif counts:
            counts["halts"] = phase.probe(node, KVM.name, "halt_exits")
            counts["kicks"] = KVM_EXITS.register_writes(phase, node)
            for part, name in (("vcpu", "guest_switches"), ("vmm", "vmm_switches")):
                counts[name] = phase.probe(node, OUTSIDE.name, f"{part}_switches")
        server = phase.probe(node, OUTSIDE.name, "datapath_s")
        if server is not None and (vmm := counts.get("vmm_cpu")) is not None:
            counts["vmm_cpu"] = vmm + server
        found = {f"{name}_per_operation": _each(phase, count) for name, count in counts.items()}
        return found if phase.total("io", "operations") else {}

    def measure_machine(self, phase: Phase, machine_cpu: float) -> Found:
        driver = phase.probe(HOST, OUTSIDE.name, "cpu_s")
        found = {"driver_cpu_per_operation": _each(phase, driver)}
        if driver is None:
            # Under Xen no kernel sees all domains.
            found["run_per_operation"] = _each(phase, phase.probe(HOST, SCHEDSTAT.name, "run_s"))
            layers = CPU_MODES.layers(phase, _task_cpu(phase))
            found |= {f"{name}_per_operation": _each(phase, s) for name, s in layers.items()}
        return found | {"cpu_per_operation": _each(phase, machine_cpu)}


def _each(phase: Phase, count: float | None) -> float | None:
    """Returns a count per operation; None if either is not known."""
    operations = phase.total("io", "operations")
    return None if count is None or not operations else count / operations


def _task_cpu(phase: Phase) -> float | None:
    return sum_of_known(phase.total("io", name) for name in ("user_s", "system_s"))


IO = Io()
