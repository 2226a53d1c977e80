"""`hypertare run`: carries a study out."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hypertare.base.errors import HypertareError, InputError, writing
from hypertare.base.units import human_duration
from hypertare.cli.options import (
    STDOUT,
    AskedStudy,
    Cluster,
    DryRun,
    Fresh,
    Given,
    HugePages,
    Jobs,
    ModuleReload,
    RunDirectory,
    Settings,
    given_machines,
    is_stdout,
)

_MIN_TRIALS = 5
_SPARE = 1.5
"""Factor by which the suggested time limit exceeds the time of the trials seen so far."""

if TYPE_CHECKING:
    from hypertare.engine.prepare import Prepared, RunOptions
    from hypertare.engine.run_directory import Ended
    from hypertare.report.model import Report
    from hypertare.search.plan import SearchPlan
    from hypertare.study import StudyFile


def run(
    study: AskedStudy = None,
    set_: Settings = None,
    given: Given = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="The study's short form: fewer trials, wider intervals."),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the interrupted run in --out, as it was asked for."
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Seed of the random order of trials (default: 1)."),
    ] = None,
    out: RunDirectory = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    fresh: Fresh = False,
    allow_module_reload: ModuleReload = False,
    allow_huge_pages: HugePages = False,
    dry_run: DryRun = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as JSON in place of the table."),
    ] = False,
) -> None:
    """Carry out a study: run.sqlite, report.html and summary.json in a run directory.

    Examples:

    hypertare run first-look

    hypertare run hypervisors --given a='ssh root@a' --set given.a.settings=true

    hypertare run first-look --set sut.cpus=2 --set 'design.precision=10%'

    hypertare run --resume --out hypertare-runs/first-look-20260101-120000
    """
    from hypertare.machines.asked import Asked

    # Before all else is imported, which takes as long as their answers.
    asked = None if dry_run or resume else Asked()

    from hypertare.base import loading, paths
    from hypertare.cli.progress import Watch
    from hypertare.engine.prepare import RunOptions, prepare
    from hypertare.engine.run_directory import new_folder
    from hypertare.engine.runners.runner import resources
    from hypertare.engine.session import carry_out
    from hypertare.machines.host.settings import Permissions
    from hypertare.runs.store import Store

    if resume:
        refuse_changes(
            {"--set": set_, "--given": given, "--quick": quick, "--seed": seed is not None}
        )
        file, seed = interrupted_study(study, out, "run")
    else:
        file = asked_study(study)
        if given:
            file.use_machines(_with_addresses(given))
        file.override(set_ or [], quick)
    prepared = prepare(file, 1 if seed is None else seed)
    allow = Permissions(allow_module_reload, allow_huge_pages)
    run_options = RunOptions(jobs, fresh, allow, cluster).checked(prepared)
    if out is not None and not resume:
        Store.check_vacant(out)
    if dry_run:
        show_design(prepared, json, run_options)
        return
    with run_options.connected(say) as run_options, Watch(prepared.study) as watch:
        on = resources(prepared, watch.notify, allow)
        folder = out or new_folder(prepared.study.name, paths.runs_dir())
        loading.later(*FINISHED_WITH)
        ended = carry_out(
            prepared, on, folder, watch, resume=resume, run_options=run_options, asked=asked
        )
    finish(folder, ended, json=STDOUT if json else None)


def _with_addresses(given: Sequence[str]) -> dict[str, dict[str, str]]:
    """The machines, each with the address by which ssh reaches it, where that is one of its own."""
    from hypertare.machines.reach import address_of
    from hypertare.study.machines import reach_words

    found = given_machines(given)
    for machine in found.values():
        # A way that is none is refused with the study.
        with contextlib.suppress(ValueError):
            if address := address_of(reach_words(machine["reach"])):
                machine["address"] = address
    return found


def say(text: str) -> None:
    """Prints a notice about a run's resources on standard error."""
    print(text, file=sys.stderr, flush=True)


def asked_study(study: str | None) -> StudyFile:
    from hypertare.protocol.constants import RUN_FILE
    from hypertare.study import find

    if study is None:
        raise InputError(
            "Which study? None was named.",
            "Give a built-in one (`hypertare studies` lists them) or a TOML file.",
        )
    if (Path(study) / RUN_FILE).is_file():
        raise InputError(
            f"{study} is a run, and no study.",
            f"`hypertare report {study}` shows it; --resume --out {study} goes on with it.",
        )
    return find(study)


