"""`hypertare compare`: what run B changed against run A, for people and for CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    json: Annotated[bool, typer.Option("--json", metavar="", help="As JSON.")] = False,
) -> None:
    """Compare two runs of a study. Exit status 4 when something got worse beyond the threshold."""
    from hypertare.base.errors import WorseError
    from hypertare.findings.compare import compare as compare_runs
    from hypertare.findings.summarise import read
    from hypertare.report import comparison
    from hypertare.runs import kept

    least = _share(threshold)
    a, b = read(kept.find(run_a)), read(kept.find(run_b))
    found = compare_runs(a, b, least, a.meta.confidence)
    if json:
        print(found.model_dump_json(indent=2))
    else:
        comparison.show(found, a, b)
    if found.worse:
        count = len(found.worse)
        raise WorseError(
            f"{count} response{'s' if count > 1 else ''} of {run_b} got worse by more than "
            f"{100 * least:g} % against {run_a}."
        )


def _share(text: str) -> float:
    from hypertare.base.errors import InputError
    from hypertare.base.units import parse_share

    try:
        share = parse_share(text)
    except ValueError as error:
        raise InputError(f"--threshold: {error}.") from error
    if not 0 <= share < 1:
        raise InputError(f"--threshold: {text} is not between 0 and 100 %.", "For example: 5%.")
    return share
