"""`hypertare tune`: which settings are better than the default, confirmed by fresh trials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hypertare.cli.run import complete_study
from hypertare.units import human_duration

if TYPE_CHECKING:
    from hypertare.tune.session import Prepared


def tune(
    study: Annotated[
        str,
        typer.Argument(
            help="A built-in study's name, or a TOML file.",
            autocompletion=complete_study,
            show_default=False,
        ),
    ],
    goal: Annotated[
        str | None,
        typer.Option(help="goodput, cpu or balance. [default: the study's]", show_default=False),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="N|TIME",
            help="Trials (160), or time (10m). [default: the study's]",
            show_default=False,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=VALUE", help="Change a setting. May be repeated."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The study's short form, and 60 trials.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of orders and of the search.")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run directory.", show_default=False)
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Machines that run at the same time in virtual time; by default one a CPU.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be tuned; run nothing.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print tune.json in place of the tables.")
    ] = False,
) -> None:
    """Find out which knobs of a study matter, search, and confirm the winner by fresh trials.

    It changes nothing for good: what it recommends, it prints as commands, with how to undo them.
    """
    from hypertare import paths, session
    from hypertare.cli.progress import Watch
    from hypertare.report.tuning import show
    from hypertare.study import find, put
    from hypertare.tune import session as tuning

    file = find(study)
    if quick:
        put(file.raw, "tune.budget", QUICK_BUDGET, "--quick")
    file.override(set_ or [], quick)
    if goal is not None:
        put(file.raw, "tune.goal", goal, "--goal")
    if budget is not None:
        put(file.raw, "tune.budget", int(budget) if budget.isdecimal() else budget, "--budget")
    prepared = tuning.prepare(file, seed)
    manner = session.Manner(jobs).checked(prepared.run)
    if dry_run:
        show_space(prepared, json)
        return
    folder = out or session.new_folder(f"{prepared.run.study.name}-tune", paths.runs_dir())
    with Watch() as watch:
        on = session.surroundings(prepared.run, watch.tell)
        found, interrupted = tuning.carry_out(prepared, on, folder, watch, manner)
    if found is not None and json:
        print(found.model_dump_json(indent=2))
    elif found is not None:
        show(found)
        print(f"\n{folder / 'tune.json'}")
    if interrupted:
        raise typer.Exit(130)


QUICK_BUDGET = 60


def show_space(prepared: Prepared, as_json: bool) -> None:
    """Prints the knobs, the goal and the expected time."""
    import json as json_module

    budget, aims = prepared.budget, prepared.aims
    seconds = budget.seconds or (budget.trials or 0) * prepared.trial_s
    knobs = [*prepared.space.knobs, *prepared.space.ladders]
    if as_json:
        document = {
            "study": prepared.run.study.name,
            "seed": prepared.run.design.seed,
            "platform": prepared.platform,
            "workload": prepared.workload,
            "goal": aims.goal,
            "budget": str(budget),
            "knobs": {
                knob.path: {
                    "default": knob.default,
                    "levels": list(knob.levels),
                    **({"range": knob.range.model_dump()} if knob.range else {}),
                }
                for knob in knobs
            },
            "expected_s": seconds,
        }
        print(json_module.dumps(document, indent=2))
        return
    print(f"{prepared.run.study.name}: {prepared.run.study.question}")
    cpu = f", {aims.cpu.name}" if aims.cpu else ""
    print(
        f"tunes {prepared.workload} on {prepared.platform} for {aims.goal} "
        f"({aims.throughput.name}{cpu}); seed {prepared.run.design.seed}"
    )
    for knob in knobs:
        levels = (
            f"{knob.range.low} to {knob.range.high}"
            if knob.range
            else ", ".join(map(str, knob.levels))
        )
        print(f"  {knob.path}: {levels} (default: {knob.default})")
    print(f"budget: {budget}, about {human_duration(seconds)} without boots")
