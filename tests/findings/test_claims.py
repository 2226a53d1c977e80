from __future__ import annotations

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hypertare.findings.claims import Conditions, judge
from hypertare.findings.predictability import SUBJECTS
from hypertare.runs.summary import (
    Effect,
    Effects,
    Estimate,
    JudgedClaim,
    Lead,
    LossFreeRate,
    Predictability,
    Prediction,
)
from hypertare.search import rates
from hypertare.study.analyses import LawName
from hypertare.study.claims import Claim
from tests.made_searches import searched

CELL = {"workload": "tcp", "message": 64}


def seen(platform: str = "guest", **fields: object) -> Estimate:
    given: dict[str, object] = {
        "response": "goodput",
        "unit": "b/s",
        "better": "higher",
        "cell": CELL,
        "platform": platform,
        "n": 8,
        "estimate": 5e9,
        "low": 4.9e9,
        "high": 5.1e9,
        "baseline": "native",
        "blocks": 8,
        "cost": 0.5,
        "cost_low": 0.48,
        "cost_high": 0.52,
        "verdict": "costs",
    }
    return Estimate.model_validate(given | fields)


def claim(**fields: object) -> Claim:
    given: dict[str, object] = {
        "text": "half is lost",
        "response": "goodput",
        "platform": "guest",
        "op": "above",
        "value": "40 %",
    }
    return Claim.model_validate(given | fields)


def said(one: Claim, *estimates: Estimate) -> str:
    judged = judge(one, estimates)
    assert isinstance(judged, JudgedClaim) and judged.text == one.text
    return judged.judgement


@pytest.mark.parametrize(
    ("op", "value", "judgement"),
    [
        ("above", "40 %", "holds"),
        ("above", "50 %", "undecided"),
        ("above", "60 %", "fails"),
        ("below", 0.6, "holds"),
        ("below", 0.5, "undecided"),
        ("below", 0.4, "fails"),
        ("within", ["40 %", "60 %"], "holds"),
        ("within", ["50 %", "60 %"], "undecided"),
        ("within", ["-5 %", "5 %"], "fails"),
        ("within", ["49 %", "51 %"], "undecided"),
    ],
)
def test_cost(op: str, value: object, judgement: str) -> None:
    assert said(claim(op=op, value=value), seen()) == judgement


def test_evidence_gives_the_figures() -> None:
    judged = judge(claim(), [seen()])
    assert judged.evidence == (
        "cost of goodput 50.0 % (95 % interval 48.0 to 52.0), wanted above 40 %"
    )


def test_a_difference_reports_both_sides_and_no_paths() -> None:
    sides = [
        seen(
            response="loss",
            unit="share (virtual)",
            estimate=loss,
            low=loss - half,
            high=loss + half,
            cell={"workload": "tcp", "knobs.napi_weight": weight},
        )
        for loss, half, weight in ((0.592, 0.02, 1), (0.0, 0.0, 60))
    ]
    more = claim(
        response="loss",
        where={"knobs.napi_weight": 1},
        against={"knobs.napi_weight": 60},
        measure="value",
        op="above",
        value="5 %",
    )
    assert judge(more, sides).evidence == (
        "loss 59.2 % (virtual) against 0 % with napi weight 60, difference 59.2 points "
        "(95 % interval 57.2 to 61.2), wanted above 5 points"
    )


def test_value_and_ratio() -> None:
    assert said(claim(measure="value", op="above", value=4e9), seen()) == "holds"
    assert said(claim(measure="ratio", op="within", value=[0.45, 0.55]), seen()) == "holds"
    slower = seen(better="lower", cost=1.0, cost_low=0.9, cost_high=1.1)
    assert said(claim(measure="ratio", op="within", value=[1.85, 2.15]), slower) == "holds"
    assert said(claim(measure="ratio", op="above", value=1.95), slower) == "undecided"
    # Of a cost from 48 to 52 %, the ratio runs from 48 to 52 %: its ends change places.
    lopsided = seen(cost=0.5, cost_low=0.3, cost_high=0.51)
    assert said(claim(measure="ratio", op="above", value=0.48), lopsided) == "holds"


