"""`container`: namespaces and a cgroup of the host's kernel."""

from __future__ import annotations

from hypertare.platforms.platform import NodeInputs, Platform
from hypertare.protocol import plan


class Container(Platform):
    name = "container"
    runs_images = True
    settings_typed_at = "container"
    kernel_typed_at = "host"

    def node(self, inputs: NodeInputs) -> plan.NodeKind:
        return plan.Container(memory=inputs.memory)


CONTAINER = Container()
