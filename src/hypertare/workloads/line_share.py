"""What a stream gets of what its line carries at most. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from hypertare.base.response import Response

THEORETICAL, SHARE = "theoretical_goodput", "line_share"


OF_LINE = (
    Response(THEORETICAL, "b/s", "higher", "payload that the line carries at most"),
    Response(SHARE, "share", "higher", "goodput over what the line carries at most"),
)


def of_trial(most: float | None, values: Mapping[str, float]) -> dict[str, float]:
    """The responses that a trial has by its line, of which `most` is the theoretical goodput."""
    if most is None or "goodput" not in values:
        return {}
    return {THEORETICAL: most, SHARE: values["goodput"] / most}
