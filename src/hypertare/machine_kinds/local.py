"""`local`: this host. Benches stand on it, one at a time, beside what else it does."""

from __future__ import annotations

from hypertare.machine_kinds.machine_kind import MachineKind

LOCAL = MachineKind(
    name="local",
    clocks=("wall",),
    usual_platforms=("native", "container", "guest"),
    is_this_host=True,
    is_sandboxed=True,
    has_work_directory=True,
    weighs_guests=True,
)
