"""Which settings nothing beats in everything, and which of them is the best compromise. Pure."""

from __future__ import annotations

from collections.abc import Sequence

Point = tuple[float, float]
"""Gains in log ratio to the default: throughput and CPU, the more the better."""


def pareto_front(points: Sequence[Point]) -> list[int]:
    """Places of the points that no other is at least as good as in both, and better in one.

    In order of rising first gain.
    """
    kept = [
        place
        for place, one in enumerate(points)
        if not any(_dominates(other, one) for other in points) and points.index(one) == place
    ]
    return sorted(kept, key=lambda place: points[place])


def pareto_knee(points: Sequence[Point]) -> int:
    """The place of the best compromise on the front.

    Both gains are scaled to 0..1 over the front. The knee is the point of the front that lies
    farthest beyond the straight line between the front's two ends: to go on from there in either
    direction costs more of the one gain than it brings of the other. Where none lies beyond it (two
    points, or a front that is hollow) it is the point with the greatest sum of gains.

    Sources: Das (1999), On characterizing the "knee" of the Pareto curve based on normal-boundary
    intersection, Structural Optimization 18, 107-115; Branke, Deb, Dierolf & Osswald (2004),
    Finding knees in multi-objective optimization, PPSN VIII.

    Raises:
        ValueError: there are no points.
    """
    if not points:
        raise ValueError("no points")
    places = pareto_front(points)
    first, last = points[places[0]], points[places[-1]]
    wide, high = last[0] - first[0], first[1] - last[1]

    def beyond(place: int) -> float:
        if wide <= 0 or high <= 0:
            return 0.0
        x, y = (points[place][0] - first[0]) / wide, (points[place][1] - last[1]) / high
        return x + y - 1  # the distance to the line from (0, 1) to (1, 0), times the root of 2

    best = max(places, key=lambda place: (beyond(place), sum(points[place])))
    return best if beyond(best) > 0 else max(places, key=lambda place: sum(points[place]))


def _dominates(one: Point, other: Point) -> bool:
    return one[0] >= other[0] and one[1] >= other[1] and one != other
