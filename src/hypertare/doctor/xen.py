"""Whether guests of Xen can be had."""

from __future__ import annotations

from hypertare.base.errors import HypertareError
from hypertare.base.host_files import Host
from hypertare.base.units import human_size
from hypertare.doctor.finding import Said
from hypertare.machines.host import xen as below

TESTED = "4.17"


def xen(host: Host) -> Said:
    """This host as the driver domain of Xen."""
    if not below.is_below(host):
        what = "this host does not run under Xen: guests of Xen are for the emulated machine"
        return Said("info", what)
    try:
        below.check_driver_domain(host)
        found = below.find(host)
    except HypertareError as error:
        return Said("info", error.what, error.do)
    what = (
        f"driver domain of Xen {found.described}, {human_size(found.free_memory)} free for guests"
    )
    if not found.free_memory:
        do = "boot Xen with dom0_mem=..., so that the driver domain does not have all memory"
        return Said("warn", what, do)
    if not found.version.startswith(f"{TESTED}."):
        do = f"Xen {TESTED} (Debian 12), or see whether a small study runs: docs/xen.md"
        return Said("warn", f"{what}; only Xen {TESTED} is tested", do)
    return Said("ok", what)
