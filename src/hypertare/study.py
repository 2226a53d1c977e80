"""A study: a question, and everything needed to answer it. Read from TOML; no I/O but that.

A factor is a path to a setting (`sut.cpus`, `workloads.udp.rate`) with its levels. A cell is the
study with each factor's level put in that place and validated again, so whatever can be set can be
a factor, and `--set`, `[quick]` and factors are one mechanism.
"""

from __future__ import annotations

import copy
import difflib
import itertools
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from hypertare.claims import Claim
from hypertare.errors import InputError
from hypertare.image.programs import SETS as PROGRAM_SETS
from hypertare.image.programs import is_own
from hypertare.plan import (
    HUGE_PAGE,
    Discipline,
    NicModel,
    Pages,
    Paging,
    Scheduler,
    ThpDefrag,
    ThpEnabled,
)
from hypertare.plots import Plot
from hypertare.predictability.settings import PredictabilitySettings
from hypertare.published import PublishedFile
from hypertare.quantities import Duration, LineRate, OfferedRate, Share, Size
from hypertare.responses import has_elapsed, of_workload
from hypertare.routers import Family
from hypertare.search.settings import SearchSettings
from hypertare.summary import Level
from hypertare.trials import GUESTS
from hypertare.tune.settings import TuneSettings
from hypertare.units import human_size
from hypertare.walk.settings import WalkSettings

Platform = Literal["native", "container", "guest", "xen"]
BASELINE = "native"

CLOCKS: dict[str, tuple[str, ...]] = {"local": ("wall",), "emulated": ("virtual", "wall")}
"""By machine; the first is the one that it has unless told otherwise."""

LEAST_EMULATED = 128 << 20
"""Bytes with which the distribution's kernel boots and a stream runs."""

LEAST_DOMAIN = 112 << 20
"""Bytes with which a guest of Xen boots."""

LEAST_DRIVER_DOMAIN = 384 << 20
"""Bytes with which Xen's driver domain unpacks its image, what its guests boot from in it."""

MOST_GUESTS = 64

LEAST_IPV6_MTU = 1280
"""RFC 8200, section 5."""

GUEST_ONLY = frozenset({"nic", "kernel", "accelerator", "cpu_model", "kernel_args"})
"""Settings of `sut` that only a guest has: as factors they make several guests, not several benches."""


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sut(Settings):
    """The system under test, on every platform."""

    platforms: tuple[Platform, ...] = ("native", "container", "guest")
    cpus: Annotated[int, Field(ge=1)] = 1
    memory: Size = 512 << 20
    nic: NicModel = "virtio-net"
    kernel: str = "debian"
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"
    cpu_model: str | None = None
    kernel_args: tuple[str, ...] = ()
    paging: Paging | None = None
    pages: Pages | None = None
    boot_limit: Duration = 60.0
    workdir: Path | None = None
    guests: Annotated[int, Field(ge=1, le=MOST_GUESTS)] = 1
    scheduler: Scheduler = "credit"
    driver_memory: Size = 448 << 20
    programs: tuple[str, ...] = ()

    @field_validator("programs")
    @classmethod
    def _known_programs(cls, programs: tuple[str, ...]) -> tuple[str, ...]:
        for name in programs:
            if name not in PROGRAM_SETS and not is_own(name):
                close = difflib.get_close_matches(name, PROGRAM_SETS, n=1)
                hint = f" Did you mean '{close[0]}'?" if close else ""
                raise ValueError(
                    f"there is no set of programs '{name}'.{hint} "
                    f"There are: {', '.join(PROGRAM_SETS)}. A program of this host is named by its "
                    f"path, for example './{name}'"
                )
        return programs

    @field_validator("platforms")
    @classmethod
    def _baseline_first(cls, platforms: tuple[Platform, ...]) -> tuple[Platform, ...]:
        if len(set(platforms)) != len(platforms):
            raise ValueError("a platform stands twice in the list")
        if BASELINE not in platforms:
            raise ValueError("'native' must be among the platforms: it is the baseline")
        return platforms


class Emulated(Settings):
    """The PC that `machine = "emulated"` is; what is under test on it stands in `sut`.

    An instruction takes 2^`shift` ns of virtual time. `limit` is in the machine's own time, for one
    boot with all its trials; `host_limit` in the host's.
    """

    shift: Annotated[int, Field(ge=0, le=10)] = 3
    limit: Annotated[Duration, Field(ge=1)] = 3600.0
    host_limit: Annotated[Duration, Field(gt=0)] = 900.0


