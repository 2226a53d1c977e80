"""Does a response drift over the run?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from hypertare.stats.interval import Values, constant, finite


@dataclass(frozen=True)
class Trend:
    """`p`: how likely so steady a rise or fall is where there is none. `change`: from the first to
    the last trial, as a share of the median (in the unit of the values where the median is 0).
    """

    p: float
    change: float


LEAST = 6
"""Fewer values cannot show a trend: five in order happen by chance in one run of sixty."""


def trend(values: Values) -> Trend | None:
    """The trend of values in the order of the run; `None` for fewer than six or for constant ones.

    Whether: Kendall's rank test against the order (exact for small n without ties). How much: the
    Theil-Sen slope, the median of all pairwise slopes. Both bear outliers.

    Sources: Mann (1945), Econometrica 13, 245-259; Sen (1968), JASA 63, 1379-1389.
    """
    checked = finite(values)
    if len(checked) < LEAST or constant(checked):
        return None
    order = np.arange(len(checked))
    p = float(stats.kendalltau(order, checked).pvalue)
    slope = float(stats.theilslopes(checked, order).slope)
    middle = float(np.median(checked))
    return Trend(p, slope * (len(checked) - 1) / (abs(middle) if middle else 1.0))
