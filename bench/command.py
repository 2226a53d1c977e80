"""What measuring adds to `sleep 0.2`: the agent's `command` against hyperfine.

Both execute the program without a shell (`hyperfine -N`), with its output discarded or captured the
way each does it by default, one execution at a time, alternately. What is added is the elapsed time
beyond the 0.2 s asked for: the start of the program, the timer's own lateness, and the tool. Beside
the median stands the lower quartile, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

AGENT = (
    Path(__file__).resolve().parent.parent
    / "target/x86_64-unknown-linux-gnu/release/hypertare-agent"
)
ASKED_S = 0.2
SLEEP = ["sleep", str(ASKED_S)]
TARGET = 1.0


def agent_s() -> float:
    argv = [str(AGENT), "command", "--json", "--", *SLEEP]
    output = subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout
    return float(json.loads(output)["values"]["elapsed_s"])


def hyperfine_s(export: Path) -> float:
    argv = ["hyperfine", "-N", "--style=none", "--runs=1", f"--export-json={export}"]
    subprocess.run(
        [*argv, " ".join(SLEEP)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return float(json.loads(export.read_text())["results"][0]["times"][0])


def main(argv: Sequence[str]) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 15 if parser.parse_args(argv).quick else 100
    ours, peer = [], []
    with tempfile.TemporaryDirectory() as directory:
        export = Path(directory) / "hyperfine.json"
        for round_ in range(rounds):
            if round_ % 2:
                ours.append(agent_s())
            peer.append(hyperfine_s(export))
            if not round_ % 2:
                ours.append(agent_s())
    return [judge("median", 2, ours, peer), judge("lower quartile", 1, ours, peer)]


def judge(words: str, quarter: int, ours: list[float], peer: list[float]) -> dict[str, Any]:
    added, by_peer = (statistics.quantiles(side)[quarter - 1] - ASKED_S for side in (ours, peer))
    return {
        "name": f"command: time added to `sleep {ASKED_S}`, {words}, against hyperfine -N",
        "unit": "s",
        "ours": round(added, 7),
        "peer": round(by_peer, 7),
        "ratio": round(added / by_peer, 4),
        "target": TARGET,
        "met": added <= by_peer,
    }


if __name__ == "__main__":
    for result in main(sys.argv[1:]):
        print(json.dumps(result))