def test_missing_estimates_are_undecided() -> None:
    for one in (
        claim(response="rtt_p50"),
        claim(platform="container"),
        claim(workload="udp"),
        claim(where={"message": 1500}),
        claim(where={"nic": "e1000"}),
    ):
        judged = judge(one, [seen()])
        assert judged.judgement == "undecided"
        assert judged.evidence.startswith("no estimate of")
    judged = judge(claim(), [seen(cost=None, cost_low=None, cost_high=None)])
    assert judged.judgement == "undecided" and "no cost" in judged.evidence


def test_true_is_not_one() -> None:
    assert said(claim(where={"tso": 1}), seen(cell={"tso": True})) == "undecided"
    assert said(claim(where={"tso": True}), seen(cell={"tso": True})) == "holds"


def test_every_cell_counts() -> None:
    good, bad = (
        seen(),
        seen(cell={"workload": "tcp", "message": 1500}, cost=0.1, cost_low=0.05, cost_high=0.15),
    )
    open_one = seen(cell={"workload": "tcp", "message": 9000}, cost=0.4)
    assert said(claim(), good, good.model_copy(update={"cell": {"message": 1}})) == "holds"
    assert said(claim(value="49 %"), good, good) == "undecided"
    assert said(claim(), good, bad) == "fails"
    assert "holds in 1 of 2 cells; guest (message 1500)" in judge(claim(), [good, bad]).evidence
    assert said(claim(value="50 %"), good, bad, open_one) == "fails"
    assert said(claim(where={"message": 64}), good, bad) == "holds"


def test_without_interval() -> None:
    single = seen(n=1, blocks=1, low=None, high=None, cost_low=None, cost_high=None)
    judged = judge(claim(), [single])
    assert judged.judgement == "undecided" and "one trial" in judged.evidence
    same = seen(n=8, low=None, high=None, cost_low=None, cost_high=None)
    assert said(claim(), same) == "holds"
    few = judge(claim(), [same.model_copy(update={"blocks": 4})])
    assert few.judgement == "undecided" and "too few" in few.evidence


def test_no_loss_in_any_trial() -> None:
    clean = seen(
        response="loss",
        unit="share",
        better="lower",
        estimate=0.0,
        low=None,
        high=None,
        cost=None,
        cost_low=None,
        cost_high=None,
    )
    one = claim(response="loss", measure="value", op="below", value="0.1 %")
    assert said(one, clean) == "holds"
    assert said(one, clean.model_copy(update={"n": 5})) == "undecided"


def test_exact_values() -> None:
    exact = seen(exact=True, n=2, low=5e9, high=5e9, cost_low=0.5, cost_high=0.5)
    assert said(claim(value=0.4), exact) == "holds"
    assert said(claim(value=0.5), exact) == "fails"
    assert "exact" in judge(claim(), [exact]).evidence


# --- cell against cell


def cells(**second: object) -> tuple[Estimate, Estimate]:
    return (
        seen(cell={"workload": "tcp", "nic": "virtio-net"}),
        seen(cell={"workload": "tcp", "nic": "e1000"}, **second),
    )


def test_ratio_of_cells_by_hand() -> None:
    one = claim(
        measure="ratio", op="above", value=4, where={"nic": "virtio-net"}, against={"nic": "e1000"}
    )
    pair = cells(estimate=1e9, low=0.95e9, high=1.05e9)
    judged = judge(one, pair)
    # log 5 less √(log(5/4.9)² + log(1.05)²) and more √(log(5.1/5)² + log(1/0.95)²).
    low = 5 * math.exp(-math.hypot(math.log(5 / 4.9), math.log(1.05)))
    high = 5 * math.exp(math.hypot(math.log(5.1 / 5), math.log(1 / 0.95)))
    assert judged.judgement == "holds"
    assert f"with nic e1000, ratio 5.00 (95 % interval {low:.2f} to {high:.2f})" in judged.evidence


def test_a_ratio_whose_interval_reaches_below_zero() -> None:
    """Four counts of 34 and two of 545 have a mean of 204, give or take 276; none is below zero."""
    below = claim(
        measure="ratio", op="below", value=2, where={"nic": "virtio-net"}, against={"nic": "e1000"}
    )
    few, many = cells(estimate=4e9, low=3.9e9, high=4.1e9)
    few = few.model_copy(update={"estimate": 2e9, "low": -1e9, "high": 5e9})
    judged = judge(below, [few, many])
    high = 0.5 * math.exp(math.hypot(math.log(2.5), math.log(1 / 0.975)))
    assert judged.judgement == "holds"
    assert f"ratio 0.5 (95 % interval 0.0 to {high + 0.01:.1f})" in judged.evidence
    # The other way round nothing is known of how large it may be.
    above = claim(
        measure="ratio",
        op="above",
        value=0.5,
        where={"nic": "e1000"},
        against={"nic": "virtio-net"},
    )
    judged = judge(above, [few, many])
    low = 2 * math.exp(-math.hypot(math.log(4 / 3.9), math.log(2.5)))
    assert judged.judgement == "holds"
    assert f"ratio 2.00 (95 % interval {low:.3f} or more)" in judged.evidence
    assert said(above.model_copy(update={"value": 1}), few, many) == "undecided"


