"""`make bench`: hypertare's own speed. Where there is a peer, both are run by turns in one go.

Every part has `main(argv) -> list[Row]` and also runs alone. This file runs them and prints the
table. Exit status 1 when a target is missed beyond doubt.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Sequence

import common
from common import NotMeasured, Row

from hypertare.machines import environment

PARTS = (
    "stream",
    "capture",
    "datapath",
    "ping",
    "command",
    "weigh",
    "disk",
    "given",
    "boot",
    "emulated",
    "xen",
    "sweep",
    "controller",
    "probes",
    "walk",
    "effects",
    "false_alarms",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    rows, missing = [], []
    for part in options.parts or PARTS:
        began = time.monotonic()
        try:
            rows += importlib.import_module(part).main(["--quick"] if options.quick else [])
        except NotMeasured as error:
            missing.append(f"{part}: {error}")
        say(f"{part}: {time.monotonic() - began:.0f} s, {load()}")
    if options.json:
        common.print_rows(rows)
    else:
        show(rows)
    for text in missing:
        say(f"not measured: {text}")
    sys.exit(bool(missing) or any(row.sure and not row.met for row in rows))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def load() -> str:
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"


def show(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    state = environment.machine_state()
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("what", "ours", "peer", "ours to peer", "95 % interval", "target", "met"):
        table.add_column(column, justify="left" if column in ("what", "target") else "right")
    for row in rows:
        table.add_row(
            row.name,
            figure(row.ours, row.unit),
            figure(row.peer, row.unit),
            figure(row.compared, row.unit if row.by == "difference" else ""),
            "" if row.low is None or row.high is None else f"{row.low:.4g} to {row.high:.4g}",
            row.target,
            verdict(row),
        )
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(f"{state.cpus} x {state.cpu}, Linux {state.kernel}, {load()}", highlight=False)
    console.print(table)
    for row in rows:
        if row.note:
            console.print(f"{row.name}: {row.note}", highlight=False)


def verdict(row: Row) -> str:
    if row.met:
        return "[green]yes[/]" if row.sure else "[green]yes[/]?"
    return "[red]no[/]" if row.sure else "[yellow]no[/]?"


def figure(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.4g} {unit}".strip()


if __name__ == "__main__":
    main()
