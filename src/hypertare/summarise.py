"""From a run's store to its summary, at any moment of the run."""

from __future__ import annotations

from hypertare.store import Meta, Store
from hypertare.summary import FailedTrial, PlatformState, Summary
from hypertare.trials import FinishedTrial


def summarise(store: Store) -> Summary:
    """What the trials that are there say. An interrupted run's summary says that it is incomplete.

    Raises:
        InputError: the run's file is damaged.
    """
    from hypertare.estimates import estimate

    meta = store.meta
    trials = store.trials()
    milestones = store.milestones()
    last = milestones[-1]
    estimates = estimate(trials, meta.responses, meta.platforms, meta.baseline, meta.confidence)
    return Summary(
        hypertare=meta.hypertare,
        study=meta.study,
        question=meta.question,
        machine=meta.machine,
        clock=meta.clock,
        accelerator=meta.accelerator,
        versions=meta.versions,
        seed=meta.seed,
        started=milestones[0].at,
        ended=last.at if last.what in ("stopped", "completed") else None,
        complete=last.what == "completed",
        platforms=_platforms(store, meta),
        estimates=tuple(estimates),
        failed=tuple(_failed(trial) for trial in trials if trial.status == "failed"),
        warnings=_warnings(store),
    )


def _platforms(store: Store, meta: Meta) -> tuple[PlatformState, ...]:
    """The last state of each platform, in the study's order."""
    states = {state.platform: state for bench in store.benches() for state in bench.platforms}
    order = [*meta.platforms, *states]
    return tuple(states[name] for name in dict.fromkeys(order) if name in states)


def _failed(trial: FinishedTrial) -> FailedTrial:
    return FailedTrial(
        trial=trial.planned.id,
        platform=trial.planned.platform,
        cell=trial.planned.cell,
        reason=trial.error or "no reason given",
        console=trial.console,
    )


def _warnings(store: Store) -> tuple[str, ...]:
    return tuple(dict.fromkeys(e.text for e in store.events() if e.level == "warning"))
