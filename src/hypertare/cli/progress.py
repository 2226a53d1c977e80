"""What a run shows while it works: the trial under way, how many are done, the time that is left."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from hypertare.base.units import human_duration

if TYPE_CHECKING:
    from hypertare.design.design import Plot
    from hypertare.design.trials import FinishedTrial, PlannedTrial
    from hypertare.findings.so_far import Change, SoFar

_PLAIN_EVERY = 25
"""Trials from one line to the next, where there is no terminal for a bar."""


class Watch:
    """Observer of a campaign: a bar on a terminal, a line now and then elsewhere. All on stderr."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._console = Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[done]} trials"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[found]}"),
            console=self._console,
            transient=True,
            disable=not sys.stderr.isatty(),
            refresh_per_second=2,  # the controller shares the CPUs that are measured
        )
        self._task = self._bar.add_task("setting up", total=1.0, done=0, left="", found="")
        self._done = 0
        self._so_far: SoFar | None = None
        self._found: Change | None = None
        self._warned: set[str] = set()

    def __enter__(self) -> Watch:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def tell(self, text: str) -> None:
        self._bar.update(self._task, description=text)
        self._plain(text)

    def bench(self, boot: int, plot: Plot) -> None:
        guests = sum(variant.kind.uses_accelerator for variant in plot.variants)
        what = f"starting {guests} guest{'s' * (guests != 1)}" if guests else "making the bench"
        levels = ", ".join(f"{name} = {level}" for name, level in plot.levels.items())
        self._bar.update(self._task, description=f"{what} {levels}".strip())

    def boots(self, done: int, of: int, at_once: int, remaining_s: float) -> None:
        """Of emulated machines: how many of those that are asked for have ended."""
        left = f"at most {human_duration(remaining_s)} left"
        text = f"{done} of {of} boots, {at_once} at a time"
        elapsed = self._bar.tasks[0].elapsed or 0.0
        total = max(elapsed + remaining_s, 1e-9)
        self._bar.update(self._task, description=text, completed=elapsed, total=total, left=left)
        if done == 0:
            self._plain(f"{of} boots, {at_once} at a time, {left}")

    def begin(self, planned: PlannedTrial) -> None:
        if self._bar.disable:
            return
        kind = {"warmup": " (warm-up)", "search": " (search)"}.get(planned.kind, "")
        self._bar.update(self._task, description=f"{planned.workload} on {planned.platform}{kind}")

    def end(self, finished: FinishedTrial, remaining_s: float) -> None:
        self._done += 1
        self._look(finished)
        if self._bar.disable and self._done % _PLAIN_EVERY:
            # Trials may follow each other within milliseconds, and nobody sees this one.
            return
        left = f"at most {human_duration(remaining_s)} left" if remaining_s > 0 else "ending"
        found = self._found_text()
        elapsed = self._bar.tasks[0].elapsed or 0.0
        self._bar.update(
            self._task,
            total=max(elapsed + remaining_s, 1e-9),
            completed=elapsed,
            done=self._done,
            left=left,
            found=found,
        )
        if self._done % _PLAIN_EVERY == 0:
            self._plain(", ".join(filter(None, (f"{self._done} trials", left, found))))

    def _look(self, finished: FinishedTrial) -> None:
        """What is found so far. Libraries for it are there by now: the stop rule has loaded them."""
        from hypertare.findings.so_far import SoFar
        from hypertare.study import BASELINE

        self._so_far = self._so_far or SoFar(BASELINE)
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
        if text not in self._warned:
            self._warned.add(text)
            self._console.print(f"[yellow]warning:[/] {_escaped(text)}", highlight=False)

    def _plain(self, text: str) -> None:
        if self._bar.disable:
            self._console.print(text, highlight=False, markup=False)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
