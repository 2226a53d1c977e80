"""Goodput over offered rate: one curve for each setting of a UDP stream whose rate is a factor. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hypertare.base.figures import level_text
from hypertare.base.units import parse_of_capacity, parse_rate
from hypertare.base.variables import Level, key
from hypertare.findings.doubt import not_offered, rate_of
from hypertare.runs.summary import Curve, Estimate
from hypertare.stats.line_rate import LEAST, Offered, shape, unknown_shape
from hypertare.workloads.sending import OFFERED

RESPONSE = "goodput"


def curves(estimates: Iterable[Estimate]) -> Iterator[Curve]:
    """By their settings' levels; of those with at least `LEAST` rates.

    A rate that the peer was asked for and did not send is no part of a shape.
    """
    groups: dict[tuple[str, object], list[Estimate]] = {}
    shares: dict[tuple[str, object], float] = {}
    for one in estimates:
        if one.response == OFFERED.name:
            shares[one.platform, key(one.cell)] = one.estimate
        path = rate_of(one.cell)
        if one.response == RESPONSE and path in one.cell:
            rest = {factor: level for factor, level in one.cell.items() if factor != path}
            groups.setdefault((one.platform, key(rest)), []).append(one)
    for group in sorted(groups.values(), key=lambda group: _place(group[0])):
        if len(group) >= LEAST:
            yield _curve(group, shares)


def offered(level: Level) -> float:
    """What orders the levels of a rate: b/s, or shares of a capacity."""
    share = parse_of_capacity(level)
    return parse_rate(level) if share is None else share


def _place(one: Estimate) -> tuple[object, ...]:
    """Sorts by platform and levels, numbers by size."""
    path = rate_of(one.cell)
    levels = (level for factor, level in sorted(one.cell.items()) if factor != path)
    return (
        one.platform,
        *((0, v, "") if isinstance(v, int | float) else (1, 0, str(v)) for v in levels),
    )


def _curve(group: list[Estimate], shares: Mapping[tuple[str, object], float]) -> Curve:
    first = group[0]
    path = rate_of(first.cell)
    by_rate = {offered(one.cell[path]): one for one in group}
    missed = {
        rate: why
        for rate, one in by_rate.items()
        if (why := not_offered(shares.get((one.platform, key(one.cell)), 1.0)))
    }
    sent = {rate: one for rate, one in by_rate.items() if rate not in missed}
    points = [
        Offered(rate, one.estimate, one.low, one.high) for rate, one in (sent or by_rate).items()
    ]
    found = shape(points) if len(sent) >= LEAST else unknown_shape(points)
    highest = max(missed, default=None)
    return Curve(
        platform=first.platform,
        cell={factor: level for factor, level in first.cell.items() if factor != path},
        kind=found.kind,
        unit=first.unit,
        rates=len(sent),
        peak_at=by_rate[found.peak.rate].cell[path],
        peak=found.peak.goodput,
        last_at=by_rate[found.last.rate].cell[path],
        last=found.last.goodput,
        doubt=None
        if highest is None
        else f"at {level_text(by_rate[highest].cell[path])} {missed[highest]}",
    )
