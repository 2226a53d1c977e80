"""A campaign on two workers as a user has it: interrupted, with a worker lost, resumed; its file is that of
a run on this host.
"""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.lab import MARK, Lab, Traces, own_cache, reported, rows, trials, until
from tests.integration.test_emulated import QEMU, TINY
from tests.made_cluster import MadeCluster

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]

STUDY = TINY.replace("_trials = 2", "_trials = 3")


@pytest.fixture
def cluster(lab: Lab) -> Iterator[MadeCluster]:
    with MadeCluster(lab.home / "cluster", {MARK: lab.mark}) as made:
        made.add("one")
        made.add("two")
        yield made


def machines(lab: Lab) -> list[int]:
    """QEMU processes, wherever on this host a worker has started them."""
    return [pid for pid, line in lab.processes().items() if re.search(QEMU, line)]


def brings_its_own(pid: int) -> bool:
    """Whether a machine has loaded nothing of the host's, and finds firmware in its own place."""
    mapped = Path(f"/proc/{pid}/maps").read_text()
    firmware = Path(f"/proc/{pid}/root/usr/share")
    return (
        "/lib/x86_64-linux-gnu/" not in mapped
        and "/libglib-2.0.so.0" in mapped
        and [place.name for place in firmware.iterdir()] == ["qemu"]
    )


def test_a_run_on_two_workers_is_the_run_of_this_host(lab: Lab, cluster: MadeCluster) -> None:
    """Ended by Ctrl-C, gone on with beside kill -9 of a worker, then whole."""
    before = Traces.now()
    study = lab.study(STUDY)
    lab.env["HYPERTARE_CACHE"] = known = own_cache(lab, "known")
    near = lab.run("run", study, "--out", "near")
    assert near.status == 0, near.said

    # The first boot is known, so a trial stands in the file while others are made.
    lab.env["HYPERTARE_CACHE"] = cache = own_cache(lab, "cache")
    ((first,),) = rows(lab.work / "near", "SELECT fingerprint FROM trial ORDER BY id LIMIT 1")
    shutil.copytree(Path(known, "virtual", first), Path(cache, "virtual", first))
    begun = lab.start("run", study, "--cluster", cluster.address, "--out", "far")
    begun.until(lambda: trials(lab.work / "far") and len(machines(lab)) == 2, "two machines")
    assert brings_its_own(machines(lab)[0])
    begun.stop(signal.SIGINT)
    ended = begun.end()
    assert ended.status == 130, ended.said
    assert f"cluster: {cluster.address}, 2 workers, 2 boots at a time" in ended.err
    assert "3 boots, 2 at a time" in ended.err
    until(lambda: not machines(lab), "machines to end on both workers", 20)

    resumed = lab.start("run", "--resume", "--cluster", cluster.address, "--out", "far")
    resumed.until(lambda: len(machines(lab)) == 2, "two machines")
    cluster.kill("one")
    far = resumed.end()
    assert far.status == 0, far.said
    assert reported(lab.work / "far") == reported(lab.work / "near")
    assert {trial[5] for trial in trials(lab.work / "far")} == {"ok"}
    cluster.close()
    lab.assert_nothing_left(before)


@pytest.mark.parametrize(
    ("arguments", "status", "what"),
    [
        (["--cluster", "scheduler"], 2, "no address of a Dask scheduler"),
        (["--cluster", "tcp://h:1", "--jobs", "2"], 2, "with --cluster its workers"),
        (["--cluster", "tcp://h:1", "--set", "clock=wall"], 2, "for virtual time"),
        (["--cluster", "tcp://127.0.0.1:1"], 3, "No Dask scheduler answers at tcp://127.0.0.1:1"),
    ],
)
def test_what_cannot_be_is_said_before_anything_begins(
    lab: Lab, arguments: list[str], status: int, what: str
) -> None:
    ran = lab.run("run", lab.study(STUDY), *arguments, "--out", "none")
    assert ran.status == status and what in ran.said, ran.said
    assert not (lab.work / "none").exists()


def test_kill_9_of_the_run_ends_its_machines(lab: Lab, cluster: MadeCluster) -> None:
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "cache")
    begun = lab.start("run", lab.study(STUDY), "--cluster", cluster.address, "--out", "killed")
    begun.until(lambda: len(machines(lab)) == 2, "two machines")
    begun.stop(signal.SIGKILL)
    until(lambda: not machines(lab), "both to end", 30)
