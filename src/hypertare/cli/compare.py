"""`hypertare compare`: what run B changed against run A, for people and for CI."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from hypertare.base.errors import InputError, UndecidedError, WorseError
from hypertare.base.units import parse_share
from hypertare.base.words import did_you_mean
from hypertare.stats.practical import THRESHOLD


def compare(
    run_a: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_A",
            help="The run before: its directory, run.sqlite, or name: see `hypertare runs`.",
        ),
    ],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="The run after.")],
    threshold: Annotated[
        str,
        typer.Option("--threshold", metavar="SHARE", help="The least change that matters."),
    ] = f"{100 * THRESHOLD:g}%",
    response: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What decides, for example machine_cpu: by default each workload's leading response. "
            "May be repeated.",
        ),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLATFORM", help="Where it decides, by default everywhere. May be repeated."
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Compare also runs of different commands or directories."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Compare two runs of a study. Exit status 4 when something got worse beyond the threshold, 6 when it
    could not be seen whether it did.

    Every platform decides by itself, as far as two runs of one machine may differ, and by its cost against
    native, which sees smaller changes: a busier machine makes both slower.
    """
    from hypertare.findings import workload_mismatch
    from hypertare.findings.compare import Gate
    from hypertare.findings.compare import compare as compare_runs
    from hypertare.findings.summarise import read
    from hypertare.report import comparison
    from hypertare.runs import kept

    least = _share(threshold)
    a, b = read(kept.find(run_a)), read(kept.find(run_b))
    if not force:
        workload_mismatch.refuse(a.meta, b.meta)
    refuse_unknown(response or [], a.responses, "--response")
    refuse_unknown(on or [], a.meta.platforms, "--on")
    gate = Gate(tuple(response or ()), tuple(on or ()))
    found = compare_runs(a, b, least, a.meta.confidence, gate)
    if json:
        print(found.model_dump_json(indent=2))
    else:
        comparison.show(found, a, b)
    if found.worse:
        count = len(found.worse)
        raise WorseError(
            f"{count} {'figures' if count > 1 else 'figure'} of {run_b} got worse by more than "
            f"{100 * least:g} % against {run_a}."
        )
    if found.undecided:
        count = len(found.undecided)
        raise UndecidedError(
            f"Whether {count} {'figures' if count > 1 else 'figure'} of {run_b} got worse could not be "
            f"seen: the interval holds no change and large ones too.",
            "Take more trials in both runs (--max-trials, --time-limit), on a machine without other work, "
            "or weigh both in one run: hypertare weigh 'BEFORE' 'AFTER', tools/weigh-change.",
        )


def refuse_unknown(asked: Iterable[str], known: Iterable[str], option: str) -> None:
    """Checks that the run has all names that an option gives.

    Raises:
        InputError: the run lacks one of them.
    """
    for name in asked:
        if name not in known:
            raise InputError(
                f"{option} {name}: the run has none of that name.{did_you_mean(name, known)}",
                f"It has: {', '.join(known)}.",
            )


def _share(text: str) -> float:
    try:
        share = parse_share(text)
    except ValueError as error:
        raise InputError(f"--threshold: {error}.") from error
    if not 0 <= share < 1:
        raise InputError(f"--threshold: {text} is not between 0 and 100 %.", "For example: 5%.")
    return share
