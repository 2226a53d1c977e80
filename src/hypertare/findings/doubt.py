"""Why a mean decides nothing, whatever its interval says. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from hypertare.base.level import Level
from hypertare.base.words import listing, place
from hypertare.design.trials import FinishedTrial
from hypertare.workloads.sending import OFFERED
from hypertare.workloads.streams_at_once import RESPONSES as OF_STREAMS

if TYPE_CHECKING:
    from hypertare.findings.series import Series

LEAST_OVERLAP = 0.5
"""Least share of the longest stream's time in which all streams must run. Below it, a goodput of several
guests decides nothing.
"""

LEAST_OFFERED = 0.95
"""Least share of the requested rate that peers must send; the same as `stats.overload.FOLLOWS`."""

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


def not_offered(share: float) -> str | None:
    """Returns the doubt about a rate of which the peers sent only a share; None if that is near enough.

    The doubt concerns the figures of that rate: its goodput and loss are those of a lower rate. A
    comparison of two settings at the same rate is not in doubt, for a busy receiver may slow a sender on
    the same CPUs.
    """
    if share >= LEAST_OFFERED:
        return None
    sent = f"{100 * share:.0f} %"
    return f"its peer sent {sent} of the rate that it was asked for, so no receiver had this rate"


def offered_share(trials: Sequence[FinishedTrial]) -> float:
    """Returns the mean share of the requested rate that the peers sent; 1 if it was not measured."""
    return fmean([trial.values.get(OFFERED.name, 1.0) for trial in trials] or [1.0])


def rate_of(cell: Mapping[str, Level]) -> str:
    """The path of the rate that is offered in a cell."""
    return f"workloads.{cell.get('workload')}.rate"


def of_rates(every: Sequence[Series]) -> Iterator[str]:
    """A warning that names the settings whose rate was not offered."""
    short = [(one, share) for one in every if (share := offered_share(one.good)) < LEAST_OFFERED]
    if short:
        named = (f"{place(one.platform, one.cell)}, {100 * share:.0f} %" for one, share in short)
        yield (
            f"A peer sent less than the rate that it was asked for, in {len(short)} of {len(every)} "
            f"settings ({listing(named, 3)} of it): figures there are of the rate that was sent "
            "(offered_share), and say nothing of a receiver at more."
        )
