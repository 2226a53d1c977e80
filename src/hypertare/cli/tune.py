"""`hypertare tune`: which settings are better than the default, confirmed by fresh trials."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hypertare.base.errors import InputError
from hypertare.base.figures import level_text
from hypertare.base.units import human_duration
from hypertare.cli.commands import input_of, shown, study_file, value_of
from hypertare.cli.options import (
    AS_IT_IS,
    Cluster,
    Fresh,
    HigherIsBetter,
    HugePages,
    Input,
    Jobs,
    ModuleReload,
    Peer,
    Prepare,
    RunDirectory,
    Settings,
    Value,
    ValueJson,
    complete_study,
)
from hypertare.cli.run import asked_study, interrupted_study, refuse_changes, say

if TYPE_CHECKING:
    from hypertare.design.planner import MachineResources
    from hypertare.engine.prepare import RunOptions
    from hypertare.findings.tuning import AtLevel
    from hypertare.study import StudyFile
    from hypertare.tune.over import LevelTuning, Sweep
    from hypertare.tune.session import Prepared


def complete_goal(incomplete: str) -> list[str]:
    return [goal for goal in ("goodput", "cpu", "balance") if goal.startswith(incomplete)]


def complete_factor(context: typer.Context, incomplete: str) -> list[str]:
    """The factors of the study that was named before."""
    from hypertare.study import find

    words = context.params.get("words") or []
    try:
        factors = find(words[0]).study().factors if words else {}
    except InputError:
        return []
    return [factor for factor in factors if factor.startswith(incomplete)]


def tune(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STUDY | -- COMMAND",
            help="A built-in study's name (see `hypertare studies`), a TOML file, or a command after --: "
            "then the knobs are those of a guest that it can feel.",
            autocompletion=complete_study,
        ),
    ] = None,
    goal: Annotated[
        str | None,
        typer.Option(
            metavar="goodput|cpu|balance",
            help="What to gain (default: the study's).",
            autocompletion=complete_goal,
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="N|TIME", help="Trials (160), or time (10m) (default: the study's)."),
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="A run of the study, whose cells the search then knows from the start.",
        ),
    ] = None,
    over: Annotated[
        str | None,
        typer.Option(
            metavar="FACTOR[=LEVELS]",
            help="A tuning for each level of a factor of the study (sut.guests=1,2,4,8; by itself: the "
            "study's levels), and the law that the best settings follow.",
            autocompletion=complete_factor,
        ),
    ] = None,
    confirm: Annotated[
        str | None,
        typer.Option(
            metavar="FACTOR=LEVEL",
            help="With --over: where that law is confirmed by fresh trials (default: in the middle of the "
            "widest gap between levels).",
        ),
    ] = None,
    peer: Peer = None,
    prepare: Prepare = None,
    input: Input = None,
    value: Value = None,
    value_json: ValueJson = None,
    higher_is_better: HigherIsBetter = False,
    set_: Settings = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="The study's short form, and 60 trials."),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the interrupted tuning in --out, as it was asked for."
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Seed of orders and of the search (default: 1)."),
    ] = None,
    out: RunDirectory = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    fresh: Fresh = False,
    allow_module_reload: ModuleReload = False,
    allow_huge_pages: HugePages = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be tuned; run nothing."),
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print tune.json in place of the tables."),
    ] = False,
) -> None:
    """Which knobs of a study matter, or of a guest for a command? Search, and confirm by fresh trials.

    It changes nothing for good: what it recommends, it prints as commands, with how to undo them.

    Examples:

    hypertare tune tcp-knobs --goal balance --budget 10m

    hypertare tune -- make

    hypertare tune --peer 'iperf3 -s' -- sh -c 'iperf3 -n 100M -c $HYPERTARE_PEER'

    hypertare tune my-factorial.toml --from last

    hypertare tune scheduler-weights --over sut.guests=1,2,4,8

    hypertare tune --resume --out hypertare-runs/tcp-knobs-tune-20260101-120000
    """
    from hypertare.base import paths
    from hypertare.base.loading import check_extra
    from hypertare.cli.progress import Watch
    from hypertare.cli.report import drawing
    from hypertare.engine.prepare import RunOptions
    from hypertare.engine.run_directory import new_folder
    from hypertare.engine.runners.runner import resources
    from hypertare.machines.host.settings import Permissions
    from hypertare.report.tuning import show
    from hypertare.runs import kept
    from hypertare.runs.store import Store
    from hypertare.study import put
    from hypertare.tune import FILE_NAME
    from hypertare.tune import over as sweeps
    from hypertare.tune import session as tuning

    check_extra("tune", "hypertare tune")

    def go_over(sweep: Sweep, folder: Path | None) -> None:
        first = sweep.parts[0].prepared.run
        allow = Permissions(allow_module_reload, allow_huge_pages)
        checked = RunOptions(jobs, fresh, allow, cluster).checked(first)
        if dry_run:
            show_levels(sweep, checked.jobs or 1, json)
            return
        folder = folder or new_folder(f"{first.study.name}-tune-over", paths.runs_dir())
        with checked.connected(say) as connected:
            tune_levels(sweep, folder, connected, json)

    if resume:
        changes = {"--set": set_, "--quick": quick, "--seed": seed is not None}
        refuse_changes(changes | {"--goal": goal, "--budget": budget, "--from": from_})
        refuse_changes({"--over": over, "--confirm": confirm})
        begun = sweeps.read(out) if out is not None else None
        if out is not None and begun is not None:
            go_over(sweeps.restored(out, begun), out)
            return
        file, seed = interrupted_study(words[0] if words else None, out, "tune")
        assert out is not None, "interrupted_study refuses that"
        tuning.check_is_tuning(out)
    else:
        command = words if context.meta[AS_IT_IS] else None
        if command:
            file = _of_command(
                command,
                peer=peer,
                prepare=prepare,
                input=input_of(input),
                value=value_of(value, value_json, None, "", higher_is_better),
                huge_pages=allow_huge_pages,
            )
        else:
            asked_of_command = {
                "--peer": peer,
                "--prepare": prepare,
                "--input": input,
                "--value": value,
                "--value-json": value_json,
                "--higher-is-better": higher_is_better or None,
            }
            _refuse_without_command(asked_of_command)
            file = asked_study(_only(words or []))
        if over is not None and from_ is not None:
            raise InputError(
                "--from is of one tuning, and --over makes several.", "Leave --from out."
            )
        _override(file, set_ or [], quick, goal, budget)
        if from_ is not None:
            put(file.raw, "tune.known", str(kept.find(from_).resolve()), "--from")
        if over is not None:
            if out is not None:
                sweeps.check_vacant(out)
            asked = sweeps.asked(file, over, confirm, 1 if seed is None else seed)
            go_over(sweeps.prepare(file, asked), out)
            return
        if confirm is not None:
            raise InputError(
                f"--confirm {confirm}: it says where the law of --over is confirmed, and there is none.",
                "Say over which factor: --over sut.guests=1,2,4,8",
            )
    prepared = tuning.prepare(file, 1 if seed is None else seed)
    allow = Permissions(allow_module_reload, allow_huge_pages)
    run_options = RunOptions(jobs, fresh, allow, cluster).checked(prepared.run)
    if out is not None and not resume:
        Store.check_vacant(out)
    if dry_run:
        show_space(prepared, run_options.jobs or 1, json)
        return
    with run_options.connected(say) as run_options, Watch(prepared.run.study) as watch:
        on = resources(prepared.run, watch.notify, allow)
        tuning.check_machine(prepared, on)
        folder = out or new_folder(f"{prepared.run.study.name}-tune", paths.runs_dir())
        found = tuning.carry_out(prepared, on, folder, watch, run_options, resume=resume)
    if found is None:
        say(
            f"hypertare: interrupted, so nothing is recommended; what was measured is kept: "
            f"`hypertare tune --resume --out {folder}` goes on with it."
        )
        raise typer.Exit(130)
    if json:
        print(found.model_dump_json(indent=2), flush=True)
    else:
        show(found)
    with drawing(folder) as report:
        from hypertare.report.page import write
        from hypertare.report.tuning_html import render

        write(render(found), report)
    if not json:
        print(f"\nreport: {report}\nall of it: {folder / FILE_NAME}")


def _of_command(
    command: list[str],
    *,
    peer: str | None,
    prepare: str | None,
    input: str | None,
    value: Mapping[str, object] | None,
    huge_pages: bool,
) -> StudyFile:
    """The study that tunes a guest for a command."""
    from hypertare.base.host_files import Host
    from hypertare.machines.host.settings import can_use_vhost
    from hypertare.platforms.registry import BASELINE
    from hypertare.tune.space import knobs_of_command

    platform = "guest"
    better = "faster" if value is None else "better"
    file = study_file(
        [command],
        name="command",
        question=f"Which settings of a guest make `{shown(command)}` {better} than the defaults?",
        platforms=[BASELINE, platform],
        varied={},
        sut={"workdir": str(Path.cwd())},
        design={"warmup": 1, "blocks_per_boot": 3, "max_trials": 30, "precision": "4%"},
        prepare=prepare,
        input=input,
        value=value,
        peer=peer,
    )
    offered = knobs_of_command(
        has_peer=peer is not None, has_vhost=can_use_vhost(Host()), huge_pages=huge_pages
    )
    # The budget is a time because the length of a trial is not known.
    file.raw["tune"] = {"budget": "10m", "platform": platform, "knobs": offered}
    return file


def _refuse_without_command(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value is not None:
            raise InputError(
                f"{option} says more of a command, and none is given.",
                "Give it after --: hypertare tune -- make. A study says such things itself.",
            )


def _only(words: list[str]) -> str | None:
    if len(words) > 1:
        raise InputError(
            f"One study is tuned, and these are {len(words)}: {', '.join(words)}.",
            f"A command stands behind --: hypertare tune -- {' '.join(words)}",
        )
    return words[0] if words else None


def _override(
    file: StudyFile, set_: list[str], quick: bool, goal: str | None, budget: str | None
) -> None:
    """The command line's changes; the narrower one counts: --quick, then --set, then the rest."""
    from hypertare.study import put

    if quick:
        put(file.raw, "tune.budget", QUICK_BUDGET, "--quick")
    file.override(set_, quick)
    if goal is not None:
        put(file.raw, "tune.goal", goal, "--goal")
    if budget is not None:
        put(file.raw, "tune.budget", int(budget) if budget.isdecimal() else budget, "--budget")


QUICK_BUDGET = 60


def show_space(prepared: Prepared, jobs: int, as_json: bool) -> None:
    """Prints the knobs, the goal and the expected time."""
    import json as json_module

    from hypertare.report import tuning as report

    budget, aims = prepared.budget, prepared.aims
    seconds = prepared.budget_s(jobs)
    knobs = [*prepared.space.knobs, *prepared.space.ladders]
    if as_json:
        document = {
            "study": prepared.run.study.name,
            "seed": prepared.run.design.seed,
            "platform": prepared.platform,
            "workload": prepared.workload,
            "goal": aims.goal,
            "budget": str(budget),
            "known": prepared.known.before.model_dump() if prepared.known else None,
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
            else ", ".join(map(level_text, knob.levels))
        )
        print(f"  {knob.path}: {levels} (default: {level_text(knob.default)})")
    if prepared.known is not None:
        print(report.known(prepared.known.before))
    left_out = "" if prepared.counts_boots else " without boots"
    print(f"budget: {budget}, about {human_duration(seconds)}{left_out}")


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
    from hypertare.engine.runners.runner import resources
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
