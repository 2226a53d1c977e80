"""What CPU time several guests at once take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.report.tables.guests import Group, efficiency, index, setting, value, workloads
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text

FORM = TableSpec(
    "together-cpu",
    "CPU of guests at once",
    "CPU efficiency: native's CPU time over that of the whole machine, for the trial and for each byte; 1 "
    "costs nothing. Shares are of one CPU: of all guests, and of the driver domain that works for them.",
    (
        text("setting"),
        Column("guests"),
        Column("CPU efficiency"),
        Column("for each byte"),
        Column("Jain's index"),
        Column("guests"),
        Column("driver domain"),
    ),
)


def table(found: Sequence[Group]) -> Table:
    return FORM.table(workloads(found), rows(found))


def rows(found: Sequence[Group]) -> Iterator[Row]:
    for one in found:
        known = one.responses
        yield Row(
            (
                setting(one),
                str(one.guests),
                efficiency(known.get("machine_cpu")),
                efficiency(known.get("cpu_per_gigabyte")),
                index(known.get("jain_cpu")),
                value(known.get("outside_cpu_share")),
                value(known.get("driver_cpu_share")),
            )
        )
