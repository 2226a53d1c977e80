"""Disks of Xen's guests: blkfront and blkback give back what was written, a disk that gives back something
else is caught, and what was made durable is there after a power cut.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from hypertare.machines.image.build import build
from hypertare.protocol import plan
from hypertare.protocol.wire_type import WireType
from tests.integration.domains import bench, boot, guest
from tests.integration.emulate import Boot

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]

SPAN = 1 << 20
BLOCKS = SPAN // 4096
OVERWRITES = (
    *("hypertare-agent", "io", "/dev/nullb0", "--write-to", "/dev/nullb0", "--span", "1M"),
    *("--read", "0", "--time", "0.2"),
)
"""The driver domain writes to the medium of the first guest's disk, past the guest."""


def with_disk(number: int, **disk: Any) -> plan.Node:
    return guest(number).model_copy(update={"disk": plan.Disk(**{"bytes": SPAN, **disk})})


def work(number: int, **changes: Any) -> list[plan.Task]:
    """Fills a guest's disk, and works on it."""
    fill = plan.IoFill(block=4096, span=SPAN, seed=1)
    io = plan.Io(
        pattern="random",
        block=4096,
        span=SPAN,
        depth=8,
        jobs=2,
        read_share=0.6,
        sync_every=20,
        count=400,
        duration_s=20,
        seed=1,
    )
    node = f"guest{number}"
    return [
        plan.Task(id=f"fill.{number}", node=node, background=True, workload=fill),
        plan.Task(id=f"io.{number}", node=node, workload=io.model_copy(update=changes)),
    ]


def trial(number: int, *tasks: plan.Task, **more: Any) -> plan.TrialStep:
    phase = plan.Phase(name="measure", tasks=tasks, limit_s=60, **more)
    return plan.TrialStep(trial=plan.Trial(id=number, phases=(phase,)))


def cut() -> plan.Life:
    writes = plan.DurableWrites(block=4096, span=SPAN, jobs=2, sync_every=8, direct=True, seed=1)
    node = with_disk(3, write_cache=True).model_copy(update={"interfaces": ()})
    return plan.Life(
        id="cut",
        of="guest1",
        node=node,
        power_cut=plan.PowerCut(writes=writes, after_s=0.2),
    )


def steps() -> list[WireType]:
    overwrite = plan.Command(argv=OVERWRITES)
    return [
        plan.HelloStep(),
        # A file is no medium for blkback.
        bench(with_disk(1, is_file=True)),
        bench(with_disk(1), with_disk(2)),
        trial(1, *work(1), *work(2, engine="pread", depth=1)),
        trial(
            2,
            *work(1, read_share=1.0, sync_every=None, count=None, duration_s=5.0),
            plan.Task(id="overwrite", node="host", workload=overwrite),
        ),
        trial(3, *work(1)),
        trial(4, lives=(cut(),)),
        plan.TeardownStep(),
    ]


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Boot:
    """What one boot of the machine reports of all that."""
    return boot(build(profile="xen"), steps(), tmp_path_factory.mktemp("disks"))


@pytest.mark.timeout(900)
def test_both_guests_have_what_they_wrote(reported: Boot) -> None:
    assert reported.error(1) is None
    found = {one["task"]: one["values"] for one in reported.of("result", 1)}
    for number in (1, 2):
        values = found[f"io.{number}"]
        assert values["operations"] == 400 and values["fdatasyncs"] >= 5, values
        assert values["reads"] > 150 and values["writes"] > 80, values
        assert values["sync_p50_ns"] > 0


def test_a_disk_on_a_file_is_refused(reported: Boot) -> None:
    refused, good = reported.of("bench")
    assert "node guest1 cannot be started" in refused["error"], refused
    assert "stands on a block device, and this is a file" in refused["error"], refused
    assert good["error"] is None


def test_blocks_that_the_guest_did_not_write_are_caught(reported: Boot) -> None:
    error = reported.error(2)
    assert error is not None and "the disk gave back wrong data: at offset" in error, error
    # Which of the others' writings was seen first hangs on when it came.
    assert re.search(
        r"block (\d+) should be its writing 0, and is writing [1-9]\d* of block \1", error
    ), error
    # The next trial fills the disk anew.
    assert reported.error(3) is None


def test_what_was_durable_is_there_after_a_power_cut(reported: Boot) -> None:
    assert reported.error(4) is None
    (found,) = (one["values"] for one in reported.of("result", 4) if one["task"] == "cut")
    assert found["blocks"] == BLOCKS and found["durable_writes"] > 8, found
    assert found["lost_blocks"] == 0, found
