"""`hypertare walk`: what do page walks cost a command?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hypertare.base.errors import InputError
from hypertare.base.figures import listing
from hypertare.base.units import parse_share
from hypertare.cli.options import check_outputs, write_result
from hypertare.walk import processors as known

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from hypertare.walk.result import Cost, WalkSummary


def _complete_processor(incomplete: str) -> list[str]:
    return [name for name in [*known.names(), known.ALL] if name.startswith(incomplete)]


def walk(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="The command with its arguments, after --. Pipes and && need bash -c '...'.",
        ),
    ] = None,
    processor: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A processor's name, a TOML file that describes one, or all. May be repeated. "
            f"[default: {known.DEFAULT}]",
            autocompletion=_complete_processor,
        ),
    ] = None,
    list_processors: Annotated[
        bool, typer.Option("--list-processors", help="The processors' names.")
    ] = False,
    cycles_per_instruction: Annotated[
        float,
        typer.Option(
            "--cpi",
            metavar="N",
            help="The command's cycles per instruction if translation cost nothing.",
        ),
    ] = 1.0,
    cache_share: Annotated[
        str, typer.Option(metavar="SHARE", help="Of every cache, what page tables may hold.")
    ] = "25%",
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the result here; - prints it."),
    ] = None,
) -> None:
    """Model what page walks cost a command: natively, with shadow and with nested page tables.

    The command runs once, under QEMU, with its own files: what it writes is written. The table goes to
    the standard error, so that the command's output stays its own; its exit status is passed on.

    Examples:

    hypertare walk -- bzip2 -k FILE

    hypertare walk --processor phenom2 --processor zen4 --json - -- sort FILE
    """
    from rich.console import Console

    if list_processors:
        from rich.table import Table

        table = Table("name", "processor", "page tables", box=None, header_style="bold")
        for name in known.names():
            found = known.find(name)
            table.add_row(name, found.title, "nested or shadow" if found.nested else "shadow only")
        Console().print(table)
        return
    from hypertare.walk.processors import Options
    from hypertare.walk.run import walk as run

    if not command:
        raise InputError("There is no command.", "hypertare walk -- COMMAND")
    chosen = known.chosen(processor or [known.DEFAULT])
    if not 0 < cycles_per_instruction < 1000:
        raise InputError(
            f"--cpi {cycles_per_instruction:g}: write cycles per instruction, for example 0.8"
        )
    options = Options(cycles_per_instruction, _share(cache_share))
    check_outputs(json=json)
    with _Meter() as meter:
        summary = run(command, chosen, options, meter.report)
    show(summary, Console(stderr=True, width=None if sys.stderr.isatty() else 110))
    if json is not None:
        write_result(summary.model_dump_json(indent=2), json)
    raise typer.Exit(summary.status)


def _share(text: str) -> float:
    try:
        share = parse_share(text)
    except ValueError as error:
        raise InputError(f"--cache-share: {error}") from None
    if not 0 < share <= 1:
        raise InputError(f"--cache-share {text}: write a share above 0 and at most 100%")
    return share


class _Meter:
    """One line on a terminal that says how far it is."""

    def __init__(self) -> None:
        self._shown = False

    def report(self, accesses: int, seconds: float) -> None:
        if sys.stderr.isatty():
            self._shown = True
            text = f"\r{accesses / 1e6:,.0f} M accesses, {seconds:.0f} s "
            print(text, end="", file=sys.stderr, flush=True)

    def __enter__(self) -> _Meter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def show(summary: WalkSummary, console: Console) -> None:
    """Prints a table for each processor, then what the figures rest on."""
    console.print(
        f"{summary.accesses:,} accesses, {summary.instructions:,} instructions, "
        f"{summary.programs} program{'s' if summary.programs > 1 else ''}, {_time(summary)}",
        highlight=False,
    )
    for processor in summary.processors:
        console.print(f"\n[bold]{processor.title}[/] ({processor.name})", highlight=False)
        console.print(_table(processor.layouts))
    console.print(f"\n{_basis(summary)}", highlight=False)
    if summary.lost:
        console.print(
            "[yellow]warning:[/] not seen to their end (killed, or they executed what cannot be "
            f"followed), and in no figure: {listing(summary.lost)}",
            highlight=False,
        )


def _time(summary: WalkSummary) -> str:
    """Of the whole command: with what counts of it, a rate, if that is all of it."""
    if summary.marked:
        return f"{summary.elapsed_s:.1f} s; {summary.marked} counted between their marks alone"
    rate = summary.accesses / summary.elapsed_s / 1e6 if summary.elapsed_s else 0
    return f"{summary.elapsed_s:.1f} s ({rate:.0f} M accesses/s)"


def _table(layouts: list[Cost]) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("paging", "pages"):
        table.add_column(column)
    for column in ("TLB misses", "walks", "references a walk", "cycles an access", "slow-down"):
        table.add_column(column, justify="right")
    for cost in layouts:
        counts, per = cost.counts, max(1, cost.accesses)
        table.add_row(
            counts.paging,
            counts.guest_pages
            if counts.host_pages is None
            else f"{counts.guest_pages} in {counts.host_pages}",
            f"{100 * counts.first_tlb_misses / per:.4f} %",
            f"{100 * counts.walks / per:.4f} %",
            ""
            if cost.references_per_walk is None
            else f"{cost.references_per_walk:.2f} of {counts.uncached_references}",
            f"{cost.cycles_per_access:.4f}",
            f"{100 * (cost.slow_down - 1):.2f} %",
        )
    return table


def _basis(summary: WalkSummary) -> str:
    return (
        "Shares are of all accesses. Slow-down: against free translation, at "
        f"{summary.cycles_per_instruction:g} cycles an instruction, every cycle of a walk waited for; "
        f"page tables may hold {100 * summary.cache_share:g} % of each cache. Exits are not in it. "
        "A model: docs/walk.md says what is assumed."
    )
