"""Runs over time in a terminal: a line for each comparison, then where its level changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from hypertare.base import figures
from hypertare.base.figures import listing, place, word
from hypertare.findings.history import History, Point, Shift, Trend
from hypertare.report import verdict
from hypertare.report.terminal_tables import plain

_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 24


def show(history: History, console: Console | None = None) -> None:
    """Prints what the runs found, the newest at the right."""
    console = console or Console(highlight=False)
    console.print(Group(*_parts(history)))


def _parts(history: History) -> Iterator[RenderableType]:
    count = len(history.runs)
    yield Text(f"{plain(history.study)}: {plain(history.question)}", style="bold")
    started = [f"{point.started:%Y-%m-%d}" for one in history.trends for point in one.points]
    days = "with nothing to compare"
    if started:
        days = " to ".join(sorted({min(started), max(started)}))
    yield Text(f"{count} run{'s' * (count > 1)} of the same work, {days}")
    yield Text()
    yield _table(history.trends)
    shifts = [(trend, shift) for trend in history.trends for shift in trend.shifts]
    if shifts:
        yield Text()
    for trend, shift in shifts:
        yield Text(f"▲ {plain(sentence(trend, shift))}", style="yellow")
    yield Text()
    text = (
        "Each run is one value, so that what changes from day to day is in the interval, of the runs since "
        "the last change. Of runs that do not change, 5 % at most would show one."
    )
    if history.left_out:
        text += f" Left out, for other work or no result: {listing(history.left_out, 3)}."
    yield Text(text, style="dim")


def _table(trends: Sequence[Trend]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="italic", padding=(0, 2, 0, 0))
    table.add_column("")
    for name in ("runs", "now", "95 % interval", "run to run"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for trend in trends:
        now, interval = _level(trend, trend.mean, (trend.low, trend.high))
        between = "" if trend.between is None else f"±{figures.significant(100 * trend.between)} %"
        cells = (
            plain(f"{_what(trend)} of {place(trend.platform, trend.cell)}"),
            f"{len(trend.points):,}",
            now,
            interval,
            between,
            _bars(trend.points),
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table


def sentence(trend: Trend, shift: Shift) -> str:
    """For example: from weigh-20261101-120000 (2026-11-01) on cost of elapsed of guest: +12 % → +18 %"""
    before, _ = _level(trend, shift.before, (None, None))
    after, _ = _level(trend, shift.after, (None, None))
    text = (
        f"from {shift.run} ({shift.started:%Y-%m-%d}) on {_what(trend)} of "
        f"{place(trend.platform, trend.cell)}: {before} → {after}"
    )
    if shift.differs:
        return f"{text}; not as before: {listing(shift.differs, 3)}"
    return f"{text}; the setup that runs know of is as before"


def _what(trend: Trend) -> str:
    name = word(trend.response)
    return f"cost of {name}" if trend.of == "cost" else name


def _level(trend: Trend, value: float, ends: tuple[float | None, float | None]) -> tuple[str, str]:
    if trend.of == "cost":
        # A loss has a plus here, whichever way is better.
        bounds = [None if end is None else 100 * end for end in ends]
        return verdict.change_text(100 * value, bounds, "%")
    low, high = ends
    if low is None or high is None:
        return figures.quantity(value, trend.unit), ""
    return figures.quantity(value, trend.unit), " to ".join(
        figures.quantity(end, trend.unit) for end in (low, high)
    )


def _bars(points: Sequence[Point]) -> str:
    values = [point.value for point in points][-_MOST_BARS:]
    low, high = min(values), max(values)
    if low == high:
        return _BARS[3] * len(values)
    return "".join(
        _BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values
    )