def test_difference_of_costs() -> None:
    one = claim(op="below", value="-30 %", where={"nic": "virtio-net"}, against={"nic": "e1000"})
    assert said(one, *cells(cost=0.9, cost_low=0.89, cost_high=0.91)) == "holds"
    assert said(one, *cells(cost=0.8, cost_low=0.79, cost_high=0.81)) == "undecided"
    assert said(one, *cells(cost=0.5)) == "fails"
    assert said(one, *cells(cost=None, cost_low=None, cost_high=None)) == "undecided"


def test_platform_against_platform() -> None:
    one = claim(measure="ratio", op="below", value=0.7, against={"platform": "native"})
    native = seen(
        "native",
        cell={"workload": "tcp"},
        estimate=9e9,
        low=8.9e9,
        high=9.1e9,
        cost=None,
        cost_low=None,
        cost_high=None,
    )
    guest = seen(cell={"workload": "tcp", "nic": "e1000"})
    assert said(one, guest, native) == "holds"
    container = native.model_copy(update={"platform": "container"})
    assert said(one, guest, container) == "undecided"


def test_against_what_is_not_there() -> None:
    one = claim(where={"nic": "virtio-net"}, against={"nic": "rtl8139"})
    judged = judge(one, cells())
    assert judged.judgement == "undecided" and "no estimate of goodput" in judged.evidence
    itself = judge(claim(where={"nic": "e1000"}, against={"nic": "e1000"}), cells())
    assert itself.judgement == "undecided" and "this cell itself" in itself.evidence
    nought = judge(
        claim(measure="ratio", where={"nic": "virtio-net"}, against={"nic": "e1000"}),
        cells(estimate=0.0, low=None, high=None),
    )
    assert nought.judgement == "undecided" and "above zero" in nought.evidence


# --- what a study file may say


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"op": "within"}, "needs two"),
        ({"value": [0, 1]}, "needs one bound"),
        ({"op": "within", "value": [2, 1]}, "below the second"),
        ({"value": "much"}, "is no bound"),
        ({"value": True}, "is no bound"),
        ({"value": float("nan")}, "is no bound"),
        ({"against": {}}, "names no level"),
        ({"op": "over"}, "'above', 'below', 'within' or 'largest'"),
        ({"wehre": {}}, "Extra inputs"),
    ],
)
def test_bad_claims(fields: dict[str, object], part: str) -> None:
    with pytest.raises(ValidationError, match=part):
        claim(**fields)


FIGURE = st.floats(-10, 10)


@given(FIGURE, st.floats(0.001, 5), FIGURE)
def test_below_is_above_seen_from_the_other_side(middle: float, half: float, bound: float) -> None:
    up = seen(cost=middle, cost_low=middle - half, cost_high=middle + half)
    down = seen(cost=-middle, cost_low=-middle - half, cost_high=-middle + half)
    assert said(claim(op="above", value=bound), up) == said(claim(op="below", value=-bound), down)


@given(FIGURE, st.floats(0.001, 5), FIGURE, st.floats(0, 5))
def test_a_looser_bound_never_fails_more(
    middle: float, half: float, bound: float, slack: float
) -> None:
    order = ["fails", "undecided", "holds"]
    one = seen(cost=middle, cost_low=middle - half, cost_high=middle + half)
    strict = order.index(said(claim(op="above", value=bound), one))
    assert order.index(said(claim(op="above", value=bound - slack), one)) >= strict


def over_cells(**responses: list[float]) -> list[Estimate]:
    """Exact estimates of several responses over the levels of one factor."""
    return [
        seen(
            response=name,
            cell={"workload": "tcp", "weight": level},
            estimate=value,
            low=value,
            high=value,
            exact=True,
        )
        for name, values in responses.items()
        for level, value in enumerate(values)
    ]


