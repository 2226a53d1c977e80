"""The pipe to a host agent: steps with plans go in, and records come out.

The agent is a child process, or a process on another host that a child process (ssh) reaches.

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
import threading
import time
from collections import deque
from collections.abc import Sequence, Set
from pathlib import Path
from typing import IO, Self

from pydantic import ValidationError

from hypertare.base.errors import HypertareError, MachineError
from hypertare.protocol import plan
from hypertare.protocol.constants import MAX_LINE, REFUSED
from hypertare.protocol.phase import parse
from hypertare.protocol.records import BenchReady, Hello, Record, Teardown, TrialEnd

_ANSWER_MARGIN_S = 60.0
"""Beyond a trial's own limit: within this the agent waits for a node that does not answer an order (30 s,
its `ORDER_LIMIT`), kills, collects and puts knobs back. An agent that has ended is seen at once.
"""
_TEARDOWN_LIMIT_S = 15.0
_END_LIMIT_S = 4.0
_AT_ONCE = 1 << 16
_PIPE = 1 << 20
"""Room for output while nobody waits for it: what the agent says at its end is read by no one."""
_MOST_ANSWERED = 1 << 28
"""Bytes of records that answer a step: an agent elsewhere is not trusted to end."""
_LONGEST_MESSAGE = 4096


class AgentError(HypertareError):
    """The host agent ended, or did not answer."""


class HostAgent:
    """Lets a host agent make benches and execute trials. Use as a context manager.

    Errors call the agent `described`; an error at its start uses `named`, which has its path. `proc` is the
    directory in which the other programs of its host are seen, None for another host.
    """

    proc: Path | None = None

    def __init__(self, argv: Sequence[str | Path], described: str, named: str) -> None:
        self._argv = argv
        self.described = described
        self.named = named
        self._sending = threading.Lock()

    def __enter__(self) -> Self:
        self._stderr: deque[str] = deque(maxlen=20)
        try:
            # A session of its own: Ctrl-C reaches the controller alone, which ends the run in order.
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise MachineError(f"{self.named} cannot be started: {error}") from None
        assert self._process.stdout is not None
        # Where pipes must be smaller, it is as large as it is.
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._process.stdout, fcntl.F_SETPIPE_SZ, _PIPE)
        self._lines = _Lines(self._process.stdout)
        self._listener = threading.Thread(target=self._read_stderr, daemon=True)
        self._listener.start()
        try:
            self._begin()
        except AgentError as error:
            self.close()
            raise MachineError(
                f"{self.named[0].upper()}{self.named[1:]} does not work: {error.what}",
                error.do or "Is it of another version? Rebuild it: cargo build --release",
            ) from error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def _begin(self) -> None:
        self._send(plan.HelloStep())
        self._until(Hello, _TEARDOWN_LIMIT_S)

    def _skip(self, last: bytes, limit_s: float, most: int) -> None:
        """Passes over lines before the agent's own, up to the one that comes just before them.

        Raises:
            AgentError: it does not come.
        """
        deadline = time.monotonic() + limit_s
        for _ in range(most):
            if self._line(deadline) == last:
                return
        raise AgentError(f"{self.described} was not started: {most} other lines came.")

    def make_bench(self, bench: plan.Bench, limit_s: float) -> list[Record]:
        """Makes a bench; the last record is its `BenchReady`, with an error if it could not be made.

        Raises:
            AgentError: the agent is gone or silent.
        """
        self._send(plan.BenchStep(bench=bench))
        return self._until(BenchReady, limit_s + _ANSWER_MARGIN_S)

    def stand_aside(self, cpus: Set[int]) -> None:
        """Leaves these CPUs of the machine alone, where this process uses any of them."""

    def processes(self) -> tuple[int, ...]:
        """Of its nodes, those that are not below this process."""
        return ()

    def run(self, trial: plan.Trial) -> list[Record]:
        """Executes a trial; the last record is its `TrialEnd`.

        Raises:
            AgentError: the agent is gone or silent.
        """
        self._send(plan.TrialStep(trial=trial))
        limit_s = sum(phase.limit_s for phase in trial.phases) + _ANSWER_MARGIN_S
        return self._until(TrialEnd, limit_s)

    def teardown(self) -> list[Record]:
        self._send(plan.TeardownStep())
        return self._until(Teardown, _TEARDOWN_LIMIT_S)

    def close(self) -> None:
        """Ends the agent in order, or by force after a few seconds. Never raises."""
        process = self._process
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        end_process(process, _END_LIMIT_S)
        if process.stdout is not None:
            process.stdout.close()
        # It ends with the last process that holds the pipe; one that is left may hold it for good.
        self._listener.join(_END_LIMIT_S)
        if process.stderr is not None and not self._listener.is_alive():
            process.stderr.close()

    def _send(self, step: plan.Step) -> None:
        try:
            self._write(step.model_dump_json(exclude_none=False).encode() + b"\n")
        except OSError:
            raise self._gone() from None

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with self._sending:
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _until(self, last: type, limit_s: float) -> list[Record]:
        """Records up to and with the first of this type."""
        deadline = time.monotonic() + limit_s
        answered, records = 0, list[Record]()
        while not (records and isinstance(records[-1], last)):
            line = self._line(deadline)
            answered += len(line)
            if answered > _MOST_ANSWERED:
                raise AgentError(
                    f"{self.described} answered one step with more than {_MOST_ANSWERED} bytes."
                )
            try:
                records.append(parse(line))
            except ValidationError as error:
                problem = error.errors()[0]["msg"]
                raise AgentError(
                    f"{self.described} sent something that is no record ({problem}): {line[:200]!r}",
                    "Is the agent of another version? Rebuild it: cargo build --release",
                ) from None
        return records

    def _line(self, deadline: float) -> bytes:
        try:
            line = self._lines.next(deadline)
        except TimeoutError:
            raise AgentError(
                f"{self.described} did not answer in time; the run was ended."
            ) from None
        if line is None:
            raise self._gone()
        return line

    def _gone(self) -> HypertareError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        time.sleep(0.05)  # the thread that reads stderr may still hold its last line
        said = "\n".join(self._stderr) or f"exit status {self._process.returncode}"
        kind = MachineError if self._process.returncode == REFUSED else AgentError
        return kind(f"{self.described} ended: {said}")

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        while line := self._process.stderr.readline(_LONGEST_MESSAGE):
            text = line.decode(errors="replace").rstrip()
            self._stderr.append("".join(one if one.isprintable() else "?" for one in text))


def end_process(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Waits for the end of a process whose input has ended, and at last makes it end."""
    for action in (None, signal.SIGTERM, signal.SIGKILL):
        if action is not None:
            process.send_signal(action)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
            return


class _Lines:
    """The lines of a pipe. The waiting thread reads them itself: passing a line on from another thread
    would take longer than most lines take to come.
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
