"""Tables as data: columns, rows and titles. A renderer decides on their form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Column:
    """A column. One with `is_text` is aligned left and may be broken between words."""

    name: str
    is_text: bool = False


def text(name: str) -> Column:
    return Column(name, is_text=True)


def with_interval(value: str, interval: str) -> str:
    return f"{value} ({interval})" if interval else value


@dataclass(frozen=True)
class Row:
    """A row. `sure` states that its finding is certain; `note` adds to its figures."""

    cells: tuple[str, ...]
    sure: bool = True
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table. `note` explains the columns; `notes` is the heading of the rows' notes."""

    id: str
    name: str
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: str = "note"

    @property
    def wide(self) -> Table:
        """With the notes of rows, where there are any, as a last column."""
        if not any(row.note for row in self.rows):
            return self
        rows = tuple(Row((*row.cells, row.note), row.sure) for row in self.rows)
        return replace(self, columns=(*self.columns, text(self.notes)), rows=rows)

    def noted(self) -> Iterator[str]:
        """The notes with what they are about, for where they stand below."""
        for row in self.rows:
            if row.note:
                yield f"{', '.join(row.cells[:2])}: {row.note}"


@dataclass(frozen=True)
class TableSpec:
    """A table that every run may have, before it has rows."""

    id: str
    name: str
    note: str
    columns: tuple[Column, ...]
    notes: str = "note"

    def table(self, about: str, rows: Iterable[Row]) -> Table:
        """`about`: the workloads that it is of."""
        title = f"{self.name} of {about}"
        return Table(self.id, self.name, title, self.note, self.columns, tuple(rows), self.notes)