def test_correlation_is_over_the_over_cells() -> None:
    one = claim(measure="correlation", with_response="packets", op="above", value=0.9)
    together = over_cells(goodput=[1.0, 2, 3, 4, 5, 6], packets=[10.0, 21, 29, 40, 52, 60])
    assert said(one, *together) == "holds"
    evidence = judge(one, together).evidence
    assert evidence.startswith("correlation of goodput with packets over 6 cells 0.99")
    against = over_cells(goodput=[1.0, 2, 3, 4, 5, 6], packets=[60.0, 52, 40, 29, 21, 10])
    assert said(one, *against) == "fails"
    assert said(one, *over_cells(goodput=[1.0, 2, 3], packets=[1.0, 2, 3])) == "undecided"
    assert "needs 4" in judge(one, over_cells(goodput=[1.0, 2, 3], packets=[1.0, 2, 3])).evidence
    assert "no estimate of packets" in judge(one, over_cells(goodput=[1.0, 2, 3, 4])).evidence
    within = claim(**{**one.model_dump(), "where": {"weight": 1}})
    assert said(within, *together) == "undecided"


def test_two_responses_of_one_cell() -> None:
    below = claim(
        response="own_cpu",
        against_response="outside_cpu",
        measure="ratio",
        op="below",
        value=1.0,
    )
    own = seen(response="own_cpu", unit="s", estimate=0.5, low=0.45, high=0.55)
    outside = seen(response="outside_cpu", unit="s", estimate=1.0, low=0.95, high=1.05)
    assert said(below, own, outside) == "holds"
    assert "against 1 s outside cpu, ratio 0.50 (" in judge(below, [own, outside]).evidence
    assert "this run has no outside_cpu" in judge(below, [own]).evidence
    elsewhere = seen("container", response="outside_cpu", unit="s", estimate=1.0)
    assert said(below, own, elsewhere) == "undecided"


@pytest.mark.parametrize(
    "fields",
    [
        {"measure": "correlation"},
        {"with_response": "packets"},
        {"measure": "correlation", "with_response": "packets", "against": {"weight": 2}},
        {"against_response": "packets"},
        {"measure": "ratio", "against_response": "packets", "against": {"weight": 2}},
        {"measure": "error"},
        {"law": "fair rate"},
        {"measure": "error", "law": "unfair rate"},
        {"measure": "error", "law": "fair rate", "against": {"weight": 2}},
        {"measure": "efficiency", "guest": 1},
        {"guest": 1},
        {"measure": "ratio", "guest": 1},
        {"measure": "value", "guest": 0},
    ],
)
def test_what_does_not_go_together_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        claim(**fields)


def test_efficiency_is_the_way_round_in_which_more_is_better() -> None:
    above = claim(measure="efficiency", op="within", value=[0.47, 0.53])
    assert said(above, seen()) == "holds"
    # CPU time +100 % is an efficiency of a half; its ends are the other way round.
    cpu = seen(response="cpu", better="lower", unit="s", cost=1.0, cost_low=0.9, cost_high=1.1)
    half = claim(response="cpu", measure="efficiency", op="within", value=[0.47, 0.53])
    assert said(half, cpu) == "holds"
    assert "efficiency of cpu 0.500 (95 % interval 0.476 to 0.526)" in judge(half, [cpu]).evidence
    assert said(claim(response="cpu", measure="efficiency", value=0.5), cpu) == "undecided"


def test_efficiencies_of_two_cells() -> None:
    """As of forwarding: 0.40 by default and 0.70 with a weight."""
    low = seen(cell={**CELL, "weight": 256}, cost=0.6, cost_low=0.58, cost_high=0.62)
    high = seen(cell={**CELL, "weight": 2048}, cost=0.3, cost_low=0.28, cost_high=0.32)
    gain = claim(
        where={"weight": 2048}, against={"weight": 256}, measure="efficiency", op="above", value=0.2
    )
    assert said(gain, low, high) == "holds"
    reported = judge(gain, [low, high]).evidence
    assert (
        "efficiency of goodput 0.700 against 0.400 with weight 256, difference 0.300 (" in reported
    )


def of_guest(number: int, rate: float) -> Estimate:
    bare = {"cost": None, "cost_low": None, "cost_high": None, "verdict": None, "baseline": None}
    return seen(guest=number, estimate=rate, low=0.99 * rate, high=1.01 * rate, **bare)


