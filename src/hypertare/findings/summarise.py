"""From a run's store to its summary, at any moment of the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from hypertare.analyses.analysis import Figure, Observed
from hypertare.analyses.registry import KINDS as ANALYSES
from hypertare.base.errors import InputError
from hypertare.base.figures import did_you_mean, factor_text, level_text, listing
from hypertare.base.variables import Level, Response, key
from hypertare.design.planner import HOST
from hypertare.design.trials import FinishedTrial
from hypertare.findings import counted_trials
from hypertare.machine_kinds.registry import find
from hypertare.probes.conditions import CONDITIONS, Seen
from hypertare.protocol.constants import HUGE_PAGE
from hypertare.protocol.plan import VirtualCpus
from hypertare.protocol.records import Backing, Hello, InterfaceState, NodeReady, Record
from hypertare.runs.store import INTERRUPTED, Meta, Store
from hypertare.runs.summary import (
    Analysed,
    Bill,
    Effects,
    Estimate,
    LevelChange,
    LossFreeRate,
    Placement,
    PlatformState,
    Published,
    Summary,
)
from hypertare.study import Study, StudyFile
from hypertare.workloads.ping import NEAR_SHARE, ROUND_TRIPS

if TYPE_CHECKING:
    from hypertare.findings.estimates import Estimates
    from hypertare.findings.nearness import Histograms
    from hypertare.findings.series import Rules
    from hypertare.study.claims import Claim


_Settings = TypeVar("_Settings", bound=BaseModel)


def summarise(
    store: Store, references: Mapping[str, str] | None = None, of: Measured | None = None
) -> Summary:
    """Makes the summary of a run from the trials so far. `complete` is false in that of an interrupted run.

    Args:
        references: by factor, the level with which the others are compared; by default the study's first.
        of: the run's trials, if the caller has read them already.

    Raises:
        InputError: the run's file is damaged, or the run lacks a reference level.
    """
    from hypertare.findings.claims import Conditions, judge
    from hypertare.findings.counted_trials import in_order
    from hypertare.findings.curves import curves
    from hypertare.findings.doubt import disturbances, of_rates, warning
    from hypertare.findings.estimates import estimate
    from hypertare.findings.hosts import differing, of_hosts
    from hypertare.findings.levels import level_changes
    from hypertare.findings.nearness import shifts
    from hypertare.findings.predictability import predictability
    from hypertare.findings.series import series
    from hypertare.findings.totals import joined, totals
    from hypertare.search import rates
    from hypertare.study.analyses import PredictabilitySettings

    meta = store.meta
    file = _study_of(meta, store.path)
    milestones = store.milestones()
    last = milestones[-1]
    platforms = _platforms(store, meta)
    rules: dict[str, Any] = {
        "baseline": meta.baseline,
        "confidence": meta.confidence,
        "threshold": meta.threshold,
        "clock": meta.clock,
        "leading": meta.headline,
    }
    of = of or measured(store)
    trials, walked = in_order(of.trials, meta.settings, meta.platforms), store.walks()
    responses = responses_of(meta)
    seen = _conditions(store, meta)
    found = estimate(trials, responses, **rules, platforms=platforms, conditions=seen)
    disturbed = disturbances(trials, seen, store.other_programs())
    modelled = joined(file, trials, walked) if walked else ()
    # Of the same trials once more: what is to be said of these is said already.
    of_models = estimate(tuple(modelled), responses, **rules)
    by_themselves = (*found.by_themselves, *of_models.by_themselves)
    predicted = tuple(
        predictability(
            trials,
            responses,
            _part(meta, "predictability", PredictabilitySettings),
            baseline=meta.baseline,
            confidence=meta.confidence,
            clock=meta.clock,
        )
    )
    searched = _loss_free(store, meta, file)
    had = Conditions({one.platform: one.accelerator for one in platforms}, meta.machine.cpus)
    every = series(trials)
    factorials = _effects(meta, trials)
    reached = tuple(meta.settings["remote"]["reach"]) if meta.hosts else ()
    by_host = of_hosts(trials, responses, reached, rules)
    known = (*by_themselves, *found.guests, *rates.estimates(searched, meta.baseline))
    return Summary(
        hypertare=meta.hypertare,
        study=meta.study,
        question=meta.question,
        machine=meta.machine,
        clock=meta.clock,
        accelerator=meta.accelerator,
        versions=meta.versions,
        seed=meta.seed,
        threshold=meta.threshold,
        started=milestones[0].at,
        ended=last.at if last.what in ("stopped", "completed") else None,
        complete=last.what == "completed",
        platforms=platforms,
        estimates=(*found.estimates, *of_models.estimates),
        guests=found.guests,
        levels=level_changes(
            trials, _factors(meta, trials, references or {}), *_asked(meta), _concerns(meta)
        ),
        fastest=_fastest(meta, trials),
        effects=factorials,
        noise=found.noise,
        curves=tuple(curves(found.by_themselves)),
        shifts=tuple(shifts(trials, of.round_trips, _asked(meta)[1])),
        bills=_bills(meta, trials),
        analyses=(*_analyses(meta, found.estimates), *filter(None, [by_host])),
        predictability=predicted,
        loss_free=searched,
        totals=tuple(totals(file, by_themselves, walked)),
        published=tuple(_published(meta, file, by_themselves)),
        claims=tuple(
            judge(claim, known, predicted, had, every, meta.baseline, factorials)
            for claim in _claims(meta)
        ),
        failed=found.failed,
        disturbances=disturbed,
        warnings=tuple(
            dict.fromkeys(
                [
                    *_unmeasured(meta, trials, complete=last.what == "completed"),
                    *differing(by_host),
                    *counted_trials.of_first_executions(of.first_executions),
                    *of_rates(every),
                    *_warnings(store, complete=last.what == "completed"),
                    *map(warning, disturbed),
                    *_missed(meta, found),
                    *found.warnings,
                ]
            )
        ),
    )


@dataclass(frozen=True)
class Found:
    """A run as far as its comparison with another one needs it."""

    path: Path
    meta: Meta
    trials: tuple[FinishedTrial, ...]
    responses: dict[str, Response]
    summary: Summary

    @property
    def leading(self) -> tuple[str, ...]:
        return tuple(self.meta.headline.values())

    def setting(self, path: str) -> Level | None:
        """What the study sets by a dotted path, as its text has it, else by default; none if nothing."""
        found: Any = self.meta.settings
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        found = self._study.setting(path) if found is None else found
        return found if isinstance(found, str | int | float | bool) else None

    @cached_property
    def _study(self) -> Study:
        return _study_of(self.meta, self.path).study()


def read(path: Path) -> Found:
    """Reads a run and sums it up.

    Raises:
        InputError: there is no run, or its file is damaged, foreign or of a newer version.
    """
    with Store.open(path) as store:
        meta, of = store.meta, measured(store)
        return Found(path, meta, of.trials, responses_of(meta), summarise(store, of=of))


def _study_of(meta: Meta, path: Path) -> StudyFile:
    return StudyFile.restored(meta.study_text, meta.settings, str(path), Path(meta.folder))


def responses_of(meta: Meta) -> dict[str, Response]:
    """All responses by name; those of two workloads that share a name share unit and direction."""
    return {response.name: response for some in meta.responses.values() for response in some}


@dataclass(frozen=True)
class Measured:
    """A run's trials in their order, with responses that need other trials of the block, and the histograms
    of round trips from which these responses come.
    """

    trials: tuple[FinishedTrial, ...]
    round_trips: Histograms
    first_executions: tuple[str, ...] = ()
    """Workloads of which nothing else was measured, so that their warm-ups count."""


def measured(store: Store) -> Measured:
    """Reads all trials of a run."""
    from hypertare.findings.nearness import of_trials, with_nearness

    meta = store.meta
    asked = {one.name for some in meta.responses.values() for one in some}
    histograms = of_trials(store.histograms(ROUND_TRIPS)) if NEAR_SHARE in asked else {}
    trials = tuple(store.trials())
    first = counted_trials.of_nothing_measured(trials)
    counted = counted_trials.with_polls(counted_trials.counting(trials, first))
    return Measured(
        tuple(with_nearness(counted, histograms, meta.baseline, asked)), histograms, first
    )


def _unmeasured(meta: Meta, trials: Sequence[FinishedTrial], *, complete: bool) -> Iterator[str]:
    """Yields a warning about levels of which nothing was measured because the run ended before."""
    from hypertare.findings.levels import unmeasured

    absent = [] if complete else unmeasured(meta.settings, trials)
    if absent:
        named = listing(
            (f"{factor_text(factor)} {level_text(level)}" for factor, level in absent), 4
        )
        yield f"Nothing was measured of {named}: the run ended before. --time-limit gives it more time."


def _conditions(store: Store, meta: Meta) -> dict[int, Seen]:
    """Returns the conditions of each trial by its id; empty unless other programs share the machine."""
    if meta.clock == "virtual":
        return {}
    readings = store.readings(CONDITIONS.name)
    seen = ((t, CONDITIONS.seen(one)) for t, parts in readings.items() for one in parts)
    return {trial: one for trial, one in seen if one is not None}


def _factors(
    meta: Meta, trials: Sequence[FinishedTrial], references: Mapping[str, str]
) -> dict[str, tuple[Level, ...]]:
    """The levels that are compared, by factor, the reference first."""
    from hypertare.findings.levels import factors_of, referenced

    factors = factors_of(meta.settings, trials)
    for factor in references:
        if factor not in factors:
            known = ", ".join(factors) or "none"
            raise InputError(
                f"This run has no factor '{factor}' with several levels.{did_you_mean(factor, factors)}",
                f"It has: {known}.",
            )
    try:
        return referenced(factors, references)
    except ValueError as error:
        factor = str(error)
        raise InputError(
            f"{factor} has no level {references[factor]} in this run.",
            f"It has: {', '.join(map(level_text, factors[factor]))}.",
        ) from None


def _fastest(meta: Meta, trials: Sequence[FinishedTrial]) -> tuple[LevelChange, ...]:
    """Of commands that are compared, the others against the one that is best on the baseline: it takes the
    least time, or its own figure is the best.
    """
    from hypertare.findings.levels import factors_of, level_changes, referenced
    from hypertare.findings.series import series

    leading, rules = _asked(meta)
    factors = factors_of(meta.settings, trials)
    found: list[LevelChange] = []
    for factor in (one for one in factors if one.endswith(".command")):
        values: dict[str, list[float]] = {}
        best = min
        for one in series(trials):
            response = leading.get(str(one.cell.get("workload")))
            if one.platform == meta.baseline and factor in one.cell and response is not None:
                measured = one.values(response.name)[0]
                values.setdefault(level_text(one.cell[factor]), []).extend(measured)
                best = min if response.better == "lower" else max
        # As ratios are made of them, where all have one.
        have_logs = all(value > 0 for each in values.values() for value in each)
        known = {
            level: fmean(map(math.log, each) if have_logs else each)
            for level, each in values.items()
            if each
        }
        if len(known) > 1:
            first = {factor: best(known, key=known.__getitem__)}
            compared = referenced({factor: factors[factor]}, first)
            found += level_changes(trials, compared, leading, rules, _concerns(meta))
    return tuple(found)


def _asked(meta: Meta) -> tuple[dict[str, Response], Rules]:
    """By workload the response that is the question, and how a run is judged."""
    from hypertare.findings.series import Rules

    known = responses_of(meta)
    leading = {workload: known[name] for workload, name in meta.headline.items() if name in known}
    return leading, Rules(meta.baseline, meta.confidence, meta.threshold, meta.clock)


def _effects(meta: Meta, trials: Sequence[FinishedTrial]) -> tuple[Effects, ...]:
    """Of the responses that the study asks for, else of the leading ones."""
    from hypertare.findings.effects import effects
    from hypertare.findings.levels import factors_of
    from hypertare.study.analyses import EffectsSettings

    leading, rules = _asked(meta)
    settings = _part(meta, "effects", EffectsSettings)
    asked = {
        workload: [one for one in some if one.name in settings.responses]
        if settings.responses
        else [leading[workload]]
        for workload, some in meta.responses.items()
        if workload in leading and workload in (settings.workloads or leading)
    }
    return effects(
        trials, factors_of(meta.settings, trials), asked, settings, rules, _concerns(meta)
    )


def _concerns(meta: Meta) -> Callable[[str, str], bool]:
    """Which factor makes a difference to which platform."""
    from hypertare.platforms.registry import find as find_platform
    from hypertare.study.factors import concerns

    whole_pcs = find(meta.machine.kind).boots_whole_pcs
    return lambda path, platform: concerns(path, find_platform(platform), whole_pcs=whole_pcs)


def _bills(meta: Meta, trials: Sequence[FinishedTrial]) -> tuple[Bill, ...]:
    """Of each workload that the study asks about."""
    if not (given := meta.settings.get("bill")):
        return ()
    from hypertare.findings.bill import bills
    from hypertare.study.analyses import BillSettings, tables
    from hypertare.study.emulated import Emulated

    known, rules = responses_of(meta), _asked(meta)[1]
    instruction_s = _part(meta, "emulated", Emulated).instruction_s
    return tuple(
        bill
        for asked in (_valid(meta, BillSettings, table) for table in tables(given))
        for bill in bills(
            trials,
            asked,
            known[asked.response],
            rules,
            instruction_s if asked.instructions else None,
        )
    )


def _analyses(meta: Meta, estimates: Sequence[Estimate]) -> Iterator[Analysed]:
    """Yields the result of each analysis that the study asks for."""
    asked = [name for name in ANALYSES if meta.settings.get(name) is not None]
    observed = _observed(estimates) if asked else []
    for name in asked:
        kind = ANALYSES[name]
        found = kind.analyse(_part(meta, name, kind.settings), observed)
        yield Analysed(name=name, **asdict(found))


def _observed(estimates: Sequence[Estimate]) -> list[Observed]:
    """Returns the figures of all responses, grouped by platform and cell."""
    groups: dict[tuple[str, object], tuple[Estimate, dict[str, Figure]]] = {}
    for one in estimates:
        mean, low, high = one.estimate, one.low, one.high
        if one.geometric is not None:
            mean, low, high = one.geometric, one.geometric_low, one.geometric_high
        _, figures = groups.setdefault((one.platform, key(one.cell)), (one, {}))
        figures[one.response] = Figure(mean, low, high, one.unit)
    return [Observed(one.platform, one.cell, figures) for one, figures in groups.values()]


def _published(meta: Meta, file: StudyFile, estimates: Sequence[Estimate]) -> Iterator[Published]:
    """Others' figures beside ours."""
    if meta.published:
        from hypertare.findings.published import beside

        yield from beside(meta.published, estimates, file.study().setting)


