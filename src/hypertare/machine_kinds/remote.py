"""`remote`: a lab elsewhere, which ssh reaches. Benches stand on it as on this host, of which nothing is in
its figures.
"""

from __future__ import annotations

from hypertare.machine_kinds.machine_kind import MachineKind

REMOTE = MachineKind(
    name="remote",
    clocks=("wall",),
    usual_platforms=("native", "container", "guest"),
    is_sandboxed=True,
    has_work_directory=True,
    is_reached=True,
    weighs_guests=True,
)
