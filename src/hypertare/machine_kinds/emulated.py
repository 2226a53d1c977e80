"""`emulated`: a whole PC in QEMU, booted anew for each bench. It holds nothing of this host's."""

from __future__ import annotations

from hypertare.machine_kinds.machine_kind import MachineKind

EMULATED = MachineKind(
    name="emulated",
    clocks=("virtual", "wall"),
    usual_platforms=("native",),
    own_tables=("emulated",),
    boots_whole_pcs=True,
    is_virtual=True,
    is_slowed_by_host=True,
    draws_chance=True,
    guests_have_kvm=True,
    line_counts_frames=True,
    line_nic="virtio-net",
)
