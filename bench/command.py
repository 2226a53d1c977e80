"""What measuring adds to `sleep 0.2`: the agent's `command` against hyperfine.

Both execute the program without a shell (`hyperfine -N`), with its output discarded or captured the
way each does it by default, one execution at a time, by turns. What is added is the elapsed time
beyond the 0.2 s asked for: the start of the program, the timer's own lateness, and the tool. The
timer is late by more than the tools differ, so `true` stands beside it, which has none.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import common
from common import Row

ASKED_S = 0.2


def main(argv: Sequence[str]) -> list[Row]:
    quick = common.options(__doc__, argv).quick
    return [
        added(f"command: time added to `sleep {ASKED_S}`", ["sleep", str(ASKED_S)], ASKED_S,
              20 if quick else 120),
        added("command: time of `true`", ["true"], 0.0, 40 if quick else 300),
    ]  # fmt: skip


def added(name: str, program: list[str], asked_s: float, rounds: int) -> Row:
    with tempfile.TemporaryDirectory() as directory:
        export = Path(directory) / "hyperfine.json"
        pairs = common.alternate(
            rounds, lambda: agent_s(program), lambda: hyperfine_s(program, export)
        )
    return common.against_peer(
        f"{name}, against hyperfine -N", "s", pairs, at_most=0.0, by="difference", offset=asked_s
    )


def agent_s(program: list[str]) -> float:
    output = common.run([str(common.agent()), "command", "--json", "--", *program])
    return float(json.loads(output)["values"]["elapsed_s"])


def hyperfine_s(program: list[str], export: Path) -> float:
    argv = ["hyperfine", "-N", "--style=none", "--runs=1", f"--export-json={export}"]
    common.run([*argv, " ".join(program)])
    return float(json.loads(export.read_text())["results"][0]["times"][0])


if __name__ == "__main__":
    common.run_alone(main)
