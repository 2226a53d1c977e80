"""What boots on the workers of a Dask cluster cost beside themselves, and how far two workers are twice
as quick as one.

A made-up agent waits for a second in place of a machine: so neither CPUs nor other work decide, and two
workers fit on one host. Some boots run on both, as in every run. By turns would need workers that go and
come; one worker is measured first, then a second one is added.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import common
from common import Row

sys.path.insert(0, str(common.HERE.parent))

from tests.made_cluster import MadeCluster

from hypertare.machines.cluster.scheduler import Cluster, connected
from hypertare.machines.executor import Boot, BootFiles

LINEAR_TARGET = 0.9
BESIDE_TARGET_S = 0.5
AGENT = """#!/bin/sh
for word; do case $word in --records=*) records=${word#*=};; esac; done
sleep 1
echo '{"record":"teardown","seconds_s":1.0}' > "$records"
"""


def main(argv: Sequence[str]) -> list[Row]:
    chosen = common.options(__doc__, argv)
    count = 20 if chosen.quick else 60
    with tempfile.TemporaryDirectory(prefix="hypertare-bench-") as place:
        agent = Path(place) / "agent"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        program = Path(shutil.which("true") or "/bin/true")
        files = BootFiles(agent, agent, (agent,), None, program)
        with MadeCluster(Path(place) / "cluster") as made:
            made.add("one")
            alone_s, beside_s = measured(made.address, files, count)
            made.add("two")
            both_s, _ = measured(made.address, files, count)
    linear = alone_s / both_s / 2
    return [
        common.at_most("cluster: a boot beside itself", "s", beside_s, BESIDE_TARGET_S),
        Row(
            "cluster: two workers, of linear",
            "",
            linear,
            f">= {LINEAR_TARGET:g}",
            linear >= LINEAR_TARGET,
        ),
    ]


def measured(address: str, files: BootFiles, count: int) -> tuple[float, float]:
    """Seconds of so many boots, and what each took beside the machine, once all workers have the files."""
    with connected(address, lambda _: None) as cluster:
        carry_out(cluster, files, 2 * cluster.jobs)
        began = time.monotonic()
        booted = carry_out(cluster, files, count)
        took = time.monotonic() - began
    return took, (took - booted) / count


def carry_out(cluster: Cluster, files: BootFiles, count: int) -> float:
    """Seconds that machines took, all together."""
    futures = [cluster.submit(Boot((), 60.0, b"", files)) for _ in range(count)]
    return sum(future.result().seconds for future in futures)


if __name__ == "__main__":
    common.run_alone(main)
