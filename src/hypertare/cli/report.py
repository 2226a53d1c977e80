"""`hypertare report`: shows a run, also one that was interrupted or still goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hypertare.base.errors import InputError
from hypertare.cli.options import check_outputs, is_stdout

if TYPE_CHECKING:
    from hypertare.findings.tuning import Tuning
    from hypertare.report.model import Report
    from hypertare.runs.summary import Summary


class Format(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"
    parquet = "parquet"
    hyperfine = "hyperfine"
    bmf = "bmf"
    benchmark_action = "benchmark-action"


def report(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run: its directory, run.sqlite, or name (see `hypertare runs`).",
        ),
    ],
    format: Annotated[
        Format,
        typer.Option(
            help="json is the summary; csv and parquet hold every trial; the last three are for "
            "readers of hyperfine's JSON, for Bencher and for github-action-benchmark.",
        ),
    ] = Format.table,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Every response, of each cell.")] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the report as one HTML file, too; - prints it instead.",
        ),
    ] = None,
    cell: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FACTOR=LEVEL",
            help="In the page: every response, chart and trial of the cells with this level, where a run "
            "has too many to show all of each. May be repeated.",
        ),
    ] = None,
    baseline_level: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FACTOR=LEVEL",
            help="Compare a factor's other levels with this one, not with the study's first. May be "
            "repeated.",
        ),
    ] = None,
) -> None:
    """Show what a run found, or a tuning."""
    from hypertare.runs import kept

    check_outputs(html=html)
    if json:
        if format not in (Format.table, Format.json):
            raise InputError(
                f"--json and --format {format} contradict each other.", "Leave one out."
            )
        format = Format.json
    run = kept.find(run)
    if is_stdout(html) and format is not Format.table:
        raise InputError(
            f"--html - and --format {format} both go to the standard output.",
            "Leave one of them out.",
        )
    if format is Format.table and (tuning := _tuning(run)) is not None:
        from hypertare.report.tuning import show

        if html is not None:
            from hypertare.report import tuning_html

            _write_page(tuning_html.render(tuning), html)
        if not is_stdout(html):
            show(tuning)
        return
    if format is Format.table and _show_tuning_over(run, html):
        return
    references = _levels("--baseline-level", baseline_level or [])
    whole = _levels("--cell", cell or [])
    if whole and html is None:
        raise InputError("--cell is of the page.", "Say where it goes: --html FILE.")
    found = load(run, references=references)
    if html is not None:
        from hypertare.report import html as pages

        _write_page(pages.render(found, whole), html)
    if not is_stdout(html):
        _print(found, format, every)


def _write_page(text: str, html: Path) -> None:
    from hypertare.report import page

    if is_stdout(html):
        print(text, end="", flush=True)
        return
    page.write(text, html)
    print(f"report: {html}", file=sys.stderr)


def _tuning(run: Path) -> Tuning | None:
    """The tuning that a directory holds, if it holds one."""
    from hypertare.tune import FILE_NAME

    place = run / FILE_NAME
    if not place.is_file():
        return None
    from pydantic import ValidationError

    from hypertare.findings.tuning import Tuning

    try:
        return Tuning.model_validate_json(place.read_bytes())
    except ValidationError as error:
        raise InputError(
            f"{place} is damaged, or of another version: {error.errors()[0]['msg']}.",
            "`hypertare report RUN --format csv` shows its trials.",
        ) from None


def _show_tuning_over(run: Path, html: Path | None) -> bool:
    """Whether a directory holds a tuning of several levels, which is shown then."""
    from hypertare.tune import OVER_FILE

    if not (run / OVER_FILE).is_file():
        return False
    from hypertare.report import tuning_over
    from hypertare.tune.over import read

    found = read(run)
    if found is None:
        return False
    if html is not None:
        _write_page(tuning_over.render(found), html)
    if not is_stdout(html):
        tuning_over.show(found)
    return True


def _levels(option: str, asked: Sequence[str]) -> dict[str, str]:
    """Returns the levels that an option names, by factor, in the words of the study.

    Raises:
        InputError: one is not given as FACTOR=LEVEL.
    """
    for one in asked:
        if "=" not in one:
            raise InputError(
                f"{option} {one}: write a factor and its level.",
                f"For example: {option} bench.mtu=9000",
            )
    return {factor: level for factor, _, level in (one.partition("=") for one in asked)}


def load(
    run: Path, summary: Summary | None = None, *, references: Mapping[str, str] | None = None
) -> Report:
    """Reads everything that a report of a run shows.

    Args:
        summary: the run's summary, from a caller that has just made it.
        references: see `hypertare.findings.summarise.summarise`.
    """
    from hypertare.findings.summarise import measured, summarise
    from hypertare.report.model import gather
    from hypertare.runs.store import Store

    with Store.open(run) as store:
        of = measured(store)
        return gather(store, summary or summarise(store, references, of), of)


@contextmanager
def drawing(folder: Path) -> Iterator[Path]:
    """Gives the path of a run's page and shows a status meanwhile. The page comes after the verdict."""
    from rich.console import Console

    with Console(stderr=True).status("writing the report"):
        yield folder / "report.html"


def _print(found: Report, format: Format, every: bool) -> None:
    if format is Format.table:
        from hypertare.report.terminal import show

        show(found, every=every)
        return
    from hypertare.report import data, markdown

    if format is Format.parquet:
        if sys.stdout.isatty():
            raise InputError(
                "Parquet is binary and would garble the terminal.",
                "Redirect it: `hypertare report RUN --format parquet > trials.parquet`.",
            )
        sys.stdout.buffer.write(data.parquet(found))
        return
    exporters: dict[Format, Callable[[Report], str]] = {
        Format.json: data.json,
        Format.csv: data.csv,
        Format.markdown: partial(markdown.render, every=every),
        Format.hyperfine: data.hyperfine,
        Format.bmf: data.bmf,
        Format.benchmark_action: data.benchmark_action,
    }
    sys.stdout.write(exporters[format](found))
