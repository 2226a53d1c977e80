"""Goodput over offered rate: one curve for each setting of a UDP stream whose rate is a factor. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hypertare.base.level import Level, key
from hypertare.base.units import parse_of_capacity, parse_rate
from hypertare.base.words import level_text
from hypertare.runs.summary import Curve, Estimate
from hypertare.stats.overload import LEAST, Offered, shape, unknown_shape

RESPONSE = "goodput"


def curves(estimates: Iterable[Estimate]) -> Iterator[Curve]:
    """By their settings' levels; of those with at least `LEAST` rates.

    A rate whose goodput is in doubt (the peer did not send it) is no part of a shape.
    """
    groups: dict[tuple[str, object], list[Estimate]] = {}
    for one in estimates:
        path = rate_path(one.cell)
        if one.response == RESPONSE and path in one.cell:
            rest = {factor: level for factor, level in one.cell.items() if factor != path}
            groups.setdefault((one.platform, key(rest)), []).append(one)
    for group in sorted(groups.values(), key=lambda group: _place(group[0])):
        if len(group) >= LEAST:
            yield _curve(group)


def rate_path(cell: Mapping[str, Level]) -> str:
    return f"workloads.{cell.get('workload')}.rate"


def offered(level: Level) -> float:
    """What orders the levels of a rate: b/s, or shares of a capacity."""
    share = parse_of_capacity(level)
    return parse_rate(level) if share is None else share


def _place(one: Estimate) -> tuple[object, ...]:
    """Sorts by platform and levels, numbers by size."""
    path = rate_path(one.cell)
    levels = (level for factor, level in sorted(one.cell.items()) if factor != path)
    return (
        one.platform,
        *((0, v, "") if isinstance(v, int | float) else (1, 0, str(v)) for v in levels),
    )


def _curve(group: list[Estimate]) -> Curve:
    first = group[0]
    path = rate_path(first.cell)
    by_rate = {offered(one.cell[path]): one for one in group}
    certain = {rate: one for rate, one in by_rate.items() if one.doubt is None}
    points = [
        Offered(rate, one.estimate, one.low, one.high) for rate, one in (certain or by_rate).items()
    ]
    found = shape(points) if len(certain) >= LEAST else unknown_shape(points)
    doubtful = max(by_rate.keys() - certain.keys(), default=None)
    return Curve(
        platform=first.platform,
        cell={factor: level for factor, level in first.cell.items() if factor != path},
        kind=found.kind,
        unit=first.unit,
        rates=len(certain),
        peak_at=by_rate[found.peak.rate].cell[path],
        peak=found.peak.goodput,
        last_at=by_rate[found.last.rate].cell[path],
        last=found.last.goodput,
        doubt=None if doubtful is None else _words(by_rate[doubtful], path),
    )


def _words(one: Estimate, path: str) -> str:
    return f"at {level_text(one.cell[path])} {one.doubt}"
