"""Finished trials made up for tests: every figure is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import numpy as np

from hypertare.base.variables import Level, Response
from hypertare.design.trials import FinishedTrial, PlannedTrial

ELAPSED = Response("elapsed", "s", "lower", "elapsed time")
GOODPUT = Response("goodput", "b/s", "higher", "payload received over time")
LOSS = Response("loss", "share", "lower", "datagrams sent that never came")
RESPONSES = {response.name: response for response in (ELAPSED, GOODPUT, LOSS)}

_ids = count()


def trial(
    platform: str,
    block: int,
    values: Mapping[str, float] | None,
    cell: Mapping[str, Level] | None = None,
    boot: int = 0,
    kind: str = "measured",
    error: str | None = None,
) -> FinishedTrial:
    """A trial of `cell` (one of the workload "build" if not given); without values it failed."""
    planned = PlannedTrial(
        id=next(_ids),
        block=block,
        boot=boot,
        platform=platform,
        cell={"workload": "build"} if cell is None else dict(cell),
        kind=kind,  # type: ignore[arg-type]
    )
    status = "failed" if values is None else "ok"
    reason = (error or "the command ended with status 1") if values is None else None
    return FinishedTrial(planned, status, reason, 1.0, dict(values or {}))  # type: ignore[arg-type]


def blocks(
    figures: Mapping[str, Sequence[float]],
    response: str = "elapsed",
    cell: Mapping[str, Level] | None = None,
    boots: Sequence[int] | None = None,
) -> list[FinishedTrial]:
    """One trial of every platform in every block, with these figures."""
    length = len(next(iter(figures.values())))
    return [
        trial(platform, block, {response: values[block]}, cell, boots[block] if boots else 0)
        for block in range(length)
        for platform, values in figures.items()
    ]


def noisy(
    level: float, n: int, noise: float = 0.01, seed: int = 0, shared: bool = True
) -> list[float]:
    """`n` lognormal figures about `level`; a part of the noise is that of the block."""
    own = np.random.default_rng(seed).standard_normal(n)
    block = np.random.default_rng(99).standard_normal(n) if shared else np.zeros(n)
    return [float(value) for value in level * np.exp(noise * own + 10 * noise * block)]


def every(items: object, part: str) -> Iterator[str]:
    """The texts that contain `part`."""
    return (text for text in items if part in text)  # type: ignore[attr-defined]
