"""A tuning from its study to `tune.json` in a run directory.

Everything that can be known to be wrong is found before anything is started.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hypertare import environment, session
from hypertare.campaign import Observer, expected_trial_s
from hypertare.errors import InputError
from hypertare.laboratory import Laboratory
from hypertare.planner import Surroundings, sut_cpus
from hypertare.responses import HEADLINE, RESPONSES
from hypertare.study import BASELINE, Study, StudyFile
from hypertare.summarise import summarise
from hypertare.trials import Response
from hypertare.tune import space as spaces
from hypertare.tune.budget import Budget, Purse
from hypertare.tune.document import Tuning
from hypertare.tune.findings import Circumstances, document
from hypertare.tune.settings import TuneSettings
from hypertare.tune.space import Space, overrides
from hypertare.tune.tuner import Aims, Outcome, Tuner

_CPU_BY_BYTE = "cpu_per_gigabyte"


@dataclass(frozen=True)
class Prepared:
    """A tuning that was checked as far as can be without starting anything."""

    run: session.Prepared
    space: Space
    aims: Aims
    budget: Budget
    platform: str
    workload: str
    trial_s: float


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
    # The bench of a tuning holds the tuned platform alone, and its knobs take the place of factors.
    file.raw["factors"] = {
        knob.path: list(knob.levels) for knob in space.knobs if knob.path == "sut.kernel"
    }
    file.raw.setdefault("sut", {})["platforms"] = list(dict.fromkeys([BASELINE, platform]))
    file.raw["claims"] = []
    run = session.prepare(file, seed)
    on = Surroundings(run.cpus, "tcg", {}, {})
    for knob in space.knobs:
        for level in knob.levels or (knob.far,):
            sut_cpus(file.cell(overrides({knob.path: level})).sut.cpus, on)
    trial_s = expected_trial_s(run.study, workload)
    return Prepared(run, space, aims, budget, platform, workload, trial_s)


def _platform(study: Study, settings: TuneSettings) -> str:
    if settings.platform is not None:
        return settings.platform
    # The last one is what the study is about: a guest where there is one.
    return "guest" if "guest" in study.sut.platforms else study.sut.platforms[-1]


def _workload(study: Study, settings: TuneSettings, space: Space) -> str:
    """The one that was named, else the one that knobs belong to, else the first."""
    mentioned = {
        knob.path.split(".")[1]
        for knob in (*space.knobs, *space.ladders)
        if knob.path.startswith("workloads.")
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
    kind = study.workloads[workload].type
    known = {response.name: response for response in RESPONSES[kind]}

    def find(name: str, key: str) -> Response:
        if name not in known:
            raise InputError(
                f"{file.source}: {key}: {workload} has no response '{name}'.",
                f"It has: {', '.join(known)}.",
            )
        return known[name]

    throughput = find(settings.throughput or HEADLINE[kind], "tune.throughput")
    cpu = find(
        settings.cpu or (_CPU_BY_BYTE if _CPU_BY_BYTE in known else "machine_cpu"), "tune.cpu"
    )
    if space.ladders and (
        "loss" not in known or getattr(study.workloads[workload], "protocol", "") == "tcp"
    ):
        raise InputError(
            f"{file.source}: tune.knobs: 'smallest-without-loss' needs a workload that counts loss; "
            f"{workload} does not.",
            "Take a UDP stream with a rate.",
        )
    return Aims(
        settings.goal,
        throughput,
        cpu,
        max(settings.threshold, study.design.threshold),
        settings.loss,
        study.clock,
    )


def carry_out(
    prepared: Prepared,
    on: Surroundings,
    folder: Path,
    observer: Observer,
    manner: session.Manner,
) -> tuple[Tuning | None, bool]:
    """Tunes into a run directory.

    Returns:
        What was found, none when Ctrl-C came first; and whether it came.
    """
    run = prepared.run
    began = datetime.now(UTC)
    interrupted = False
    outcome: Outcome | None = None
    with session.create(run, on, folder) as store:
        try:
            with session.laboratory(
                run, prepared.workload, prepared.platform, on, store, observer, manner
            ) as lab:
                outcome = tune(prepared, lab)
                trials = lab.trials
        except KeyboardInterrupt:
            interrupted = True
            store.add_event("the tuning was interrupted, so nothing is recommended")
        finally:
            store.ended(outcome is not None)
        summary = summarise(store)
    (folder / "summary.json").write_text(summary.model_dump_json(indent=2) + "\n")
    if outcome is None:
        return None, interrupted
    for text in outcome.warnings:
        observer.warn(text)
    where = Circumstances(
        study=run.study.name,
        question=run.study.question,
        machine=environment.machine_state(),
        accelerator=on.accelerator if prepared.platform == "guest" else None,
        seed=run.design.seed,
        started=began,
        ended=datetime.now(UTC),
        platform=prepared.platform,
        workload=prepared.workload,
        budget=str(prepared.budget),
        trials=trials,
    )
    found = document(outcome, prepared.space, prepared.aims, where)
    (folder / "tune.json").write_text(found.model_dump_json(indent=2) + "\n")
    return found, interrupted


def tune(prepared: Prepared, lab: Laboratory) -> Outcome:
    """The tuning itself, on a laboratory that is open."""
    purse = Purse(prepared.budget, lambda: lab.trials, lab.now)
    lab.left_s = purse.left_s
    tuner = Tuner(
        lab,
        prepared.space,
        prepared.aims,
        prepared.run.study.design,
        purse,
        prepared.run.design.seed,
        prepared.trial_s,
    )
    return tuner.run()
