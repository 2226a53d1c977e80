"""A study: a question, and everything needed to answer it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)

from hypertare.analyses.registry import AnalysisTables
from hypertare.base.quantities import FactorLevels
from hypertare.knobs.registry import Knobs
from hypertare.machine_kinds.machine_kind import CLOCKS, Clock, ClockName, MachineKind
from hypertare.machine_kinds.registry import KINDS as MACHINES
from hypertare.machine_kinds.registry import USUAL as USUAL_MACHINE
from hypertare.machine_kinds.registry import MachineName
from hypertare.platforms.platform import Platform
from hypertare.platforms.registry import KINDS as PLATFORMS
from hypertare.platforms.registry import has_own, is_own_setting
from hypertare.probes.registry import USUAL, ChosenProbe
from hypertare.protocol.plan import FileSharing
from hypertare.study.analyses import (
    BillSettings,
    EffectsSettings,
    PredictabilitySettings,
    SearchSettings,
    tables,
)
from hypertare.study.bench import BenchSettings
from hypertare.study.claims import Claim, Plot, one_for_each
from hypertare.study.design import DesignSettings
from hypertare.study.emulated import Emulated
from hypertare.study.factors import GUESTS, is_easy
from hypertare.study.machines import PEER, UNDER_TEST, GivenMachine, Remote
from hypertare.study.published import PublishedFile
from hypertare.study.rules import RULES
from hypertare.study.sut import Sut
from hypertare.study.tune import TuneSettings
from hypertare.study.walk import WalkSettings
from hypertare.workloads.registry import AnyWorkload
from hypertare.workloads.workload import Line

S = TypeVar("S", bound=BaseModel)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _file_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name[:64]!r} cannot name a run directory: write at most 64 letters (a to z), digits, dots, "
            "underscores and dashes, and begin with a letter or a digit"
        )
    return name


GivenName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$")]
MOST_GIVEN = 16


class Study(AnalysisTables):
    """A validated study: the settings of one cell, or of the whole before its factors are put in."""

    name: Annotated[str, AfterValidator(_file_name)]
    """The name, also of run directories."""
    question: str
    """The question, in one sentence."""
    description: str = ""
    """More, for the reader."""
    machine: MachineName = USUAL_MACHINE
    """The machine. `local`: this host. `emulated`: [a PC in QEMU](virtual-time.md). `remote`: [a host that
    ssh reaches](remote.md).
    """
    clock: ClockName = "wall"
    """The clock of trials; emulated also `virtual`, the default there: runs repeat exactly."""
    sut: Sut = Sut()
    emulated: Emulated = Emulated()
    bench: BenchSettings = BenchSettings()
    given: Annotated[dict[GivenName, GivenMachine], Field(max_length=MOST_GIVEN)] = {}
    remote: Remote | None = None
    workloads: Annotated[dict[str, AnyWorkload], Field(min_length=1)]
    knobs: Knobs = Knobs()
    probes: tuple[ChosenProbe, ...] = USUAL
    """The probes; also `kvm_exits`, `memory`, `vmm_memory`, `hardware` ([memory](#probes-of-memory)),
    `vmstat` (page faults of streams), `cpu_modes` and `schedstat` ([one operation by
    layer](disks.md#one-read-by-layer)); `napi` and `drops`: [packets and polls](napi.md).
    """
    factors: dict[str, FactorLevels] = {}
    design: DesignSettings = DesignSettings()
    claims: tuple[Claim, ...] = ()
    plots: tuple[Plot, ...] = ()
    tune: TuneSettings | None = None
    search: SearchSettings | None = None
    effects: EffectsSettings | None = None
    bill: Annotated[tuple[BillSettings, ...], BeforeValidator(tables)] = ()
    predictability: PredictabilitySettings = PredictabilitySettings()
    walk: WalkSettings | None = None
    published: tuple[PublishedFile, ...] = ()
    quick: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _of_the_machine(cls, raw: Any) -> Any:
        """Fills in the defaults that depend on the machine: its clock and its platforms."""
        machine = raw.get("machine") if isinstance(raw, dict) else None
        kind = MACHINES.get(machine) if isinstance(machine, str) else None
        if kind is None:
            return raw
        sut = raw.get("sut", {})
        if isinstance(sut, dict):
            sut = {"platforms": kind.usual_platforms, **sut}
        return {"clock": kind.clocks[0], **raw, "sut": sut}

    @model_validator(mode="before")
    @classmethod
    def _claims_of_each(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or "claims" not in raw:
            return raw
        return {**raw, "claims": one_for_each(raw["claims"], raw.get("factors", {}))}

    @model_validator(mode="after")
    def _goes_together(self) -> Study:
        for rule in RULES:
            rule(self)
        return self

    @property
    def machine_kind(self) -> MachineKind:
        return MACHINES[self.machine]

    @property
    def clock_kind(self) -> Clock:
        return CLOCKS[self.clock]

    @property
    def platforms(self) -> tuple[Platform, ...]:
        """In the order of `sut.platforms`."""
        return tuple(PLATFORMS[name] for name in self.sut.platforms)

    @property
    def under_hypervisor(self) -> bool:
        """Whether a platform needs a hypervisor below the host."""
        return any(platform.under_hypervisor for platform in self.platforms)

    def makes_variants(self, path: str) -> bool:
        """Whether the levels of a setting stand side by side on one bench, as variants of a platform.

        They do if only some platforms have the setting, except on machines that boot whole PCs.
        """
        return is_own_setting(path) and not self.machine_kind.boots_whole_pcs

    def reaches(self, platform: Platform, path: str) -> bool:
        """Whether a setting makes a difference to a platform."""
        return has_own(platform, path) or not self.makes_variants(path)

    @property
    def given_machine(self) -> GivenMachine | None:
        """The machine that the platform `given` is here; none where that is not in the study."""
        if self.sut.given is not None:
            return self.given.get(self.sut.given)
        return next(iter(self.given_under_test.values()), None)

    @property
    def given_under_test(self) -> dict[str, GivenMachine]:
        """The machines in `[given]`, but for the one that they speak with."""
        return {name: one for name, one in self.given.items() if name != PEER}

    @property
    def given_at_work(self) -> dict[str, GivenMachine]:
        """Those of them that any cell is about."""
        asked = self.levels(UNDER_TEST)
        there = self.given_under_test
        return {name: one for name, one in there.items() if name in asked or len(there) == 1}

    @property
    def walked(self) -> tuple[str, ...]:
        """The workloads whose page walks are modelled."""
        if self.walk is None:
            return ()
        wanted = self.walk.workloads or tuple(self.workloads)
        return tuple(name for name in wanted if self.workloads[name].kind.has_elapsed)

    def factors_of(self, workload: str) -> dict[str, tuple[Any, ...]]:
        """The factors whose levels a trial of this workload may take without another bench."""
        shared = {p: levels for p, levels in self.factors.items() if is_easy(p, workload)}
        return {**shared, **self.workloads[workload].factors}

    @cached_property
    def all_factors(self) -> dict[str, tuple[Any, ...]]:
        """Every factor with all of its levels, those of single workloads too."""
        found = dict(self.factors)
        for workload in self.workloads.values():
            for path, levels in workload.factors.items():
                known = found.get(path, ())
                found[path] = (*known, *(level for level in levels if level not in known))
        return found

    def levels(self, path: str) -> tuple[Any, ...]:
        """Returns the values that a setting of a table (`sut.cpus`) has in any cell.

        These are the valid levels of its factor, or the study's own value.
        """
        asked = self.all_factors.get(path)
        if asked is None:
            return (self.setting(path),)
        table, _, key = path.partition(".")
        taken = tuple(getattr(one, key) for one in _taking(self.setting(table), key, asked))
        return taken or (self.setting(path),)

    def setting(self, path: str) -> Any:
        """What stands at a dotted path; none where nothing does."""
        found: Any = self
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else getattr(found, name, None)
        return found

    @property
    def bench_guests(self) -> int:
        """How many stand on a bench: the most that work at once in any cell."""
        most: int = max(self.sut.guests, *self.levels(GUESTS))
        return most

    @property
    def largest_mtu(self) -> int:
        """Bytes; what links are made for, so that `knobs.mtu` may go up as well as down in any trial."""
        tuned = self.tune.highest("knobs.mtu") if self.tune else None
        levels = (self.knobs.mtu, tuned, *self.all_factors.get("knobs.mtu", ()))
        return max(self.bench.mtu, *(level for level in levels if isinstance(level, int)), 0)

    @property
    def speaks_ospf(self) -> bool:
        """Whether any router may have a routing daemon."""
        levels = (self.bench.routing, *self.levels("bench.routing"))
        return any("ospf" in level for level in levels)

    @property
    def has_line(self) -> bool:
        """Whether the line to the peers has a limited rate in any cell."""
        levels = (self.bench.line_rate, *self.levels("bench.line_rate"))
        return any(level is not None for level in levels)

    @property
    def routed(self) -> bool:
        """Whether the systems under test are routers between ends of their own."""
        return self.bench.topology == "routers" and self.needs_network

    @property
    def needs_network(self) -> bool:
        return any(settings.needs_network for settings in self._all_settings)

    @property
    def peers_need_files(self) -> bool:
        """Whether peers see this host's files, as what is under test does."""
        return self.needs_files and any(one.peer_needs_files for one in self._all_settings)

    @property
    def shared_memory(self) -> int | None:
        """Bytes that a guest shares with its machine, whichever levels its workloads take."""
        sizes = [one.shared_memory for one in self._all_settings]
        return max((size for size in sizes if size is not None), default=None)

    @property
    def disk_bytes(self) -> int:
        """Of the disk that each system under test has, whichever levels its workloads take; 0: none."""
        return max(one.disk_bytes for one in self._all_settings)

    @property
    def shares_files(self) -> bool:
        """Whether a guest works on a file of its machine in some cell: then all work on files."""
        return self.files_by("9p") or self.files_by("virtiofs")

    def files_by(self, kind: FileSharing) -> bool:
        """Whether a guest works on a file by this in some cell."""
        return kind in (self.sut.files, *self.levels("sut.files"))

    @property
    def nodes_beside(self) -> int:
        """How many more like each system under test are in memory at once, at most."""
        return max(one.nodes_beside for one in self._all_settings)

    @property
    def most_beside(self) -> int:
        """The most nodes that workloads add beside each system under test until memory runs out."""
        return max(one.most_beside for one in self._all_settings)

    def theoretical_goodput(self, workload: str) -> float | None:
        """Payload in b/s that the line carries at most, of all guests and all directions together; none
        without a line, and where datagrams do not fit into a packet.
        """
        rate = self.bench.line_rate
        if rate is None:
            return None
        line = Line(
            rate_bps=rate,
            mtu=self.knobs.mtu or self.bench.mtu,
            ip=6 if self.bench.family == "ipv6" else 4,
            frame_mtu=self.bench.mtu if self.machine_kind.line_counts_frames else None,
        )
        return self.workloads[workload].carried_at_most(line)

    @cached_property
    def _all_settings(self) -> tuple[AnyWorkload, ...]:
        """Of every workload, whichever levels it takes: a bench is made for all of them. Kept, because a
        trial's plan asks several times and each level is validated.
        """
        return tuple(self._each_setting())

    def _each_setting(self) -> Iterator[AnyWorkload]:
        for name, settings in self.workloads.items():
            yield settings
            for path, levels in self.all_factors.items():
                key = path.removeprefix(f"workloads.{name}.")
                if key in type(settings).model_fields:
                    yield from _taking(settings, key, levels)

    @property
    def needs_files(self) -> bool:
        """A machine that boots an image has the programs of that and no others."""
        return self.machine_kind.has_work_directory and any(
            settings.kind.needs_files for settings in self.workloads.values()
        )


def _taking(settings: S, key: str, levels: tuple[Any, ...]) -> Iterator[S]:
    """A table with each level of one key. What is no level of it is said where the cell is made."""
    beside = {name: getattr(settings, name) for name in settings.model_fields_set}
    for level in levels:
        with suppress(ValidationError):
            yield type(settings).model_validate({**beside, key: level})
