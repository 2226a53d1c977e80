"""What CPU time several guests at once take."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.report import verdict
from hypertare.report.tables.guests import Group, efficiency, index, value, workloads_of
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text

_CPU = TableSpec(
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


def cpu_table(found: Sequence[Group]) -> Table:
    rows = (
        Row(
            (
                verdict.setting(one.platform, one.cell),
                str(one.guests),
                efficiency(one.responses.get("machine_cpu")),
                efficiency(one.responses.get("cpu_per_gigabyte")),
                index(one.responses.get("jain_cpu")),
                value(one.responses.get("outside_cpu_share")),
                value(one.responses.get("driver_cpu_share")),
            )
        )
        for one in found
    )
    return _CPU.table(workloads_of(found), rows)
