"""Disks of guests: each device gives back what was written, as the workload itself checks; a command of the
user's own finds its disk on every platform; a block that cannot be read fails its trial; and none is left.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hypertare.protocol.records import NodeReady, TaskResult
from hypertare.runs.store import Store
from tests.integration.lab import Lab, Traces, statuses, summary, trials

pytestmark = [pytest.mark.guest, pytest.mark.timeout(900)]

STUDY = """
name = "disks"
question = "What does a disk cost?"
factors."sut.disk_device" = ["virtio-blk", "virtio-scsi", "nvme", "ahci"]
[sut]
memory = "160M"
accelerator = "tcg"
platforms = ["native", "container", "guest"]
disk_directory = "{directory}"
disk_cache = "none"
disk_aio = "native"
[workloads.mixed]
type = "io"
span = "2M"
depth = 8
jobs = 2
read = "60%"
sync_every = 20
count = 400
duration = "20s"
[workloads.calls]
type = "io"
engine = "pread"
span = "1M"
block = "8K"
pattern = "sequential"
rate = 100
duration = "500ms"
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


def test_each_device_gives_back_what_was_written(lab: Lab, tmp_path: Path) -> None:
    directory = tmp_path / "medium"
    directory.mkdir()
    lab.study(STUDY.format(directory=directory))
    before = Traces.now()
    ran = lab.run("run", "study.toml", "--out", "run", patience_s=600)
    assert ran.status == 0, ran
    run = lab.work / "run"
    found = summary(run)
    assert found["failed"] == []
    assert list(directory.iterdir()) == []
    with Store.open(run) as store:
        argv = {
            one.node: " ".join(one.vmm_argv)
            for _, bench in store.benches()
            for one in bench
            if isinstance(one, NodeReady) and one.vmm
        }
        results = [
            (trial.planned.workload, record)
            for trial in store.trials()
            for record in store.records(trial.planned.id)
            if isinstance(record, TaskResult) and record.purpose.role == "io"
        ]
    devices = ("virtio-blk-pci", "scsi-hd", "nvme", "ide-hd")
    assert [sum(f"-device {one}," in words for words in argv.values()) for one in devices] == [
        1
    ] * 4
    assert all("aio=native,cache.direct=on,cache.no-flush=off" in words for words in argv.values())
    # Natively, in a container, and in the four guests.
    assert len(results) == 2 * 2 * 6
    for workload, one in results:
        values = one.values
        if workload == "mixed":
            assert values["operations"] == 400 and values["fdatasyncs"] >= 5, values
            assert values["reads"] > 150 and values["writes"] > 80, values
            assert values["sync_p50_ns"] > 0
        else:
            # Half a second at 100 a second; a late one is begun all the same.
            assert 1 <= values["reads"] <= 51 and values["writes"] == 0, values
    responses = {one["response"] for one in found["estimates"] if one["platform"] == "guest"}
    assert {
        "iops",
        "throughput",
        "read_p99",
        "write_p50",
        "sync_p50",
        "cpu_per_operation",
    } <= responses
    lab.assert_nothing_left(before)


def test_a_format_of_its_own_gives_back_what_was_written(lab: Lab, tmp_path: Path) -> None:
    """Blocks in clusters that are found by tables, by two queues; in a file and, natively, as they are."""
    directory = tmp_path / "medium"
    directory.mkdir()
    study = STUDY.replace("sut.disk_device", "sut.disk_format")
    study = study.replace('["virtio-blk", "virtio-scsi", "nvme", "ahci"]', '["raw", "qcow2"]')
    study = study.replace("[sut]", "[sut]\ncpus = 2\ndisk_queues = 2")
    study = study.replace('"native", "container", "guest"', '"native", "guest"')
    lab.study(study.format(directory=directory))
    before = Traces.now()
    ran = lab.run("run", "study.toml", "--out", "run", patience_s=600)
    assert ran.status == 0, ran
    assert summary(lab.work / "run")["failed"] == []
    assert list(directory.iterdir()) == []
    with Store.open(lab.work / "run") as store:
        argv = [
            " ".join(one.vmm_argv)
            for _, bench in store.benches()
            for one in bench
            if isinstance(one, NodeReady) and one.vmm
        ]
    formats = [f"driver={one},node-name=disk" for one in ("raw", "qcow2")]
    assert [sum(one in words for words in argv) for one in formats] == [1, 1]
    assert all("num-queues=2" in words for words in argv)
    lab.assert_nothing_left(before)


def test_a_file_of_the_machine_gives_back_what_was_written(lab: Lab) -> None:
    """By 9p and by virtiofs, past the guest's page cache; beside a disk on such a file."""
    study = STUDY.replace("sut.disk_device", "sut.files")
    study = study.replace(
        '["virtio-blk", "virtio-scsi", "nvme", "ahci"]', '["none", "9p", "virtiofs"]'
    )
    for key in ('disk_directory = "{directory}"', 'disk_cache = "none"', 'disk_aio = "native"'):
        study = study.replace(f"{key}\n", "")
    lab.study(study)
    before = Traces.now()
    ran = lab.run("run", "study.toml", "--out", "run", patience_s=600)
    assert ran.status == 0, ran
    assert summary(lab.work / "run")["failed"] == []
    with Store.open(lab.work / "run") as store:
        argv = [
            " ".join(one.vmm_argv)
            for _, bench in store.benches()
            for one in bench
            if isinstance(one, NodeReady) and one.vmm
        ]
        counted = [
            record.values["operations"]
            for trial in store.trials()
            for record in store.records(trial.planned.id)
            if isinstance(record, TaskResult)
            and record.purpose.role == "io"
            and trial.planned.workload == "mixed"
        ]
    devices = ("virtio-blk-pci,drive=disk", "virtio-9p-pci,fsdev=files", "vhost-user-fs-pci")
    assert [sum(one in words for words in argv) for one in devices] == [1] * 3
    # Natively, in a container, and in the three guests.
    assert counted == [400] * 2 * 5
    lab.assert_nothing_left(before)


