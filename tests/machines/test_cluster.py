"""Boots on the workers of a real Dask cluster on this host, with an agent that is made up."""

from __future__ import annotations

import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hypertare.base.errors import DiffersError, HypertareError, InputError, MachineError
from hypertare.engine.prepare import RunOptions, prepare
from hypertare.machines.cluster import scheduler
from hypertare.machines.cluster.scheduler import Checks, Cluster, check_address, connected
from hypertare.machines.cluster.worker import Brought
from hypertare.machines.emulated import Output
from hypertare.machines.image.cache import Cache
from hypertare.study import StudyFile
from tests.integration.lab import until
from tests.machines.test_emulated import REPORT, Made, batch
from tests.made_cluster import MadeCluster

pytestmark = [pytest.mark.runs, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(300)]

PROGRAM: Any = SimpleNamespace(program=Path(shutil.which("true") or ""), key="k", content="c")
"""In the emulator's place: it has libraries, and nothing is asked of it."""

SLOW = """
import select
if not os.path.exists("{place}/go"):
    open("{place}/begun-%d" % os.getpid(), "w").close()
    select.select([0], [], [], 60)
    sys.exit("ended")
"""

FORGING = """
from dataclasses import replace
from hypertare.machines import executor
from hypertare.machines.cluster import worker

class Forging(executor.Processes):
    def boot(self, *arguments):
        booted = super().boot(*arguments)
        return replace(booted, raw=booted.raw.replace(b'"seconds_s":0.5', b'"seconds_s":0.6'))

worker._processes = lambda made=Forging(): made
"""
DYING = """
import os
from hypertare.machines.cluster import worker
worker._processes = lambda: os._exit(1)
"""
OLDER = """
import importlib.metadata
import distributed.versions
of = importlib.metadata.version
distributed.versions.version = lambda name: "0.0.9" if name == "hypertare" else of(name)
"""
OLDER_AT_WORK = """
from hypertare.machines.cluster import worker
worker.versions = lambda: {"hypertare": "0.0.9", "distributed": None}
"""


class Far(Made):
    """A machine whose boots a cluster carries out; `said` is what a person reads."""

    def __init__(self, place: Path, cluster: MadeCluster) -> None:
        super().__init__(place)
        self.cluster = cluster
        self.said: list[str] = []

    def far(self, *seeds: int, executor: Cluster | None = None) -> list[Output]:
        """Boots of these seeds there, of which nothing is known."""
        with connected(self.cluster.address, self.said.append) as cluster:
            return self.on(executor or cluster, *seeds)

    def on(self, executor: Any, *seeds: int) -> list[Output]:
        cache = Cache(self.place / f"cache-{len(list(self.place.iterdir()))}")
        return self.run(
            *[batch(seed) for seed in seeds], executor=executor, cache=cache, emulator=PROGRAM
        )

    def go(self) -> None:
        (self.place / "go").touch()

    @property
    def begun(self) -> list[int]:
        return [int(path.name.partition("-")[2]) for path in self.place.glob("begun-*")]

    @property
    def going_on(self) -> list[int]:
        return [pid for pid in self.begun if Path(f"/proc/{pid}").exists()]

    def write_slow(self) -> None:
        """Boots that begin before `go` do not end by themselves."""
        self.write(SLOW.replace("{place}", str(self.place)) + REPORT)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeCluster]:
    with MadeCluster(tmp_path_factory.mktemp("cluster") / "made") as made:
        made.add("one")
        made.add("two")
        yield made


@pytest.fixture
def own(tmp_path: Path) -> Iterator[MadeCluster]:
    """One without workers, that may be broken."""
    with MadeCluster(tmp_path / "own") as made:
        yield made


@pytest.fixture
def far(tmp_path: Path, cluster: MadeCluster) -> Far:
    return Far(tmp_path, cluster)


def seen(outputs: list[Output]) -> list[Any]:
    return [(one.records, one.error, one.fingerprint) for one in outputs]


def caught(function: Any, *arguments: Any) -> BaseException | None:
    """What it raises in a thread."""
    try:
        function(*arguments)
    except BaseException as error:
        return error
    return None


def agent_in(cache: Path, made: Made) -> Path:
    """The agent as a worker keeps it."""
    return cache / "brought" / scheduler.Digests().of(made.agent) / "content"


