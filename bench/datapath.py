"""What moves a guest's packets: our own process against QEMU itself, by blocks of one run, in guests of
this host; and what a core that polls is notified of while nothing comes.

A core that polls needs a CPU to itself: with fewer than three of them only its kicks mean something.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import common
from common import NotMeasured, Pairs, Row

from hypertare.findings.summarise import read
from hypertare.protocol.records import ProbeValues
from hypertare.runs.store import Store

LIMIT_S = 1800.0
STUDY = """
name = "datapaths"
question = "How fast does each move a guest's packets?"
[sut]
platforms = ["native", "guest"]
memory = "256M"
[factors]
"sut.datapath" = ["qemu", "vhost-user", "sidecore"]
[workloads.transmit]
type = "stream"
direction = "transmit"
duration = "600ms"
omit = "150ms"
[workloads.receive]
type = "stream"
direction = "receive"
duration = "600ms"
omit = "150ms"
[workloads.idle]
type = "sleep"
interval = "50ms"
duration = "500ms"
[design]
min_trials = {blocks}
max_trials = {blocks}
blocks_per_boot = 4
min_boots = 1
time_limit = "20m"
"""
PATH, WORKLOAD = "sut.datapath", "workload"


def main(argv: Sequence[str]) -> list[Row]:
    quick = common.options(__doc__, argv).quick
    with tempfile.TemporaryDirectory() as folder:
        run = carried_out(Path(folder), 6 if quick else 20)
        rows = [against_qemu(run, workload) for workload in ("transmit", "receive")]
        return [*rows, *polled(run)]


def carried_out(folder: Path, blocks: int) -> Path:
    study, run = folder / "datapaths.toml", folder / "run"
    study.write_text(STUDY.format(blocks=blocks))
    done = subprocess.run(
        [sys.executable, "-m", "hypertare", "run", str(study), "--out", str(run)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise NotMeasured(f"the run failed: {done.stderr.strip()[-300:]}")
    return run


def against_qemu(run: Path, workload: str) -> Row:
    """Goodput of guests of one block."""
    of_blocks: dict[int, dict[str, float]] = defaultdict(dict)
    for trial in read(run).trials:
        cell = trial.planned.cell
        if trial.counts and PATH in cell and cell[WORKLOAD] == workload:
            goodput = trial.values["goodput"] / 1e9
            of_blocks[trial.planned.block][str(cell[PATH])] = goodput
    pairs: Pairs = [
        (of["vhost-user"], of["qemu"])
        for of in of_blocks.values()
        if {"vhost-user", "qemu"} <= set(of)
    ]
    if not pairs:
        raise NotMeasured("no block has both")
    name = f"vhost-user, a guest's TCP {workload}, against QEMU's own"
    return common.against_peer(name, "Gb/s", pairs, at_least=0.9)


def polled(run: Path) -> Iterator[Row]:
    """A core that polls, beside a guest that sleeps."""
    kicks = [one.values["kicks"] for one in _idle(run, "datapath")]
    work = [(one.values["datapath_s"], one.elapsed_s) for one in _idle(run, "outside")]
    if not kicks or not work:
        raise NotMeasured("no core polled beside a guest that sleeps")
    yield common.at_most("sidecore that idles: kicks", "", sum(kicks), 0)
    used, elapsed = (sum(side) for side in zip(*work, strict=True))
    note = f"of {len(os.sched_getaffinity(0))} CPUs"
    share, least = used / elapsed, 0.95
    yield Row("sidecore that idles: its CPU", "", share, f">= {least}", share >= least, note=note)


def _idle(run: Path, probe: str) -> Iterator[ProbeValues]:
    with Store.open(run) as store:
        for trial in store.trials():
            cell = trial.planned.cell
            if not trial.counts or cell[WORKLOAD] != "idle" or cell.get(PATH) != "sidecore":
                continue
            for one in store.records(trial.planned.id):
                if isinstance(one, ProbeValues) and one.probe == probe and one.values:
                    yield one


if __name__ == "__main__":
    common.run_alone(main)
