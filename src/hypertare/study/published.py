"""What others have published, to be set beside what a run finds.

A file of theirs is a CSV table with the columns `workload` and `platform` in a study's words, `value`,
and any others: a column named like a factor (`sut.paging`) holds its levels, what is left says what the
figure was measured on. Lines that begin with # are for people. Figures become ratios to the baseline's
row, which agrees in every column that it fills: seconds of another machine say nothing by themselves.

In a study file:

    [[published]]
    source = "Name, Title, year"
    file = "paging/published.csv"
    response = "elapsed"
    unit = "s"
"""

from __future__ import annotations

import csv
import math
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hypertare.base.closed import Closed, Settings
from hypertare.base.errors import InputError
from hypertare.base.figures import did_you_mean
from hypertare.base.variables import Level

_FIXED = ("workload", "platform", "value")
_MOST_BYTES = 1 << 20


class PublishedFile(Settings):
    """What others found, in a table beside the study."""

    source: str
    """Who published it, what, and when."""
    file: Path
    """A CSV table, relative to the study: `workload`, `platform` (the study's words), `value`; a column
    named like a factor (`sut.paging`) holds its levels, any other what was measured on. `#`: a comment.
    """
    response: str
    """The response of this study, beside which the values are set."""
    unit: str
    """The unit of the values."""
    where: dict[str, str] = {}
    """Only rows with these cells count: `{ cpu = "phenom2" }`."""
    levels: dict[str, Level] = {}
    """Levels of this study that apply to all rows."""


class Point(Closed):
    """A published figure with the one of the baseline that it is compared with."""

    source: str
    on: dict[str, str]
    response: str
    unit: str
    workload: str
    platform: str
    levels: dict[str, Level]
    value: float
    baseline_value: float


Row = dict[str, str]


def read(
    wanted: PublishedFile, folder: Path, baseline: str, workloads: Sequence[str]
) -> list[Point]:
    """The figures of a file, without those of the baseline itself and of workloads that a study has not.

    Raises:
        InputError: it cannot be read, or something in it is wrong.
    """
    path = folder / wanted.file
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path}: published figures are to be a file, and this is none.")
        if status.st_size > _MOST_BYTES:
            raise InputError(f"{path}: published figures take more than a mebibyte.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: published figures cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: published figures are not UTF-8 text.") from None
    return list(points(text, str(path), wanted, baseline, workloads))


def points(
    text: str, name: str, wanted: PublishedFile, baseline: str, workloads: Sequence[str]
) -> Iterator[Point]:
    """The figures in the text of a file.

    Raises:
        InputError: something in it is wrong.
    """
    rows = list(_rows(text, name, wanted.where))
    for row in rows:
        if row["platform"] == baseline or row["workload"] not in workloads:
            continue
        filled = [column for column in row if column not in ("platform", "value")]
        of_baseline = [
            one
            for one in rows
            if one["platform"] == baseline
            and all(one[column] in ("", row[column]) for column in filled)
        ]
        if len(of_baseline) != 1:
            many = "several rows" if of_baseline else "no row"
            raise InputError(
                f"{name}: {many} of '{baseline}' can be the baseline of {_shown(row)}.",
                "It must agree with it in every column that it fills, but value.",
            )
        extra = {column: cell for column, cell in row.items() if column not in _FIXED and cell}
        yield Point(
            source=wanted.source,
            on={column: cell for column, cell in extra.items() if "." not in column},
            response=wanted.response,
            unit=wanted.unit,
            workload=row["workload"],
            platform=row["platform"],
            levels={
                **{column: _level(cell) for column, cell in extra.items() if "." in column},
                **wanted.levels,
            },
            value=_value(row, name),
            baseline_value=_value(of_baseline[0], name),
        )


def _rows(text: str, name: str, where: Mapping[str, str]) -> Iterator[Row]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    table = csv.DictReader(lines, strict=True)
    columns = table.fieldnames or []
    for column in (*_FIXED, *where):
        if column not in columns:
            hint = did_you_mean(column, columns)
            raise InputError(f"{name}: there is no column '{column}'.{hint}")
    try:
        for number, row in enumerate(table, start=1):
            if None in row or None in row.values():
                raise InputError(f"{name}: row {number} has not {len(columns)} cells.")
            if all(row[column] == cell for column, cell in where.items()):
                yield row
    except csv.Error as error:
        raise InputError(f"{name}: this is no CSV table: {error}.") from None


def _value(row: Row, name: str) -> float:
    try:
        value = float(row["value"])
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name}: '{row['value']}' in {_shown(row)} is no number above zero.")
    return value


def _level(cell: str) -> Level:
    return int(cell) if cell.isdecimal() else cell


def _shown(row: Row) -> str:
    return ", ".join(cell for column, cell in row.items() if cell and column != "value")
