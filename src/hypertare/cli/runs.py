"""`hypertare runs`: the runs that are kept."""

from __future__ import annotations

import json as json_module
from typing import Annotated

import typer


def runs(
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="All of them, not only the last 20.")
    ] = False,
) -> None:
    """List the runs that are kept here and in the state directory, the last one first.

    Their names, and `last`, stand for their directories: hypertare report last.
    """
    from itertools import islice

    from hypertare.report.terminal_tables import plain
    from hypertare.runs import kept

    names = kept.folders()
    found = list(islice(kept.runs(), None if every or json else _MOST))
    if json:
        document = [
            {
                "name": one.folder.name,
                "folder": str(one.folder.absolute()),
                "study": one.study,
                "question": one.question,
                "started": one.started.isoformat() if one.started else None,
                "trials": one.trials,
                "state": one.state,
            }
            for one in found
        ]
        print(json_module.dumps(document, indent=2))
        return
    if not found:
        print("No run is kept yet: `hypertare weigh -- COMMAND` makes one.")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="italic", padding=(0, 2, 0, 0))
    # A name is there to be typed: what is cut where there is no room is the question.
    table.add_column("run", no_wrap=True, min_width=max(len(one.folder.name) for one in found))
    table.add_column("started", no_wrap=True, min_width=len("2026-11-22 12:00"))
    table.add_column("trials", justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True, min_width=len("not ended"))
    table.add_column("question", no_wrap=True, overflow="ellipsis")
    for one in found:
        started = f"{one.started:%Y-%m-%d %H:%M}" if one.started else ""
        cells = (one.folder.name, started, f"{one.trials:,}", one.state, one.question)
        style = "" if one.state == "complete" else "dim"
        table.add_row(*(Text(plain(cell)) for cell in cells), style=style)
    Console(highlight=False).print(table)
    if len(names) > len(found):
        print(f"and {len(names) - len(found)} more: --all")


_MOST = 20
