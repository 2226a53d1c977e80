"""Totals, published figures and counts in parts, as a report shows them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hypertare.base.variables import Level
from hypertare.protocol.records import Histogram, ProbeValues
from hypertare.report import charts, translation
from hypertare.report.tables import ratios
from hypertare.report.translation import MeanCount, Tally
from hypertare.report.verdict import Wording
from hypertare.runs.summary import Estimate, Published, Total
from tests.report.vega_lite import check

WORDING = Wording(
    shared={"build": frozenset({"workload", "sut.paging"})},
    varied=frozenset({("build", "sut.paging"), ("build", "walk.shared_cache")}),
    workloads=1,
    clock="virtual",
    accelerators={},
)


def total(platform: str, paging: str, walk: float, cache: str, **more: object) -> Total:
    native = platform == "native"
    fields: dict[str, object] = {
        "platform": platform,
        "cell": {"workload": "build", "sut.paging": paging, "walk.shared_cache": cache},
        "unit": "s (virtual)",
        "elapsed": 2.0,
        "walk_time": walk,
        "total": 2.0 + walk,
        "ratio": None if native else 1.25,
        "ratio_low": None if native else 1.2,
        "ratio_high": None if native else 1.3,
        "paging": "native" if native else paging,
        "guest_pages": "4K",
        "host_pages": None if native else "4K",
        "walks": 1,
        "references": 2,
        "uncached_references": 4,
        "walk_cycles": 3,
        "threads": 1,
    }
    return Total.model_validate(fields | more)


def exits(paging: str, count: float) -> Estimate:
    cell: dict[str, Level] = {"workload": "build", "sut.paging": paging}
    return Estimate(
        response="exits",
        unit="exits",
        better="lower",
        cell=cell,
        platform="guest",
        n=2,
        estimate=count,
    )


def summary(*found: Total) -> SimpleNamespace:
    return SimpleNamespace(totals=found, estimates=(exits("nested", 3414.0),))


FOUND = summary(
    total("native", "nested", 0.4, "6M"),
    total("native", "nested", 0.4, "none"),
    total("guest", "nested", 0.5, "6M"),
    total("guest", "nested", 0.6, "none"),
    total("guest", "shadow", 0.4, "6M"),
    total("guest", "shadow", 0.4, "none"),
)


def test_lines_have_their_parts_and_exits_and_what_is_the_same_stands_once() -> None:
    rows = [row.cells for row in ratios.total_table(ratios.lines(FOUND, WORDING)).rows]
    ratio = ("1.25", "1.20 to 1.30")
    nested = "build nested guest shared cache"
    assert rows == [
        (f"{nested} 6M", "3,414", "2 s", "500 ms", "2.50 s", *ratio),
        (f"{nested} none", "3,414", "2 s", "600 ms", "2.60 s", *ratio),
        ("build shadow guest", "", "2 s", "400 ms", "2.40 s", *ratio),
    ]


def test_the_baseline_alone_is_shown() -> None:
    lines = ratios.lines(summary(total("native", "nested", 0.4, "6M", threads=3)), WORDING)
    (row,) = ratios.total_table(lines).rows
    assert row.cells[0] == "build nested native shared cache 6M"
    assert row.note.startswith("3 threads")


def theirs(cache: str, ratio: float | None = 1.25) -> Published:
    return Published(
        source="Somebody, 2010",
        on={"cpu": "old"},
        response="estimated_total",
        platform="guest",
        cell={"workload": "build", "sut.paging": "shadow", "walk.shared_cache": cache},
        value=8.0,
        baseline_value=5.0,
        value_unit="s",
        published=1.6,
        ratio=ratio,
        ratio_low=ratio,
        ratio_high=ratio,
    )


def test_bars_are_parts_of_native_and_published_stands_beside_its_line() -> None:
    bars = list(ratios.bars(ratios.lines(FOUND, WORDING), [theirs("none")]))
    nested = [bar for bar in bars if bar.name == "nested guest shared cache 6M"]
    assert [bar.part for bar in nested] == ["elapsed", "walks"]
    assert sum(bar.ratio for bar in nested) == pytest.approx(1.25)
    assert nested[0].ratio == pytest.approx(1.25 * 2 / 2.5)
    (cross,) = [bar for bar in bars if bar.part == "published"]
    assert (cross.name, cross.ratio) == ("shadow guest", 1.6)
    made = charts.totals(bars)
    check(made)
    assert "1.6" in str(made) and "(virtual)" in str(made)


def test_published_figures_stand_beside_ours_and_the_source_once() -> None:
    rows = ratios.published_table([theirs("6M"), theirs("none"), theirs("2M", None)]).rows
    assert [row.cells[2:5] for row in rows] == [("1.60", "1.25", "exact")] * 2
    assert [row.note for row in rows] == ["Somebody, 2010", ""]


def probe(name: str, values: dict[str, float], codes: dict[int, int] | None = None) -> ProbeValues:
    found = {}
    if codes:
        found["page_faults"] = Histogram(unit="error code", buckets=tuple(codes.items()))
    return ProbeValues.model_validate(
        {
            "node": "guest1",
            "trial": 1,
            "phase": "measure",
            "probe": name,
            "elapsed_s": 1.0,
            "values": values,
            "histograms": found,
        }
    )


def test_exits_faults_and_mappings_are_means_over_trials() -> None:
    tally = Tally()
    for npf in (10.0, 20.0):
        records = [
            probe("kvm_exits", {"exits_npf": npf, "exits_hlt": 2.0, "page_faults": 5.0}, {6: 4}),
            probe("kvm", {"exits": 99.0, "pages_4k_level": 7.0, "pages_2m_level": 1.0}),
        ]
        tally.add("guest", "build nested", "build", records)
    found = {(p.kind, p.part): (p.count, p.trials) for p in tally.parts()}
    assert found == {
        ("exits", "npf"): (15.0, 2),
        ("exits", "hlt"): (2.0, 2),
        ("faults", "user write, not present"): (4.0, 2),
        ("mappings", "4 KB"): (7.0, 2),
        ("mappings", "2 MB"): (1.0, 2),
    }


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0x0, "kernel read, not present"),
        (0x7, "user write, protection"),
        (0x15, "user fetch, protection"),
        (0x9, "kernel read, protection, reserved bit"),
        (0x100000006, "user write, not present, of the page"),
        (0x200000006, "user write, not present, of a page table"),
    ],
)
def test_error_codes_in_words(code: int, words: str) -> None:
    """Of the Intel SDM, volume 3A, 4.7, and of the AMD APM, volume 2, 15.25.6."""
    assert translation.fault(code) == words


def test_small_parts_are_added_up_for_each_bar() -> None:
    parts = [
        MeanCount("exits", "guest", cell, "build", f"reason {n}", float(100 - n), 2)
        for cell in ("a", "b")
        for n in range(12)
    ]
    found = translation.largest(parts)
    assert sum(p.count for p in found) == sum(p.count for p in parts)
    assert {p.part for p in found if p.cell == "a"} == {*(f"reason {n}" for n in range(7)), "other"}
    assert translation.largest(parts[:8]) == parts[:8]
