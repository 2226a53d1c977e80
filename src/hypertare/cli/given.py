"""`hypertare given`: machines that you have already."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from typing import Annotated

import typer

from hypertare.cli.verb import Verb

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
