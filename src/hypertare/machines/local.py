"""This host as a machine: the host agent is a child process, plans go in and records come out by pipe.

The agent makes everything in namespaces of its own and dies with its input, so that nothing is left
behind whatever happens to this process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Set
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from hypertare.base.errors import HypertareError, MachineError
from hypertare.machines.host.engine import Engine, EngineImage
from hypertare.machines.host.given import GivenMachines
from hypertare.machines.host.loan import Loan, NotPutBackError
from hypertare.machines.host.needs import NOTHING, Needs
from hypertare.protocol import plan
from hypertare.protocol.constants import MAX_LINE, REFUSED
from hypertare.protocol.parse import parse
from hypertare.protocol.records import BenchReady, Hello, Record, Teardown, TrialEnd
from hypertare.study import Network

_OF_NETWORK: dict[Network, tuple[str, ...]] = {"none": (), "host": ("--network", "host")}

_ANSWER_MARGIN_S = 15.0
"""Beyond a trial's own limit: the agent kills, collects and puts knobs back within this."""
_TEARDOWN_LIMIT_S = 15.0
_END_LIMIT_S = 4.0
_AT_ONCE = 1 << 16
_PIPE = 1 << 20
"""Room for output while nobody waits for it: what the agent says at its end is read by no one."""


class AgentError(HypertareError):
    """The host agent ended, or did not answer."""


def _not_to_be_had(
    bench: plan.Bench, error: HypertareError, blamed: type[plan.NodeKind] = plan.Guest
) -> BenchReady:
    """To blame are guests: nobody else needs anything of the host's settings; or those that somebody else
    made.
    """
    guest = next((node.name for node in bench.nodes if isinstance(node.kind, blamed)), None)
    text = " ".join(filter(None, (error.what, error.do)))
    return BenchReady(bench=bench.name, seconds_s=0.0, error=text, node=guest)


