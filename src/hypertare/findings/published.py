"""Published figures beside a run's own. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from hypertare.findings.series import ratio_of
from hypertare.runs.summary import Estimate, Published
from hypertare.study.published import Point


def beside(
    found: Iterable[Point],
    estimates: Sequence[Estimate],
    setting: Callable[[str], Any],
) -> Iterator[Published]:
    """Published figures with ours; one without ours where the run has no such cell.

    Args:
        found: the published figures.
        estimates: of the run.
        setting: the study's value of a setting by its path, for what is no factor of it.
    """
    for point in found:
        ours = [one for one in estimates if _is_of(point, one, setting)]
        for one in ours or (None,):
            ratio = ratio_of(one) if one else None
            yield Published(
                source=point.source,
                on=point.on,
                response=point.response,
                platform=point.platform,
                cell=one.cell if one else {"workload": point.workload, **point.levels},
                value=point.value,
                baseline_value=point.baseline_value,
                value_unit=point.unit,
                published=point.value / point.baseline_value,
                **dict(zip(("ratio", "ratio_low", "ratio_high"), ratio or (), strict=False)),
            )


def _is_of(point: Point, one: Estimate, setting: Callable[[str], Any]) -> bool:
    return (
        (one.response, one.platform) == (point.response, point.platform)
        and one.cell.get("workload") == point.workload
        and all(one.cell.get(path, setting(path)) == level for path, level in point.levels.items())
    )