def test_it_is_as_on_this_host_and_some_boots_run_twice(far: Far) -> None:
    with connected(far.cluster.address, far.said.append) as there:
        outputs = far.on(there, *range(8))
        checked = there._checked
    assert seen(outputs) == seen(far.on(None, *range(8)))
    assert far.runs == 8 + checked + 8 and checked >= 1
    assert [one.error for one in outputs] == [None] * 8
    (said,) = far.said
    assert said.startswith(f"cluster: {far.cluster.address}, 2 workers, 2 boots at a time")
    for worker in ("one", "two"):
        assert agent_in(far.cluster.cache(worker), far).read_bytes() == far.agent.read_bytes()


@pytest.mark.parametrize("damage", ["another agent", "nothing"])
def test_a_damaged_file_is_refused_and_brought_anew(far: Far, damage: str) -> None:
    far.far(1)
    for worker in ("one", "two"):
        kept = agent_in(far.cluster.cache(worker), far)
        if damage == "nothing":
            kept.unlink()
        else:
            # Of the same size and at the same place: only its content says so.
            kept.write_bytes(kept.read_bytes().replace(b"seconds_s", b"seconds_t"))
    outputs = far.far(*range(6))
    assert [one.error for one in outputs] == [None] * 6
    assert sum("had a damaged copy of agent" in text for text in far.said) >= 1
    assert "sent anew" in far.said[-1]


def test_a_caller_that_has_enough_ends_what_runs_there(far: Far) -> None:
    far.write_slow()
    with connected(far.cluster.address, far.said.append) as there:
        machine = far.machine(executor=there, emulator=PROGRAM)
        outputs = machine.run([batch(seed) for seed in range(4)])
        threading.Thread(target=lambda: caught(next, outputs), daemon=True).start()
        # One of the four in two copies.
        until(lambda: len(there._tasks) == 5, "all to be asked for", 30)
        until(lambda: len(far.going_on) == 2, "two boots to begin", 30)
        there.end()
        until(lambda: not far.going_on, "both to be ended", 15)
        # The same workers are free for others.
        far.go()
        assert [one.error for one in far.on(there, 7)] == [None]
    assert len(far.begun) == 2


def test_a_record_that_differs_names_both_workers(far: Far, own: MadeCluster) -> None:
    own.add("honest")
    own.add("forger", preload=FORGING)
    far.cluster = own
    with pytest.raises(DiffersError, match="first in record 2: ") as caught:
        far.far(*range(3))
    assert caught.value.status == 5
    assert "(honest, host " in caught.value.what and "(forger, host " in caught.value.what
    assert '"seconds_s":0.6' in caught.value.what


def test_a_lost_worker_is_waited_for_and_its_batch_run_again(far: Far, own: MadeCluster) -> None:
    """One is there from the beginning to be lost in mid batch, another comes afterwards."""
    own.add("lost")
    far.cluster = own
    far.write_slow()
    found: list[Output] = []
    with connected(own.address, far.said.append) as there:
        thread = threading.Thread(
            target=lambda: caught(lambda: found.extend(far.on(there, 1, 2))), daemon=True
        )
        thread.start()
        until(lambda: far.going_on, "a boot to begin", 30)
        own.kill("lost")
        until(lambda: not far.going_on, "its machine to end with it", 15)
        until(lambda: any("has no worker" in text for text in far.said), "words on that", 15)
        far.go()
        own.add("next")
        thread.join(60)
    assert [one.error for one in found] == [None, None]


def test_a_boot_that_workers_die_of_is_given_up(far: Far, tmp_path: Path) -> None:
    allowed = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with MadeCluster(tmp_path / "dying", allowed) as dying:
        dying.add("dying", preload=DYING)
        far.cluster = dying
        with pytest.raises(
            HypertareError, match="lost with 1 worker, the last at tcp://"
        ) as caught:
            far.far(1)
    assert "too little memory" in str(caught.value.do)


@pytest.mark.parametrize(
    ("preload", "what"),
    [
        (OLDER, "has hypertare 0.0.9, and here is hypertare "),
        (OLDER_AT_WORK, "has hypertare 0.0.9 and no distributed, and here is hypertare "),
    ],
)
def test_another_version_is_refused(far: Far, own: MadeCluster, preload: str, what: str) -> None:
    """Before anything begins, or when a worker that came later meets its first boot."""
    own.add("older", preload=preload)
    far.cluster = own
    with pytest.raises(MachineError, match=what) as caught:
        far.far(1)
    assert "Install hypertare==" in str(caught.value.do)