def _loss_free(store: Store, meta: Meta, file: StudyFile) -> tuple[LossFreeRate, ...]:
    if not meta.settings.get("search"):
        return ()
    from hypertare.search.rounds import loss_free

    return tuple(loss_free(file, store.trials()))


def _claims(meta: Meta) -> list[Claim]:
    from hypertare.study.claims import Claim, one_for_each

    written, factors = meta.settings.get("claims", []), meta.settings.get("factors", {})
    try:
        claims = one_for_each(written, factors)
    except ValueError as error:
        raise _unreadable(meta, f"claims: {error}") from None
    if not isinstance(claims, list):
        raise _unreadable(meta, "claims: it is no list")
    return [_valid(meta, Claim, claim) for claim in claims]


def _part(meta: Meta, name: str, kind: type[_Settings]) -> _Settings:
    """A table of the study that the run was made of."""
    return _valid(meta, kind, meta.settings.get(name) or {})


def _valid(meta: Meta, kind: type[_Settings], given: object) -> _Settings:
    """Validates a part of the run's study.

    Raises:
        InputError: it has settings of another version that this version does not know.
    """
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise _unreadable(meta, f"{where}: {first['msg']}") from error


def _unreadable(meta: Meta, what: str) -> InputError:
    return InputError(
        f"The run's study holds what this hypertare cannot read: {what}.",
        f"Read it with hypertare {meta.hypertare}, which wrote it.",
    )


