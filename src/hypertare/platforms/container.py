"""`container`: namespaces and a cgroup of the host's kernel."""

from __future__ import annotations

from hypertare.platforms.platform import Platform
from hypertare.protocol import plan

CONTAINER = Platform(
    name="container",
    runs_images=True,
    settings_typed_at="container",
    kernel_typed_at="host",
    node=lambda inputs: plan.Container(memory=inputs.memory),
)
