"""Which knobs matter, and which depend on each other: a two-level design and its effects. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hypertare.stats.interval import around, p_value
from hypertare.stats.practical import holm
from hypertare.tune.space import Knob, Setting

Matrix = NDArray[np.float64]
MAX_KNOBS = 31
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Design:
    """Runs of -1 (default) and +1 (the far level), a column a knob; the first run is the default."""

    knobs: tuple[Knob, ...]
    matrix: Matrix
    kind: str

    def settings(self, base: Setting) -> list[Setting]:
        return [self.setting(row, base) for row in self.matrix]

    def setting(self, row: Sequence[float] | Matrix, base: Setting) -> Setting:
        changed = {k.path: k.far for k, sign in zip(self.knobs, row, strict=True) if sign > 0}
        return {**base, **changed}


@dataclass(frozen=True)
class Effect:
    """What going from the default to the far level does, over the levels of the others.

    In log ratio, so that 0.1 is about 10 %; of an interaction, half of what the second knob's change
    adds to the first's. `aliases` are interactions that the design cannot separate from this one.
    """

    paths: tuple[str, ...]
    estimate: float
    low: float
    high: float
    p: float
    adjusted: float
    aliases: tuple[tuple[str, ...], ...] = ()

    @property
    def shown(self) -> bool:
        return self.adjusted < 0.05

    def within(self, threshold: float) -> bool:
        """Whether it is shown to be too small to matter."""
        return -threshold < self.low and self.high < threshold


def design(knobs: Sequence[Knob], most: int) -> Design | None:
    """The best two-level design with at most this many runs; none if even the smallest has more.

    A full factorial where it fits; else a fractional one of resolution V, then IV; else
    Plackett-Burman, which estimates main effects only, and only if interactions are small. A column's
    sign is free in all of them: it is turned so that the default is one of the runs.

    Which generators give which resolution is written here and tested, for a library's search by
    resolution was seen to promise more than its designs hold.

    Sources: Box, Hunter & Hunter (2005), Statistics for Experimenters, chapters 5 and 6; Plackett &
    Burman (1946), Biometrika 33, 305-325.
    """
    count = len(knobs)
    if not 0 < count <= MAX_KNOBS:
        return None
    for kind, matrix in _designs(count, most):
        if len(matrix) <= most:
            return Design(tuple(knobs), -matrix * matrix[0], kind)
    return None


def _designs(count: int, most: int) -> Iterator[tuple[str, Matrix]]:
    import pyDOE3

    if 2**count <= min(most, 64):
        yield "full factorial", pyDOE3.ff2n(count)
    if count in _RESOLUTION_V:
        yield "fractional factorial, resolution V", pyDOE3.fracfact(_RESOLUTION_V[count])
    if count >= 4:
        yield "fractional factorial, resolution IV", pyDOE3.fracfact(_resolution_iv(count))
    if count >= 3:
        yield "Plackett-Burman", np.asarray(pyDOE3.pbdesign(count), dtype=np.float64)


_RESOLUTION_V = {
    5: "a b c d abcd",
    6: "a b c d e abcde",
    7: "a b c d e f abcd",
    8: "a b c d e f abcd abef",
}
"""Generators of the smallest designs that separate all two-knob interactions."""


def _resolution_iv(count: int) -> str:
    """Words of odd length: the product of two or three of them is never a single letter or a pair."""
    letters = "abcdef"[: max(3, math.ceil(math.log2(count)) + 1)]
    words = [
        "".join(word)
        for length in range(1, len(letters) + 1, 2)
        for word in itertools.combinations(letters, length)
    ]
    return " ".join(words[:count])


def effects(
    design: Design,
    values: Sequence[Mapping[int, float]],
    confidence: float = 0.95,
) -> list[Effect]:
    """Main effects and two-knob interactions, from replicates of the whole design.

    Least squares on the logs, with one constant a replicate: what drifts from one replicate to the
    next cancels, as in a block. The error is pure error: what is left when every run has a mean of
    its own, so interactions of three and more do not pass for noise. p-values are Holm's over all
    effects.

    Args:
        design: the design.
        values: by replicate, the value of each run (by row); failed ones are absent.
        confidence: of the intervals.

    Returns:
        The effects, largest first; none where fewer than two replicates leave no error to go by.
    """
    rows = [(rep, run, np.log(v)) for rep, one in enumerate(values) for run, v in one.items()]
    if not rows:
        return []
    reps = np.array([rep for rep, _, _ in rows])
    runs = np.array([run for _, run, _ in rows])
    logs = np.array([log for _, _, log in rows])
    blocks = _indicators(reps)
    variance, freedom = _pure_error(blocks, _indicators(runs), logs)
    if freedom < 1:
        return []
    columns = _columns(design, runs)
    model = np.column_stack([blocks, *(column for _, column, _ in columns)])
    if np.linalg.matrix_rank(model) < model.shape[1]:
        return []
    coefficients = np.linalg.lstsq(model, logs, rcond=None)[0][blocks.shape[1] :]
    if variance < _ROUNDING**2:
        # Replicates that agree to the last digit, as in virtual time: what is left is rounding.
        variance, coefficients = 0.0, np.where(abs(coefficients) < _ROUNDING, 0.0, coefficients)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(model.T @ model)))[blocks.shape[1] :]
    # A coefficient is per unit of -1..+1; going from default to far is two units.
    shown = [
        around(2 * float(c), 2 * float(e), freedom, len(logs), confidence)
        for c, e in zip(coefficients, errors, strict=True)
    ]
    ps = [p for one in shown if (p := p_value(one)) is not None]
    found = [
        Effect(
            paths, one.estimate, float(one.low or 0.0), float(one.high or 0.0), p, adjusted, alias
        )
        for (paths, _, alias), one, p, adjusted in zip(columns, shown, ps, holm(ps), strict=True)
    ]
    return sorted(found, key=lambda effect: -abs(effect.estimate))


def _indicators(labels: NDArray[np.int_]) -> Matrix:
    same: NDArray[np.bool_] = labels[:, None] == np.unique(labels)[None, :]
    return same.astype(np.float64)


def _pure_error(blocks: Matrix, runs: Matrix, logs: Matrix) -> tuple[float, int]:
    saturated = np.column_stack([blocks, runs[:, 1:]])
    fitted = saturated @ np.linalg.lstsq(saturated, logs, rcond=None)[0]
    freedom = len(logs) - int(np.linalg.matrix_rank(saturated))
    return float(((logs - fitted) ** 2).sum()) / max(freedom, 1), freedom


def _columns(
    design: Design, runs: NDArray[np.int_]
) -> list[tuple[tuple[str, ...], Matrix, tuple[tuple[str, ...], ...]]]:
    """Main effects and interactions that the design can separate, each with its aliases."""
    paths = [knob.path for knob in design.knobs]
    found: list[tuple[tuple[str, ...], Matrix, list[tuple[str, ...]]]] = [
        ((path,), design.matrix[:, place], []) for place, path in enumerate(paths)
    ]
    if design.kind != "Plackett-Burman":
        for a, b in itertools.combinations(range(len(paths)), 2):
            product = design.matrix[:, a] * design.matrix[:, b]
            for _, column, aliases in found:
                if abs(float(column @ product)) == len(product):
                    aliases.append((paths[a], paths[b]))
                    break
            else:
                found.append(((paths[a], paths[b]), product, []))
    return [(name, column[runs], tuple(aliases)) for name, column, aliases in found]


def corners(knobs: int) -> list[tuple[int, ...]]:
    """Every combination of default (-1) and far level (+1), as many as can be looked at."""
    return list(itertools.islice(itertools.product((-1, 1), repeat=knobs), 1 << 16))


def predict(design: Design, row: Sequence[int], found: Sequence[Effect]) -> float:
    """The log ratio of a corner to the default that main effects and interactions add up to."""
    places = {knob.path: place for place, knob in enumerate(design.knobs)}
    here = there = 0.0
    for effect in found:
        signs = math.prod(row[places[path]] for path in effect.paths)
        here += effect.estimate / 2 * signs
        there += effect.estimate / 2 * (-1) ** len(effect.paths)
    return here - there
