"""Tables in a terminal: each takes the width that there is, and no figure is ever cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from hypertare.report.tables.table import Row, Table

_LEAST_NAME = 16
_NOTHING = ("", "–")


def columns(rows: Sequence[Sequence[str]]) -> Callable[[Sequence[str], str], RenderableType]:
    """Lines whose columns are as wide as the widest of all rows, of which the first is the header. Where
    the figures leave no room for names, a line is a paragraph: no figure is ever cut off.
    """
    return partial(
        _Line, rows[0], [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    )


@dataclass(frozen=True)
class _Line:
    head: Sequence[str]
    widths: Sequence[int]
    cells: Sequence[str]
    style: str

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        first, *rest = self.widths
        left = options.max_width - sum(rest) - 2 * len(rest)
        if left < min(first, _LEAST_NAME):
            if self.cells != self.head:
                yield from below(self.head, self.cells, self.style)
            return
        grid = Grid.grid(padding=(0, 2, 0, 0), expand=False)
        grid.add_column(width=min(first, left), overflow="fold")
        for width in rest:
            grid.add_column(width=width, justify="right", no_wrap=True)
        coloured = len(self.cells) - 2
        texts = (
            Text(cell, self.style if place >= coloured else "")
            for place, cell in enumerate(self.cells)
        )
        grid.add_row(*texts)
        yield grid


def below(head: Sequence[str], cells: Sequence[str], style: str) -> Iterator[RenderableType]:
    """A row whose values stand below its name, each with its column's name."""
    name, *values = cells
    indent = len(name) - len(name.lstrip())
    pairs = zip(head[1:], values, strict=True)
    listed = ", ".join(
        f"{column} {value}".lstrip() for column, value in pairs if value not in _NOTHING
    )
    yield Padding(Text(name.strip(), style=style), (0, 0, 0, indent), expand=False)
    yield Padding(Text(listed, style=style), (0, 0, 0, indent + 2), expand=False)


@dataclass(frozen=True)
class Fitting:
    """A table where there is room for it, else a paragraph for each row. `unsure` is the style of rows
    that are not sure.
    """

    table: Table
    unsure: str = "yellow"

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths(options.max_width)
        if widths is not None:
            yield self._grid(widths)
            return
        head = [column.name for column in self.table.columns]
        for row in self.table.rows:
            yield from below(head, [plain(cell) for cell in row.cells], self._style(row))

    def _grid(self, widths: Sequence[int]) -> Grid:
        grid = Grid(box=None, pad_edge=False, header_style="italic", padding=(0, 2, 0, 0))
        for column, width in zip(self.table.columns, widths, strict=True):
            grid.add_column(
                column.name,
                justify="left" if column.is_text else "right",
                no_wrap=not column.is_text,
                width=width,
            )
        for row in self.table.rows:
            grid.add_row(*map(plain, row.cells), style=self._style(row))
        return grid

    def _style(self, row: Row) -> str:
        return "" if row.sure else self.unsure

    def _widths(self, room: int) -> list[int] | None:
        """Of the columns: text is folded between words, the widest first, figures are not. None where
        there is too little room.
        """
        cells = zip(*(row.cells for row in self.table.rows), strict=True)
        columns = [
            (column, (column.name, *found))
            for column, found in zip(self.table.columns, cells, strict=True)
        ]
        widths = [max(map(cell_len, texts)) for _, texts in columns]
        least = [
            max(cell_len(part) for text in texts for part in text.split() or [""])
            if column.is_text
            else width
            for (column, texts), width in zip(columns, widths, strict=True)
        ]
        least[0] = max(least[0], _LEAST_NAME)
        widths[0] = max(widths[0], least[0])
        excess = sum(widths) + 2 * (len(widths) - 1) - room
        while excess > 0:
            foldable = [place for place, width in enumerate(widths) if width > least[place]]
            if not foldable:
                return None
            widths[max(foldable, key=widths.__getitem__)] -= 1
            excess -= 1
        return widths


def plain(text: str) -> str:
    """Without control characters: a guest's line must not move the reader's cursor."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.splitlines()))