def _platforms(store: Store, meta: Meta) -> tuple[PlatformState, ...]:
    """Every state that a platform was found in; more than one where a bench's factors change it."""
    states: dict[str, PlatformState] = {}
    for _, records in store.benches():
        for state in _states(records, meta):
            states.setdefault(state.model_dump_json(), state)
    order = {name: place for place, name in enumerate(meta.platforms)}
    return tuple(sorted(states.values(), key=lambda state: (order[state.platform], state.node)))


def _states(records: Sequence[Record], meta: Meta) -> Iterator[PlatformState]:
    """The nodes under test of one bench; its peer is none."""
    hellos = {record.node: record for record in records if isinstance(record, Hello)}
    ready = {record.node: record for record in records if isinstance(record, NodeReady)}
    whole_pcs = find(meta.machine.kind).boots_whole_pcs
    for node, hello in hellos.items():
        platform = _platform_of(node, meta)
        under_xen = whole_pcs and node == HOST and node in ready and ready[node].vmm is not None
        if platform is None or under_xen:
            # Xen's driver domain on an emulated machine is no baseline, which boots without Xen.
            continue
        yield PlatformState(
            platform=platform,
            node=node,
            kernel=hello.kernel,
            cpus=hello.cpus,
            memory=hello.memory,
            accelerator=ready[node].accelerator if node in ready else None,
            vmm=_vmm(ready[node].vmm, meta) if node in ready else None,
            processor=hello.processor or _processor(meta),
            paging=ready[node].paging if node in ready else None,
            pages=_pages(ready[node].backing) if node in ready else None,
            datapath=ready[node].datapath if node in ready else None,
            datapath_cpus=ready[node].datapath_cpus if node in ready else (),
            joined=ready[node].joined if node in ready else None,
            scheduler=ready[node].scheduler if node in ready else None,
            tsc=ready[node].tsc if node in ready else None,
            placed=_placed(ready[node].placed) if node in ready else None,
            driver=_placed(ready[node].driver) if node in ready else None,
            clocksource=hello.clocksource,
            interfaces={
                record.interface: _interface(record, meta)
                for record in records
                if isinstance(record, InterfaceState) and record.node == node
            },
        )


