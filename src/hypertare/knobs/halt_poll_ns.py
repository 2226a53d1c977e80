"""`knobs.halt_poll_ns`: how long KVM polls for a halted guest's wake-up, on the machine below it."""

from __future__ import annotations

import shlex
from typing import Annotated

from pydantic import Field

from hypertare.knobs.knob import KnobKind
from hypertare.platforms.commands import Entry, KnobChange, into, slug
from hypertare.protocol import plan

HaltPoll = Annotated[int, Field(ge=0, le=10_000_000)]
"""Up to 10 ms: who sleeps longer than a tick of the slowest kernel is not polled for."""

_PARAMETER = "/sys/module/kvm/parameters/halt_poll_ns"


def _typed(change: KnobChange) -> Entry:
    file = f"/etc/modprobe.d/{slug(change.path)}.conf"
    apply, undo = change.each(lambda value: f"echo {shlex.quote(value)} > {_PARAMETER}")
    keep = into(file, f"options kvm halt_poll_ns={change.new}")
    return Entry("host", (f"cat {_PARAMETER}",), (apply,), (keep,), (undo, f"rm -f {file}"))


HALT_POLL_NS = KnobKind[int](
    name="halt_poll_ns",
    place="below",
    commands={"": _typed},
    for_own_machines=True,
    for_agent=lambda level, _: [plan.HaltPollNs(nanoseconds=level)],
)
