"""The base classes of workloads: their settings in a study, and their responses.

Each kind has one file beside this one and an entry in `registry.py`. A method that depends on a study's
settings belongs to the settings, any other to the kind. Other modules never compare kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hypertare.base.closed import Settings
from hypertare.base.quantities import FactorLevels, Limit, OfCapacity
from hypertare.base.variables import ELAPSED, Found, Response, Values
from hypertare.probes import registry
from hypertare.probes.cpu_time import STAT
from hypertare.probes.outside import OUTSIDE
from hypertare.probes.registry import ChosenProbe
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase
from hypertare.stats.line_rate import Version
from hypertare.workloads import guests
from hypertare.workloads.neighbours import NeighbourSettings
from hypertare.workloads.pair import Pair

MACHINE_CPU = (STAT.machine_cpu, STAT.machine_steal)

CPU = (
    STAT.machine_cpu,
    OUTSIDE.cpu,
    STAT.own_cpu,
    STAT.machine_steal,
    STAT.own_steal,
    *guests.OF_CPU,
)

POLLING = (*registry.responses("polling"), STAT.own_share, OUTSIDE.share)
"""Of the system under test where it is a whole machine: a guest, or an emulated machine. Rates and
shares are over the whole phase, with what a stream omits and its end."""

TRANSLATION = registry.responses("translation")


SETTLE_S = 10.0
"""Time that a phase may take beyond what its tasks are asked to do, on a slow emulated guest."""


@dataclass(frozen=True)
class TaskInputs:
    """The machine's inputs to a workload's tasks, beside the pairs that work.

    - `cwd`, `peer_cwd`: the directories in which commands and their servers start.
    - `in_files`: `cwd` is in the commands' own view of the files.
    - `warmup`: the trial is not counted.
    - `watched`: the system calls of commands may be watched, which takes time.
    - `port_offset`: is added to every port.
    - `capacity_bps`: the most that the workload carries, in b/s, if the run has measured it.
    - `gaps`: an analysis asks for the gaps between messages.
    """

    environment: dict[str, str]
    cwd: Path | None = None
    peer_cwd: Path | None = None
    in_files: bool = False
    warmup: bool = False
    watched: bool = False
    port_offset: int = 0
    capacity_bps: float | None = None
    gaps: bool = False

    def offered_bps(self, rate: float | OfCapacity | None) -> float | None:
        """Returns the offered rate in b/s; None for an unpaced sender."""
        if not isinstance(rate, OfCapacity):
            return rate
        # Measured before anything is planned that is a share of it.
        assert self.capacity_bps is not None, "its capacity is not known"
        return rate.share * self.capacity_bps


@dataclass(frozen=True)
class Line:
    """A line of a limited rate in b/s, and the largest packet on it in bytes.

    `frame_mtu`: bytes of the packet whose time each frame takes, where frames are counted and not
    bytes.
    """

    rate_bps: float
    mtu: int
    ip: Version
    frame_mtu: int | None = None


@dataclass(frozen=True)
class NodeFacts:
    """Properties that all nodes of a bench have in common.

    - `routed`: the systems under test are routers.
    - `cpus`: each node under test has at least so many CPUs.
    - `mtu`: bytes of the largest packet on the links.
    - `sandboxed`: some nodes are on a host in a sandbox, without the rights of its root.
    - `shares_memory`: guests can share memory with their machine.
    - `peers_have_programs`: peers have the programs of the systems under test.
    - `has_disks`: each system under test can have a disk.
    - `several_on_a_disk`: the baseline does the work of several guests on its one disk.
    - `all_made`: hypertare makes all systems under test.
    - `under_hypervisor`: some system under test is a guest of a hypervisor below the machine.
    - `several`: several systems under test work at once.
    - `cuts_power`: the power of disks can be cut.
    """

    routed: bool
    cpus: int
    mtu: int
    sandboxed: bool = False
    shares_memory: bool = False
    peers_have_programs: bool = True
    has_disks: bool = True
    several_on_a_disk: bool = False
    all_made: bool = True
    under_hypervisor: bool = False
    several: bool = False
    cuts_power: bool = False
    peer_cpus: int | None = None
    """Of the machine of its peers, where the study says how many those are."""


def disk_misfit(node: NodeFacts) -> str | None:
    """Why work on a disk cannot be done on such nodes."""
    if node.has_disks:
        return None
    return (
        "it works on a disk of its own, and the platform given has none, nor has an image of an engine; "
        "that of xen is a block device, which machine = 'emulated' has, without sut.files: leave them out"
    )


@dataclass(frozen=True)
class GivenWork:
    """The same work as a command line: run after `prepare`, with the programs of an image where
    `in_image`.
    """

    argv: tuple[str, ...]
    prepare: str | None = None
    in_image: bool = False


class WorkloadSettings(Settings):
    """What every workload may have: factors that are varied for it alone, and probes of its trials.

    A factor that the study has too takes these levels here.
    """

    factors: dict[str, FactorLevels] = {}
    """Factors of this workload alone, in place of the study's: its own keys, knobs and `sut.guests`, by
    path.
    """
    probes: tuple[ChosenProbe, ...] = ()
    """Probes of its trials, beside those of the study.
    """
    type: str

    kind: ClassVar[Workload]
    """The kind that has these settings, which enters itself here when it is made."""

    @property
    def responses(self) -> tuple[Response, ...]:
        """All that a trial may have."""
        return self.kind.responses

    @property
    def headline(self) -> str:
        """The name of the response that leads."""
        return self.kind.headline

    def measure_asked(self, phase: Phase) -> Found:
        """Responses that only these settings ask for.

        Raises:
            ValueError: one is not in the records; the message says why.
        """
        return {}

    @property
    def input_file(self) -> str | None:
        """The file of this machine that it reads as standard input, by a path from the work directory."""
        return None

    @property
    def shared_memory(self) -> int | None:
        """Bytes that a guest has to share with its machine for it."""
        return None

    @property
    def disk_bytes(self) -> int:
        """Bytes that the disk of its node must have; 0: it needs none."""
        return 0

    @property
    def nodes_beside(self) -> int:
        """How many more like the system under test are in memory at once while it works."""
        return 0

    @property
    def most_beside(self) -> int:
        """The same, where it goes on for as long as the machine has memory for more."""
        return self.nodes_beside

    @property
    def expected_s(self) -> float | None:
        """How long it is asked to take; none if only a trial can show it."""
        return None

    @property
    @abstractmethod
    def limit_s(self) -> float:
        """How long it may take."""

    def tasks(self, pair: Pair, inputs: TaskInputs) -> list[plan.Task]:
        """What the nodes of a pair do in a trial."""
        return []

    def lives(self, pair: Pair, like: plan.Node, instant: float) -> list[plan.Life]:
        """Nodes that are made and ended within a trial, `like` the pair's system under test.

        `instant`, from 0 to 1, is drawn for what comes at any time.
        """
        return []

    @property
    def described(self) -> str:
        """What it is, in an error."""
        return self.type

    @property
    def argv(self) -> tuple[str, ...]:
        """The user's command line that it runs, if it does."""
        return ()

    @property
    def programs(self) -> tuple[str, ...]:
        """Programs that its node must have beside the agent."""
        return ()

    @property
    def load(self) -> NeighbourSettings | None:
        """What the other guests do while one is measured; none where all are measured."""
        return None

    @property
    def starts_last_guest_first(self) -> bool:
        """Whether of several guests the one that was made last begins, not the first."""
        return False

    @property
    def needs_network(self) -> bool:
        """Whether its tasks speak with a peer."""
        return self.kind.needs_network

    @property
    def is_of_addresses(self) -> bool:
        """Whether all that it needs of a network is that two addresses of IP reach each other."""
        return False

    @property
    def peer_needs_files(self) -> bool:
        """Whether its peer runs programs of this host, too."""
        return False

    @property
    def asked_pages(self) -> plan.Pages | None:
        """The pages that it asks the kernel for."""
        return None

    @property
    def is_regular(self) -> bool:
        """Whether its messages are sent at a rate, so that the gaps between them say something."""
        return False

    @property
    def is_share_of_capacity(self) -> bool:
        """Whether its rate is a share of what the machine carries, which must be measured first."""
        return False

    @property
    def counts_loss(self) -> bool:
        """Whether it is known what was lost on the way."""
        return False

    @property
    def has_loss_rate(self) -> bool:
        """Whether there is a rate, to be searched for, at which it begins to lose."""
        return False

    @property
    def left_out_s(self) -> float:
        """Seconds at its beginning that are not counted."""
        return 0.0

    def misfit(self, node: NodeFacts) -> str | None:
        """Why such nodes cannot carry it out."""
        return None

    def carried_at_most(self, line: Line) -> float | None:
        """Payload in b/s that a line carries of it at most; none where that is not known."""
        return None

    def given_work(self) -> GivenWork | None:
        """Itself as a command line; none where it does as much as fits into a time."""
        return None


