import pytest

from hypertare.walk.result import Answer, Cost, Counts, summed

COUNTS = {
    "paging": "nested",
    "guest_pages": "4K",
    "host_pages": "4K",
    "uncached_references": 24,
    "first_tlb_misses": 10,
    "second_tlb_hits": 6,
    "second_tlb_cycles": 50,
    "walks": 4,
    "references": 20,
    "memory_references": 1,
    "walk_cache_hits": 2,
    "nested_tlb_hits": 3,
    "cycles": 170,
}


def answer(**counts: int) -> Answer:
    return Answer.model_validate(
        {
            "program": "x",
            "ended": True,
            "threads": 1,
            "marked": False,
            "instructions": 100,
            "accesses": 50,
            "processors": [{"processor": "p", "layouts": [COUNTS | counts]}],
        }
    )


def test_programs_are_summed_but_not_what_a_layout_is():
    (counts,) = summed([answer(), answer(walks=5, cycles=100)])["p"]
    assert (counts.walks, counts.cycles, counts.references) == (9, 270, 40)
    assert (counts.uncached_references, counts.host_pages) == (24, "4K")


def test_what_follows_of_the_counts():
    cost = Cost(counts=Counts.model_validate(COUNTS), accesses=50, base_cycles=400)
    assert cost.references_per_walk == 5
    assert cost.cycles_per_access == pytest.approx(220 / 50)
    assert cost.slow_down == pytest.approx(1 + 220 / 400)


def test_a_program_without_walks_has_no_references_a_walk():
    cost = Cost(
        counts=Counts.model_validate(COUNTS | {"walks": 0, "cycles": 0, "second_tlb_cycles": 0}),
        accesses=0,
        base_cycles=0,
    )
    assert cost.references_per_walk is None
    assert (cost.cycles_per_access, cost.slow_down) == (0, 1)
