"""Why a mean decides nothing, whatever its interval says. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.design.trials import FinishedTrial
from hypertare.workloads.streams_at_once import RESPONSES as OF_STREAMS

LEAST_OVERLAP = 0.5
"""Of the longest stream's time: where all ran for less, a goodput of several guests decides nothing."""


_OF_GOODPUT = frozenset({"goodput", "line_share", *(one.name for one in OF_STREAMS)} - {"overlap"})


def doubt(response: str, trials: Sequence[FinishedTrial]) -> str | None:
    """Why a mean of these trials decides nothing, whatever its interval says; none where it may."""
    little = [trial for trial in trials if trial.values.get("overlap", 1.0) < LEAST_OVERLAP]
    if response not in _OF_GOODPUT or not little:
        return None
    return (
        f"in {len(little)} of {len(trials)} trials its streams ran all at once for less than "
        f"{100 * LEAST_OVERLAP:.0f} % of the longest one's time"
    )
