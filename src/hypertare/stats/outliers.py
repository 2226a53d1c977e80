"""Values far from the others: pointed out, never removed."""

from __future__ import annotations

import numpy as np

from hypertare.stats.interval import Values, finite

_FAR = 14.826
_LEAST_OF_OUTLIERS = 5


def outliers(values: Values) -> tuple[int, ...]:
    """Where the outliers stand, by the modified z-score 0.6745 (x - median) / MAD.

    The textbook's limit of 3.5 speaks up in 13 % of normal series of ten, and in nearly half of
    skewed ones; hyperfine's 14.826 (ten standard deviations, if it were normal) does in less than
    1 % from n = 7 on, and in 2 % of five. An advice that is mostly wrong is not read.

    Nothing is said of fewer than five values, nor where more than half are equal (the MAD is 0).

    Source: Iglewicz & Hoaglin (1993), How to Detect and Handle Outliers; the limit: hyperfine.
    """
    checked = finite(values)
    if len(checked) < _LEAST_OF_OUTLIERS:
        return ()
    away = np.abs(checked - np.median(checked))
    spread = float(np.median(away))
    if spread == 0:
        return ()
    return tuple(int(i) for i in np.flatnonzero(0.6745 * away / spread > _FAR))