def test_the_earlier_a_guest_was_made_the_more_it_gets() -> None:
    each = [seen(), *(of_guest(n, rate) for n, rate in enumerate((318e6, 291e6, 87e6), start=1))]
    earlier = claim(guest=1, against={"guest": 3}, measure="ratio", op="above", value=2)
    assert said(earlier, *each) == "holds"
    assert "of guest 1 against 87 Mb/s of guest 3, ratio" in judge(earlier, each).evidence
    assert said(claim(guest=3, measure="value", op="below", value=1e8), *each) == "holds"
    # A claim that names no guest is of all of them together.
    assert said(claim(measure="value", op="above", value=4e9), *each) == "holds"
    nobody = claim(guest=1, against={"guest": 9}, measure="ratio", op="above", value=2)
    assert said(nobody, *each) == "undecided"
    assert (
        "this cell itself"
        in judge(claim(guest=1, against={"guest": 1}, measure="value"), each).evidence
    )


def law(error: float, low: float, high: float, guests: int = 8) -> Predictability:
    found = Prediction(
        guests=guests,
        predicted=1e8,
        measured=1e8 / (1 + error),
        error=error,
        error_low=low,
        error_high=high,
    )
    return Predictability(
        law="fair rate",
        formula="R / N",
        platform="xen",
        cell={"workload": "tcp"},
        response="least_rate",
        unit="b/s",
        fitted=(1, 2, 4),
        predictions=(found,),
        most=0.1,
        verdict="predictable",
    )


def test_what_a_law_foretold_is_a_claim() -> None:
    one = claim(
        response="least_rate",
        platform="xen",
        law="fair rate",
        measure="error",
        op="within",
        value=["-10 %", "10 %"],
    )
    assert judge(one, [], [law(0.02, -0.01, 0.05)]).judgement == "holds"
    assert judge(one, [], [law(0.5, 0.4, 0.6)]).judgement == "fails"
    assert judge(one, [], [law(0.02, -0.2, 0.3)]).judgement == "undecided"
    assert "it predicts 100 Mb/s, fitted to 1, 2, 4; " in judge(one, [], [law(0, 0, 0)]).evidence
    assert judge(one, [], []).judgement == "undecided"
    at = claim(**{**one.model_dump(), "where": {"sut.guests": 4}})
    assert judge(at, [], [law(0.02, -0.01, 0.05)]).judgement == "undecided"
    assert judge(at, [], [law(0.02, -0.01, 0.05, guests=4)]).judgement == "holds"
    unfitted = law(0, 0, 0).model_copy(update={"predictions": (), "reason": "it needs 3 numbers"})
    assert "needs 3" in judge(one, [], [unfitted]).evidence


def test_claims_know_every_law() -> None:
    assert set(get_args(LawName)) == {one.law.name for one in SUBJECTS}


# --- several second cells, and cells of the same trials


def cost_of(cost: float, half: float = 0.01, **cell: object) -> Estimate:
    return seen(
        cell={"workload": "tcp", **cell}, cost=cost, cost_low=cost - half, cost_high=cost + half
    )


def test_a_claim_holds_against_each_of_several_cells() -> None:
    cells = [cost_of(0.1, pages="2M"), cost_of(0.3, pages="4K"), cost_of(0.5, pages="thp")]
    least = claim(
        where={"pages": "2M"}, against=[{"pages": "4K"}, {"pages": "thp"}], op="below", value=0.0
    )
    assert said(least, *cells) == "holds"
    assert said(least.model_copy(update={"where": {"pages": "4K"}}), *cells) == "undecided"
    middle = claim(
        where={"pages": "4K"}, against=[{"pages": "2M"}, {"pages": "thp"}], op="below", value=0.0
    )
    assert said(middle, *cells) == "fails"
    assert "holds in 1 of 2" in judge(middle, cells).evidence


@pytest.mark.parametrize("against", [{}, [], [{}], [{"pages": "4K"}, {}]])
def test_against_nothing_is_refused(against: object) -> None:
    with pytest.raises(ValidationError, match="names no level"):
        claim(against=against)