def _vmm(described: str | None, meta: Meta) -> str | None:
    """Returns the VMM's description; for a given machine, the user's own description of it is added."""
    from hypertare.study.machines import GivenMachine

    for one in (meta.settings.get("given") or {}).values():
        machine = _valid(meta, GivenMachine, one)
        if machine.what and " ".join(machine.words) == described:
            return f"{machine.what} ({described})"
    return described


def _processor(meta: Meta) -> str | None:
    """Returns this machine's processor if another machine is compared with it, else None."""
    from hypertare.platforms.registry import find as find_platform

    beside = any(not find_platform(name).is_made for name in meta.platforms)
    return meta.machine.cpu if beside else None


def _placed(cpus: VirtualCpus | None) -> Placement | None:
    return None if cpus is None else Placement(cpus=cpus.count, on=cpus.on)


def _pages(backing: Backing | None) -> str | None:
    """As `sut.pages` calls them."""
    if backing is None:
        return None
    if backing.page_size == HUGE_PAGE:
        return "2M"
    return "thp" if backing.huge else "4K"


def _platform_of(node: str, meta: Meta) -> str | None:
    """Returns the platform of a node under test; None for any other node."""
    platform = meta.nodes.get(node)
    if not meta.nodes:
        # Of a file before version 4, whose nodes are called by platform and numbers.
        platform = meta.baseline if node == HOST else node.rstrip("0123456789-")
    return platform if platform in meta.platforms else None


