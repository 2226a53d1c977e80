"""What a run shows while it works: the trial under way, how many are done, the time that is left."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from hypertare.base.units import human_duration

if TYPE_CHECKING:
    from rich.progress import Progress

    from hypertare.design.design import WholePlot
    from hypertare.design.trials import FinishedTrial, PlannedTrial
    from hypertare.findings.progress import CostSoFar, SoFar
    from hypertare.study.study import Study

_PLAIN_EVERY = 25
"""Trials from one line to the next, where there is no terminal for a bar."""


class Watch:
    """Observer of a campaign: a bar on a terminal, a line now and then elsewhere. All on stderr."""

    def __init__(self, study: Study) -> None:
        self._headline = {name: one.headline for name, one in study.workloads.items()}
        self._bar = _bar() if sys.stderr.isatty() else None
        self._began = time.monotonic()
        self._done = 0
        self._so_far: SoFar | None = None
        self._found: CostSoFar | None = None
        self._warned: set[str] = set()

    def __enter__(self) -> Watch:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def notify(self, text: str) -> None:
        if self._bar is None:
            _line(text)
        self._show(text)

    def bench(self, boot: int, plot: WholePlot) -> None:
        guests = sum(variant.kind.uses_accelerator for variant in plot.variants)
        what = f"starting {guests} guest{'s' * (guests != 1)}" if guests else "making the bench"
        levels = ", ".join(f"{name} = {level}" for name, level in plot.levels.items())
        self._show(f"{what} {levels}".strip())

    def boots(self, done: int, of: int, at_once: int, remaining_s: float) -> None:
        """Shows how many of the requested boots of emulated machines have ended."""
        left = _at_most(remaining_s)
        self._show(f"{done} of {of} boots, {at_once} at a time")
        self._go_on(remaining_s, left=left)
        if self._bar is None and done == 0:
            _line(f"{of} boots, {at_once} at a time, {left}")

    def begin(self, planned: PlannedTrial) -> None:
        kind = {"warmup": " (warm-up)", "search": " (search)"}.get(planned.kind, "")
        self._show(f"{planned.workload} on {planned.platform}{kind}")

    def end(self, finished: FinishedTrial, remaining_s: float) -> None:
        self._done += 1
        self._look(finished)
        if self._bar is None and self._done % _PLAIN_EVERY:
            # Trials may follow each other within milliseconds, and nobody sees this one.
            return
        left = _at_most(remaining_s) if remaining_s > 0 else "ending"
        found = self._found_text()
        if self._bar is None:
            _line(", ".join(filter(None, (f"{self._done} trials", left, found))))
        self._go_on(remaining_s, left=left, done=f"{self._done}", found=found)

    def _show(self, text: str) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=text)

    def _go_on(self, remaining_s: float, **fields: Any) -> None:
        if self._bar is not None:
            elapsed_s = time.monotonic() - self._began
            total = max(elapsed_s + remaining_s, 1e-9)
            self._bar.update(self._bar.task_ids[0], completed=elapsed_s, total=total, **fields)

    def _look(self, finished: FinishedTrial) -> None:
        """Updates the cost found so far. The stop rule has already loaded the libraries that this needs."""
        from hypertare.findings.progress import SoFar
        from hypertare.study import BASELINE

        self._so_far = self._so_far or SoFar(BASELINE, self._headline)
        self._found = self._so_far.add(finished) or self._found

    def _found_text(self) -> str:
        from hypertare.report.verdict import change_text

        found = self._found
        if found is None:
            return ""
        ends = (100 * found.low, 100 * found.high)
        change, interval = change_text(100 * found.change, ends, "%")
        return f"{found.platform} {change} ({interval}) so far"

    def warn(self, text: str) -> None:
        if text in self._warned:
            return
        self._warned.add(text)
        if self._bar is None:
            _line(f"warning: {text}")
        else:
            from rich.markup import escape

            self._bar.console.print(f"[yellow]warning:[/] {escape(text)}", highlight=False)


def _bar() -> Progress:
    """The progress bar on a terminal. Its library takes as long to load as a bench takes to make."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        TextColumn("{task.fields[done]} trials"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[found]}"),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=2,  # the controller shares the CPUs that are measured
    )
    bar.add_task("setting up", total=1.0, done="0", left="", found="")
    return bar


def _line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _at_most(remaining_s: float) -> str:
    return f"at most {human_duration(remaining_s)} left"
