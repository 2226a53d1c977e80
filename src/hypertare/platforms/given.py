"""`given`: a machine that was there before, reached by ssh. hypertare starts its agent there, and nothing
else of it is changed, but settings where `[given.NAME]` allows that.
"""

from __future__ import annotations

from hypertare.platforms.platform import Platform
from hypertare.protocol import plan

GIVEN = Platform(
    name="given",
    is_made=False,
    has_own_kernel=True,
    own_settings=frozenset({"given"}),
    hypervisor_settings=frozenset({"given"}),
    sees_host_files=False,
    has_disk=False,
    settings_typed_at="guest",
    kernel_typed_at="guest",
    node=lambda inputs: plan.Given(
        reach=inputs.reach,
        cpus=inputs.cpus,
        settings=inputs.may_be_set,
        outside=inputs.outside,
    ),
)
