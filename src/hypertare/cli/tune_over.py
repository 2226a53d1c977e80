"""`hypertare tune --over FACTOR`: a tuning for each level, and the law of the best settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hypertare.base.units import human_duration
from hypertare.base.words import level_text

if TYPE_CHECKING:
    from hypertare.design.planner import MachineResources
    from hypertare.engine.run_options import RunOptions
    from hypertare.findings.tuning_over import AtLevel
    from hypertare.tune.over import LevelTuning, Sweep


def show_levels(sweep: Sweep, jobs: int, as_json: bool) -> None:
    """Prints the levels with what each tuning chooses from, and the expected time."""
    import json

    asked, first = sweep.asked, sweep.parts[0].prepared
    if as_json:
        document = {
            "study": first.run.study.name,
            "factor": asked.factor,
            "levels": list(asked.levels),
            "confirm": asked.confirm,
            "seed": asked.seed,
            "platform": first.platform,
            "workload": first.workload,
            "goal": first.aims.goal,
            "budget": str(first.budget),
            "knobs": [knob.path for knob in (*first.space.knobs, *first.space.ladders)],
            "confirm_trials": sweep.confirm_trials,
            "expected_s": sweep.expected_s(jobs),
        }
        print(json.dumps(document, indent=2))
        return
    print(f"{first.run.study.name}: {first.run.study.question}")
    print(
        f"tunes {first.workload} on {first.platform} for {first.aims.goal}, for each "
        f"{asked.factor}; seed {asked.seed}"
    )
    for part in sweep.parts:
        print(f"  {asked.factor} = {level_text(part.level)}: {part.prepared.budget}")
    print(f"knobs: {', '.join(knob.path for knob in (*first.space.knobs, *first.space.ladders))}")
    if sweep.confirm is None:
        print(
            "confirms no law: the factor takes no whole number in the middle of its levels; --confirm "
            f"{asked.factor}=LEVEL names one that is not tuned"
        )
    else:
        place = f"{asked.factor} = {level_text(sweep.confirm.level)}"
        print(f"confirms what the law says of {place}: at most {sweep.confirm_trials} trials")
    left_out = "" if first.counts_boots else " without boots"
    print(f"about {human_duration(sweep.expected_s(jobs))}{left_out}")


def tune_levels(sweep: Sweep, folder: Path, run_options: RunOptions, json: bool) -> None:
    """Tunes each level, prints what was found and writes the reports.

    Raises:
        HypertareError: a level cannot be tuned.
        Exit: Ctrl-C came first.
    """
    from hypertare.cli.progress import Watch
    from hypertare.cli.report import drawing
    from hypertare.engine.machine_resources import resources
    from hypertare.report import page, tuning_html, tuning_over
    from hypertare.tune import OVER_FILE, over, session

    def look(part: LevelTuning) -> MachineResources:
        with Watch(part.prepared.run.study) as watch:
            on = resources(part.prepared.run, watch.notify, run_options.allow)
        session.check_machine(part.prepared, on)
        return on

    def done(one: AtLevel) -> None:
        page.write(tuning_html.render(one.found), folder / one.folder / "report.html")
        if not json:
            print(
                f"{sweep.asked.factor} = {level_text(one.level)}: {one.found.verdict}", flush=True
            )

    # The machine is asked for every level before the first is begun.
    on = [look(part) for part in sweep.every]
    found = over.carry_out(sweep, on, folder, Watch, run_options, done)
    if not found.complete:
        print(
            "hypertare: interrupted; what was measured is kept: "
            f"`hypertare tune --resume --out {folder}` goes on with it.",
            file=sys.stderr,
        )
        raise typer.Exit(130)
    if json:
        print(found.model_dump_json(indent=2), flush=True)
    else:
        print()
        tuning_over.show(found)
    with drawing(folder) as report:
        page.write(tuning_over.render(found), report)
    if not json:
        print(f"\nreport: {report}\nall of it: {folder / OVER_FILE}")
