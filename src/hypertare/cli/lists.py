"""`hypertare runs`, `studies` and `given`: the verbs that list what there is."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from typing import Annotated

import typer

from hypertare.cli.options import Verb, complete_study


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


studies_app = typer.Typer(
    help="List the built-in studies, or show one.", invoke_without_command=True
)


@studies_app.callback()
def studies(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the built-in studies with their questions."""
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console
    from rich.table import Table

    from hypertare.study import builtin_names, find

    found = [find(name).study() for name in builtin_names()]
    if json:
        print(
            json_module.dumps([{"name": s.name, "question": s.question} for s in found], indent=2)
        )
        return
    table = Table("study", "question", box=None, header_style="bold")
    for study in found:
        table.add_row(study.name, study.question)
    Console().print(table)


@studies_app.command(cls=Verb)
def show(
    name: Annotated[
        str, typer.Argument(metavar="NAME", autocompletion=complete_study, help="A built-in study.")
    ],
) -> None:
    """Print a study's file: a start for your own."""
    from hypertare.study import find

    print(find(name).text, end="")


given_app = typer.Typer(
    help="Machines that you have already, to weigh with --given.", no_args_is_help=True
)


@given_app.callback()
def given() -> None:
    """Machines that you have already, to weigh with --given."""


@given_app.command("list", cls=Verb)
def list_domains(
    connect: Annotated[
        str,
        typer.Option(
            metavar="URI",
            help="libvirt's, for example qemu:///system, vbox:///session, esx://HOST.",
        ),
    ] = "qemu:///system",
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the virtual machines that libvirt knows, with what they are made of.

    Nothing is started or changed. How ssh reaches one says: virsh domifaddr DOMAIN.
    """
    from hypertare.machines.host.libvirt import domains

    found = domains(connect)
    if json:
        print(json_module.dumps([{**asdict(one), "what": one.what} for one in found], indent=2))
        return
    if not found:
        print(f"libvirt at {connect} knows no domain.")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from hypertare.report.terminal_tables import plain

    table = Table(box=None, pad_edge=False, header_style="italic", padding=(0, 2, 0, 0))
    for name in ("domain", "state", "what"):
        table.add_column(name, overflow="fold")
    for one in found:
        table.add_row(*(Text(plain(cell)) for cell in (one.name, one.state, one.what)))
    Console(highlight=False).print(table)