def interrupted_study(study: str | None, out: Path | None, verb: str) -> tuple[StudyFile, int]:
    """The study of an earlier run with the settings that it had, and its seed."""
    from hypertare.protocol.constants import RUN_FILE
    from hypertare.runs.store import Store
    from hypertare.study import StudyFile, find

    if out is None:
        raise InputError("--resume needs the run directory.", "Name it with --out DIR.")
    if out.is_file():
        raise InputError(
            f"{out} is a file, and --resume goes on in a run directory.",
            f"Name it with --out {out.parent}.",
        )
    if not (out / RUN_FILE).exists():
        raise InputError(
            f"There is no run at {out} to go on with: one that is interrupted before it has measured "
            "anything keeps nothing.",
            "Start it anew, without --resume.",
        )
    with Store.open(out) as store:
        meta = store.meta
    if study is not None and find(study).text != meta.study_text:
        raise InputError(
            f"{out} is a run of another study, or '{study}' has changed since.",
            f"To go on with it as it was: `hypertare {verb} --resume --out {out}`.",
        )
    file = StudyFile.restored(meta.study_text, meta.settings, str(out), Path(meta.folder))
    return file, meta.seed


def refuse_changes(changes: Mapping[str, object]) -> None:
    """Refuses options that would change a resumed run: all of its trials must have the same settings.

    Raises:
        InputError: one of the options is given.
    """
    for option, given in changes.items():
        if given:
            raise InputError(
                f"--resume goes on with a run as it was asked for; {option} would change it.",
                f"Leave {option} out, or start another run in another directory.",
            )


FINISHED_WITH = ("hypertare.report.terminal", "hypertare.report.html")
"""What `finish` loads."""


def finish(
    folder: Path, ended: Ended, *, json: Path | None = None, html: Path | None = None
) -> None:
    """Prints the verdict, then writes the report, and says where everything is.

    Args:
        folder: the run directory.
        json, html: where summary and report go as well; to the standard output in place of the verdict.

    Raises:
        HypertareError: a platform could not be weighed, or the report cannot be written.
    """
    import shutil

    from hypertare.cli.report import drawing, load
    from hypertare.report.terminal import show

    found = load(folder, ended.summary)
    is_shown = not is_stdout(json) and not is_stdout(html)
    if is_shown:
        show(found)
    if is_stdout(json):
        print(found.summary.model_dump_json(indent=2), flush=True)
    elif json is not None:
        with writing(json):
            shutil.copyfile(folder / "summary.json", json)
    with writing(folder), drawing(folder) as report:
        from hypertare.report.html import render
        from hypertare.report.page import write

        write(render(found), report)
    if is_stdout(html):
        print(report.read_text(encoding="utf-8"), end="", flush=True)
    elif html is not None:
        with writing(html):
            shutil.copyfile(report, html)
    if is_shown:
        print(f"\nreport: {html or report}")
    if ended.interrupted:
        say(f"hypertare: interrupted; `hypertare run --resume --out {folder}` goes on with it.")
        raise typer.Exit(130)
    _require_results(found, folder, is_shown=is_shown)


def _require_results(found: Report, folder: Path, *, is_shown: bool) -> None:
    """A platform without a single good trial was not weighed: whoever asked for it must notice."""
    searched = {one.platform for one in found.summary.loss_free if one.state != "failed"}
    weighed = searched | {trial.planned.platform for trial in found.trials if trial.counts}
    search = found.meta.settings.get("search") or {}
    wanted = search.get("platforms") if search.get("only") else None
    missing = [name for name in wanted or found.meta.platforms if name not in weighed]
    if missing:
        if not found.failures and found.trials:
            # The time limit ended before the first measured trial.
            summary, design = found.summary, found.meta.settings.get("design", {})
            used = ((summary.ended or summary.started) - summary.started).total_seconds()
            block = sum(trial.elapsed_s for trial in found.trials if trial.planned.of_cell)
            wanted = used + _SPARE * block * int(design.get("min_trials", _MIN_TRIALS))
            raise HypertareError(
                f"The time limit went for boot and warm-ups: of {' and '.join(missing)} nothing was "
                f"measured in {human_duration(used)}.",
                f"It needs about {human_duration(60 * math.ceil(wanted / 60))}: --time-limit of weigh, "
                "design.time_limit of a study.",
            )
        failed = {failure.platform for failure in found.failures}
        do = f"`hypertare report {folder}` shows what there is."
        if is_shown and failed.issuperset(missing):
            do = "The reasons stand above, with the last console lines in the report."
        raise HypertareError(f"No trial succeeded on {' and '.join(missing)}.", do)