def test_a_command_finds_the_disk_on_every_platform(lab: Lab) -> None:
    script = (
        "printf weighed | dd of=$HYPERTARE_DISK bs=4096 seek=3 conv=notrunc 2>/dev/null && "
        "dd if=$HYPERTARE_DISK bs=4096 skip=3 count=1 2>/dev/null | head -c 7 | grep -q weighed"
    )
    before = Traces.now()
    ran = lab.run(
        "weigh", "--min-trials", "2", "--max-trials", "2", "--warmup", "0", "--disk", "memory",
        "--disk-size", "2M", "--accelerator", "tcg", "--memory", "192M", "--out", "run", script,
    )  # fmt: skip
    assert ran.status == 0, ran
    assert summary(lab.work / "run")["failed"] == []
    lab.assert_nothing_left(before)


IO_ERROR = """
name = "errors"
question = "What does a disk with bad blocks cost?"
factors."sut.disk_device" = ["virtio-blk", "virtio-scsi"]
[sut]
memory = "160M"
accelerator = "tcg"
platforms = ["native", "guest"]
[workloads.ringed]
type = "io"
span = "1M"
depth = 8
count = 2000
duration = "20s"
[workloads.called]
type = "io"
engine = "pread"
span = "1M"
count = 2000
duration = "20s"
[workloads.written]
type = "io"
engine = "pread"
pattern = "sequential"
read = 0
sync_every = 1
span = "1M"
count = 256
duration = "20s"
[workloads.before]
type = "io"
span = "64K"
count = 200
duration = "20s"
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""
UNREADABLE, FULL = 129, 200
"""Blocks of the disk, of 4 KB: one cannot be read, and for one there is no room when it is written."""
RULES = [
    f"inject-error.0.event=read_aio,inject-error.0.iotype=read,inject-error.0.errno=5,"
    f"inject-error.0.sector={UNREADABLE * 8}",
    # Only the first write after a flush may fail: of what fills the disk before, that is to its begin.
    "set-state.0.event=flush_to_disk,set-state.0.state=1,set-state.0.new_state=2",
    "set-state.1.event=write_aio,set-state.1.state=2,set-state.1.new_state=1",
    f"inject-error.1.event=write_aio,inject-error.1.state=2,inject-error.1.iotype=write,"
    f"inject-error.1.errno=28,inject-error.1.sector={FULL * 8}",
    # A rule counts until another takes its place: this one is of no block.
    f"inject-error.2.event=write_aio,inject-error.2.state=1,inject-error.2.iotype=discard,"
    f"inject-error.2.sector={FULL * 8}",
]


def test_an_error_of_the_medium_fails_the_trial_with_its_offset(lab: Lab) -> None:
    """QEMU's blkdebug, between the medium and the disk, fails reads of one block and writes of another;
    other trials go on. No room is what QEMU would stop a guest for by its default.
    """
    lab.env["PATH"] = f"{wrapped(lab, ','.join(RULES)).parent}:{lab.env['PATH']}"
    lab.study(IO_ERROR)
    before = Traces.now()
    ran = lab.run("run", "study.toml", "--out", "run", patience_s=600)
    run = lab.work / "run"
    unreadable = f"reading 4096 bytes at offset {UNREADABLE * 4096} failed: Input/output error"
    full = f"writing 4096 bytes at offset {FULL * 4096} failed: "
    # Virtio's disk has one error for all reasons; SCSI says which.
    no_room = {"virtio-blk": "Input/output error", "virtio-scsi": "No space left on device"}
    failed = {
        (one["cell"]["sut.disk_device"], one["cell"]["workload"]): one["reason"]
        for one in summary(run)["failed"]
    }
    expected = {
        (device, workload): said
        for device, reason in no_room.items()
        for workload, said in (
            ("ringed", unreadable),
            ("called", unreadable),
            ("written", full + reason),
        )
    }
    assert failed.keys() == expected.keys(), ran
    assert all(said in failed[cell] for cell, said in expected.items()), failed
    for workload in ("ringed", "called", "written"):
        # A workload that fails again and again is given up.
        assert len([one for one in trials(run) if one[2:4] == ("guest", workload)]) >= 4, ran
        assert statuses(run, "guest", workload) == {"failed"}
        assert statuses(run, "native", workload) == {"ok"}, ran
    assert statuses(run, "guest", "before") == {"ok"}, ran
    assert unreadable in ran.said, ran
    lab.assert_nothing_left(before)


def wrapped(lab: Lab, options: str) -> Path:
    """A QEMU whose disks have blkdebug with these options below them."""
    real = shutil.which("qemu-system-x86_64")
    assert real is not None
    wrapper = lab.home / "bin" / "qemu-system-x86_64"
    wrapper.parent.mkdir()
    wrapper.write_text(
        "#!/bin/bash\n"
        'for word in "$@"; do\n'
        "    if [[ $word == *node-name=disk,file=medium* ]]; then\n"
        f'        words+=("driver=blkdebug,node-name=failing,image=medium,{options}" -blockdev)\n'
        '        word="${word/file=medium/file=failing}"\n'
        "    fi\n"
        '    words+=("$word")\n'
        "done\n"
        f'exec -a qemu-system-x86_64 {real} "${{words[@]}}"\n'
    )
    wrapper.chmod(0o755)
    return wrapper
