"""When enough trials were taken."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import Enum

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hypertare.stats import boots as booting
from hypertare.stats.interval import Values

CONFIRMING = 3
"""Further blocks that a first precise look has to be confirmed by."""

AT_ONCE = 0.5
"""Share of the precision below which an interval needs no confirming."""


class Decision(Enum):
    CONTINUE = "continue"
    PRECISE = "precise"
    LIMIT = "limit"


def decide(
    log_ratios: Values,
    *,
    precision: float,
    min_trials: int,
    max_trials: int,
    boots: Sequence[Hashable] | None = None,
    min_boots: int = 1,
    confidence: float = 0.95,
) -> Decision:
    """Whether to take another block, from the log ratios of the blocks so far, in order.

    `precision` is the half-width of the interval on the cost that suffices, as a share (0.02) of
    the larger of the two sides: of the baseline where the ratio is below 1, of the system under
    test above, so that a guest ten times slower is weighed as finely as one a tenth slower.

    Looking after every block and stopping at the first narrow interval picks the runs whose spread
    came out small by luck: of such 95 % intervals, 92 % hold the truth (90 % from three trials on).
    So a first narrow interval is confirmed by three further blocks and must still be narrow, unless
    it is narrower than half the precision. Then 93 to 97 % hold it, from five trials on
    (`docs/method.md`), for two to four blocks more than the naive rule.

    Sources: Chow & Robbins (1965), On the asymptotic theory of fixed-width sequential confidence
    intervals, Ann. Math. Statist. 36, 457-462 (the rule, right in the limit); Nádas (1969), ibid.
    40, 667-671 (relative precision); Simons (1968), ibid. 39, 1946-1952 (finitely many further
    observations make good what stopping takes).

    `boots`, one for each ratio, lets boots that differ widen the interval
    (`hypertare.stats.boots`); nothing ends before `min_boots` of them were seen. Boots are few
    values to stop by. If they differ, then with three boots at least 89 to 97 % hold the truth for
    four blocks a boot, 91 to 96 % for two; from the first boot on, 82 to 96 % for four.

    Raises:
        ValueError: not one boot a ratio.
    """
    ratios = np.asarray(log_ratios, dtype=np.float64)
    if boots is not None and len(boots) != len(ratios):
        raise ValueError(f"{len(ratios)} ratios of {len(boots)} boots")
    if not len(ratios):
        return Decision.CONTINUE if max_trials > 0 else Decision.LIMIT
    if boots is None:
        widths = half_widths(ratios, confidence)
    else:
        widths = booted_half_widths(ratios, boots, confidence, min_boots)
    if ends(widths, precision, min_trials)[-1]:
        return Decision.PRECISE
    if len(ratios) < max_trials:
        return Decision.CONTINUE
    return Decision.PRECISE if widths[-1] <= precision else Decision.LIMIT


def half_widths(log_ratios: NDArray[np.float64], confidence: float = 0.95) -> NDArray[np.float64]:
    """Half-widths of the cost's interval after 1, 2, ... blocks, along the last axis.

    As a share of the larger side; infinite after one block.
    """
    counts = np.arange(1, log_ratios.shape[-1] + 1)
    # Shifted by the first, or the running squares would cancel where the spread is small.
    shifted = log_ratios - log_ratios[..., :1]
    means = shifted.cumsum(axis=-1) / counts
    squares = (shifted**2).cumsum(axis=-1) - counts * means**2
    freedom = np.maximum(counts - 1, 1)
    errors = np.sqrt(np.maximum(squares, 0) / freedom / counts)
    half = special.stdtrit(freedom, (1 + confidence) / 2) * errors
    half[..., 0] = np.inf
    return _on_cost(means + log_ratios[..., :1], half)


def ends(widths: NDArray[np.float64], precision: float, min_trials: int) -> NDArray[np.bool_]:
    """Where the rule would end, along the last axis, given the half-widths so far."""
    counts = np.arange(1, widths.shape[-1] + 1)
    narrow = (widths <= precision) & (counts >= min_trials)
    first = np.where(narrow.any(axis=-1), narrow.argmax(axis=-1), widths.shape[-1])
    confirmed = counts - 1 - first[..., None] >= CONFIRMING
    return narrow & (confirmed | (widths <= AT_ONCE * precision))


def booted_half_widths(
    log_ratios: NDArray[np.float64],
    boots: Sequence[Hashable],
    confidence: float = 0.95,
    min_boots: int = 1,
) -> NDArray[np.float64]:
    """As `half_widths`, for one series and by boots; infinite until `min_boots` were seen."""
    means = np.zeros(len(log_ratios))
    half = np.full(len(log_ratios), np.inf)
    for count in range(2, len(log_ratios) + 1):
        if len(set(boots[:count])) >= min_boots:
            seen = booting.mean(log_ratios[:count], boots[:count], confidence).interval
            means[count - 1] = seen.estimate
            half[count - 1] = 0.0 if seen.high is None else seen.high - seen.estimate
    return _on_cost(means, half)


def _on_cost(means: NDArray[np.float64], half: NDArray[np.float64]) -> NDArray[np.float64]:
    # The ratio is e^mean, its interval's half-width ratio * sinh(half); sinh overflows above 710.
    return np.sinh(np.minimum(half, 700.0)) * np.exp(np.minimum(means, 0.0))