class LimitedSettings(WorkloadSettings):
    """Of a workload that ends when it has done its work: how long that may take, and no more."""

    limit: Limit = 600.0
    """The longest time of a trial, with the copying of the work directory and `prepare`."""

    @property
    def limit_s(self) -> float:
        return self.limit


class Workload(ABC):
    """A kind of workload.

    `own_responses` are what its tasks report; counters of the nodes stand beside them in `responses`.
    `headline` is the one that decides when a workload has been measured precisely enough, and leads
    a report.
    """

    name: ClassVar[str]
    settings: ClassVar[type[WorkloadSettings]]
    own_responses: ClassVar[tuple[Response, ...]]
    headline: ClassVar[str]

    needs_network: ClassVar[bool] = False
    """All of its kind speak with a peer."""
    needs_files: ClassVar[bool] = False
    """It runs programs of this host, where its nodes see them."""
    warms_up: ClassVar[bool] = False
    """It finds cold caches after a boot, which its first trials there are not counted for."""
    is_timed: ClassVar[bool] = False
    """It gets how long to work, and begins and ends by the clock."""
    polls: ClassVar[bool] = False
    """It is asked how the nodes under test took packets from their NICs."""
    works_on_node: ClassVar[bool] = True
    """The node under test does its work, so that the counters of it say something of that."""
    translates: ClassVar[bool] = False
    """It is asked what translating addresses cost."""

    def __init__(self) -> None:
        self.settings.kind = self

    @property
    def responses(self) -> tuple[Response, ...]:
        """All that a trial of it may have."""
        cpu = CPU if self.works_on_node else MACHINE_CPU
        polling = POLLING if self.polls else ()
        translation = TRANSLATION if self.translates else ()
        return (*self.own_responses, *cpu, *polling, *translation)

    @property
    def has_elapsed(self) -> bool:
        """Whether there is an elapsed time that modelled page walks can be added to."""
        return any(response.name == ELAPSED for response in self.own_responses)

    @abstractmethod
    def measure(self, phase: Phase) -> Found:
        """What the tasks of one guest report, or of a system under test that was alone."""

    def beside_others(self, parts: dict[int, Values], phase: Phase) -> dict[int, Values]:
        """What each guest has, with what is known only beside the others; `parts` are by guest."""
        return parts

    def measure_together(self, parts: dict[int, Values], joined: Values, phase: Phase) -> Found:
        """What guests that work at once have together, beside and in place of what is joined as each
        response says.
        """
        return {}

    def measure_node(self, phase: Phase, node: str) -> Found:
        """What the counters of a node under test report of it, where that has its own."""
        return {}

    def measure_peers(self, phase: Phase, nodes: Sequence[str]) -> Found:
        """Responses of the tasks outside the nodes under test."""
        return {}

    def measure_machine(self, phase: Phase, machine_cpu: float) -> Found:
        """What the CPU time of the whole machine, in seconds, says of it."""
        return {}

    def why_not(self, phase: Phase) -> str:
        """Why a trial that ended in good order has not its leading response."""
        return f"the trial ended without its {self.headline}"
