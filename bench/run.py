"""`make bench`: hypertare's own speed, each figure a ratio against a peer taken alternately in one run.

Every other file of this folder has `main(argv) -> list[dict]`, one dict a target: `name`, `unit`,
`ours`, `peer`, `ratio`, `target`, `met`. This file runs them all and prints the table.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = ("stream", "ping", "command", "boot", "controller")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="only these")
    parser.add_argument("--quick", action="store_true", help="fewer alternations")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    rows = []
    for part in options.parts or PARTS:
        print(f"measuring: {part}", file=sys.stderr)
        rows += importlib.import_module(part).main(["--quick"] if options.quick else [])
    if options.json:
        print("\n".join(json.dumps(row) for row in rows))
    else:
        show(rows)


def show(rows: list[dict]) -> None:
    """The table, with what was not met said in words."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for column in ("what", "ours", "peer", "ratio", "target", "met"):
        table.add_column(column, justify="left" if column in ("what", "target") else "right")
    for row in rows:
        met = row.get("met")
        table.add_row(
            row["name"],
            _figure(row.get("ours"), row.get("unit", "")),
            _figure(row.get("peer"), row.get("unit", "")),
            _figure(row.get("ratio"), ""),
            str(row.get("target", "")),
            "[green]yes[/]" if met else "[red]no[/]",
        )
    Console(width=max(100, Console().width)).print(table)


def _figure(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.4g} {unit}".strip()


if __name__ == "__main__":
    main()
