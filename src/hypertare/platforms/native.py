"""`native`: the work runs on the host itself. It is what all others are compared with."""

from __future__ import annotations

from hypertare.platforms.platform import Platform
from hypertare.protocol import plan

NATIVE = Platform(
    name="native",
    is_baseline=True,
    is_host=True,
    is_seen_from_outside=False,
    runs_images=True,
    settings_typed_at="host",
    kernel_typed_at="host",
    node=lambda _: plan.Host(),
)
