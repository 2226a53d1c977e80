"""A walk's summary on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from hypertare.base.words import listing
from hypertare.walk.result import Cost, WalkSummary


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
