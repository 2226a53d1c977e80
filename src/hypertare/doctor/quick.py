"""What disturbs numbers on this host and is known within milliseconds."""

from __future__ import annotations

from hypertare.base.host_files import Host
from hypertare.doctor.checks import CHECKS, disturbances, examine


def warnings(host: Host | None = None) -> list[str]:
    """What disturbs numbers here and is known within milliseconds."""
    quick = tuple(check for check in CHECKS if check.quick and check.disturbs)
    return [finding.what for finding in disturbances(examine(host or Host(), quick))]
