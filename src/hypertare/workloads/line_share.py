"""What a stream gets of what its line carries at most. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from hypertare.base.figures import quantity
from hypertare.base.response import Response

THEORETICAL, SHARE = "theoretical_goodput", "line_share"


OF_LINE = (
    Response(THEORETICAL, "b/s", "higher", "payload that the line carries at most"),
    Response(SHARE, "share", "higher", "goodput over what the line carries at most"),
)


_IMPOSSIBLE = 2.0
"""Of what a line carries. Whatever waited before a trial and came in it is less than that."""


def of_trial(most: float | None, values: Mapping[str, float]) -> dict[str, float]:
    """The responses that a trial has by its line, of which `most` is the theoretical goodput in b/s.

    Raises:
        ValueError: the goodput is more than a line can have carried: it was not in force.
    """
    if most is None or "goodput" not in values:
        return {}
    share = values["goodput"] / most
    if share > _IMPOSSIBLE:
        found, carried = (quantity(rate, "b/s") for rate in (values["goodput"], most))
        raise ValueError(f"a goodput of {found} on a line that carries {carried}")
    return {THEORETICAL: most, SHARE: share}
