"""A first guess of the scheduler weight that a driver domain needs for its guests."""

from __future__ import annotations

import math

GUEST_WEIGHT = 256
"""Xen's own default, of every domain."""


def driver_weight(guests: int, guest_weight: float = GUEST_WEIGHT) -> float:
    """(log2 N + 1) N w: by the law of its CPU time, what it needs beside N guests of weight w.

    Source: Anhalt & Vicat-Blanc Primet (2008), INRIA RR-6658, who found the law in CPU shares and left
    for later to set weights by it.

    Raises:
        ValueError: there are no guests, or their weight is not above 0.
    """
    if guests < 1 or not guest_weight > 0:
        raise ValueError(f"{guests} guests of weight {guest_weight}")
    return (math.log2(guests) + 1) * guests * guest_weight
