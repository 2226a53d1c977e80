"""`conditions`: what this machine was like meanwhile: CPU time of others, pressure, clock speed."""

from __future__ import annotations

from dataclasses import dataclass

from hypertare.probes.probe import ProbeKind
from hypertare.protocol.records import ProbeValues


@dataclass(frozen=True)
class Seen:
    """What a trial's conditions were, over `watched_s` seconds; all of it in seconds.

    `waited_s`: some task, of this run or not, waited for a CPU; none where the kernel does not say.
    """

    watched_s: float
    others_s: float
    waited_s: float | None


class Conditions(ProbeKind):
    """It makes no response: what others did is no quantity of what is weighed."""

    name = "conditions"
    places = ("shared",)

    def seen(self, reading: ProbeValues) -> Seen | None:
        """None where it could not be read."""
        others = reading.values.get("others_s")
        if others is None or not reading.elapsed_s > 0:
            return None
        return Seen(reading.elapsed_s, others, reading.values.get("cpu_pressure_s"))


CONDITIONS = Conditions()
