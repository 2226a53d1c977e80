"""Disks of Xen's guests: blkfront and blkback give back what was written, a disk that gives back something
else is caught, a block that cannot be written fails its trial, natively too, and what was made durable is
there after a power cut.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hypertare.machines.image import cpio, userland
from hypertare.machines.image.build import build
from hypertare.protocol import plan
from hypertare.protocol.wire_type import WireType
from tests.integration.domains import bench, boot, guest
from tests.integration.emulate import Boot

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]

SPAN = 1 << 20
BLOCKS = SPAN // 4096
OVERWRITES = (
    *("hypertare-agent", "io", "/dev/nullb1", "--write-to", "/dev/nullb1", "--span", "1M"),
    *("--read", "0", "--time", "0.2"),
)
"""The driver domain writes to the medium of the first guest's disk, past the guest."""


BAD = 200
"""A block of a medium that is bad from some time on."""
LOADER, SHELL, LIBRARIES = "/lib64/ld-linux-x86-64.so.2", "/bin/dash", "test/libraries"


def shell() -> list[cpio.Member]:
    """This host's, for an image that has none."""
    found = userland.read_own(Path(SHELL), "")
    places = {"test/loader": Path(LOADER).read_bytes(), "test/dash": Path(SHELL).read_bytes()}
    places |= {f"{LIBRARIES}/{name}": data for name, data in found.libraries.items()}
    return [cpio.file(place, data, executable=True) for place, data in places.items()]


def makes_bad(device: str, sign: str = "+") -> plan.Task:
    """Has the medium fail operations on a block, or no longer (null_blk.rst, `badblocks`)."""
    sectors = f"{BAD * 8}-{BAD * 8 + 7}"
    script = f"echo {sign}{sectors} > /sys/kernel/config/nullb/{device}/badblocks"
    argv = ("/test/loader", "--library-path", f"/{LIBRARIES}", "/test/dash", "-c", script)
    return plan.Task(id="bad", node="host", workload=plan.Command(argv=argv))


def with_disk(number: int, **disk: Any) -> plan.Node:
    return guest(number).model_copy(update={"disk": plan.Disk(**{"bytes": SPAN, **disk})})


def three_disks() -> plan.BenchStep:
    """One of the driver domain's own, nullb0, and those of two guests."""
    made = bench(with_disk(1), with_disk(2))
    host, *guests = made.bench.nodes
    nodes = (host.model_copy(update={"disk": plan.Disk(bytes=SPAN)}), *guests)
    return plan.BenchStep(bench=made.bench.model_copy(update={"nodes": nodes}))


def work(node: str, **changes: Any) -> list[plan.Task]:
    """Fills a node's disk, and works on it."""
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
    return [
        plan.Task(id=f"fill.{node}", node=node, background=True, workload=fill),
        plan.Task(id=f"io.{node}", node=node, workload=io.model_copy(update=changes)),
    ]


def writes(node: str) -> list[plan.Task]:
    return work(node, read_share=0.0, sync_every=None, count=None, duration_s=5.0)


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
        three_disks(),
        trial(1, *work("guest1"), *work("guest2", engine="pread", depth=1)),
        trial(
            2,
            *work("guest1", read_share=1.0, sync_every=None, count=None, duration_s=5.0),
            plan.Task(id="overwrite", node="host", workload=overwrite),
        ),
        trial(3, *work("guest1")),
        trial(4, lives=(cut(),)),
        trial(5, *writes("host"), makes_bad("nullb0")),
        trial(6, *writes("guest1"), makes_bad("nullb1")),
        trial(7, *work("guest2")),
        trial(8, makes_bad("nullb1", "-")),
        trial(9, *work("guest1")),
        plan.TeardownStep(),
    ]


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Boot:
    """What one boot of the machine reports of all that."""
    image = build(profile="xen")
    return boot(image, steps(), tmp_path_factory.mktemp("disks"), files=shell())


@pytest.mark.timeout(900)
def test_both_guests_have_what_they_wrote(reported: Boot) -> None:
    assert reported.error(1) is None
    found = {one["task"]: one["values"] for one in reported.of("result", 1)}
    for node in ("guest1", "guest2"):
        values = found[f"io.{node}"]
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


@pytest.mark.parametrize(("number", "node"), [(5, "host"), (6, "guest1")])
def test_a_block_that_cannot_be_written_fails_its_trial_alone(
    reported: Boot, number: int, node: str
) -> None:
    error = reported.error(number)
    said = (
        f"task io.{node} on {node} failed: writing 4096 bytes at offset {BAD * 4096} failed: "
        "Input/output error (os error 5)"
    )
    assert error is not None and said in error, error
    assert reported.error(7) is None
    # A block that is good again is written again.
    assert reported.error(8) is None and reported.error(9) is None


def test_what_was_durable_is_there_after_a_power_cut(reported: Boot) -> None:
    assert reported.error(4) is None
    (found,) = (one["values"] for one in reported.of("result", 4) if one["task"] == "cut")
    assert found["blocks"] == BLOCKS and found["durable_writes"] > 8, found
    assert found["lost_blocks"] == 0, found