def show_design(prepared: Prepared, as_json: bool, run_options: RunOptions | None = None) -> None:
    """Prints cells, order and expected time; of an emulated machine also how many boots."""
    import json as json_module

    from hypertare.engine.expected import expected_boots, expected_boots_s, expected_run_s

    design, study = prepared.design, prepared.study
    blocks = (study.design.min_trials, study.design.max_trials)
    boots: tuple[int, ...] = ()
    jobs = (run_options and run_options.jobs) or 1
    if study.machine_kind.boots_whole_pcs:
        boots = expected_boots(study, design)
        least, most = (expected_boots_s(study, design, count, jobs) for count in boots)
    else:
        least, most = (expected_run_s(study, design, count) for count in blocks)
    most = min(study.design.time_limit, most)
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
        if study.remote is not None:
            document["hosts"] = list(study.remote.reach)
        if boots:
            document["boots"] = {"least": boots[0], "most": boots[1], "at_once": jobs}
        if prepared.search is not None:
            document["search"] = _search_document(prepared.search, jobs)
        print(json_module.dumps(document, indent=2))
        return
    print(f"{study.name}: {study.question}")
    if prepared.search is not None:
        _show_search(prepared.search, jobs)
        if prepared.search.settings.only:
            return
    print(f"seed {design.seed}; {len(design.plots)} bench(es), hardest to change outermost:")
    for index in design.plot_order(0):
        plot = design.plots[index]
        named = ", ".join(f"{name} = {level}" for name, level in plot.levels.items()) or "one"
        variants = ", ".join(_variant_text(v.platform, v.levels) for v in plot.variants)
        print(f"  {named}: {variants}")
    if study.remote is not None and len(hosts := study.remote.reach) > 1:
        each = study.design.blocks_of_a_boot
        print(f"each bench's boots by turns, {each} blocks each: {', '.join(hosts)}, and so on")
    print("first round, each block in random order:")
    for plot_index, cell_index in product(design.plot_order(0), design.cell_order(0, 0)):
        cell = design.cells[cell_index]
        order = ", ".join(
            _variant_text(t.platform, {k: v for k, v in t.cell.items() if k.startswith("sut.")})
            for t in design.block(design.plots[plot_index], cell, 0, 0)
        )
        text = ", ".join(f"{k} = {v}" for k, v in cell.levels.items() if k != "workload")
        print(f"  {cell.workload}{' (' + text + ')' if text else ''}: {order}")
    if boots:
        print(f"{_from_to(*map(str, boots))} boots of the machine, {jobs} at a time.")
    rounds = _from_to(str(study.design.min_trials), str(study.design.max_trials))
    time = _from_to(human_duration(min(least, most)), human_duration(most))
    guessed = any(work.expected_s is None for work in study.workloads.values())
    hint = " (what is not timed is guessed until it has run once)" if guessed else ""
    print(f"{design.trials_per_round} trials a round, {rounds} rounds: {time} expected{hint}.")


def _from_to(least: str, most: str) -> str:
    return most if least == most else f"{least} to {most}"


def _search_document(plan: SearchPlan, jobs: int) -> dict[str, Any]:
    settings = plan.settings
    return {
        "workload": settings.workload,
        "only": settings.only,
        "settings": [{"platform": place.platform, **place.levels} for place in plan.places],
        "goals": list(settings.loss),
        "most_trials": settings.most_trials,
        "most_s": plan.most_s / jobs,
    }


def _show_search(plan: SearchPlan, jobs: int) -> None:
    settings = plan.settings
    goals = " and ".join(f"{100 * goal:g} %" for goal in settings.loss)
    after = "" if settings.only else ", after all that follows here"
    print(
        f"searches the rates at which {settings.workload} loses no more than {goals}{after}; at most "
        f"{settings.most_trials} trials of {human_duration(settings.duration)} each (most searches "
        f"need under 20): at most {human_duration(plan.most_s / jobs)}, boots not counted:"
    )
    for place in plan.places:
        print(f"  {_variant_text(place.platform, dict(place.levels))}")


def _variant_text(platform: str, levels: Mapping[str, object]) -> str:
    inside = ", ".join(f"{name.removeprefix('sut.')} = {level}" for name, level in levels.items())
    return f"{platform} ({inside})" if inside else platform
