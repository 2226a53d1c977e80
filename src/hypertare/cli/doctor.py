"""`hypertare doctor`: what this machine can do, and what stands in the way of good numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hypertare.doctor.finding import Finding

_STYLES = {"ok": "green", "info": "cyan", "warn": "yellow", "bad": "bold red"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    put_back: Annotated[
        bool,
        typer.Option(
            "--put-back",
            help="As root: put back the settings of this host that a killed run has left changed.",
        ),
    ] = False,
) -> None:
    """Look at this machine: what can be weighed here, and what disturbs the numbers.

    Exit status 3 when something is missing that nothing can be weighed without.
    """
    from hypertare.base.host_files import Host
    from hypertare.doctor.checks import examine, verdict
    from hypertare.machines.host.keeper import left_behind, recover
    from hypertare.machines.host.settings import require_root

    host = Host()
    if put_back:
        if not left_behind(host):
            print("no run has left a setting of this host changed")
            return
        require_root("hypertare doctor --put-back")
        recover(host, print)
        return
    findings = examine(host)
    if as_json:
        import json
        from dataclasses import asdict

        found = {"verdict": verdict(findings), "findings": [asdict(f) for f in findings]}
        print(json.dumps(found, indent=2))
    else:
        _print(verdict(findings), findings)
    if any(finding.status == "bad" for finding in findings):
        raise typer.Exit(3)


def _print(verdict: str, findings: Sequence[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    console.print(Text(verdict, style="bold"), soft_wrap=True)
    table = Table("check", "", box=None, pad_edge=False)
    table.add_column("found, and what to do", overflow="fold")
    for finding in findings:
        text = Text(finding.what)
        if finding.do:
            text.append(f"\n→ {finding.do}", style="dim")
        table.add_row(finding.name, Text(finding.status, style=_STYLES[finding.status]), text)
    console.print(table)
    console.print("More on each: docs/troubleshooting.md")