Routing = Literal["static", "ospf"]


class BenchSettings(Settings):
    """What lies around the system under test.

    `peers` of Xen's guests are processes of the driver domain, or guests too, so that it generates
    nothing. `driver`: how it joins guests to its NIC, by a bridge or by IP. `line_rate` is that of the
    line to all peers, each way, in b/s on the wire; none has none.
    """

    mtu: Annotated[int, Field(ge=576, le=65535)] = 1500
    topology: Literal["hosts", "routers"] = "hosts"
    family: Family = "ipv4"
    queue: Discipline | None = None
    queue_length: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    routing: Routing | tuple[Routing, ...] = "static"
    peers: Literal["driver", "guest"] = "driver"
    driver: Literal["bridge", "route"] = "bridge"
    line_rate: LineRate = None

    @model_validator(mode="after")
    def _of_the_topology(self) -> BenchSettings:
        if self.topology == "hosts":
            given = {"family", "queue", "queue_length", "routing"} & self.model_fields_set
            if given:
                raise ValueError(
                    f"{', '.join(sorted(given))}: for the topology 'routers' only; "
                    'set bench.topology = "routers"'
                )
        if self.topology == "routers" and self.driver == "route":
            raise ValueError(
                "bench.driver = 'route' is for the topology 'hosts': routers have bridges of their own"
            )
        if self.family == "ipv6" and self.mtu < LEAST_IPV6_MTU:
            raise ValueError(f"IPv6 needs an MTU of {LEAST_IPV6_MTU} bytes, not {self.mtu}")
        return self

    def routing_of(self, router: int) -> Routing:
        """How the router of this number, from 1, knows of networks."""
        return self.routing if isinstance(self.routing, str) else self.routing[router - 1]


class NeighbourSettings(Settings):
    """What the other guests do while the first one is measured: burn a share of a CPU, stream to or
    from their peers, or both.
    """

    share: Share | None = None
    stream: Literal["transmit", "receive"] | None = None

    @field_validator("share")
    @classmethod
    def _in_range(cls, share: float | None) -> float | None:
        return None if share is None else _a_share(share)

    @model_validator(mode="after")
    def _something(self) -> NeighbourSettings:
        if self.share is None and self.stream is None:
            raise ValueError("the neighbours do nothing: give them a 'share', a 'stream' or both")
        return self


def _a_share(share: float) -> float:
    if not 0 < share <= 1:
        raise ValueError("a share lies above 0 and at most at 1 (100 %)")
    return share


class Work(Settings):
    """What every workload may have: factors that are varied for it alone.

    A factor that the study has too takes these levels here.
    """

    factors: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = {}


