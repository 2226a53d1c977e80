"""Quantiles and tails of Student's t and of F.

They are scipy's, which takes a quarter of a second to load: nothing before a run's first trial is to
pay for it.
"""

from __future__ import annotations


def t_quantile(freedom: float, share: float) -> float:
    """What Student's t with so many degrees of freedom (above 0) stays below with this probability."""
    from scipy import special

    return float(special.stdtrit(freedom, share))


def t_two_sided(freedom: float, t: float) -> float:
    """Probability of a t at least this far from 0, on either side."""
    from scipy import special

    return float(2 * special.stdtr(freedom, -abs(t)))


def f_tail(above: float, below: float, f: float) -> float:
    """Probability of an F of these degrees of freedom that is at least this large."""
    from scipy import special

    return float(special.fdtrc(above, below, f))
