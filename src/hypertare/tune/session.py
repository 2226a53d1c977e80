"""A tuning from its study to `tune.json` in a run directory.

Everything that can be known to be wrong is found before anything is started.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hypertare.base.errors import InputError, writing
from hypertare.base.units import human_duration
from hypertare.base.variables import Response
from hypertare.design.planner import MachineResources
from hypertare.engine import prepare as running
from hypertare.engine.expected import asked_s
from hypertare.engine.prepare import RunOptions
from hypertare.engine.run_directory import create, ending, sum_up
from hypertare.engine.runners.runner import runner_of
from hypertare.engine.session import Session
from hypertare.engine.trial_recorder import Observer
from hypertare.engine.trial_runner import TrialRunner
from hypertare.findings.tuning import Tuning
from hypertare.platforms.registry import BASELINE, find
from hypertare.platforms.registry import KINDS as PLATFORMS
from hypertare.runs.store import Store
from hypertare.study import DesignSettings, Study, StudyFile, put
from hypertare.study.factors import expected_trial_s
from hypertare.study.tune import PHASE, TuneSettings
from hypertare.tune import FILE_NAME
from hypertare.tune import known as known_runs
from hypertare.tune import space as spaces
from hypertare.tune.findings import document
from hypertare.tune.known import KnownRun
from hypertare.tune.space import Budget, BudgetTracker, Setting, Space
from hypertare.tune.tuner import Aims, Outcome, Tuner, least_trials
from hypertare.workloads.responses import of_clock

_CPU_BY_BYTE = "cpu_per_gigabyte"


@dataclass(frozen=True)
class Prepared:
    """A tuning that was checked as far as can be without starting anything.

    `pick`: the setting that is to be confirmed, where nothing is to be searched.
    """

    run: running.Prepared
    space: Space
    aims: Aims
    budget: Budget
    platform: str
    workload: str
    trial_s: float
    known: KnownRun | None = None
    pick: Setting | None = None

    @property
    def design(self) -> DesignSettings:
        """How closely to look; where nothing boots, boots are not waited for."""
        design = self.run.study.design
        machine = self.run.study.machine_kind
        if machine.boots_whole_pcs or find(self.platform).has_own_kernel:
            return design
        return design.model_copy(update={"min_boots": 1})

    def expected_s(self, trials: int, jobs: int, *, apart: bool = False) -> float:
        """Seconds that so many trials take, with `jobs` boots of an emulated machine at once.

        `apart`: each trial has its own.
        """
        if not self.counts_boots:
            return trials * self.trial_s
        hard = apart or any(knob.hard for knob in self.space.every)
        warms_up = self.run.study.workloads[self.workload].kind.warms_up
        trial_s = self.trial_s * (1 + self.design.warmup * warms_up)
        kind = find(self.platform).pc
        return asked_s(self.run.study, kind, trials, trial_s, jobs, hard=hard)

    def budget_s(self, jobs: int) -> float:
        """Seconds that the whole tuning takes."""
        return self.budget.seconds or self.expected_s(self.budget.trials or 0, jobs)

    @property
    def counts_boots(self) -> bool:
        """Whether expected seconds include boots: how often other machines boot is up to the search."""
        return self.run.study.machine_kind.boots_whole_pcs


def prepare(file: StudyFile, seed: int) -> Prepared:
    """Checks what is to be tuned against the study and this machine.

    Raises:
        InputError: something in it is wrong or does not fit this machine.
    """
    study = file.study()
    settings = study.tune or TuneSettings()
    platform = _platform(study, settings)
    space = spaces.make(file, study, settings, platform)
    workload = _workload(study, settings, space)
    aims = _aims(file, study, settings, workload, space)
    budget = Budget.parse(settings.budget)
    known = None
    if settings.known is not None:
        place = file.folder / settings.known
        known = known_runs.read(place, file, study, space, workload, platform, aims)
    # Knobs as a study file has them, so that a run that goes on finds them there.
    written = {
        path: list(given) if isinstance(given, tuple) else given.model_dump(mode="json")
        for path, given in spaces.varied(study, settings).items()
    }
    put(file.raw, "tune.knobs", written, "tune")
    # The bench of a tuning holds the tuned platform alone, and its knobs take the place of factors.
    file.raw["factors"] = {
        knob.path: [one for one in knob.levels or (knob.default, knob.far) if one != spaces.LEFT]
        for knob in space.knobs
        if knob.path in _EXTENT
    }
    put(file.raw, "sut.platforms", list(dict.fromkeys([BASELINE, platform])), "tune.platform")
    # Settings that only guests of other platforms have.
    for key in frozenset().union(*(kind.hypervisor_settings for kind in PLATFORMS.values())):
        if key not in find(platform).hypervisor_settings:
            file.raw["sut"].pop(key, None)
    # What is said of the study's own cells has none here.
    for key in ("claims", "plots", "published"):
        file.raw[key] = []
    file.raw.pop("search", None)
    run = running.prepare(file, seed)
    trial_s = expected_trial_s(run.study, workload)
    prepared = Prepared(run, space, aims, budget, platform, workload, trial_s, known)
    _check_budget(budget, space, prepared.design, trial_s)
    return prepared


_EXTENT = ("sut.kernel", "sut.cpus", "sut.memory", "sut.paging", "sut.pages")
"""Factors by which a session knows what has to be there: images, CPUs, room for files, settings of the
host."""


def _check_budget(budget: Budget, space: Space, design: DesignSettings, trial_s: float) -> None:
    """Whether it can end in an answer.

    Raises:
        InputError: it cannot.
    """
    least = least_trials(space, design)
    if budget.expected_trials(trial_s) >= least:
        return
    of_time = "" if budget.trials else f", about {human_duration(least * trial_s)} without boots"
    raise InputError(
        f"A budget of {budget} is too small for {len(space.every)} knobs: they "
        f"need at least {least} trials{of_time} (every level once, one block of the search, the "
        "confirmation).",
        "Give more with --budget, or fewer levels in [tune.knobs].",
    )


def _platform(study: Study, settings: TuneSettings) -> str:
    if settings.platform is not None:
        if settings.platform not in study.sut.platforms:
            raise InputError(
                f"tune.platform: {settings.platform} is none of the study's platforms: "
                f"{', '.join(study.sut.platforms)}.",
                "Name one of them, or add it to sut.platforms.",
            )
        return settings.platform
    # The last one is what the study is about, or one with settings that others have not: a guest.
    own = (platform.name for platform in study.platforms if platform.own_settings)
    return next(own, study.sut.platforms[-1])


def _workload(study: Study, settings: TuneSettings, space: Space) -> str:
    """The one that was named, else the one that knobs belong to, else the first."""
    mentioned = {
        knob.path.split(".")[1] for knob in space.every if knob.path.startswith("workloads.")
    }
    name = settings.workload or (sorted(mentioned)[0] if mentioned else next(iter(study.workloads)))
    if name not in study.workloads:
        raise InputError(f"tune.workload: there is no workload '{name}' in the study.")
    strange = mentioned - {name}
    if strange:
        raise InputError(
            f"tune.knobs: they belong to {', '.join(sorted(strange))}, but {name} is tuned.",
            "A tuning is for one workload: name it with tune.workload and take its knobs alone.",
        )
    return name


def _aims(
    file: StudyFile, study: Study, settings: TuneSettings, workload: str, space: Space
) -> Aims:
    work = study.workloads[workload]
    known = {one.name: of_clock(one, study.clock) for one in work.responses}

    def find(name: str, key: str) -> Response:
        if name not in known:
            raise InputError(
                f"{file.source}: {key}: {workload} has no response '{name}'.",
                f"It has: {', '.join(known)}.",
            )
        return known[name]

    throughput = find(settings.throughput or work.headline, "tune.throughput")
    cpu = find(
        settings.cpu or (_CPU_BY_BYTE if _CPU_BY_BYTE in known else "machine_cpu"), "tune.cpu"
    )
    if space.ladders and not work.counts_loss:
        raise InputError(
            f"{file.source}: tune.knobs: 'smallest-without-loss' needs a workload that counts loss; "
            f"{workload} does not.",
            "Take a UDP stream with a rate.",
        )
    return Aims(
        settings.goal,
        throughput,
        cpu,
        study.design.threshold if settings.threshold is None else settings.threshold,
        settings.loss,
        study.clock,
    )


def check_machine(prepared: Prepared, on: MachineResources) -> None:
    """Whether what is known already was measured on this machine.

    Raises:
        InputError: it was not.
    """
    if prepared.known is None:
        return
    state = runner_of(prepared.run.study.machine_kind).state(prepared.run, on)
    accelerated = find(prepared.platform).uses_accelerator
    known_runs.check_machine(prepared.known, state, on.accelerator if accelerated else None)


def check_is_tuning(folder: Path) -> None:
    """Whether what was measured there was measured by a tuning.

    Raises:
        InputError: it was not, or there is no run.
    """
    with Store.open(folder) as store:
        other = any(PHASE not in one.planned.cell for one in store.trials() if one.planned.of_cell)
    if other:
        raise InputError(
            f"{folder} holds a run of a study and no tuning.",
            f"`hypertare run --resume --out {folder}` goes on with it.",
        )


def carry_out(
    prepared: Prepared,
    on: MachineResources,
    folder: Path,
    observer: Observer,
    run_options: RunOptions,
    *,
    resume: bool = False,
    resumed_at: Path | None = None,
) -> Tuning | None:
    """Tunes into a run directory.

    Args:
        resumed_at: what `--out` names to go on, where that is not this directory.

    Returns:
        What was found; none when Ctrl-C came first.

    Raises:
        NotPutBackError: the tuning is whole, but a setting of this host is not as it was before.
    """
    run = prepared.run
    outcome: Outcome | None = None
    goes_on = f"hypertare tune --resume --out {resumed_at or folder}"
    kept = f"`{goes_on}` goes on with them."
    with Store.resume(folder) if resume else create(run, on, folder) as store:
        with ending(store, "the tuning", goes_on, kept) as end:
            session = Session(run, on, store, observer, run_options)
            session.measure_capacities()
            with session.trial_runner(prepared.workload, prepared.platform) as lab:
                outcome = tune(prepared, lab)
                trials = lab.trials
                end.complete = True
        summary = sum_up(store, folder)
        if outcome is None:
            if end.left is not None:
                raise end.left
            return None
        for text in outcome.warnings:
            store.add_event(text)
            observer.warn(text)
        accelerator = on.accelerator if find(prepared.platform).uses_accelerator else None
        machine, ended = store.meta.machine, datetime.now(UTC)
    found = document(outcome, prepared, machine, accelerator, summary.started, ended, trials)
    with writing(folder):
        (folder / FILE_NAME).write_text(found.model_dump_json(indent=2) + "\n")
    if end.left is not None:
        raise end.left
    return found


def tune(prepared: Prepared, lab: TrialRunner) -> Outcome:
    """The tuning itself, on a trial runner that is open."""
    budget = BudgetTracker(prepared.budget, lambda: lab.trials, lab.now)
    lab.left_s = budget.left_s
    tuner = Tuner(
        lab,
        prepared.space,
        prepared.aims,
        prepared.design,
        budget,
        prepared.run.design.seed,
        prepared.trial_s,
        prepared.known.settings if prepared.known else (),
    )
    return tuner.run() if prepared.pick is None else tuner.confirm(prepared.pick)