def test_what_was_modelled_of_the_same_trials_differs_for_sure() -> None:
    """Costs of 30 % within 10 points each: as two measurements 14 points are between them; as the same
    trials with another constant, none.
    """
    own = cost_of(0.3, 0.1, **{"walk.shared_cache": "6M"})
    none = cost_of(0.31, 0.1, **{"walk.shared_cache": "none"})
    alike = claim(
        where={"walk.shared_cache": "6M"},
        against={"walk.shared_cache": "none"},
        op="within",
        value=["-2 %", "2 %"],
    )
    assert said(alike, own, none) == "holds"
    others = (cost_of(0.3, 0.1, cache="6M"), cost_of(0.31, 0.1, cache="none"))
    measured = claim(
        where={"cache": "6M"}, against={"cache": "none"}, op="within", value=["-2 %", "2 %"]
    )
    assert said(measured, *others) == "undecided"


def of_searches(found: list[LossFreeRate], **fields: object) -> JudgedClaim:
    one = claim(**({"response": "loss_free_rate", "measure": "value"} | fields))
    return judge(one, rates.estimates(found, "native"))


@pytest.mark.parametrize(
    ("op", "value", "judgement"),
    [
        ("above", 99e6, "holds"),
        ("above", 101e6, "undecided"),
        ("above", 103e6, "fails"),
        ("below", 103e6, "holds"),
        ("below", 101e6, "undecided"),
        ("below", 99e6, "fails"),
        ("within", [99e6, 103e6], "holds"),
    ],
)
def test_a_loss_free_rate_lies_between_its_bounds(op: str, value: object, judgement: str) -> None:
    judged = of_searches([searched(100e6, 102e6)], op=op, value=value)
    assert judged.judgement == judgement
    assert "loss free rate 100.0 Mb/s (searched: 100.0 to 102.0)" in judged.evidence


def test_without_an_upper_bound_a_loss_free_rate_may_be_anything_above() -> None:
    for found in (searched(100e6, 102e6, sender=True), searched(100e6, None, state="none loses")):
        assert of_searches([found], value=99e6).judgement == "holds"
        assert of_searches([found], value=200e6).judgement == "undecided"
        assert of_searches([found], op="below", value=200e6).judgement == "undecided"
        assert of_searches([found], op="below", value=99e6).judgement == "fails"
        assert "100 Mb/s or more" in of_searches([found], value=99e6).evidence


def test_one_goal_of_several_is_named_as_the_search_names_it() -> None:
    found = [searched(100e6, 102e6), searched(50e6, 51e6, goal=0.0)]
    assert of_searches(found, value=99e6).judgement == "fails"
    for goal in ("0.5%", 0.005):
        chosen = of_searches(found, where={"search.loss": goal}, value=99e6)
        assert chosen.judgement == "holds"
    ratio = {"where": {"search.loss": "0.5%"}, "against": {"search.loss": 0}, "measure": "ratio"}
    judged = of_searches(found, **ratio, value=1.9)
    assert judged.judgement == "holds"
    assert f"searched: {100 / 51:.2f} to {102 / 50:.2f}" in judged.evidence
    with pytest.raises(ValidationError, match="no bound"):
        claim(where={"search.loss": "much"})


def test_loss_free_rates_of_two_settings_and_of_the_baseline() -> None:
    one = {"cell": {"workload": "udp", "knobs.napi_weight": 1}}
    found = [searched(100e6, 102e6), searched(50e6, 51e6, **one)]
    setting = {"where": {"knobs.napi_weight": 64}, "against": {"knobs.napi_weight": 1}}
    low, high = 49e6, 52e6
    assert of_searches(found, **setting, op="within", value=[48e6, 53e6]).judgement == "holds"
    assert of_searches(found, **setting, op="within", value=[low, high]).judgement == "undecided"

    native = searched(200e6, 204e6, platform="native", cell={"workload": "udp"})
    for measure, value, judgement in (
        ("ratio", [0.49, 0.52], "holds"),
        ("efficiency", [0.491, 0.52], "undecided"),
        ("cost", ["48 %", "51 %"], "holds"),
    ):
        judged = of_searches(
            [native, searched(100e6, 102e6)], op="within", measure=measure, value=value
        )
        assert judged.judgement == judgement, judged.evidence
    alone = of_searches([searched(100e6, 102e6)], measure="cost", value=0)
    assert alone.judgement == "undecided" and "no search of the baseline" in alone.evidence


def test_a_search_that_failed_decides_nothing() -> None:
    failed = searched(None, None, state="failed", reason="no such knob")
    assert of_searches([failed], value=1).judgement == "undecided"
    nothing = of_searches([searched(None, 1e4, state="all lose")], op="below", value=1e6)
    assert nothing.judgement == "holds"


