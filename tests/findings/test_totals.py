"""What a trial would take if page walks were not free, against sums made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.findings import totals
from hypertare.findings.estimates import estimate
from hypertare.findings.totals import Layout
from hypertare.study import StudyFile
from hypertare.walk.result import Cost, Counts, ProcessorCosts, Walked, WalkSummary
from hypertare.workloads.responses import MODELLED, RESPONSES

STUDY = """
name = "s"
question = "?"
machine = "emulated"
[sut]
platforms = ["native", "guest"]
memory = "256M"
paging = "nested"
pages = "4K"
[factors]
"sut.paging" = ["nested", "shadow"]
"sut.pages" = ["4K", "2M"]
[workloads.fork]
type = "fork"
[workloads.large]
type = "touch"
count = 100
pages = "2M"
[knobs]
thp = "never"
[walk]
processors = ["phenom2"]
shared_cache = ["6M", "none"]
cycles_per_instruction = 2.0
"""
FILE = StudyFile(STUDY, "s.toml")

CYCLES = {
    ("native", "4K", None): 1_000_000,
    ("shadow", "4K", "4K"): 1_000_000,
    ("shadow", "4K", "2M"): 1_000_000,
    ("nested", "4K", "4K"): 6_000_000,
    ("nested", "4K", "2M"): 2_000_000,
}


def _cost(kind: tuple[str, str, str | None], cycles: int) -> Cost:
    counts = dict.fromkeys(Counts.model_fields, 0)
    counts |= {"walks": 10, "references": 40, "uncached_references": 24}
    paging, guest_pages, host_pages = kind
    # A look-up in the second-level TLB is translation too.
    counts |= {"second_tlb_cycles": cycles // 4, "cycles": cycles - cycles // 4}
    made = Counts.model_validate(
        counts | {"paging": paging, "guest_pages": guest_pages, "host_pages": host_pages}
    )
    return Cost(counts=made, accesses=100, base_cycles=100)


def walked(workload: str = "fork", shares: tuple[float, float] = (1.0, 2.0)) -> Walked:
    processors = [
        ProcessorCosts(
            name="phenom2",
            title="x",
            shared_cache=cache,
            assumed=[],
            layouts=[_cost(kind, round(cycles * share)) for kind, cycles in CYCLES.items()],
        )
        for cache, share in zip(("6M", "none"), shares, strict=True)
    ]
    result = WalkSummary(
        command=["x"],
        status=0,
        elapsed_s=1,
        cycles_per_instruction=2.0,
        cache_share=0.25,
        programs=1,
        lost=[],
        instructions=1,
        accesses=1,
        processors=processors,
    )
    return Walked({"workload": workload}, result)


def trial(number: int, platform: str, elapsed: float, **levels: str) -> FinishedTrial:
    cell = {"workload": "fork", "sut.paging": "nested", "sut.pages": "4K"}
    cell |= {f"sut.{name}": level for name, level in levels.items()}
    planned = PlannedTrial(number, number // 2, number // 2, platform, cell)
    return FinishedTrial(planned, "ok", None, 1.0, {"elapsed": elapsed})


def of(found: list[FinishedTrial], cache: str) -> dict[str, float]:
    (one,) = [t for t in found if t.planned.cell["walk.shared_cache"] == cache]
    return one.values


def test_a_cycle_is_of_the_clock_that_instructions_have() -> None:
    """8 ns an instruction, two cycles an instruction: 4 ns a cycle, whatever the processor has."""
    assert totals.cycle_s(FILE.study()) == 4e-9


@pytest.mark.parametrize(
    ("platform", "levels", "walk_s"),
    [
        ("native", {}, 0.004),
        ("guest", {}, 0.024),
        ("guest", {"pages": "2M"}, 0.008),
        ("guest", {"paging": "shadow"}, 0.004),
        ("guest", {"paging": "shadow", "pages": "2M"}, 0.004),
    ],
)
def test_totals_by_hand(platform: str, levels: dict[str, str], walk_s: float) -> None:
    found = list(totals.joined(FILE, [trial(0, platform, 0.5, **levels)], [walked()]))
    with_cache, without = of(found, "6M"), of(found, "none")
    assert with_cache["modelled_walk_time"] == pytest.approx(walk_s)
    assert with_cache["estimated_total"] == pytest.approx(0.5 + walk_s)
    assert without["estimated_total"] == pytest.approx(0.5 + 2 * walk_s)
    assert without["modelled_walk_cycles"] == 2 * with_cache["modelled_walk_cycles"]


def test_failed_trials_warm_ups_and_others_are_joined_with_nothing() -> None:
    failed = FinishedTrial(trial(0, "guest", 1.0).planned, "failed", "no", 1.0)
    assert not list(totals.joined(FILE, [failed], [walked()]))
    assert not list(totals.joined(FILE, [trial(0, "guest", 1.0)], [walked("large")]))


def test_large_pages_in_small_ones_and_transparent_ones_have_no_one_layout() -> None:
    def layout(workload: str, **levels: str) -> Layout | None:
        cell = FILE.cell({f"sut.{name}": level for name, level in levels.items()})
        return totals.layout("guest", cell, workload)

    assert layout("large", pages="4K") is None
    assert layout("fork", pages="thp") is None
    free = StudyFile(STUDY.replace('"never"', '"always"'), "s.toml").study()
    assert totals.layout("native", free, "fork") is None
    assert totals.layout("native", free, "large") == Layout("native", "2M")
    assert layout("large", pages="2M") == Layout("nested", "2M", "2M")
    assert totals.layout("native", FILE.study(), "large") == Layout("native", "2M")


def test_ratios_are_of_the_same_block_and_parts_add_up() -> None:
    trials = [
        *(trial(0, "native", 0.5), trial(1, "guest", 0.6)),
        *(trial(2, "native", 0.4), trial(3, "guest", 0.5)),
    ]
    known = {r.name: r for r in (*RESPONSES["fork"], *MODELLED)}
    modelled = list(totals.joined(FILE, trials, [walked()]))
    estimates = [
        one
        for some in (trials, modelled)
        for one in estimate(some, known, clock="virtual").estimates
    ]
    found = list(totals.totals(FILE, estimates, [walked()]))
    assert len(found) == 4
    for one in found:
        assert one.total == pytest.approx(one.elapsed + one.walk_time)
    guest = next(t for t in found if t.platform == "guest" and t.cell["walk.shared_cache"] == "6M")
    by_hand = ((0.624 / 0.504) * (0.524 / 0.404)) ** 0.5
    assert guest.ratio == pytest.approx(by_hand)
    assert (guest.paging, guest.guest_pages, guest.host_pages) == ("nested", "4K", "4K")
    assert guest.walk_cycles == 6_000_000


@given(
    elapsed=st.floats(1e-3, 1e3),
    share=st.floats(0, 1e3),
)
def test_a_total_is_never_less_than_its_parts(elapsed: float, share: float) -> None:
    found = totals.joined(FILE, [trial(0, "guest", elapsed)], [walked(shares=(share, 0.0))])
    for one in found:
        values = one.values
        assert values["estimated_total"] >= max(elapsed, values["modelled_walk_time"])
        assert values["estimated_total"] == elapsed + values["modelled_walk_time"]
