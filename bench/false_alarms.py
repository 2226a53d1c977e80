"""How often hypertare sees a difference where there is none: A/A runs, at its defaults.

Each run weighs one and the same work, written twice, natively and in a container: `sort -n FILE` and
`sort  -n FILE`. A verdict that one is slower or faster, on either platform, is a false alarm. And each
run is compared with the one before, as a gate in CI does: by what the container costs against native. A
verdict there is a false alarm, too.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import common
from common import NotMeasured, Row
from scipy import stats

MOST_PERCENT = 5.0
NUMBERS = 200_000
"""Lines to sort: some 0.1 s."""
WORSE = 4
"""Exit status of `compare`."""


def main(argv: Sequence[str]) -> list[Row]:
    runs = 10 if common.options(__doc__, argv).quick else 200
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        lines = [str(number) for number in range(NUMBERS)]
        random.Random(1).shuffle(lines)
        work = folder / "work"
        work.mkdir()
        (work / "nums").write_text("\n".join(lines))
        inside = sum(weighed(folder, number) for number in range(runs))
        between = sum(differ(folder, number) for number in range(1, runs))
    return [
        row("false alarms: one work against itself, in one run", inside, runs),
        row("false alarms: one run against the next", between, runs - 1),
    ]


def weighed(folder: Path, number: int) -> bool:
    """Whether a run says that elapsed time of the second differs from the first's."""
    summary = folder / f"{number}.json"
    words = ["weigh", "--on", "native,container", "--workdir", folder / "work"]
    kept = ["--out", folder / f"{number}", "--json", summary]
    common.run([*hypertare(), *map(str, [*words, *kept]), "sort -n nums", "sort  -n nums"], 600)
    levels = json.loads(summary.read_text())["levels"]
    verdicts = [level["verdict"] for level in levels if level["response"] == "elapsed"]
    assert len(verdicts) == 2, "native and container"
    return any(verdict != "no difference shown" for verdict in verdicts)


def differ(folder: Path, number: int) -> bool:
    """Whether `compare` takes a run for worse or better than the one before, where it decides."""
    runs = [str(folder / f"{one}") for one in (number - 1, number)]
    done = subprocess.run(
        [*hypertare(), "compare", "--json", *runs], capture_output=True, text=True
    )
    if done.returncode not in (0, WORSE):
        raise NotMeasured(done.stderr.strip())
    changes = json.loads(done.stdout)["changes"]
    deciding = [change["direction"] for change in changes if change["decides"]]
    assert deciding, "something decides"
    return any(direction != "no difference shown" for direction in deciding)


def hypertare() -> list[str]:
    return [sys.executable, "-m", "hypertare"]


def row(name: str, alarms: int, of: int) -> Row:
    """With the exact interval (Clopper & Pearson 1934, Biometrika 26, 404-413)."""
    found = stats.binomtest(alarms, of).proportion_ci(common.CONFIDENCE)
    percent = 100 * alarms / of
    return Row(
        name,
        "%",
        percent,
        f"at most {MOST_PERCENT:g}",
        percent <= MOST_PERCENT,
        low=100 * float(found.low),
        high=100 * float(found.high),
        sure=100 * float(found.low) > MOST_PERCENT or 100 * float(found.high) <= MOST_PERCENT,
        note=f"{alarms} of {of}; {100 * found.low:.1f} to {100 * found.high:.1f} %",
    )


if __name__ == "__main__":
    common.run_alone(main)
