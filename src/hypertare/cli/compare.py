"""`hypertare compare` and `history`: what changed from run to run, for people and for CI."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hypertare.base.errors import HypertareError, InputError, UndecidedError, WorseError
from hypertare.base.figures import did_you_mean
from hypertare.base.units import parse_share
from hypertare.stats.practical import THRESHOLD

if TYPE_CHECKING:
    from hypertare.findings.history import Past
    from hypertare.runs.store import Meta
    from hypertare.runs.summary import Summary


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
    from hypertare.findings import setups
    from hypertare.findings.compare import Gate
    from hypertare.findings.compare import compare as compare_runs
    from hypertare.findings.summarise import read
    from hypertare.report import comparison
    from hypertare.runs import kept

    least = _share(threshold)
    a, b = read(kept.find(run_a)), read(kept.find(run_b))
    if not force:
        setups.refuse(a.meta, b.meta)
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


def history(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY", help="A study, for its last run, or a run: see `hypertare runs`."
        ),
    ],
    response: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="In place of each workload's leading response. May be repeated."
        ),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLATFORM",
            help="By default all that are compared with native. May be repeated.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show how the figures of a study went from run to run, and where they changed.

    It takes all kept runs that did the same work as the last one, each as one value: how much runs
    differ, from day to day too, is in the intervals.

    Examples:

    hypertare history weigh

    hypertare history first-look --on guest --response machine_cpu
    """
    from hypertare.findings.history import history as history_of
    from hypertare.report import history as shown
    from hypertare.runs import kept
    from hypertare.runs.store import Store

    last = kept.find(run)
    with Store.open(last) as store:
        meta = store.meta
    known = [one.name for some in meta.responses.values() for one in some]
    refuse_unknown(response or [], known, "--response")
    refuse_unknown(on or [], meta.platforms, "--on")
    past, left_out = _of_same_work(last, meta)
    found = history_of(
        past, meta.headline, left_out=left_out, responses=response or (), platforms=on or ()
    )
    if json:
        print(found.model_dump_json(indent=2))
    else:
        shown.show(found)


def _of_same_work(last: Path, meta: Meta) -> tuple[list[Past], list[str]]:
    """The runs, the first one first, and the names of those that did other work or did not end."""
    from hypertare.findings import setups
    from hypertare.findings.history import Past
    from hypertare.runs import kept
    from hypertare.runs.store import Store

    past, left_out = [], []
    folders = dict.fromkeys([last.resolve(), *(one.resolve() for one in kept.of_study(meta.study))])
    for folder in folders:
        try:
            with Store.open(folder) as store:
                is_same = setups.is_same(store.meta, meta)
            summary = _summary(folder) if is_same else None
        except HypertareError:
            summary = None
        if summary is None or not summary.estimates:
            left_out.append(folder.name)
        else:
            past.append(Past(folder.name, summary))
    past.sort(key=lambda one: one.summary.started)
    return past, left_out


def _summary(folder: Path) -> Summary:
    """Reads the summary from `summary.json`, which is quick for a hundred runs; else makes it from the
    run's file.
    """
    from pydantic import ValidationError

    from hypertare.findings.summarise import read
    from hypertare.runs.summary import Summary

    try:
        return Summary.model_validate_json((folder / "summary.json").read_bytes())
    except (OSError, ValidationError):
        return read(folder).summary