class CommandSettings(Work):
    type: Literal["command"]
    command: str | tuple[str, ...]
    prepare: str | None = None
    limit: Duration = 600.0
    expected: Duration | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """A text goes to the shell, a list is taken as it is."""
        if isinstance(self.command, str):
            return ("/bin/sh", "-c", self.command)
        return self.command

    @field_validator("command")
    @classmethod
    def _not_empty(cls, command: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not command or not command[0].strip():
            raise ValueError("the command is empty")
        return command


class StreamSettings(Work):
    type: Literal["stream"]
    protocol: Literal["tcp", "udp"] = "tcp"
    direction: Literal["transmit", "receive", "both", "forward"] = "transmit"
    duration: Duration = 2.0
    omit: Duration = 0.2
    flows: Annotated[int, Field(ge=1, le=256)] = 1
    message: Size | None = None
    rate: OfferedRate = None
    socket_buffer: Size | None = None
    batch: int | None = None
    segmentation: bool = False
    interval: Duration = 0.25
    sender_cpus: tuple[int, ...] = ()
    receiver_cpus: tuple[int, ...] = ()
    neighbours: NeighbourSettings | None = None

    @property
    def message_bytes(self) -> int:
        """128 KiB writes for TCP; for UDP what fills a packet of the usual MTU."""
        return self.message or (131072 if self.protocol == "tcp" else 1472)

    @model_validator(mode="after")
    def _fits(self) -> StreamSettings:
        if self.protocol == "udp" and not 32 <= self.message_bytes <= 65507:
            raise ValueError("a UDP message must have 32 to 65507 bytes")
        if self.omit >= self.duration:
            raise ValueError("'omit' must be shorter than 'duration'")
        return self


class PingSettings(Work):
    type: Literal["ping"]
    protocol: Literal["udp", "tcp", "icmp"] = "udp"
    direction: Literal["transmit", "receive"] = "transmit"
    duration: Duration = 1.0
    message: Annotated[Size, Field(ge=16, le=65507)] = 64
    interval: Duration = 0.0
    timeout: Duration = 1.0
    omit: int = 20
    neighbours: NeighbourSettings | None = None


class BurnSettings(Work):
    type: Literal["burn"]
    share: Share = 1.0
    threads: Annotated[int, Field(ge=1)] = 1
    duration: Duration = 2.0

    @field_validator("share")
    @classmethod
    def _in_range(cls, share: float) -> float:
        return _a_share(share)


class ForkSettings(Work):
    type: Literal["fork"]
    count: Annotated[int, Field(ge=1, le=1_000_000_000)] = 300
    touch: Annotated[Size, Field(ge=0, le=1 << 40)] = 1 << 20
    limit: Duration = 600.0


class TouchSettings(Work):
    type: Literal["touch"]
    memory: Annotated[Size, Field(ge=4096, le=1 << 46)] = 64 << 20
    pages: Pages | None = None
    count: Annotated[int, Field(ge=1, lt=1 << 63)] | None = None
    duration: Annotated[Duration, Field(gt=0, le=86_400)] | None = None
    limit: Duration = 600.0

    @property
    def duration_s(self) -> float | None:
        """None where a count ends it."""
        return (self.duration or 2.0) if self.count is None else None

    @model_validator(mode="after")
    def _fits(self) -> TouchSettings:
        if self.count is not None and self.duration is not None:
            raise ValueError("'count' and 'duration' both say when to end: give one of them")
        page = 2 << 20 if self.pages == "2M" else 4096
        if self.memory % page:
            raise ValueError(f"'memory' is {self.memory} bytes, which is no multiple of {page}")
        return self


WorkloadSettings = Annotated[
    CommandSettings | StreamSettings | PingSettings | BurnSettings | ForkSettings | TouchSettings,
    Field(discriminator="type"),
]


Weight = Annotated[int, Field(ge=1, le=65535)]
"""Of a scheduler: xl(1), sched-credit and sched-credit2."""

Count = Annotated[int, Field(ge=0, le=(1 << 31) - 1)]


class NapiBudgetSettings(Settings):
    """What one softirq may take; without `microseconds` the kernel's limit of time stays."""

    packets: Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
    microseconds: Count | None = None


class CoalescingSettings(Settings):
    """As in ethtool(8); what is not given stays as it is."""

    rx_usecs: Count | None = None
    rx_frames: Count | None = None
    tx_usecs: Count | None = None
    tx_frames: Count | None = None
    adaptive_rx: bool | None = None

    @model_validator(mode="after")
    def _something(self) -> CoalescingSettings:
        if not self.model_fields_set:
            raise ValueError("nothing is set")
        return self


class DeferSettings(Settings):
    """Empty polls before the interrupt is switched on again, and nanoseconds to a timer's poll."""

    polls: Count
    flush_timeout_ns: Annotated[int, Field(ge=0, le=(1 << 63) - 1)]


class ThpSettings(Settings):
    """Transparent huge pages; a text alone is `enabled`. What is not given stays as it is."""

    enabled: ThpEnabled
    defrag: ThpDefrag | None = None
    scan_sleep_ms: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        return {"enabled": given} if isinstance(given, str) else given


class KsmSettings(Settings):
    """Same-page merging; true or false alone is `run`. What is not given stays as it is."""

    run: bool = True
    pages_to_scan: Annotated[int, Field(ge=1, le=(1 << 31) - 1)] | None = None
    sleep_ms: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        return {"run": given} if isinstance(given, bool) else given


class Knobs(Settings):
    """Settings applied for each trial and put back after it. Those of a link apply to both its ends."""

    mtu: Annotated[int, Field(ge=576, le=65535)] | None = None
    offloads: dict[str, bool] = {}
    socket_buffers: Size | None = None
    interrupt_cpus: tuple[int, ...] | None = None
    receive_steering: tuple[int, ...] | None = None
    napi_weight: Annotated[int, Field(ge=1, le=1024)] | None = None
    napi_budget: NapiBudgetSettings | None = None
    dev_weight: Annotated[int, Field(ge=1, le=(1 << 31) - 1)] | None = None
    interrupt_coalescing: CoalescingSettings | None = None
    busy_poll: Count | None = None
    defer_hard_irqs: DeferSettings | None = None
    thp: ThpSettings | None = None
    host_thp: ThpSettings | None = None
    ksm: KsmSettings | None = None
    driver_weight: Weight | None = None
    guest_weights: tuple[Weight, ...] | None = None


HOST_KNOBS = ("host_thp", "ksm")
"""Those of the machine below a guest."""

ChosenProbe = Literal["napi", "drops", "kvm", "kvm_exits", "memory", "hardware"]
"""Probes that a study may have or do without; the others are always read."""


class DesignSettings(Settings):
    """How many trials, and when to stop."""

    warmup: Annotated[int, Field(ge=0)] = 1
    min_trials: Annotated[int, Field(ge=2)] = 5
    max_trials: Annotated[int, Field(ge=2)] = 30
    precision: Share = 0.02
    time_limit: Duration = 600.0
    blocks_per_boot: Annotated[int, Field(ge=1)] = 2
    min_boots: Annotated[int, Field(ge=1)] = 3
    threshold: Share = 0.0

    @model_validator(mode="after")
    def _ordered(self) -> DesignSettings:
        if self.max_trials < self.min_trials:
            raise ValueError("'max_trials' must be at least 'min_trials'")
        if not self.precision > 0:
            raise ValueError("'precision' must be above 0")
        return self


class Study(Settings):
    """A validated study: the settings of one cell, or of the whole before its factors are put in."""

    name: str
    question: str
    description: str = ""
    machine: Literal["local", "emulated"] = "local"
    clock: Literal["wall", "virtual"] = "wall"
    sut: Sut = Sut()
    emulated: Emulated = Emulated()
    bench: BenchSettings = BenchSettings()
    workloads: Annotated[dict[str, WorkloadSettings], Field(min_length=1)]
    knobs: Knobs = Knobs()
    probes: tuple[ChosenProbe, ...] = ("napi", "drops", "kvm")
    factors: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = {}
    design: DesignSettings = DesignSettings()
    claims: tuple[Claim, ...] = ()
    plots: tuple[Plot, ...] = ()
    tune: TuneSettings | None = None
    search: SearchSettings | None = None
    predictability: PredictabilitySettings = PredictabilitySettings()
    walk: WalkSettings | None = None
    published: tuple[PublishedFile, ...] = ()
    quick: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _of_the_machine(cls, raw: Any) -> Any:
        """What is not said depends on the machine."""
        if not isinstance(raw, dict) or raw.get("machine") != "emulated":
            return raw
        sut = raw.get("sut", {})
        if isinstance(sut, dict):
            sut = {"platforms": [BASELINE], **sut}
        return {"clock": CLOCKS["emulated"][0], **raw, "sut": sut}

    @model_validator(mode="after")
    def _fits_the_machine(self) -> Study:
        if self.clock not in CLOCKS[self.machine]:
            raise ValueError(
                f"the machine '{self.machine}' has no {self.clock} clock: "
                f"it has {' or '.join(CLOCKS[self.machine])}"
            )
        self._maps_memory()
        if self.machine != "emulated":
            self._leaves_this_host_alone()
            return self
        if "xen" not in self.sut.platforms and self.sut.memory < LEAST_EMULATED:
            raise ValueError(
                f"sut.memory is {human_size(self.sut.memory)}, but an emulated machine needs "
                f"{human_size(LEAST_EMULATED)}: its kernel would not fit, or end in a loop"
            )
        if self.clock == "virtual" and self.sut.cpus != 1:
            raise ValueError(
                f"sut.cpus is {self.sut.cpus}, but virtual time has one count of instructions: "
                "several CPUs would take turns and not work at the same time. Ask for one CPU, or "
                "for clock = 'wall'"
            )
        return self

    @model_validator(mode="after")
    def _line_can_be_had(self) -> Study:
        if self.bench.line_rate is None:
            return self
        if not self.needs_network:
            raise ValueError("bench.line_rate is set, but no workload sends anything: leave it out")
        if self.machine == "emulated" and self.sut.nic != "virtio-net":
            raise ValueError(
                f"bench.line_rate needs sut.nic = 'virtio-net' on an emulated machine, not "
                f"'{self.sut.nic}': of QEMU's NICs only that one sends by a clock"
            )
        if self.knobs.mtu is not None and self.knobs.mtu > self.bench.mtu:
            raise ValueError(
                f"knobs.mtu is {self.knobs.mtu}, but the line has bench.mtu = {self.bench.mtu}: "
                "raise that too"
            )
        return self

    def _maps_memory(self) -> None:
        if self.sut.paging is not None and self.sut.accelerator == "tcg":
            raise ValueError(
                f"sut.paging is {self.sut.paging}, but nested and shadow page tables are KVM's, and "
                "sut.accelerator is tcg: leave one of them out"
            )
        if self.sut.pages == "2M" and self.sut.memory % HUGE_PAGE:
            raise ValueError(
                f"sut.memory is {human_size(self.sut.memory)}, which is no whole number of the pages "
                "of 2 MB that sut.pages asks for"
            )

    def _leaves_this_host_alone(self) -> None:
        for name in HOST_KNOBS:
            if getattr(self.knobs, name) is not None:
                raise ValueError(
                    f"knobs.{name} is a setting of the whole machine below the guests, here of this "
                    "host, which is left alone: take machine = 'emulated', or set it yourself"
                )

    @model_validator(mode="after")
    def _programs_are_of_an_image(self) -> Study:
        if self.sut.programs and self.machine != "emulated":
            raise ValueError(
                "sut.programs are put into the image of an emulated machine; on this host commands "
                "find its own programs, and what they work on in sut.workdir"
            )
        if "sut.programs" in self.factors:
            raise ValueError(
                "sut.programs cannot be a factor: all machines of a run have the same image"
            )
        return self

    @model_validator(mode="after")
    def _walks_can_be_joined(self) -> Study:
        if self.walk is None:
            return self
        if self.clock != "virtual":
            raise ValueError(
                "[walk] is for virtual time: by the wall clock a processor's page walks are in the "
                "elapsed time already"
            )
        for name in self.walk.workloads:
            if name not in self.workloads:
                known = ", ".join(self.workloads)
                raise ValueError(
                    f"walk.workloads: there is no workload '{name}'; there are: {known}"
                )
            if not has_elapsed(self.workloads[name].type):
                raise ValueError(f"walk.workloads: '{name}' has no elapsed time to add walks to")
        if not self.walked:
            raise ValueError("[walk]: no workload has an elapsed time to add walks to")
        if "guest" in self.sut.platforms:
            for path, given in (("paging", self.sut.paging), ("pages", self.sut.pages)):
                if given is None and f"sut.{path}" not in self.factors:
                    raise ValueError(f"[walk] needs to know sut.{path} of the guest: set it")
        return self

    @property
    def walked(self) -> tuple[str, ...]:
        """The workloads whose page walks are modelled."""
        if self.walk is None:
            return ()
        wanted = self.walk.workloads or tuple(self.workloads)
        return tuple(name for name in wanted if has_elapsed(self.workloads[name].type))

    @model_validator(mode="after")
    def _routing_can_be_had(self) -> Study:
        routing = self.bench.routing
        if not isinstance(routing, str) and len(routing) < self.bench_guests:
            raise ValueError(
                f"bench.routing has {len(routing)} of them for {self.bench_guests} routers: give one "
                "each, or one word for all"
            )
        if self.speaks_ospf and set(self.sut.platforms) == {BASELINE}:
            raise ValueError(
                "bench.routing = 'ospf' is for routers that are containers or guests: natively one "
                "kernel is all of them and knows every network. Add a platform to sut.platforms"
            )
        return self

    @model_validator(mode="after")
    def _streams_go_the_topology_s_way(self) -> Study:
        routed = self.bench.topology == "routers"
        for name, workload in self.workloads.items():
            if not isinstance(workload, StreamSettings):
                continue
            if routed and workload.direction not in ("forward", "both"):
                raise ValueError(
                    f'workloads.{name}: routers forward; set direction = "forward" (from a-K to '
                    'b-K) or "both"'
                )
            if not routed and workload.direction == "forward":
                raise ValueError(
                    f'workloads.{name}: only routers forward; set bench.topology = "routers"'
                )
        return self

    @model_validator(mode="after")
    def _guests_fit(self) -> Study:
        guests, weights = self.sut.guests, self.knobs.guest_weights
        if weights is not None and len(weights) < guests:
            raise ValueError(
                f"knobs.guest_weights has {len(weights)} of them for sut.guests = {guests}: "
                "give one a guest"
            )
        if "xen" not in self.sut.platforms:
            if self.bench.peers == "guest":
                raise ValueError("bench.peers = 'guest' is for the platform xen")
            if self.bench.driver == "route":
                raise ValueError("bench.driver = 'route' is for the platform xen")
            return self
        if self.bench.driver == "route" and self.machine != "emulated":
            raise ValueError(
                "bench.driver = 'route' needs machine = 'emulated': on a host of your own the driver "
                "domain's addresses and routes are left alone"
            )
        if self.sut.memory < LEAST_DOMAIN:
            raise ValueError(
                f"sut.memory is {human_size(self.sut.memory)}, but a guest of Xen needs "
                f"{human_size(LEAST_DOMAIN)} to boot"
            )
        if self.machine != "emulated":
            self._fits_a_users_xen()
        elif self.sut.driver_memory < LEAST_DRIVER_DOMAIN:
            raise ValueError(
                f"sut.driver_memory is {human_size(self.sut.driver_memory)}, but Xen's driver domain "
                f"needs {human_size(LEAST_DRIVER_DOMAIN)} for its image"
            )
        return self

    def _fits_a_users_xen(self) -> None:
        """What guests of Xen on this host have not."""
        if "guest" in self.sut.platforms:
            raise ValueError(
                "the platforms guest and xen do not stand on one host: under Xen there is no KVM. "
                "Take machine = 'emulated', or one of them"
            )
        if self.bench.peers == "guest":
            raise ValueError(
                "bench.peers = 'guest' needs machine = 'emulated': on a Xen host of your own peers "
                "are processes of its driver domain"
            )
        if self.speaks_ospf:
            raise ValueError(
                "bench.routing = 'ospf' is not for guests of Xen on this host: take 'static'"
            )
        if self.needs_files:
            raise ValueError(
                "guests of Xen do not see this host's files, so commands cannot run in them: leave "
                "out workloads of the type command, or take machine = 'emulated' with sut.programs"
            )

    @model_validator(mode="after")
    def _paging_is_a_guests(self) -> Study:
        if "guest" in self.sut.platforms:
            return self
        for key in ("paging", "pages"):
            if getattr(self.sut, key) is not None:
                raise ValueError(f"sut.{key} is of guests: add 'guest' to sut.platforms")
        return self

    @model_validator(mode="after")
    def _factors_of_a_workload_are_its_own(self) -> Study:
        for name, workload in self.workloads.items():
            for path in workload.factors:
                if not _is_easy(path, name) or path == f"workloads.{name}.factors":
                    raise ValueError(
                        f"workloads.{name}.factors: '{path}' cannot be varied for '{name}' alone; "
                        f"that can its own keys (workloads.{name}....), knobs (knobs....) and "
                        f"{GUESTS}"
                    )
        return self

    @model_validator(mode="after")
    def _plots_show_what_is_there(self) -> Study:
        walked = self.walked
        responses = {
            name: [one.name for one in of_workload(workload.type, walked=name in walked)]
            for name, workload in self.workloads.items()
        }
        bench = {path: v for path, v in self.factors.items() if not path.startswith("workloads.")}
        modelled = self.walk.factors if self.walk else {}
        factors = {
            name: {**bench, **self.factors_of(name), **(modelled if name in walked else {})}
            for name in self.workloads
        }
        for plot in self.plots:
            problem = plot.problem(responses, factors)
            if problem is not None:
                raise ValueError(f"plots: '{plot.title}': {problem}")
        return self

    def factors_of(self, workload: str) -> dict[str, tuple[Any, ...]]:
        """The factors whose levels a trial of this workload may take without another bench."""
        shared = {p: levels for p, levels in self.factors.items() if _is_easy(p, workload)}
        return {**shared, **self.workloads[workload].factors}

    @property
    def all_factors(self) -> dict[str, tuple[Any, ...]]:
        """Every factor with all of its levels, those of single workloads too."""
        found = dict(self.factors)
        for workload in self.workloads.values():
            for path, levels in workload.factors.items():
                known = found.get(path, ())
                found[path] = (*known, *(level for level in levels if level not in known))
        return found

    def setting(self, path: str) -> Any:
        """What stands at a dotted path; none where nothing does."""
        found: Any = self
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else getattr(found, name, None)
        return found

    @property
    def bench_guests(self) -> int:
        """How many stand on a bench: the most that work at once in any cell."""
        return max(self.sut.guests, *self.all_factors.get(GUESTS, ()), 1)

    @property
    def speaks_ospf(self) -> bool:
        """Whether any router may have a routing daemon."""
        levels = (self.bench.routing, *self.all_factors.get("bench.routing", ()))
        return any("ospf" in level for level in levels)

    @property
    def has_line(self) -> bool:
        """Whether the line to the peers has a limited rate in any cell."""
        levels = (self.bench.line_rate, *self.factors.get("bench.line_rate", ()))
        return any(level not in (None, "none") for level in levels)

    @property
    def routed(self) -> bool:
        """Whether the systems under test are routers between ends of their own."""
        return self.bench.topology == "routers" and self.needs_network

    @property
    def needs_network(self) -> bool:
        return any(settings.type in ("stream", "ping") for settings in self.workloads.values())

    @property
    def needs_files(self) -> bool:
        """An emulated machine has the programs of its image and no others."""
        return self.machine == "local" and any(
            settings.type == "command" for settings in self.workloads.values()
        )


def _is_easy(path: str, workload: str) -> bool:
    """Whether it can be varied from trial to trial on one bench: a factor of guests picks the first
    ones of those that stand there.
    """
    return path == GUESTS or path.startswith((f"workloads.{workload}.", "knobs."))


class StudyFile:
    """A study's text, with overrides, from which the study and its cells are validated."""

    def __init__(self, text: str, source: str, folder: Path | None = None) -> None:
        self.text = text
        self.source = source
        self.folder = folder or Path.cwd()
        try:
            self.raw: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{source}: this is no valid TOML: {error}") from None

    @classmethod
    def read(cls, path: Path) -> StudyFile:
        try:
            return cls(path.read_text(encoding="utf-8"), str(path), path.resolve().parent)
        except OSError as error:
            raise InputError(f"{path}: the study cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path}: the study is not UTF-8 text") from None

    @classmethod
    def of(cls, raw: dict[str, Any], source: str) -> StudyFile:
        """A study made by a program; its text is what `restored` needs, and no more."""
        file = cls("", source)
        file.raw = raw
        return file

    @classmethod
    def restored(cls, text: str, raw: dict[str, Any], source: str, folder: Path) -> StudyFile:
        """The study of an earlier run, with the overrides that it was run with."""
        file = cls(text, source, folder)
        file.raw = raw
        return file

    def override(self, assignments: list[str], quick: bool) -> None:
        """Puts `[quick]` and then `a.b=value` assignments in; values are TOML, else text."""
        if quick:
            for path, value in self.raw.get("quick", {}).items():
                put(self.raw, path, value, f"{self.source}: [quick]")
        for assignment in assignments:
            path, separator, value = assignment.partition("=")
            if not separator or not path.strip():
                raise InputError(
                    f"--set {assignment}: this is no assignment.",
                    "Write for example --set sut.cpus=2 or --set 'sut.platforms=[\"native\"]'.",
                )
            put(self.raw, path.strip(), _toml_value(value.strip()), f"--set {assignment}")

    def study(self) -> Study:
        """The study, validated, each of its factors' levels too."""
        study = self._validate(self.raw)
        for path, levels in study.all_factors.items():
            for level in levels:
                self.cell({path: level})
        return study

    def cell(self, levels: dict[str, Any]) -> Study:
        """The study with these factors' levels in their places."""
        raw = copy.deepcopy(self.raw)
        for path, level in levels.items():
            put(raw, path, level, f'{self.source}: factor "{path}"')
        return self._validate(raw)

    def _validate(self, raw: dict[str, Any]) -> Study:
        try:
            return Study.model_validate(raw)
        except ValidationError as error:
            raise InputError(self._explain(error)) from None

    def _explain(self, error: ValidationError) -> str:
        return "\n".join(self._explain_one(dict(item)) for item in error.errors())

    def _explain_one(self, item: dict[str, Any]) -> str:
        location = _key_path(item["loc"])
        key = ".".join(location) or "the study"
        line = _line_of(self.text, location)
        where = f"{self.source}:{line}: {key}" if line else f"{self.source}: {key}"
        if item["type"] == "extra_forbidden":
            known = _known_keys(self.raw, location[:-1])
            close = difflib.get_close_matches(location[-1], known, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            return f"{where}: there is no such key.{hint} Allowed: {', '.join(known)}."
        if item["type"] == "missing":
            return f"{where}: this key is missing."
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] in ("literal_error", "union_tag_invalid"):
            given = item["input"] if item["type"] == "literal_error" else item["ctx"]["tag"]
            allowed = item["ctx"].get("expected") or item["ctx"].get("expected_tags", "")
            words = [word.strip(" '") for word in allowed.replace(" or ", ",").split(",")]
            close = difflib.get_close_matches(str(given), words, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            return f"{where}: '{given}' is not allowed here.{hint} Allowed: {', '.join(words)}."
        given = item.get("input")
        if isinstance(given, str | int | float | bool) and str(given) not in message:
            message += f" (given: {given})"
        return f"{where}: {message}"


def _key_path(location: tuple[int | str, ...]) -> list[str]:
    """The path as the user wrote it: without the names of the union members that pydantic adds."""
    parts = [str(part) for part in location]
    if len(parts) > 2 and parts[0] == "workloads":
        del parts[2]
    return [part for part in parts if part != "str" and not part.startswith("tuple[")]


def put(raw: dict[str, Any], path: str, value: object, where: str) -> None:
    """Puts a value at a dotted path; every table on the way must be or become one.

    Raises:
        InputError: the path leads through something that is no table, or to no known workload.
    """
    *tables, key = path.split(".")
    target = raw
    for depth, name in enumerate(tables):
        if depth == 1 and tables[0] == "workloads" and name not in target:
            close = difflib.get_close_matches(name, target, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise InputError(
                f"{where}: there is no workload '{name}'.{hint} There are: {', '.join(target)}."
            )
        target = target.setdefault(name, {})
        if not isinstance(target, dict):
            raise InputError(f"{where}: '{name}' in '{path}' is no table.")
    target[key] = value


def _toml_value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _known_keys(raw: dict[str, Any], location: list[str]) -> list[str]:
    """The keys that a table of a study may have."""
    models: dict[str, type[BaseModel]] = {
        "": Study,
        "sut": Sut,
        "bench": BenchSettings,
        "emulated": Emulated,
        "knobs": Knobs,
        "design": DesignSettings,
        "claims": Claim,
        "plots": Plot,
        "tune": TuneSettings,
        "search": SearchSettings,
        "predictability": PredictabilitySettings,
        "walk": WalkSettings,
        "published": PublishedFile,
    }
    if len(location) >= 2 and location[0] == "workloads":
        kind = raw.get("workloads", {}).get(location[1], {}).get("type")
        model = {
            "command": CommandSettings,
            "stream": StreamSettings,
            "ping": PingSettings,
            "burn": BurnSettings,
            "fork": ForkSettings,
            "touch": TouchSettings,
        }.get(kind)
        return list(model.model_fields) if model else []
    model = models.get(location[0] if location else "")
    return list(model.model_fields) if model else []


def _line_of(text: str, location: list[str]) -> int | None:
    """The line of a key in TOML text, as far as a look at its headers can tell."""
    names = [part for part in location if not part.isdigit()]
    if not names:
        return None
    table: list[str] = []
    header_line = None
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            table = [part.strip(' "') for part in stripped.strip("[] ").split(".")]
            if table == names[: len(table)]:
                header_line = number
            continue
        key = stripped.split("=", 1)[0].strip(' "')
        path = [*table, *([key] if key in names else key.split("."))]
        if path == names or (stripped and path == names[: len(path)] and len(path) > len(table)):
            return number
    return header_line


# --- built-in studies


def builtin_folder() -> Path:
    """The built-in studies: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).resolve().parent
    inside = package / "studies"
    return inside if inside.is_dir() else package.parents[1] / "studies"


def builtin_names() -> list[str]:
    return sorted(path.stem for path in builtin_folder().glob("*.toml"))


def find(name: str) -> StudyFile:
    """A built-in study by name, or a file by path.

    Raises:
        InputError: neither is there.
    """
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        return StudyFile.read(path)
    builtin = builtin_folder() / f"{name}.toml"
    if builtin.is_file():
        return StudyFile.read(builtin)
    names = builtin_names()
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    raise InputError(
        f"'{name}' is neither a built-in study nor a file.{hint}",
        f"Built-in: {', '.join(names)}. `hypertare studies` tells their questions.",
    )


# --- cells


def combinations(factors: dict[str, tuple[Any, ...]]) -> list[dict[str, Level]]:
    """All combinations of levels, in the factors' order (a full factorial)."""
    return [
        dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())
    ]
