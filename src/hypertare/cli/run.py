"""`hypertare run`: carries a study out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hypertare.units import human_duration

if TYPE_CHECKING:
    from hypertare.session import Prepared


def complete_study(incomplete: str) -> list[str]:
    from hypertare.study import builtin_names

    return [name for name in builtin_names() if name.startswith(incomplete)]


def run(
    study: Annotated[
        str,
        typer.Argument(
            help="A built-in study's name, or a TOML file.",
            autocompletion=complete_study,
            show_default=False,
        ),
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=VALUE", help="Change a setting. May be repeated."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The study's short form: fewer trials, wider intervals.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the interrupted run in --out.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the order of trials.")] = 1,
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
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="In virtual time, run also what is known already; exit status 5 if it differs.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the design and the expected time; run nothing.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON in place of the table.")
    ] = False,
) -> None:
    """Carry out a study: run.sqlite, report.html and summary.json in a run directory."""
    from hypertare import paths, session
    from hypertare.cli.progress import Watch
    from hypertare.errors import InputError
    from hypertare.study import StudyFile, find

    if resume:
        if out is None:
            raise InputError("--resume needs the run directory.", "Name it with --out DIR.")
        from hypertare.store import Store

        with Store.open(out) as store:
            meta = store.meta
        file = StudyFile.restored(meta.study_text, meta.settings, str(out), Path(meta.folder))
        seed = meta.seed
    else:
        file = find(study)
        file.override(set_ or [], quick)
    prepared = session.prepare(file, seed)
    manner = session.Manner(jobs, fresh).checked(prepared)
    if dry_run:
        show_design(prepared, json)
        return
    folder = out or session.new_folder(prepared.study.name, paths.runs_dir())
    with Watch() as watch:
        on = session.surroundings(prepared, watch.tell)
        interrupted = session.carry_out(prepared, on, folder, watch, resume=resume, manner=manner)
    finish(folder, interrupted=interrupted, as_json=json)


def finish(
    folder: Path,
    *,
    interrupted: bool,
    as_json: bool,
    summary_copy: Path | None = None,
    report_copy: Path | None = None,
) -> None:
    """Writes the report, prints the verdict, and says where everything is."""
    import shutil

    from hypertare.cli.report import load
    from hypertare.report.html import write
    from hypertare.report.terminal import show

    found = load(folder)
    report = folder / "report.html"
    write(found, report)
    if as_json:
        print(found.summary.model_dump_json(indent=2))
    else:
        show(found)
        print(f"\nreport: {report_copy or report}")
    if summary_copy is not None:
        shutil.copyfile(folder / "summary.json", summary_copy)
    if report_copy is not None:
        shutil.copyfile(report, report_copy)
    if interrupted:
        raise typer.Exit(130)


def show_design(prepared: Prepared, as_json: bool) -> None:
    """Prints cells, order and expected time."""
    import json as json_module

    from hypertare.campaign import expected_run_s

    design, study = prepared.design, prepared.study
    least = expected_run_s(study, design, study.design.min_trials)
    most = min(study.design.time_limit, expected_run_s(study, design, study.design.max_trials))
    first = [
        (plot_index, design.cells[cell].levels, [t.platform for t in block], block)
        for plot_index in design.plot_order(0)
        for cell in design.cell_order(0, 0)
        for block in [list(design.block(design.plots[plot_index], design.cells[cell], 0, 0))]
    ]
    if as_json:
        document = {
            "study": study.name,
            "seed": design.seed,
            "plots": [plot.levels for plot in design.plots],
            "cells": [cell.levels for cell in design.cells],
            "variants": [
                [{"platform": v.platform, **v.levels} for v in plot.variants]
                for plot in design.plots
            ],
            "trials_per_round": design.trials_per_round,
            "expected_s": {"least": min(least, most), "most": most},
        }
        print(json_module.dumps(document, indent=2))
        return
    print(f"{study.name}: {study.question}")
    print(f"seed {design.seed}; {len(design.plots)} bench(es), hardest to change outermost:")
    for index in design.plot_order(0):
        plot = design.plots[index]
        levels = ", ".join(f"{name} = {level}" for name, level in plot.levels.items()) or "one"
        variants = ", ".join(_variant_text(v.platform, v.levels) for v in plot.variants)
        print(f"  {levels}: {variants}")
    print("first round, each block in random order:")
    for _, levels, _, block in first:
        order = ", ".join(
            _variant_text(t.platform, {k: v for k, v in t.cell.items() if k.startswith("sut.")})
            for t in block
        )
        text = ", ".join(f"{k} = {v}" for k, v in levels.items() if k != "workload")
        print(f"  {levels['workload']}{' (' + text + ')' if text else ''}: {order}")
    print(
        f"{design.trials_per_round} trials a round, {study.design.min_trials} to "
        f"{study.design.max_trials} rounds: {human_duration(min(least, most))} to "
        f"{human_duration(most)} expected (commands are guessed until one has run)."
    )


def _variant_text(platform: str, levels: dict[str, object]) -> str:
    inside = ", ".join(f"{name.removeprefix('sut.')} = {level}" for name, level in levels.items())
    return f"{platform} ({inside})" if inside else platform
