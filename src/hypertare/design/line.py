"""What a line of a limited rate carries at most of a workload: its theoretical goodput. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypertare.workloads.workload import Line

if TYPE_CHECKING:
    from hypertare.study import Study


def theoretical(study: Study, workload: str) -> float | None:
    """Payload in b/s of all guests together, all directions together; none without a line, and where
    datagrams do not fit into a packet.

    Args:
        study: with the levels of a cell in place.
        workload: of the study, by name.
    """
    rate = study.bench.line_rate
    if rate is None:
        return None
    line = Line(
        rate_bps=rate,
        mtu=study.knobs.mtu or study.bench.mtu,
        ip=6 if study.bench.family == "ipv6" else 4,
        frame_mtu=study.bench.mtu if study.machine_kind.line_counts_frames else None,
    )
    return study.workloads[workload].carried_at_most(line)
