"""What a line of a limited rate carries at most of a workload: its theoretical goodput. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypertare.stats import line_rate

if TYPE_CHECKING:
    from hypertare.study import Study


_LONGER_HEADER = line_rate.IP[6] - line_rate.IP[4]


def theoretical(study: Study, workload: str) -> float | None:
    """Payload in b/s of all guests together, all directions together; none without a line, and where
    datagrams do not fit into a packet.

    Args:
        study: with the levels of a cell in place.
        workload: of the study, by name.
    """
    settings, rate = study.workloads[workload], study.bench.line_rate
    if rate is None or settings.type != "stream":
        return None
    mtu = study.knobs.mtu or study.bench.mtu
    ip: line_rate.Version = 6 if study.bench.family == "ipv6" else 4
    try:
        if settings.protocol == "tcp":
            one_way, packet = line_rate.tcp(rate, mtu, ip=ip), mtu
        else:
            longer = _LONGER_HEADER if ip == 6 and settings.message is None else 0
            message = settings.message_bytes - longer
            one_way = line_rate.udp(rate, message, mtu, ip=ip)
            packet = message + line_rate.UDP + line_rate.IP[ip]
    except ValueError:
        return None
    if study.machine == "emulated":
        # Its NICs count frames: each takes the time of a full one.
        one_way *= line_rate.on_wire(packet) / line_rate.on_wire(study.bench.mtu)
    return one_way * (2 if settings.direction == "both" else 1)
