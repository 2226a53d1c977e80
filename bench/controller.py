"""What the controller takes beside a trial, how quickly it answers, how small the agent is, and the
least memory of a guest in which `stream` works.

- CPU: a study of TCP streams, natively and in a container, is carried out as `hypertare run` does,
  on a terminal, so that the progress bar is drawn. Counted are user and system time of the whole
  controller process from each trial's begin until it is written down, over the same elapsed time.
- Help: from starting `hypertare --help` to its end, with byte code compiled as `tools/setup` does.
- Memory: by bisection, with TCP in both directions at once between the guest and its peer; enough is
  where every trial succeeds.
"""

from __future__ import annotations

import os
import pty
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import common
from common import NotMeasured, Row

from hypertare.base.errors import HypertareError
from hypertare.cli.progress import Watch
from hypertare.design.design import WholePlot
from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.engine.prepare import prepare
from hypertare.engine.runners.runner import resources
from hypertare.engine.session import carry_out as carry_out_study
from hypertare.study import StudyFile

CPU_TARGET_PERCENT = 2.0
HELP_TARGET_S = 0.3
AGENT_TARGET_MB = 6.0
MEMORY_TARGET_MB = 160
STEP_MB = 8


def main(argv: Sequence[str]) -> list[Row]:
    chosen = common.options(__doc__, argv)
    if chosen.inside:
        print(f"share {cpu_share_percent(3 if chosen.quick else 6)}", flush=True)
        return []
    share = on_terminal(["--inside", *argv])
    memory = least_memory_mb(80, MEMORY_TARGET_MB)
    return [
        common.at_most("controller: share of a CPU in trials", "%", share, CPU_TARGET_PERCENT),
        common.at_most("hypertare --help", "s", help_s(), HELP_TARGET_S),
        common.at_most("agent binary", "MB", agent_mb(), AGENT_TARGET_MB),
        common.at_most("least guest memory for stream", "MB", memory, MEMORY_TARGET_MB),
    ]


# --- CPU


class Meter(Watch):
    """Watches a run as on the command line, and counts what that takes."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu_s = self.elapsed_s = 0.0

    def begin(self, planned: PlannedTrial) -> None:
        self._cpu, self._clock = time.process_time(), time.monotonic()
        super().begin(planned)

    def end(self, finished: FinishedTrial, remaining_s: float) -> None:
        super().end(finished, remaining_s)
        self.cpu_s += time.process_time() - self._cpu
        self.elapsed_s += time.monotonic() - self._clock


def cpu_share_percent(blocks: int) -> float:
    with Meter() as meter:
        carry_out(study(["native", "container"], blocks, "both", "4s"), meter)
    return 100 * meter.cpu_s / meter.elapsed_s


def on_terminal(argv: Sequence[str]) -> float:
    """Runs this file again on a terminal of its own; returns the share that it found."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, __file__, *argv])
    seen = b""
    # A terminal whose other side has ended fails to read.
    try:
        while piece := os.read(terminal, 1 << 16):
            seen += piece
    except OSError:
        pass
    os.close(terminal)
    status = os.waitpid(child, 0)[1]
    for line in reversed(seen.decode(errors="replace").splitlines()):
        word, _, figure = line.rpartition(" ")
        if word.endswith("share") and status == 0:
            return float(figure)
    raise NotMeasured(f"the study was not carried out: {seen[-300:].decode(errors='replace')}")


# --- memory


class Unwatched:
    """Nobody looks on."""

    def bench(self, boot: int, plot: WholePlot) -> None: ...
    def begin(self, planned: PlannedTrial) -> None: ...
    def end(self, finished: FinishedTrial, remaining_s: float) -> None: ...
    def warn(self, text: str) -> None: ...


def least_memory_mb(low: int, high: int) -> int:
    """Bisects between what is taken to be too little and what has to be enough.

    Raises:
        NotMeasured: the most is not enough either.
    """
    if not works(high):
        raise NotMeasured(f"stream does not work in a guest with {high} MB")
    while high - low > STEP_MB:
        middle = (low + high) // 2 // STEP_MB * STEP_MB
        if works(middle):
            high = middle
        else:
            low = middle
    return high


def works(memory_mb: int) -> bool:
    sut = {"memory": f"{memory_mb}M", "boot_limit": "15s", "accelerator": "tcg"}
    file = study(["native", "guest"], 2, "both", "500ms", sut)
    return not carry_out(file, Unwatched())


# --- both


def study(
    platforms: list[str],
    blocks: int,
    direction: str,
    duration: str,
    sut: dict[str, Any] | None = None,
) -> StudyFile:
    raw = {
        "name": "bench",
        "question": "What does the controller take?",
        "sut": {"platforms": platforms, **(sut or {})},
        "workloads": {"tcp": {"type": "stream", "direction": direction, "duration": duration}},
        "design": {"warmup": 0, "min_trials": blocks, "max_trials": blocks, "time_limit": "5m"},
    }
    return StudyFile.of(raw, "bench")


def carry_out(file: StudyFile, watch: Watch | Unwatched) -> tuple[str, ...]:
    """Carries a study out; returns why trials failed."""
    from hypertare.findings.summarise import read

    prepared = prepare(file, seed=1)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "run"
        try:
            on = resources(prepared, lambda _: None)
            carry_out_study(prepared, on, folder, watch)
        except HypertareError as error:
            raise NotMeasured(f"{error.what} {error.do or ''}") from error
        return tuple(trial.reason for trial in read(folder).summary.failed)


# --- start and size


def help_s() -> float:
    """The median of ten."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    argv = [str(Path(sys.executable).with_name("hypertare")), "--help"]
    seconds = []
    for _ in range(11):
        began = time.monotonic()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=environment)
        seconds.append(time.monotonic() - began)
    # The first may find the files not yet in memory.
    return statistics.median(seconds[1:])


def agent_mb() -> float:
    return common.agent().stat().st_size / 1e6


if __name__ == "__main__":
    common.run_alone(main)