class LocalMachine:
    """Runs benches and trials on this host. Use as a context manager."""

    def __init__(
        self,
        agent: Path,
        loan: Loan | None = None,
        image: EngineImage | None = None,
        network: Network = "none",
    ) -> None:
        self.agent = agent
        self.network = network
        self.engine = Engine(image, agent) if image is not None else None
        self.given = GivenMachines(agent)
        self.loan = loan or Loan(NOTHING)
        self.hello: Hello | None = None
        self._allowed = os.sched_getaffinity(0)

    def __enter__(self) -> LocalMachine:
        self._stderr: deque[str] = deque(maxlen=20)
        try:
            # A session of its own: Ctrl-C reaches the controller alone, which ends the run in order.
            self._process = subprocess.Popen(
                [self.agent, "host", *_OF_NETWORK[self.network]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise MachineError(f"the agent {self.agent} cannot be started: {error}") from None
        assert self._process.stdout is not None
        # Where pipes must be smaller, it is as large as it is.
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._process.stdout, fcntl.F_SETPIPE_SZ, _PIPE)
        self._lines = _Lines(self._process.stdout)
        self._listener = threading.Thread(target=self._read_stderr, daemon=True)
        self._listener.start()
        try:
            self._send(plan.HelloStep())
            for record in self._until(Hello, _TEARDOWN_LIMIT_S):
                if isinstance(record, Hello):
                    self.hello = record
        except AgentError as error:
            self.close()
            raise MachineError(
                f"The agent {self.agent} does not work: {error.what}",
                error.do or "Is it of another version? Rebuild it: cargo build --release",
            ) from error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Raises:
        NotPutBackError: a setting of this host could not be put back.
        """
        self.close()
        try:
            self.loan.close()
        except NotPutBackError as left:
            if error is None:
                raise
            print(f"hypertare: {left}", file=sys.stderr)

    def make_bench(self, bench: plan.Bench, limit_s: float) -> list[Record]:
        """Makes a bench; the last record is its `BenchReady`, with an error if it could not be made.

        What it needs of this host's settings is seen to first.

        Raises:
            AgentError: the agent is gone or silent.
        """
        try:
            self.loan.provide(Needs.of(bench))
        except HypertareError as error:
            return [_not_to_be_had(bench, error)]
        if self.engine is not None:
            try:
                bench = self.engine.start(bench, limit_s)
            except HypertareError as error:
                self.engine.remove()
                return [_not_to_be_had(bench, error, plan.Container)]
        try:
            bench = self.given.start(bench, limit_s)
        except HypertareError as error:
            self.given.remove()
            return [_not_to_be_had(bench, error, plan.Given)]
        self._send(plan.BenchStep(bench=bench))
        return list(self._until(BenchReady, limit_s + _ANSWER_MARGIN_S))

    def stand_aside(self, cpus: Set[int]) -> None:
        """Leaves these CPUs alone as long as a bench stands, if there are others: what thinks between two
        trials is not to be in the way of what gets ready for the next one there.
        """
        os.sched_setaffinity(0, self._allowed - cpus or self._allowed)

    def processes(self) -> tuple[int, ...]:
        """Of its nodes, those that are not below this process."""
        return tuple(self.engine.pids.values()) if self.engine is not None else ()

    def run(self, trial: plan.Trial) -> list[Record]:
        """Executes a trial; the last record is its `TrialEnd`.

        Raises:
            AgentError: the agent is gone or silent.
        """
        self._send(plan.TrialStep(trial=trial))
        limit_s = sum(phase.limit_s for phase in trial.phases) + _ANSWER_MARGIN_S
        return list(self._until(TrialEnd, limit_s))

    def teardown(self) -> list[Record]:
        self.stand_aside(frozenset())
        self._send(plan.TeardownStep())
        try:
            return list(self._until(Teardown, _TEARDOWN_LIMIT_S))
        finally:
            self.given.remove()
            if self.engine is not None:
                self.engine.remove()

    def close(self) -> None:
        """Ends the agent in order, or by force after a few seconds. Never raises."""
        with contextlib.suppress(OSError):
            self.stand_aside(frozenset())
        try:
            self._end()
        finally:
            self.given.remove()
            if self.engine is not None:
                self.engine.close()

    def _end(self) -> None:
        process = self._process
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        for action in (None, signal.SIGTERM, signal.SIGKILL):
            if action is not None:
                process.send_signal(action)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_LIMIT_S)
                break
        if process.stdout is not None:
            process.stdout.close()
        # It ends with the last process that holds the pipe; one that is left may hold it for good.
        self._listener.join(_END_LIMIT_S)
        if process.stderr is not None and not self._listener.is_alive():
            process.stderr.close()

    def _send(self, step: plan.Step) -> None:
        line = step.model_dump_json(exclude_none=False).encode() + b"\n"
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            raise self._gone() from None

    def _until(self, last: type, limit_s: float) -> Iterator[Record]:
        """Records up to and with the first of this type."""
        deadline = time.monotonic() + limit_s
        while True:
            record = self._next(deadline)
            yield record
            if isinstance(record, last):
                return

    def _next(self, deadline: float) -> Record:
        try:
            line = self._lines.next(deadline)
        except TimeoutError:
            raise AgentError("the agent did not answer in time; the run was ended.") from None
        if line is None:
            raise self._gone()
        try:
            return parse(line)
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise AgentError(
                f"the agent sent something that is no record ({problem}): {line[:200]!r}",
                "Is the agent of another version? Rebuild it: cargo build --release",
            ) from None

    def _gone(self) -> HypertareError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        time.sleep(0.05)  # the thread that reads stderr may still hold its last line
        said = "\n".join(self._stderr) or f"exit status {self._process.returncode}"
        kind = MachineError if self._process.returncode == REFUSED else AgentError
        return kind(f"the agent ended: {said}")

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._stderr.append(line.decode(errors="replace").rstrip())


class _Lines:
    """Lines of a pipe, read by who waits for them: to be handed one by another thread would take longer
    than most of them take to come.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe.fileno()
        self._ready = select.poll()
        self._ready.register(self._pipe, select.POLLIN)
        self._whole: deque[bytes] = deque()
        self._part = b""

    def next(self, deadline: float) -> bytes | None:
        """The next one; `None` when no more will come.

        Raises:
            TimeoutError: none came in time.
        """
        while not self._whole:
            left_s = max(0.0, deadline - time.monotonic())
            if not self._ready.poll(1000 * left_s):
                raise TimeoutError
            read = os.read(self._pipe, _AT_ONCE)
            *whole, self._part = (self._part + read).split(b"\n")
            self._whole.extend(whole)
            if self._part and (not read or len(self._part) > MAX_LINE):
                # Without its end it is no record, and whoever parses it says so.
                self._whole.append(self._part)
                self._part = b""
            elif not read:
                return None
        return self._whole.popleft()
