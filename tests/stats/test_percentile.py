from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.base.errors import HypertareError
from hypertare.protocol.records import Histogram
from hypertare.stats.histograms import ecdf, merge, quantiles

BUCKETS = st.lists(
    st.tuples(st.integers(0, 10**9), st.integers(1, 50)), min_size=1, max_size=30
).map(tuple)


def made(buckets: object) -> Histogram:
    return Histogram(unit="ns", buckets=buckets)  # type: ignore[arg-type]


def expanded(histogram: Histogram) -> list[int]:
    return [value for value, count in histogram.buckets for _ in range(count)]


@given(BUCKETS, st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_as_numpy_on_every_value(buckets: object, shares: list[float]) -> None:
    histogram = made(buckets)
    values = np.sort(expanded(histogram))
    for share, seen in zip(shares, quantiles(histogram, shares), strict=True):
        # Where share x n is a whole number up to rounding, either neighbour is right.
        near = [
            np.quantile(values, min(max(s, 0), 1), method="inverted_cdf")
            for s in (share, share - 1e-9, share + 1e-9)
        ]
        assert seen in near


def test_ranks_by_hand() -> None:
    ten = made([(value, 1) for value in range(1, 11)])
    assert quantiles(ten, [0.0, 0.1, 0.5, 0.7, 0.9, 0.95, 1.0]) == [1, 1, 5, 7, 9, 10, 10]


@given(BUCKETS)
def test_ecdf_rises_to_one(buckets: object) -> None:
    histogram = made(buckets)
    values, shares = ecdf(histogram)
    every = np.array(expanded(histogram))
    assert shares[-1] == 1 and (np.diff(shares) >= 0).all() and (np.diff(values) >= 0).all()
    assert shares[-1] == (every <= values[-1]).mean()


@given(BUCKETS, BUCKETS)
def test_merging_is_counting_together(a: object, b: object) -> None:
    one, other = made(a), made(b)
    both = merge([one, other])
    assert sorted(expanded(both)) == sorted(expanded(one) + expanded(other))
    assert both == merge([other, one])


def test_what_cannot_be() -> None:
    with pytest.raises(HypertareError, match="empty"):
        quantiles(made([]), [0.5])
    with pytest.raises(HypertareError, match="empty"):
        ecdf(made([(5, 0)]))
    with pytest.raises(HypertareError, match="negative"):
        ecdf(made([(5, -1), (6, 3)]))
    assert quantiles(made([(2**64 - 1, 2**64 - 1), (1, 2**64 - 1)]), [0.5]) == [1]
    with pytest.raises(HypertareError, match="ns, s"):
        merge([made([(1, 1)]), Histogram(unit="s", buckets=((1, 1),))])
    with pytest.raises(HypertareError, match="no histogram"):
        merge([])
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantiles(made([(1, 1)]), [50])
