"""Comparisons in a terminal, a row each, with their intervals as bars where there is room for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from hypertare.report.forest import Forest, Row, bars
from hypertare.report.terminal_tables import below, plain
from hypertare.report.verdict import MARKS, Tone

_LEAST_NAME, _LEAST_BAR, _MOST_BAR = 20, 5, 30
_INDENT = 2


@dataclass(frozen=True)
class Forests:
    """Several forest plots below each other, with common columns."""

    forests: Sequence[Forest]
    styles: Mapping[Tone, str]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        rows = [row for forest in self.forests for row in forest.rows]
        mean = "mean" if any(row.value for row in rows) else ""
        head = ("", mean, "change", self.forests[0].interval)
        widths = [
            max(cell_len(part) for part in column)
            for column in zip(head, *map(_cells, rows), strict=True)
        ]
        figures = sum(width + 2 for width in widths[1:] if width)
        room = options.max_width - _INDENT - figures
        if room < min(widths[0], _LEAST_NAME):
            yield from self._paragraphs(head)
            return
        # A bar is left out before a name is broken.
        name = min(widths[0], room)
        bar = min(room - name - 2, _MOST_BAR)
        if bar < _LEAST_BAR:
            bar = 0
        columns = [name, *widths[1:], bar]
        yield _forest_line(("", *head[1:], ""), columns, "")
        for forest in self.forests:
            yield Text(plain(forest.title), style="italic")
            drawn = bars(forest, bar) if bar else [""] * len(forest.rows)
            for row, line in zip(forest.rows, drawn, strict=True):
                yield _forest_line((*_cells(row), line), columns, self.styles[row.tone])

    def _paragraphs(self, head: Sequence[str]) -> RenderResult:
        for forest in self.forests:
            yield Text(plain(forest.title), style="italic")
            for row in forest.rows:
                name, *cells = _cells(row)
                # Words in the place of an interval need no heading.
                headed = head if row.bar else (*head[:-1], "")
                yield from below(headed, [f"  {name}", *cells], self.styles[row.tone])


def _cells(row: Row) -> tuple[str, ...]:
    """The mark says without its colour what the row's verdict is."""
    change = f"{MARKS[row.tone]} {row.change}" if row.change else ""
    return (plain(row.name), plain(row.value), plain(change), plain(row.interval))


def _forest_line(cells: Sequence[str], widths: Sequence[int], style: str) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0), expand=False)
    shown = [place for place, width in enumerate(widths) if width]
    last = len(widths) - 1
    for place in shown:
        name = place == 0
        grid.add_column(
            width=widths[place] + (_INDENT if name else 0),
            overflow="fold",
            justify="left" if place in (0, last) else "right",
            no_wrap=not name,
        )
    texts = [f"{' ' * _INDENT}{cells[0]}" if cells[0] else "", *cells[1:]]
    grid.add_row(*(Text(texts[place], style if place > 1 else "") for place in shown))
    return grid