def test_what_is_in_doubt_decides_nothing() -> None:
    doubt = "its streams ran all at once for less than 50 % of the longest one's time"
    judged = judge(claim(), [seen(doubt=doubt)])
    assert judged.judgement == "undecided" and judged.evidence.endswith(doubt)
    small = seen(cell={**CELL, "message": 16}, doubt=doubt)
    against = claim(against={"message": 16}, measure="ratio", value=0.5, where={"message": 64})
    assert said(against, seen(), seen(cell={**CELL, "message": 16})) == "holds"
    assert said(against, seen(), small) == "undecided"
    # A cell that does fail all the same fails it.
    assert said(claim(value="60 %"), seen(), small) == "fails"


def test_what_is_not_as_published_is_reported_and_not_judged() -> None:
    plain = claim(op="above", value=0.9)
    assert said(plain, seen()) == "fails"
    differs = claim(op="above", value=0.9, differs="one saturated CPU")
    judged = judge(differs, [seen()])
    assert judged.judgement == "not judged"
    assert "one saturated CPU; there cost of goodput" in judged.evidence


def test_the_cells_that_are_as_published_are_judged() -> None:
    at = [seen(cell={"workload": "build", "sut.guests": n}, cost=n / 100) for n in (1, 2, 8)]
    at = [one.model_copy(update={"cost_low": one.cost, "cost_high": one.cost}) for one in at]
    partly = claim(
        op="below", value=0.05, differs="one saturated CPU", differs_where={"sut.guests": 8}
    )
    judged = judge(partly, at)
    assert judged.judgement == "holds"
    assert judged.evidence.startswith("holds in all 2 cells, for example guest (")
    assert "not judged: one saturated CPU" in judged.evidence and "guests 8" in judged.evidence
    assert judge(partly, at[2:]).judgement == "not judged"
    with pytest.raises(ValueError, match="'differs_where' needs 'differs'"):
        claim(op="below", value=0.05, differs_where={"sut.guests": 8})


def test_a_claim_about_kvm_is_judged_of_no_emulated_guest() -> None:
    about = claim(op="above", value=0.1, accelerator="kvm")
    assert judge(about, [seen()], (), Conditions({"guest": "kvm"}, 2)).judgement == "holds"
    judged = judge(about, [seen()], (), Conditions({"guest": "tcg"}, 2))
    assert judged.judgement == "not judged"
    assert "about guests under kvm; here they ran under tcg" in judged.evidence


def test_a_claim_about_several_cpus_is_judged_where_there_are_as_many() -> None:
    about = claim(op="above", value=0.1, least_cpus=3)
    assert judge(about, [seen()], (), Conditions({}, 3)).judgement == "holds"
    judged = judge(about, [seen()], (), Conditions({}, 2))
    assert judged.judgement == "not judged"
    assert "about machines with 3 CPUs or more; this one has 2" in judged.evidence


@pytest.mark.parametrize(
    ("value", "judgement"), [(1.0, "holds"), (2.0, "undecided"), (3.0, "fails")]
)
def test_what_is_added_to_the_baseline_s(value: float, judgement: str) -> None:
    """In the response's unit, beside a cost as a share."""
    added = {"difference": 2.0, "difference_low": 1.5, "difference_high": 2.5, "unit": "s/GB"}
    judged = judge(claim(measure="difference", value=value), [seen(**added)])
    assert judged.judgement == judgement
    assert "difference of goodput 2.0 s/GB (95 % interval 1.5 to 2.5)" in judged.evidence


def test_more_is_added_in_one_cell_than_in_another() -> None:
    def at(message: int, added: float) -> Estimate:
        ends = {"difference_low": added - 0.5, "difference_high": added + 0.5}
        cell = CELL | {"message": message}
        return seen(cell=cell, unit="s/GB", difference=added, **ends)

    against = claim(
        measure="difference", where={"message": 64}, against={"message": 512}, value=0.0
    )
    assert said(against, at(64, 5.0), at(512, 2.0)) == "holds"
    assert said(against, at(64, 2.0), at(512, 5.0)) == "fails"
    assert said(against, at(64, 2.3), at(512, 2.0)) == "undecided"


def test_without_a_difference_nothing_is_decided() -> None:
    assert said(claim(measure="difference", value=0.0), seen(difference=None)) == "undecided"