def test_a_scheduler_that_goes_ends_the_run(far: Far, own: MadeCluster) -> None:
    own.add("left")
    far.cluster = own
    far.write_slow()
    errors: list[Any] = []
    thread = threading.Thread(target=lambda: errors.append(caught(far.far, 1)), daemon=True)
    thread.start()
    until(lambda: far.going_on, "a boot to begin", 30)
    own.end()
    thread.join(60)
    assert isinstance(errors[0], HypertareError)
    assert "is gone" in errors[0].what and "--resume" in str(errors[0].do)


def test_nobody_and_somebody_else_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "_PATIENCE_S", 2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        for what in ("nobody listens", "it listens and says nothing"):
            with (
                pytest.raises(MachineError, match=f"No Dask scheduler answers at {address}"),
                connected(address, print),
            ):
                raise AssertionError(what)
            silent.listen()


@pytest.mark.parametrize(("file", "named"), [("my hosts", "'my hosts'"), ("", "hosts.txt")])
def test_who_starts_workers_by_ssh_is_said(file: str, named: str) -> None:
    with pytest.raises(InputError, match="hypertare starts no scheduler") as caught:
        check_address(f"ssh:{file}")
    assert f"dask ssh --hostfile {named}" in str(caught.value.do)


@pytest.mark.parametrize(
    "address", ["", "scheduler", "tcp://", "tcp://h", "http://h:1", "tcp://h:0", "tcp://h:70000"]
)
def test_what_is_no_address_is_said(address: str) -> None:
    with pytest.raises(InputError, match="no address of a Dask scheduler") as caught:
        check_address(address)
    assert "tcp://HOST:8786" in str(caught.value.do)


def test_addresses() -> None:
    for address in ("tcp://h:1", "tls://h.example:8786", "tcp://10.0.0.1:8786", "tcp://[::1]:9"):
        check_address(address)


def test_without_dask_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(InputError, match="not installed") as caught,
        connected("tcp://127.0.0.1:1", print),
    ):
        pass
    assert caught.value.status == 2 and "hypertare[cluster]" in str(caught.value.do)


STUDY = """
name = "tiny"
question = "?"
machine = "emulated"
[workloads.spin]
type = "burn"
duration = "10ms"
"""


@pytest.mark.parametrize(
    ("study", "run_options", "what"),
    [
        (STUDY, RunOptions(jobs=2, cluster="tcp://h:1"), "with --cluster its workers"),
        (STUDY.replace("emulated", "local"), RunOptions(cluster="tcp://h:1"), "for virtual time"),
        (
            STUDY.replace('"emulated"', '"emulated"\nclock = "wall"'),
            RunOptions(cluster="tcp://h:1"),
            "virtual",
        ),
        (STUDY, RunOptions(cluster="h:1"), "no address"),
    ],
)
def test_what_a_cluster_is_not_for(study: str, run_options: RunOptions, what: str) -> None:
    with pytest.raises(InputError, match=what):
        run_options.checked(prepare(StudyFile(study, "tiny.toml"), 1))


def test_its_emulator_has_to_be_had_here(far: Far) -> None:
    with (
        connected(far.cluster.address, far.said.append) as there,
        pytest.raises(MachineError, match="hypertare's own emulator"),
    ):
        far.run(batch(), executor=there)


def test_each_worker_has_a_part_in_a_check() -> None:
    checks = Checks()
    assert [checks.pair(["a"]) for _ in range(3)] == [None] * 3
    workers = [f"w{number}" for number in range(5)]
    pairs = [checks.pair(workers) for _ in range(400)]
    chosen = [pair for pair in pairs if pair is not None]
    assert {worker for pair in chosen[:3] for worker in pair} == set(workers)
    assert all(one != other for one, other in chosen)
    assert 8 <= len(chosen) <= 11


def test_a_file_that_arrives_otherwise_is_refused(tmp_path: Path) -> None:
    brought, digest = Brought(Cache(tmp_path)), "0" * 64
    brought.take(digest, b"one ", first=True, last=False)
    with pytest.raises(MachineError, match="arrived otherwise"):
        brought.take(digest, b"two", first=False, last=True)
    assert brought.look([digest]) == ([digest], [])
    assert not list((tmp_path / "brought").glob("*"))
