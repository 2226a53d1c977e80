"""The controller's side: boots as tasks of a Dask scheduler.

A task goes to any worker. One that lacks a file answers which, is sent it, and has the task again. The
engine runs the task of a lost worker elsewhere; some tasks run on two workers, whose records must be
equal.
"""

from __future__ import annotations

import itertools
import logging
import math
import re
import shlex
import threading
import uuid
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from hypertare.base.arch import ARCH
from hypertare.base.errors import DiffersError, HypertareError, InputError, MachineError
from hypertare.base.host_files import Digests
from hypertare.base.loading import check_extra
from hypertare.machines.cluster.order import PACKAGES, PART, Answer, Order, Worker, versions
from hypertare.machines.emulated import first_difference
from hypertare.machines.executor import Boot, Booted, firmware, libraries

SHARE = 0.02
"""Of all boots; and each worker has a part in one, where there are boots enough."""


class Checks:
    """Counts boots and chooses, for some of them, the two workers."""

    def __init__(self) -> None:
        self._boots = 0
        self._pairs = 0
        self._of: dict[str, int] = {}

    def pair(self, workers: Sequence[str]) -> tuple[str, str] | None:
        """Two workers for the next boot, those first that had the fewest; none where one will do."""
        self._boots += 1
        if len(workers) < 2:
            return None
        one, other = sorted(workers, key=lambda worker: (self._of.get(worker, 0), worker))[:2]
        if self._pairs >= math.ceil(SHARE * self._boots) and self._of.get(one):
            return None
        self._pairs += 1
        for worker in (one, other):
            self._of[worker] = self._of.get(worker, 0) + 1
        return one, other


_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.%]+\]|[^\s:/@\[\]]+):([0-9]{1,5})")
_LOOPBACK = re.compile(r"127\.[0-9.]+|localhost|\[::1\]")
_BY_SSH = "ssh:"
_PATIENCE_S = 10
_LOOK_S = 1.0
_AT_ONCE = 8
"""Workers that are sent files at the same time."""
_MOST_SENT = 3
"""Times that one worker is sent files for one boot."""
_GOES_ON = "What was written down is kept, and --resume goes on with it."


def check_address(address: str) -> None:
    """Checks that the address is that of a Dask scheduler.

    Raises:
        InputError: it is not.
    """
    if address.startswith(_BY_SSH):
        hosts = shlex.quote(address.removeprefix(_BY_SSH) or "hosts.txt")
        raise InputError(
            "--cluster: hypertare starts no scheduler and no workers; Dask's own command does, by ssh.",
            f"Type `dask ssh --hostfile {hosts}` (for it: pip install paramiko), then --cluster "
            "tcp://HOST:8786 with the first host of that file.",
        )
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[3]) < 1 << 16:
        raise InputError(
            f"--cluster: {address!r} is no address of a Dask scheduler.",
            "Write it as the scheduler prints it: tcp://HOST:8786, or with TLS tls://HOST:8786.",
        )


@contextmanager
def connected(address: str, notify: Callable[[str], None]) -> Iterator[Cluster]:
    """The cluster of a scheduler; nothing of ours runs there afterwards.

    Args:
        address: the scheduler's.
        notify: hears what a person should know.

    Raises:
        InputError: Dask's `distributed` is not installed.
        MachineError: nothing answers there, or something that is no scheduler of the same version.
    """
    check_extra("cluster", "--cluster")
    import distributed

    for name in ("distributed", "tornado", "asyncio"):
        # All that they log is an error that is raised here as well.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    match = _ADDRESS.fullmatch(address)
    if match and match[1] == "tcp" and not _LOOPBACK.fullmatch(match[2]):
        notify(
            f"warning: nothing proves who is behind {address}, and whoever reaches it can run programs on "
            "its workers: give the scheduler TLS (tls://) where others use the network"
        )
    # It is written with few types.
    client_of: Any = distributed.Client
    with warnings.catch_warnings():
        # Of versions that differ, which are checked below, and of plans that are large.
        warnings.simplefilter("ignore")
        client = _answering(lambda: client_of(address, timeout=_PATIENCE_S, set_as_default=False))
        if isinstance(client, BaseException):
            raise MachineError(
                f"No Dask scheduler answers at {address} ({_first_line(client)}).",
                "Start one there (`dask scheduler`), or correct --cluster.",
            )
        try:
            with closing(Cluster(client, address, notify)) as cluster:
                yield cluster
        finally:
            with suppress(Exception):
                client.close(timeout=_PATIENCE_S)