# --- shares of factors

MTU, MESSAGE, BUFFER = "knobs.mtu", "workloads.tcp.message", "workloads.tcp.socket_buffer"


def shares(*leads: tuple[str, str, float, float, float], **fields: object) -> Effects:
    totals = {MTU: 0.62, MESSAGE: 0.31, BUFFER: 0.12}
    effects = [
        Effect(
            factors=(path,),
            share=total - 0.03,
            share_low=total - 0.1,
            share_high=total + 0.05,
            total=total,
            total_low=total - 0.07,
            total_high=total + 0.06,
        )
        for path, total in totals.items()
    ]
    given: dict[str, object] = {
        "response": "goodput",
        "unit": "b/s",
        "better": "higher",
        "of": "value",
        "scale": "log",
        "platform": "guest",
        "cell": {"workload": "tcp"},
        "levels": dict.fromkeys(totals, (1, 2)),
        "trials": 32,
        "boots": 4,
        "effects": effects,
        "leads": [
            Lead(factor=one, against=other, share=share, low=low, high=high)
            for one, other, share, low, high in leads
        ],
    }
    return Effects.model_validate(given | fields)


def largest(**fields: object) -> Claim:
    return claim(**{"measure": "share", "factor": MTU, "op": "largest", "value": None, **fields})


AHEAD = (MTU, MESSAGE, 0.71, 0.64, 0.78), (BUFFER, MTU, 0.1, 0.05, 0.16)


@pytest.mark.parametrize(
    ("leads", "judgement"),
    [
        (AHEAD, "holds"),
        (((MTU, MESSAGE, 0.55, 0.44, 0.66), AHEAD[1]), "undecided"),
        (((MTU, MESSAGE, 0.38, 0.31, 0.45), AHEAD[1]), "fails"),
        ((AHEAD[0], (BUFFER, MTU, 0.6, 0.51, 0.7)), "fails"),
    ],
)
def test_a_factor_leads_before_each_other(
    leads: tuple[tuple[str, str, float, float, float], ...], judgement: str
) -> None:
    assert judge(largest(), (), factorials=[shares(*leads)]).judgement == judgement


def test_evidence_of_a_share_names_the_nearest_rival() -> None:
    assert judge(largest(), (), factorials=[shares(*AHEAD)]).evidence == (
        "guest (workload tcp): total share of mtu in goodput 62 % (95 % interval 55 to 68), of message "
        "31 % (24 to 37); of what one of the two has without the other, mtu has 71 % (64 to 78), wanted "
        "above half"
    )


def test_a_share_has_bounds_too() -> None:
    bounded = largest(op="above", value="50 %")
    judged = judge(bounded, (), factorials=[shares(*AHEAD, of="efficiency")])
    assert judged.judgement == "holds"
    assert judged.evidence == (
        "guest (workload tcp): total share of mtu in the efficiency in goodput 62 % (95 % interval 55 to "
        "68), wanted above 50 %"
    )


def test_shares_that_are_not_there_decide_nothing() -> None:
    reason = shares(reason="no replicates", effects=[])
    judged = judge(largest(), (), factorials=[reason, shares(*AHEAD, platform="xen")])
    assert judged.judgement == "undecided" and "no replicates" in judged.evidence
    assert judge(largest(), ()).judgement == "undecided"
    gone = shares(effects=[], levels={MESSAGE: (1, 2), BUFFER: (1, 2)})
    judged = judge(largest(), (), factorials=[gone])
    assert judged.judgement == "undecided"
    assert "fewer than two levels of mtu have good trials" in judged.evidence


def test_a_share_under_other_conditions_is_not_judged() -> None:
    judged = judge(largest(differs="one CPU"), (), factorials=[shares(*AHEAD)])
    assert judged.judgement == "not judged" and judged.evidence.startswith("one CPU; there guest")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"factor": None}, "needs a 'factor'"),
        ({"measure": "value"}, "nothing else has one"),
        ({"value": 0.5}, "has no 'value'"),
        ({"op": "above"}, "needs a 'value'"),
        ({"measure": "value", "factor": None}, "is for the measure 'share'"),
        ({"where": {MTU: 500}}, "a share is of all cells"),
        ({"over": "mean"}, "a share is of all cells"),
    ],
)
def test_a_share_goes_with_nothing_else(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        largest(**fields)
