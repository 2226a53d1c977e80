"""`hypertare studies`: the built-in studies."""

from __future__ import annotations

import json as json_module
from typing import Annotated

import typer

from hypertare.cli.options import complete_study
from hypertare.cli.verb import Verb

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
