"""`hypertare history`: the same work over many runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hypertare.base.errors import HypertareError

if TYPE_CHECKING:
    from hypertare.findings.history import Past
    from hypertare.runs.store import Meta
    from hypertare.runs.summary import Summary


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
    from hypertare.cli.compare import refuse_unknown
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
    from hypertare.findings import workload_mismatch
    from hypertare.findings.history import Past
    from hypertare.runs import kept
    from hypertare.runs.store import Store

    past, left_out = [], []
    folders = dict.fromkeys([last.resolve(), *(one.resolve() for one in kept.of_study(meta.study))])
    for folder in folders:
        try:
            with Store.open(folder) as store:
                is_same = workload_mismatch.is_same(store.meta, meta)
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
