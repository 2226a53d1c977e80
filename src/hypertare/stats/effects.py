"""Divides the variance between the cells of a full factorial into the shares of its factors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hypertare.stats.interval import f_tail, t_quantile

Array = NDArray[np.float64]
Subset = tuple[int, ...]
"""Factors by their places, ascending: one is a main effect, several are an interaction."""

_NOTHING = 1e-9
"""Least number that counts as above 0, in quantities of the order of 1: arithmetic rounds."""


@dataclass(frozen=True)
class VarianceShare:
    """A share of the variance between cells with its interval; `p` is the chance of an F this large if
    the part is nothing, none where there is no noise to compare with.
    """

    share: float
    low: float
    high: float
    p: float | None


@dataclass(frozen=True)
class Size:
    """The levels of a factor with the highest and the lowest mean over all else, by their places, and
    the difference of these means with its interval.
    """

    highest: int
    lowest: int
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Lead:
    """The lead of one factor over another: the share of the first in all parts that contain one of the two.

    Parts with both factors are left out. Above one half the first factor has the larger total.
    """

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Decomposition:
    """`parts`: main effects and interactions of two. `totals`: of each factor, all parts that it is in.
    `leads`: of each two factors, named or not, the lower place first. `rest`: all other parts,
    interactions of three and more; none where there are no others. These shares
    are of the variance between cells, `noise` is what noise is of the variance of a trial. `exact`: there
    is no noise at all, and the intervals are points. `balanced`: every cell has every round.
    """

    parts: dict[Subset, VarianceShare]
    totals: dict[int, VarianceShare]
    leads: dict[Subset, Lead]
    rest: VarianceShare | None
    noise: float
    sizes: dict[int, Size]
    exact: bool
    balanced: bool


def decompose(
    values: Array,
    shape: Sequence[int],
    boots: Sequence[int],
    confidence: float = 0.95,
    named: Sequence[int] | None = None,
) -> Decomposition:
    """Takes the variance between the cells of a full factorial apart.

    A trial is the mean of its cell, what its round does to every cell, and noise. The means of the
    cells are a sum of main effects and interactions (Hoeffding 1948); the share of a part is the
    variance of its values over the grid, every level of a factor with the same weight. For inputs that
    have nothing but these levels that is Sobol's index, for all parts with one factor its total one
    (Sobol' 1993; Archer, Saltelli & Sobol' 1997). What noise adds to each part, its degrees of freedom
    times the noise of a mean, is taken off.

    Noise of a part: what rounds differ by in it. Boots may change the effect of a factor, and not only
    the level of all cells: where a part differs more between boots than trials do, its noise is that of
    the boots, with as few degrees of freedom, else that of all trials (the rule of `stats/boots.py`).

    Unbalanced: means by least squares, rounds beside cells; F is that of type III. Its hypotheses are
    about means of cells, each with the same weight, as shares are; those of type II would give a cell
    the more weight the more trials it has. Cells without any trial are filled in by least squares from
    the interactions of as high an order as the others allow (Yates 1933).

    Interval: the sum of squares of a part is a noncentral chi-squared. Its ends are where that (by
    Sankaran's approximation) lies t away, with the noise's degrees of freedom; those of a part and of
    all others are joined as the odds of both (MOVER, Donner & Zou 2012). So are, for a lead, those of
    the parts that have one of two factors in them.

    Sources: Hoeffding, Annals of Mathematical Statistics 19, 293-325; Sobol', Mathematical Modelling
    and Computational Experiments 1, 407-414; Archer et al., Journal of Statistical Computation and
    Simulation 58, 99-120; Yates, Empire Journal of Experimental Agriculture 1, 129-142; Sankaran
    (1963), Biometrika 50, 199-204; Donner & Zou, Statistical Methods in Medical Research 21, 347-359.

    Args:
        values: a row for each cell, the last factor's levels next to each other; a column for each
            round; not a number where there is none.
        shape: how many levels each factor has.
        boots: the boot of each round.
        named: the factors, by their places, whose parts are given one by one; all other parts are the
            rest. All factors if none is given.

    Raises:
        ValueError: no factor, one of one level, no replicates, or too few cells with trials to say
            anything of the others.
    """
    grid = _Grid(values, tuple(shape), tuple(boots), confidence)
    return grid.decomposed(range(len(shape)) if named is None else named)


class _Grid:
    """The means of the cells as coordinates in an orthonormal basis, each of which is of one part."""

    def __init__(
        self, values: Array, shape: Subset, boots: tuple[int, ...], confidence: float
    ) -> None:
        self.shape = shape
        self.confidence = confidence
        self.cells, self.rounds = map(int, values.shape)
        if not shape or min(shape) < 2:
            raise ValueError("a factor needs two levels")
        if self.cells != math.prod(shape) or len(boots) != self.rounds:
            raise ValueError("not one row a cell, or not one boot a round")
        present = np.isfinite(values)
        self.balanced = bool(present.all())
        self.empty = ~present.any(axis=1)
        self._bases = [_basis(levels) for levels in shape]
        means, of_rounds = _additive(np.where(present, values, 0.0), present)
        residuals = np.where(present, values - means[:, None] - of_rounds, 0.0)
        there = int((~self.empty).sum())
        self.freedom = int(present.sum()) - there - _ranks(present)
        if self.freedom < 1:
            raise ValueError("no replicates")
        self.noise = float((residuals**2).sum()) / self.freedom
        fill = self._filled() if self.empty.any() else None
        self.means = means if fill is None else fill @ means[~self.empty]
        self.z = self._coordinates(self.means)
        self._spread = None if self.balanced else self._spread_of(present, fill)
        self._by_boot = self._boots_of(residuals, boots)
        complete = (self.cells - 1) * (self.rounds - 1)
        self._seen = min(1.0, self.freedom / complete)

    def decomposed(self, named: Sequence[int]) -> Decomposition:
        every = list(self._places)
        single = [one for one in every if len(one) < 3 and set(one) <= set(named)]
        others = [one for one in every if one not in single]
        whole = self._variance(every)
        return Decomposition(
            {one: self._part([one], whole) for one in single},
            {i: self._part([one for one in every if i in one], whole) for i in named},
            {pair: self._lead(*pair) for pair in every if len(pair) == 2},
            self._part(others, whole) if others else None,
            0.0 if self.exact else self.noise / (self.noise + whole),
            {i: self._size(i) for i in named},
            self.exact,
            self.balanced,
        )

    @property
    def exact(self) -> bool:
        """Whether the noise is no more than arithmetic rounds off."""
        return self.noise <= self._rounded

    @cached_property
    def _rounded(self) -> float:
        """The largest variance that counts as zero."""
        return 1e-24 * float((self.means**2).max())

    # --- coordinates

    def _coordinates(self, along: Array) -> Array:
        """Transforms values into coordinates, along the first axis, which is that of cells."""
        found = along.reshape(*self.shape, -1)
        for place, basis in enumerate(self._bases):
            found = np.moveaxis(np.tensordot(basis, found, axes=(1, place)), 0, place)
        return found.reshape(along.shape)

    @cached_property
    def _is_in(self) -> NDArray[np.bool_]:
        """Whether the part of a coordinate contains a factor: a row per coordinate, a column per factor."""
        found: NDArray[np.bool_] = np.indices(self.shape).reshape(len(self.shape), -1).T > 0
        return found

    @cached_property
    def _places(self) -> dict[Subset, NDArray[np.intp]]:
        """The coordinates of each part, those of low orders first."""
        factors = range(len(self.shape))
        subsets = (one for n in factors for one in itertools.combinations(factors, n + 1))
        wanted = {one: np.isin(np.array(factors), one) for one in subsets}
        return {
            one: np.flatnonzero((self._is_in == members).all(axis=1))
            for one, members in wanted.items()
        }

    # --- cells and rounds that are missing

    def _filled(self) -> Array:
        """Returns the matrix that turns the means of cells with trials into the means of all cells.

        Empty cells get the model's prediction, the least-squares fit (Yates).
        """
        there, empty = ~self.empty, self.empty
        rows = self._coordinates(np.eye(self.cells))
        for order in range(len(self.shape) - 1, 0, -1):
            known = rows[self._is_in.sum(axis=1) <= order]
            left = np.eye(int(empty.sum())) - known[:, empty].T @ known[:, empty]
            if np.linalg.eigvalsh(left)[0] > _NOTHING:
                made = np.eye(self.cells)[:, there]
                made[empty] = np.linalg.solve(left, known[:, empty].T @ known[:, there])
                return made
        raise ValueError("too few cells have trials to say anything of the others")

    def _spread_of(self, present: NDArray[np.bool_], fill: Array | None) -> Array:
        """Covariance of the coordinates, in variances of a trial."""
        weights = present[~self.empty].astype(float)
        share = weights / weights.sum(axis=1, keepdims=True)
        left = np.diag(weights.sum(axis=0)) - weights.T @ share
        found = np.diag(1 / weights.sum(axis=1)) + share @ np.linalg.pinv(left) @ share.T
        if fill is not None:
            found = fill @ found @ fill.T
        return self._coordinates(self._coordinates(found).T)

    def _boots_of(self, residuals: Array, boots: Sequence[int]) -> tuple[Array, int]:
        """Squares of what boots differ by in each coordinate, and how many boots there are."""
        z = self._coordinates(residuals)
        numbers = np.unique(np.asarray(boots), return_inverse=True)[1]
        if numbers.max() == 0:
            numbers = np.arange(self.rounds)
        sizes = np.bincount(numbers)
        sums = np.stack([z[:, numbers == one].sum(axis=1) for one in range(len(sizes))])
        return (sums**2 / sizes[:, None]).sum(axis=0), len(sizes)

    # --- a part

    @cached_property
    def _noises(self) -> dict[Subset, tuple[float, float]]:
        """By part: the variance of a trial that counts for it, and its degrees of freedom."""
        squares, boots = self._by_boot
        found = {}
        for one, places in self._places.items():
            freedom = self._seen * len(places) * (boots - 1)
            own = float(squares[places].sum()) / freedom if freedom > 0 else 0.0
            pooled = self.noise, float(self.freedom)
            found[one] = (own, freedom) if own > self.noise else pooled
        return found

    def _of_mean(self, part: Subset) -> float:
        """Variance of a coordinate, in variances of a trial."""
        if self._spread is None:
            return 1 / self.rounds
        return float(np.diag(self._spread)[self._places[part]].mean())

    def _squares(self, part: Subset) -> float:
        return float((self.z[self._places[part]] ** 2).sum())

    def _added(self, part: Subset) -> float:
        """What noise adds to the squares of a part."""
        return len(self._places[part]) * self._noises[part][0] * self._of_mean(part)

    def _variance(self, parts: Sequence[Subset]) -> float:
        """Returns the variance of these parts over the grid, without noise and rounding."""
        found = ((self._squares(one) - self._added(one)) / self.cells for one in parts)
        return sum(one for one in found if one > self._rounded)

    def _part(self, parts: Sequence[Subset], whole: float) -> VarianceShare:
        """Returns the share of one part, or of several together, in the variance `whole`."""
        share = min(1.0, self._variance(parts) / whole) if whole > self._rounded else 0.0
        if self.exact:
            return VarianceShare(share, share, share, None)
        others = [one for one in self._places if one not in parts]
        nothing = (0.0, 0.0, 0.0)
        ends = self._ends(others, self.confidence) if others else nothing
        low, high = _of_odds(self._ends(parts, self.confidence), ends)
        return VarianceShare(share, min(low, share), max(high, share), self._p(parts))

    def _lead(self, first: int, second: int) -> Lead:
        """Parts with both factors are in both totals, so they decide nothing. Bonferroni over all that one
        factor is compared with: it is to lead before each of them.
        """
        mine = [one for one in self._places if first in one and second not in one]
        its = [one for one in self._places if second in one and first not in one]
        sizes = self._variance(mine), self._variance(its)
        share = sizes[0] / sum(sizes) if sum(sizes) > self._rounded else 0.5
        if self.exact:
            return (
                Lead(share, share, share) if sum(sizes) > self._rounded else Lead(share, 0.0, 1.0)
            )
        confidence = 1 - (1 - self.confidence) / (len(self.shape) - 1)
        low, high = _of_odds(self._ends(mine, confidence), self._ends(its, confidence))
        return Lead(share, min(low, share), max(high, share))

    def _ends(self, parts: Sequence[Subset], confidence: float) -> tuple[float, float, float]:
        """The variance over the grid with its interval.

        Of several parts each turns the sum of squares as much as it is large, so their noises are
        weighed by that; degrees of freedom as Satterthwaite (1946).
        """
        sizes = [max(self._squares(one), self._added(one)) for one in parts]
        noises = [self._noises[one][0] * self._of_mean(one) for one in parts]
        shares = [size * noise for size, noise in zip(sizes, noises, strict=True)]
        noise = math.fsum(shares) / math.fsum(sizes)
        lost = sum(
            (share / sum(shares)) ** 2 / self._noises[one][1]
            for share, one in zip(shares, parts, strict=True)
        )
        squares, count = (sum(map(of, parts)) / noise for of in (self._squares, self._added))
        t = t_quantile(1 / lost, (1 + confidence) / 2)
        low, high = (_noncentral(squares, count, end) for end in (t, -t))
        middle = min(max(squares - count, low), high)
        scale = noise / self.cells
        return low * scale, middle * scale, high * scale

    def _p(self, parts: Sequence[Subset]) -> float:
        places = np.concatenate([self._places[one] for one in parts])
        z, count = self.z[places], len(places)
        weights = [len(self._places[one]) / count for one in parts]
        noises = [weight * self._noises[one][0] for weight, one in zip(weights, parts, strict=True)]
        noise = math.fsum(noises)
        below = noise**2 / sum(
            share**2 / self._noises[one][1] for share, one in zip(noises, parts, strict=True)
        )
        if self._spread is None:
            squares = float((z**2).sum()) * self.rounds
        else:
            # Filled cells have nothing of their own to say: what they leave without any spread is no test.
            sizes, along = np.linalg.eigh(self._spread[np.ix_(places, places)])
            tested = sizes > _NOTHING * sizes[-1]
            squares = float(((along.T @ z)[tested] ** 2 / sizes[tested]).sum())
            count = int(tested.sum())
        return f_tail(count, below, squares / count / noise)

    def _size(self, factor: int) -> Size:
        """Bonferroni over all pairs of levels, for these two were chosen by what they show."""
        axes = tuple(place for place in range(len(self.shape)) if place != factor)
        means = self.means.reshape(self.shape).mean(axis=axes)
        highest, lowest = int(means.argmax()), int(means.argmin())
        difference = float(means[highest] - means[lowest])
        if difference**2 <= self._rounded:
            difference = 0.0
        levels, places = self.shape[factor], self._places[factor,]
        noise, freedom = self._noises[factor,]
        along = self._bases[factor][1:, highest] - self._bases[factor][1:, lowest]
        spread = along @ along / self.rounds
        if self._spread is not None:
            spread = along @ self._spread[np.ix_(places, places)] @ along
        error = math.sqrt(noise * float(spread) * levels / self.cells)
        chosen = (1 - self.confidence) / math.comb(levels, 2)
        half = t_quantile(freedom, 1 - chosen / 2) * error
        return Size(highest, lowest, difference, difference - half, difference + half)


def _basis(levels: int) -> Array:
    """Orthonormal rows, the first of which is the mean (Helmert)."""
    made = np.zeros((levels, levels))
    made[0] = 1
    for row in range(1, levels):
        made[row, :row], made[row, row] = 1, -row
    scaled: Array = made / np.linalg.norm(made, axis=1, keepdims=True)
    return scaled


def _additive(values: Array, present: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Means of cells, and of rounds around 0, by least squares."""
    weights = present.astype(float)
    counts = np.maximum(weights.sum(axis=1), 1)
    share = weights / counts[:, None]
    left = np.diag(weights.sum(axis=0)) - weights.T @ share
    right = values.sum(axis=0) - share.T @ values.sum(axis=1)
    of_rounds = np.linalg.pinv(left, hermitian=True) @ right
    means = (values.sum(axis=1) - weights @ of_rounds) / counts
    return means, of_rounds


def _ranks(present: NDArray[np.bool_]) -> int:
    """How many rounds, less one, can be seen apart beside the cells."""
    weights = present[present.any(axis=1)].astype(float)
    left = np.diag(weights.sum(axis=0)) - weights.T @ (weights / weights.sum(axis=1, keepdims=True))
    return int(np.linalg.matrix_rank(left, hermitian=True))


def _noncentral(squares: float, freedom: float, t: float) -> float:
    """The noncentrality with which a chi-squared lies t standard deviations below these squares (above
    them where t is negative); 0 where none does.
    """
    # Of what was left after the noise was taken off there may be less than nothing.
    if squares <= 0 or _normal(squares, freedom, 0.0) <= t:
        return 0.0
    low, high = 0.0, squares + freedom + 1.0
    while _normal(squares, freedom, high) > t:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _normal(squares, freedom, middle) > t else (low, middle)
    return (low + high) / 2


def _normal(squares: float, k: float, noncentral: float) -> float:
    """Where squares stand in a noncentral chi-squared, as a normal deviate: Sankaran's second."""
    mean, spread = k + noncentral, k + 2 * noncentral
    h = 1 - 2 * mean * (k + 3 * noncentral) / (3 * spread**2)
    p = spread / mean**2
    m = (h - 1) * (1 - 3 * h)
    centre = 1 + h * p * (h - 1 - (2 - h) * m * p / 2)
    return float(((squares / mean) ** h - centre) / (h * math.sqrt(2 * p) * (1 + m * p / 2)))


def _of_odds(
    one: tuple[float, float, float], other: tuple[float, float, float]
) -> tuple[float, float]:
    """The interval of one / (one + other), from those of both: low, estimate, high each."""
    if one[2] == 0 and other[2] == 0:
        return 0.0, 1.0
    low, inverse = _least_quotient(one, other), _least_quotient(other, one)
    return low / (1 + low) if math.isfinite(low) else 1.0, 1 / (1 + inverse)


def _least_quotient(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    """The lower end of one / other (MOVER-R)."""
    low, a, _ = one
    _, b, high = other
    if low == 0 or a == 0:
        return 0.0
    if high == 0:
        return math.inf
    product = a * b
    below = high * (2 * b - high)
    root = math.sqrt(max(0.0, product**2 - low * (2 * a - low) * below))
    return low * (2 * a - low) / (product + root)
