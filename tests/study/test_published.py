"""Published figures: read, made ratios, set beside ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.base.errors import InputError
from hypertare.findings.published import beside
from hypertare.runs.summary import Estimate
from hypertare.study import StudyFile, builtin_folder, find, published
from hypertare.study.published import Point, PublishedFile

TABLE = """# of somebody
workload,cpu,platform,sut.paging,sut.cpus,value
build,old,native,,1,50
build,old,guest,nested,1,55
build,old,guest,shadow,1,80
build,new,native,,1,20
build,new,guest,nested,1,21
other,old,guest,nested,1,3
"""
WANTED = PublishedFile(
    source="Somebody, 2010",
    file=Path("p.csv"),
    response="elapsed",
    unit="s",
    where={"cpu": "old"},
    levels={"walk.shared_cache": "6M"},
)


def points(text: str = TABLE, wanted: PublishedFile = WANTED) -> list[Point]:
    return list(published.points(text, "p.csv", wanted, "native", ["build"]))


def ours(cost: float | None, **levels: str) -> Estimate:
    cell = {"workload": "build", "walk.shared_cache": "6M", **levels}
    ends = None if cost is None else (cost - 0.01, cost + 0.01)
    return Estimate(
        response="elapsed",
        unit="s (virtual)",
        better="lower",
        cell=cell,
        platform="guest",
        n=2,
        estimate=1.0,
        cost=cost,
        cost_low=ends and ends[0],
        cost_high=ends and ends[1],
    )


def test_figures_become_ratios_to_their_own_baseline() -> None:
    nested, shadow = points()
    assert (nested.value, nested.baseline_value) == (55, 50)
    assert nested.levels == {"sut.paging": "nested", "sut.cpus": 1, "walk.shared_cache": "6M"}
    assert nested.on == {"cpu": "old"} and shadow.levels["sut.paging"] == "shadow"


def test_ours_stands_beside_what_it_can_be_compared_with() -> None:
    found = beside(points(), [ours(0.2, **{"sut.paging": "nested"})], {"sut.cpus": 1}.get)
    nested, shadow = found
    assert nested.published == pytest.approx(1.1)
    assert (nested.ratio, nested.ratio_low) == (pytest.approx(1.2), pytest.approx(1.19))
    assert shadow.ratio is None and shadow.published == pytest.approx(1.6)


def test_what_is_no_factor_has_the_study_s_setting() -> None:
    found = list(beside(points(), [ours(0.2, **{"sut.paging": "nested"})], {"sut.cpus": 2}.get))
    assert [one.ratio for one in found] == [None, None]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("build,old,native,,1,50\n", "", "no row of 'native' can be the baseline"),
        ("build,new,native", "build,old,native", "several rows of 'native'"),
        ("nested,1,55", "nested,1,fast", "'fast' in build, old, guest, nested, 1 is no number"),
        ("nested,1,55", "nested,1,0", "is no number above zero"),
        (",value\n", ",seconds\n", "no column 'value'"),
        ("workload,cpu", "workload,CPU", "no column 'cpu'"),
        ("nested,1,55", "nested,1", "has not 6 cells"),
    ],
)
def test_bad_tables_are_said(old: str, new: str, said: str) -> None:
    assert old in TABLE
    with pytest.raises(InputError, match=said):
        points(TABLE.replace(old, new, 1))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        published.read(WANTED, tmp_path, "native", ["build"])


def test_every_published_figure_of_the_built_in_studies_reads() -> None:
    """Of the thesis: 79.09 s of 76.94 s natively, nested with 2 MB pages on one core."""
    file: StudyFile = find("paging")
    study = file.study()
    found = [
        point
        for wanted in study.published
        for point in published.read(wanted, builtin_folder(), "native", tuple(study.workloads))
    ]
    (one,) = [p for p in found if (p.workload, p.value) == ("build", 79.09)]
    assert one.baseline_value == 76.94
    assert len(found) == 24 and all(p.source for p in found)
