"""Percentiles and standard deviations of times that tasks report as histograms."""

from __future__ import annotations

import math
from collections.abc import Iterable

from hypertare.base.variables import Found
from hypertare.protocol.phase import Phase


def percentiles(phase: Phase, role: str, name: str) -> Found:
    """Returns the median, 99 % and 99.9 % quantile in seconds over all tasks of a role; nothing without
    times.
    """
    # Only trials of several guests need the libraries for arrays, which take a second to load.
    from hypertare.stats.histograms import merge, quantiles

    histograms = [
        result.histograms[name] for result in phase.results_of(role) if name in result.histograms
    ]
    if not any(count for one in histograms for _, count in one.buckets):
        return {}
    middle, high, highest = quantiles(merge(histograms), (0.5, 0.99, 0.999))
    return {
        f"{name}_p50": middle / 1e9,
        f"{name}_p99": high / 1e9,
        f"{name}_p999": highest / 1e9,
    }


def in_seconds(phase: Phase, role: str, names: Iterable[str]) -> Found:
    """Returns the times that the tasks of a role report in nanoseconds."""
    totals = {name: phase.total(role, f"{name}_ns") for name in names}
    return {name: None if ns is None else ns / 1e9 for name, ns in totals.items()}


def spread(phase: Phase, role: str, name: str) -> Found:
    """Standard deviation of what the tasks of a role reported under this name, by n - 1; nothing of fewer
    than two. A bucket stands for its highest value, and is 0.1 % of that wide.
    """
    buckets = [
        bucket
        for result in phase.results_of(role)
        if name in result.histograms
        for bucket in result.histograms[name].buckets
    ]
    count = sum(many for _, many in buckets)
    if count < 2:
        return {}
    mean = sum(value * many for value, many in buckets) / count
    squares = sum(many * (value - mean) ** 2 for value, many in buckets)
    return {f"{name}_sd": math.sqrt(squares / (count - 1)) / 1e9}