def _answering(connect: Callable[[], Any]) -> Any:
    """Returns the result of `connect`, its exception, or TimeoutError.

    `connect` runs in a thread because it may wait for ever for a peer that accepts a connection and sends
    nothing.
    """
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(connect())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True, name="cluster-connect")
    thread.start()
    thread.join(_PATIENCE_S + 1)
    return found[0] if found else TimeoutError(f"no answer in {_PATIENCE_S} s")


@dataclass
class _Asked:
    """A boot that was submitted, in one copy or two, and the answers so far."""

    boot: Boot
    order: Order
    number: int
    copies: int
    turn: int
    future: Future[Booted] = field(default_factory=Future)
    answers: list[tuple[Worker, Booted]] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)


class Cluster:
    """The executor of boots on the workers of a scheduler."""

    def __init__(self, client: Any, address: str, notify: Callable[[str], None]) -> None:
        self._client = client
        self._address = address
        self._notify = notify
        self._digests = Digests()
        self._places: dict[str, Path] = {}
        self._runtimes: dict[Path, dict[str, Path]] = {}
        self._name = f"hypertare-{uuid.uuid4().hex}"
        self._keys = itertools.count()
        self._numbers = itertools.count()
        self._checks = Checks()
        self._tasks: dict[Any, tuple[_Asked, str | None]] = {}
        """Those under way, for whom, and the worker that each is meant for."""
        self._turn = 0
        """What an earlier turn asked for was ended."""
        self._lock = threading.Lock()
        self._sending: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._may_bring = threading.Semaphore(_AT_ONCE)
        self._is_over = threading.Event()
        self._workers: dict[str, int] = {}
        self._checked = 0
        self._look()
        notify(self._introduction())
        threading.Thread(target=self._watch, daemon=True, name="cluster-workers").start()

    @property
    def jobs(self) -> int:
        return max(1, sum(self._workers.values()))

    def submit(self, boot: Boot) -> Future[Booted]:
        with self._lock:
            pair = self._checks.pair(sorted(self._workers))
        asked = _Asked(
            boot, self._order(boot), next(self._numbers), len(pair or (None,)), self._turn
        )
        for worker in pair or (None,):
            self._send(asked, worker)
        return asked.future

    def end(self) -> None:
        """The scheduler has the workers drop what runs, and they kill it within a second."""
        with self._lock:
            self._turn += 1
            tasks, self._tasks = list(self._tasks), {}
        if tasks:
            with suppress(Exception):
                self._client.cancel(tasks, force=True)

    def close(self) -> None:
        self._is_over.set()
        self.end()

    # --- workers

    def _look(self) -> None:
        """Reads the scheduler's list of workers, and checks the versions if it has new ones.

        Raises:
            MachineError: a worker does not fit, or the scheduler is gone.
        """
        try:
            found = dict(self._client.nthreads())
            if found.keys() - self._workers.keys():
                self._check_versions()
        except HypertareError:
            raise
        except Exception as error:
            raise self._gone(error) from None
        self._workers = found

    def _check_versions(self) -> None:
        """Checks the scheduler and all workers.

        Raises:
            MachineError: one has other versions than this process, or a worker is no Linux on x86-64.
        """
        found = self._client.get_versions(packages=list(PACKAGES))
        machines = {"The scheduler": found["scheduler"]}
        machines |= {f"Worker {address}": one for address, one in found["workers"].items()}
        for who, one in machines.items():
            host, theirs = one["host"], {name: one["packages"].get(name) for name in PACKAGES}
            if theirs != versions():
                raise _unlike(who, theirs)
            if who != "The scheduler" and (host["OS"], host["machine"]) != ("Linux", ARCH.machine):
                raise MachineError(
                    f"{who} is {host['OS']} on {host['machine']}, and the emulator that is brought there "
                    f"needs Linux on {ARCH.label}.",
                    "Take it out of the cluster.",
                )

    def _watch(self) -> None:
        was_said = False
        while not self._is_over.wait(_LOOK_S):
            with suppress(Exception):
                # Whom a worker does not fit hears of it when a boot meets it.
                self._workers = dict(self._client.nthreads())
            waits = not self._workers and bool(self._tasks)
            if waits and not was_said and not self._is_over.is_set():
                self._notify(
                    f"{self._address} has no worker: waiting for one (Ctrl-C ends the run)"
                )
            was_said = waits
            self._send_elsewhere()

    def _send_elsewhere(self) -> None:
        """Submits tasks again that were meant for a worker which is lost.

        The scheduler would wait for the worker's return, although other workers may have the task.
        """
        with self._lock:
            tasks = [(task, *of) for task, of in self._tasks.items()]
        for task, asked, worker in tasks:
            if worker is not None and worker not in self._workers and self._take_out(task):
                with suppress(Exception):
                    self._client.cancel([task], force=True)
                self._send(asked, None)

    def _introduction(self) -> str:
        count, text = len(self._workers), f"cluster: {self._address}"
        text += (
            f", {count} worker{'s' * (count != 1)}, {sum(self._workers.values())} boots at a time"
        )
        with suppress(Exception):
            if link := self._client.dashboard_link:
                text += f"; dashboard: {link}"
        return text

    # --- tasks

    def _send(self, asked: _Asked, worker: str | None) -> None:
        from hypertare.machines.cluster import worker as there

        with self._lock:
            if asked.turn != self._turn:
                return
            task = self._client.submit(
                there.boot,
                asked.order,
                versions(),
                # Tasks of one name are one group, which the scheduler hands out as workers get free.
                key=(self._name, next(self._keys)),
                priority=-asked.number,
                workers=[worker] if worker else None,
                allow_other_workers=worker is not None,
                pure=False,
            )
            self._tasks[task] = asked, worker
        # All tasks share one thread for their callbacks, and what is done at the end of one may block. The
        # new thread is a daemon: no exit waits for it.
        task.add_done_callback(
            lambda task: threading.Thread(
                target=self._take_in, args=(asked, task), daemon=True
            ).start()
        )

    def _take_in(self, asked: _Asked, task: Any) -> None:
        if not self._take_out(task):
            return
        try:
            answer = self._answer(task)
            if answer.versions:
                raise _unlike(f"Worker {answer.worker}", answer.versions)
            if answer.booted is None:
                self._bring(asked, answer)
                self._send(asked, answer.worker.address if asked.copies > 1 else None)
                return
            with self._lock:
                asked.answers.append((answer.worker, answer.booted))
                is_last = len(asked.answers) == asked.copies
            if is_last:
                asked.future.set_result(self._compared(asked))
        except BaseException as error:
            self._fail(asked, error)

    def _take_out(self, task: Any) -> bool:
        """Removes a task from the list; returns whether it was still in it."""
        with self._lock:
            return self._tasks.pop(task, None) is not None

    def _fail(self, asked: _Asked, error: BaseException) -> None:
        """Sets the error of a boot. Only the first of two copies counts; after `end` it is that the run was
        ended.
        """
        is_over = asked.turn != self._turn
        with suppress(InvalidStateError):
            asked.future.set_exception(HypertareError("the run was ended") if is_over else error)

    def _answer(self, task: Any) -> Answer:
        """Returns the answer of a finished task.

        Raises:
            HypertareError: the task failed.
        """
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        try:
            answer = task.result()
        except HypertareError:
            raise
        except FutureCancelledError as error:
            raise self._gone(error) from None
        except KilledWorker as error:
            count = error.allowed_failures + 1
            lost = f"{count} workers, one after the other" if count > 1 else "1 worker"
            last = getattr(error.last_worker, "address", error.last_worker)
            raise HypertareError(
                f"A boot was lost with {lost}, the last at {last}.",
                f"Their logs say why they ended; often a host has too little memory. {_GOES_ON}",
            ) from None
        except Exception as error:
            self._check_versions()
            raise HypertareError(
                f"A boot failed on a worker of {self._address}: {_first_line(error)}", _GOES_ON
            ) from None
        if not isinstance(answer, Answer):
            raise HypertareError(f"A worker of {self._address} answered with {type(answer)}.")
        return answer

    def _compared(self, asked: _Asked) -> Booted:
        """The first of two that are the same.

        Raises:
            DiffersError: they are not.
        """
        whole = [(worker, booted) for worker, booted in asked.answers if booted.is_whole]
        if len(whole) == 2:
            (one, first), (other, second) = sorted(whole, key=lambda answer: answer[0].address)
            # If they are the same, one of the two chosen workers was lost.
            if one.address != other.address:
                where = (f"on {one.address}", f"on {other.address}")
                difference = first_difference(first.raw, second.raw, where)
                if difference is not None:
                    raise DiffersError(
                        f"The records of fingerprint {(asked.boot.fingerprint or '')[:16]} differ between "
                        f"two workers, {one} and {other}, first in {difference}",
                        "Virtual time did not repeat there: `--fresh --jobs 1` says which is wrong. Please "
                        "report it, with both records.",
                    )
                self._checked += 1
        return (whole or asked.answers)[0][1]

    def _gone(self, error: BaseException) -> HypertareError:
        return HypertareError(
            f"The scheduler at {self._address} is gone ({getattr(error, 'reason', _first_line(error))}).",
            _GOES_ON,
        )

    # --- files

    def _order(self, boot: Boot) -> Order:
        """Returns the order for a boot, which names all files by their digests.

        Raises:
            MachineError: this host has no emulator that it could send.
        """
        files = boot.files
        if files.emulator is None:
            raise MachineError(
                "--cluster brings hypertare's own emulator to the workers, and it cannot be had here.",
                "Why: hypertare image build emulator",
            )
        runtime = self._runtimes.get(files.emulator)
        if runtime is None:
            firm = firmware(files.emulator).items()
            runtime = {f"lib/{name}": path for name, path in libraries(files.emulator).items()}
            runtime |= {f"firmware/{name}": path for name, path in firm if path}
            self._runtimes[files.emulator] = runtime
        return Order(
            boot.options,
            boot.limit_s,
            boot.steps,
            self._named(files.agent),
            self._named(files.kernel),
            tuple(map(self._named, files.initramfs)),
            self._named(files.hypervisor) if files.hypervisor else None,
            self._named(files.emulator),
            {name: self._named(path) for name, path in runtime.items()},
        )

    def _named(self, path: Path) -> str:
        digest = self._digests.of(path)
        self._places[digest] = path
        return digest

    def _bring(self, asked: _Asked, answer: Answer) -> None:
        """Sends a worker what it lacks.

        Raises:
            HypertareError: it does not keep what it is sent, or a file has changed here.
        """
        from hypertare.machines.cluster import worker as there

        worker = answer.worker
        for digest in answer.damaged:
            self._notify(
                f"warning: worker {worker} had a damaged copy of {self._places[digest].name}; "
                "it is sent anew"
            )
        asked.sent[worker.address] += 1
        if asked.sent[worker.address] > _MOST_SENT:
            raise HypertareError(f"Worker {worker} does not keep the files that it is sent.")
        with self._sending[worker.address], self._may_bring, self._losing(worker):
            # Another boot may have brought them meanwhile.
            for digest in self._call(worker, there.missing, list(answer.missing)):
                self._bring_one(worker, digest)

    def _bring_one(self, worker: Worker, digest: str) -> None:
        from hypertare.machines.cluster import worker as there

        path, compressor = self._places[digest], zstandard.ZstdCompressor()
        with path.open("rb") as file:
            count = max(1, -(-path.stat().st_size // PART))
            for number in range(count):
                packed = compressor.compress(file.read(PART))
                self._call(worker, there.take, digest, packed, number == 0, number == count - 1)

    def _call(self, worker: Worker, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function in the worker's process, outside of its tasks, and returns the result."""
        return self._client.run(function, *arguments, workers=[worker.address])[worker.address]

    @contextmanager
    def _losing(self, worker: Worker) -> Iterator[None]:
        """Ignores errors of a worker that is lost: the boot then goes to another worker.

        Raises:
            HypertareError: the worker is connected and does not take a file.
        """
        try:
            yield
        except MachineError as error:
            raise MachineError(f"Worker {worker}: {error.what}", error.do) from None
        except Exception as error:
            with suppress(Exception):
                if worker.address not in self._client.nthreads():
                    return
            raise HypertareError(f"Worker {worker} takes no files: {_first_line(error)}") from None


def _unlike(who: str, theirs: Mapping[str, str | None]) -> MachineError:
    here = versions()
    unlike = [name for name in PACKAGES if theirs.get(name) != here[name]]
    named = " and ".join(
        f"{name} {theirs.get(name)}" if theirs.get(name) else f"no {name}" for name in unlike
    )
    own = " and ".join(f"{name} {here[name]}" for name in unlike)
    wanted = " ".join(f"{name}=={here[name]}" for name in unlike)
    return MachineError(
        f"{who} has {named}, and here is {own}: they must be the same.",
        f"Install {wanted} there, or take it out of the cluster.",
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
