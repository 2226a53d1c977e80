"""What a machine that was given costs beside a local node, with this host behind an sshd on loopback: what
is added to a task, by turns with the native node of the same bench; and the time from a bench's beginning
to the end of its first trial, with the agent there already.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import common
from common import NotMeasured, Row

sys.path.insert(0, str(common.HERE.parent))

from tests.integration.lab import Lab
from tests.integration.sshd import machine as sshd

from hypertare.design import planner
from hypertare.design.design import Variant, make
from hypertare.machines.host.given import GivenMachines
from hypertare.machines.local import LocalMachine
from hypertare.machines.reach import LOOK_S, SSH, asked
from hypertare.protocol.records import BenchReady, TrialEnd
from hypertare.study import StudyFile

ADDED_S = 4e-3
FIRST_S = 2.0
STUDY = """
name = "given-overhead"
question = "?"
[sut]
platforms = ["native", "given"]
[given.vm]
reach = "{reach}"
[workloads.work]
type = "command"
command = ["true"]
"""


def main(argv: Sequence[str]) -> list[Row]:
    rounds = 20 if common.options(__doc__, argv).quick else 100
    with tempfile.TemporaryDirectory(prefix="hypertare-bench-") as place:
        lab = Lab(Path(place))
        with sshd(lab) as there:
            os.environ[SSH] = there.env[SSH]
            return measured(StudyFile(STUDY.format(reach=there.reach), "given"), rounds, lab.work)


def measured(file: StudyFile, rounds: int, workdir: Path) -> list[Row]:
    study = file.study()
    (plot,) = make(study, seed=1).plots
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    on = planner.MachineResources(cpus, "tcg", {}, {"PATH": os.environ["PATH"]}, workdir)
    cells = {variant.node: file.cell(variant.levels) for variant in plot.variants}
    bench = planner.make_bench(study, plot, cells, on)
    native, given = sorted(plot.variants, key=lambda one: one.kind.is_made, reverse=True)
    # The agent is brought beforehand.
    GivenMachines(common.agent()).look(next(iter(study.given.values())).words, 1)
    ids = iter(range(1, 10_000))
    with LocalMachine(common.agent()) as machine:

        def one(variant: Variant) -> float:
            trial = planner.make_trial(next(ids), study, "work", variant, plot, on)
            begun = time.monotonic()
            end = machine.run(trial)[-1]
            if not isinstance(end, TrialEnd) or end.error:
                raise NotMeasured(f"a trial failed: {end}")
            return time.monotonic() - begun

        begun = time.monotonic()
        asked(next(iter(study.given.values())).words, "true", b"", LOOK_S)
        alone_s = time.monotonic() - begun
        begun = time.monotonic()
        ready = machine.make_bench(bench, study.sut.boot_limit)[-1]
        if not isinstance(ready, BenchReady) or ready.error:
            raise NotMeasured(f"no bench: {ready}")
        one(given)
        first_s = time.monotonic() - begun
        pairs = common.alternate(rounds, lambda: one(given), lambda: one(native))
    return [
        common.against_peer(
            "given: added to a trial of `true`", "s", pairs, at_most=ADDED_S, by="difference"
        ),
        common.at_most(
            "given: from reach to first trial",
            "s",
            first_s,
            FIRST_S,
            peer=alone_s,
            note="beside it: `ssh true`",
        ),
    ]


if __name__ == "__main__":
    common.run_alone(main)
