"""What CPU time several guests at once take, as rows of a table; everywhere the same words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.report.searches import Row
from hypertare.report.together import Group, efficiency, index, setting, value, workloads

__all__ = ["HEAD", "ID", "NOTE", "TEXTS", "TITLE", "rows", "workloads"]

ID = "together-cpu"
TITLE = "CPU of guests at once"
NOTE = (
    "CPU efficiency: native's CPU time over that of the whole machine, for the trial and for each byte; 1 "
    "costs nothing. Shares are of one CPU: of all guests, and of the driver domain that works for them."
)
HEAD = (
    *(
        "setting",
        "guests",
        "CPU efficiency",
        "for each byte",
        "Jain's index",
        "guests",
        "driver domain",
    ),
    "note",
)
TEXTS = (0, len(HEAD) - 1)
"""Columns that hold text; the others hold numbers."""


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
                "",
            ),
            True,
        )