_OFFLOADS = "knobs.offloads"


def _interface(state: InterfaceState, meta: Meta) -> dict[str, Level | None]:
    """Returns the state of an interface during trials.

    The record was made before any trial. Offloads that the study sets replace the recorded ones: a trial in
    which one cannot be set fails. Offloads that are factors, alike in each block, are left out.
    """
    factors = [meta.settings.get("factors", {})]
    factors += [one.get("factors", {}) for one in meta.settings.get("workloads", {}).values()]
    paths = {path for levels in factors for path in levels if path.startswith(_OFFLOADS)}
    varied = {path.removeprefix(f"{_OFFLOADS}.") for path in paths - {_OFFLOADS}}
    if _OFFLOADS in paths:
        varied |= {name for levels in factors for one in levels.get(_OFFLOADS, ()) for name in one}
    found = {**state.offloads, **meta.settings.get("knobs", {}).get("offloads", {})}
    return {
        "driver": state.driver,
        "mtu": state.mtu,
        "rx_queues": state.rx_queues,
        "tx_queues": state.tx_queues,
        **{name: on for name, on in sorted(found.items()) if name not in varied},
    }


def _missed(meta: Meta, found: Estimates) -> Iterator[str]:
    """Yields the warning about costs that are less precise than asked for."""
    from hypertare.findings.estimates import missed
    from hypertare.study.design import DesignSettings

    design = _part(meta, "design", DesignSettings)
    yield from missed(found.by_themselves, found.noise, meta.headline, design)


def _warnings(store: Store, complete: bool) -> list[str]:
    return [text for text in store.warnings() if not (complete and INTERRUPTED in text)]
