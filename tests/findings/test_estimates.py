from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hypertare.design.trials import FinishedTrial
from hypertare.findings.estimates import Estimates, estimate
from hypertare.runs.summary import Estimate, PlatformState
from hypertare.workloads.responses import RESPONSES as REPORTED
from tests.made_trials import RESPONSES, blocks, every, noisy, trial


def one(found: Estimates, platform: str = "guest", response: str = "elapsed") -> Estimate:
    (single,) = [e for e in found.estimates if e.platform == platform and e.response == response]
    return single


def warned(found: Estimates, part: str) -> list[str]:
    return list(every(found.warnings, part))


def test_cost_by_hand() -> None:
    native, guest = [8.0, 8.2, 7.9, 8.4], [11.0, 11.4, 10.8, 11.5]
    found = estimate(blocks({"native": native, "guest": guest}), RESPONSES)
    seen = one(found)
    logs = np.log(np.array(guest) / np.array(native))
    half = stats.t.ppf(0.975, 3) * logs.std(ddof=1) / 2
    assert seen.cost == pytest.approx(math.exp(logs.mean()) - 1)
    assert seen.cost_low == pytest.approx(math.exp(logs.mean() - half) - 1)
    assert seen.cost_high == pytest.approx(math.exp(logs.mean() + half) - 1)
    assert (seen.verdict, seen.n, seen.blocks, seen.baseline) == ("costs", 4, 4, "native")
    assert seen.estimate == pytest.approx(np.mean(guest))
    base = one(found, "native")
    assert base.cost is None and base.verdict is None and base.baseline is None


@given(st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)), min_size=2, max_size=12))
@settings(max_examples=200, deadline=None)
def test_the_baselines_mean_times_the_change_is_the_platforms_mean(
    pairs: list[tuple[float, float]],
) -> None:
    """Of the same blocks, however skewed: so no mean contradicts the change beside it."""
    native, guest = map(list, zip(*pairs, strict=True))
    found = estimate(blocks({"native": native, "guest": guest}), RESPONSES)
    base, seen = one(found, "native"), one(found)
    assert base.geometric is not None and seen.geometric is not None and seen.cost is not None
    assert base.geometric * (1 + seen.cost) == pytest.approx(seen.geometric, rel=1e-9)
    assert base.estimate == pytest.approx(np.mean(native))


def test_without_a_ratio_there_is_no_geometric_mean() -> None:
    figures = {"native": [0.0, 8.2, 7.9], "guest": [11.0, 11.4, 10.8], "container": [8.0, 8.1, 8.2]}
    found = estimate(blocks(figures), RESPONSES)
    assert all(e.geometric is None for e in found.estimates)
    alone = estimate(blocks({"guest": [11.0, 11.4, 10.8]}), RESPONSES)
    assert all(e.geometric is None for e in alone.estimates)


def test_pairing_cancels_what_a_block_shares() -> None:
    """Blocks vary by 10 %, platforms by 1 %: the cost is far surer than either mean."""
    native, guest = noisy(8, 12, seed=1), noisy(8.4, 12, seed=2)
    seen = one(estimate(blocks({"native": native, "guest": guest}), RESPONSES))
    assert seen.low is not None and seen.high is not None
    assert seen.cost_low is not None and seen.cost_high is not None
    assert (seen.cost_high - seen.cost_low) < 0.3 * (seen.high - seen.low) / seen.estimate
    assert seen.verdict == "costs" and seen.cost_low < 0.05 < seen.cost_high


def test_higher_is_better() -> None:
    figures = {"native": noisy(9e9, 8, seed=1), "guest": noisy(4.5e9, 8, seed=2)}
    seen = one(estimate(blocks(figures, "goodput"), RESPONSES), response="goodput")
    assert seen.cost == pytest.approx(0.5, abs=0.01) and seen.verdict == "costs"
    swapped = {"native": figures["guest"], "guest": figures["native"]}
    gain = one(estimate(blocks(swapped, "goodput"), RESPONSES), response="goodput")
    assert gain.cost == pytest.approx(-1, abs=0.02) and gain.verdict == "gains"
    assert 1 - gain.cost == pytest.approx(1 / (1 - seen.cost))


def test_nothing_is_shown_where_nothing_is() -> None:
    figures = {"native": noisy(8, 12, seed=1), "container": noisy(8, 12, seed=2)}
    assert one(estimate(blocks(figures), RESPONSES), "container").verdict == "no difference shown"


def test_failed_trials_and_warmups_never_enter() -> None:
    trials = blocks({"native": [8.0, 8.1, 8.2, 8.1], "guest": [11.0, 11.1, 11.3, 11.2]})
    clean = estimate(trials, RESPONSES)
    disturbed = [
        trial("guest", 90, {"elapsed": 1e9}, kind="warmup"),
        trial("native", 90, {"elapsed": 1e-9}, kind="warmup"),
        *trials,
        trial("native", 4, {"elapsed": 8.0}),
        trial("guest", 4, None, error="the guest hung"),
    ]
    found = estimate(disturbed, RESPONSES)
    assert one(found) == one(clean)
    assert one(found, "native").n == 5
    (failed,) = found.failed
    assert failed.reason == "the guest hung" and failed.platform == "guest"
    assert warned(found, "1 of 5 trials of guest (workload build) failed")
    assert warned(found, "1 of 5 blocks of guest (workload build) lack a trial")


def test_a_partly_failed_trial_with_values_is_no_trial() -> None:
    odd = FinishedTrial(
        trial("guest", 0, {"elapsed": 1.0}).planned, "failed", "hung", 1.0, {"elapsed": 1.0}
    )
    assert estimate([odd], RESPONSES).estimates == ()


def test_guests_are_paired_with_the_native_trial_of_their_block() -> None:
    """Native has no NIC model; it does have the message size, which must agree."""
    trials = []
    for block, (size, factor) in enumerate([(64, 1.0), (1500, 2.0)] * 4):
        base = {"workload": "tcp", "message": size}
        wobble = 1 + 0.001 * (block % 3)
        trials.append(trial("native", block, {"goodput": 8e9 * factor * wobble}, base))
        for nic, share in (("virtio-net", 0.5), ("e1000", 0.1)):
            cell = {**base, "sut.nic": nic}
            value = 8e9 * factor * share * (1 + 0.002 * (block // 2))
            trials.append(trial("guest", block, {"goodput": value}, cell))
    found = estimate(trials, RESPONSES)
    order = [(e.platform, e.cell.get("message"), e.cell.get("sut.nic")) for e in found.estimates]
    assert order[:4] == [
        ("native", 64, None),
        ("guest", 64, "virtio-net"),
        ("guest", 64, "e1000"),
        ("native", 1500, None),
    ]
    costs = {(e.cell["message"], e.cell["sut.nic"]): e.cost for e in found.estimates if e.cost}
    for size in (64, 1500):
        assert costs[size, "virtio-net"] == pytest.approx(0.5, abs=0.01)
    assert costs[64, "e1000"] == pytest.approx(0.9, abs=0.01)
    assert all(e.blocks == 4 for e in found.estimates if e.platform == "guest")


def test_no_baseline_for_a_cell_is_said() -> None:
    trials = blocks({"guest": [1.0, 1.1, 1.2]})
    trials += blocks({"native": [1.0, 1.1, 1.2]}, cell={"workload": "other"})
    found = estimate(trials, RESPONSES)
    assert one(found).cost is None and one(found).verdict is None
    assert warned(found, "no cell of native would be its baseline")
    several = blocks({"guest": [1.0, 1.1, 1.2]}) + [
        trial("native", block, {"elapsed": 1.0 + block}, {"workload": "build", "mtu": mtu})
        for block in range(3)
        for mtu in (500, 1500)
    ]
    assert warned(estimate(several, RESPONSES), "2 cells of native")


def test_true_is_not_one() -> None:
    trials = blocks({"guest": [1.0, 1.1]}, cell={"workload": "w", "tso": True})
    trials += blocks({"native": [1.0, 1.1]}, cell={"workload": "w", "tso": 1})
    assert one(estimate(trials, RESPONSES)).cost is None


def test_zero_values_give_a_difference() -> None:
    guest = [0.02, 0.03, 0.02, 0.04, 0.03, 0.02]
    found = estimate(blocks({"native": [0.0] * 6, "guest": guest}, "loss"), RESPONSES)
    seen = one(found, response="loss")
    assert seen.cost is None and seen.cost_low is None
    assert seen.difference == pytest.approx(np.mean(guest))
    assert seen.difference_low is not None and 0 < seen.difference_low < seen.difference
    assert seen.verdict == "costs" and seen.blocks == 6
    assert warned(found, "a difference is given in place of a cost for loss of guest")
    still = one(
        estimate(blocks({"native": [0.0] * 6, "guest": [0.0] * 6}, "loss"), RESPONSES),
        response="loss",
    )
    assert still.difference == 0 and still.low is None and still.verdict == "no difference shown"


def test_a_stalled_trial_is_no_gain() -> None:
    figures = {"native": [9e9] * 6, "guest": [9.1e9, 9e9, 0.0, 9.2e9, 9e9, 9.1e9]}
    seen = one(estimate(blocks(figures, "goodput"), RESPONSES), response="goodput")
    assert seen.cost is None and seen.difference is not None and seen.difference < 0
    assert seen.verdict == "undecided"


def test_values_without_spread() -> None:
    """On the wall clock no interval, and a verdict from six blocks on; in virtual time exact."""
    six = blocks({"native": [100.0] * 6, "guest": [130.0] * 6})
    wall = one(estimate(six, RESPONSES))
    assert not wall.exact and wall.low is None and wall.cost_low is None
    assert wall.cost == pytest.approx(0.3) and wall.verdict == "costs"
    few = estimate(six[:8], RESPONSES)
    assert one(few).verdict == "undecided" and warned(few, "Take six or more")
    virtual = one(estimate(six[:4], RESPONSES, clock="virtual"))
    assert virtual.exact and virtual.low == virtual.estimate == virtual.high == 130
    assert virtual.cost == virtual.cost_low == virtual.cost_high == pytest.approx(0.3)
    assert virtual.verdict == "costs"


def test_virtual_time_is_not_exact_where_it_varies() -> None:
    figures = {"native": [100.0, 101.0, 100.0], "guest": [130.0] * 3}
    seen = one(estimate(blocks(figures), RESPONSES, clock="virtual"))
    assert not seen.exact and seen.cost_low is not None and seen.cost_low < seen.cost


def test_one_trial_has_no_interval() -> None:
    seen = one(estimate(blocks({"native": [8.0], "guest": [16.0]}), RESPONSES))
    assert (seen.n, seen.low, seen.cost_low) == (1, None, None)
    assert seen.cost == pytest.approx(1) and seen.verdict == "undecided"
    assert not seen.exact


def test_threshold_is_practical_size() -> None:
    figures = {"native": noisy(8, 20, 0.001, 1), "guest": noisy(8.04, 20, 0.001, 2)}
    trials = blocks(figures)
    assert one(estimate(trials, RESPONSES)).verdict == "no difference shown"
    assert one(estimate(trials, RESPONSES, threshold=0.002)).verdict == "costs"


def test_noise_floor_within_blocks_gates_the_verdict() -> None:
    """Native's second trial is always 5 % slower: 3 % of a guest are then not shown."""
    quiet = blocks({"native": [8.0, 8.01, 8.02, 8.01], "guest": [8.24, 8.26, 8.25, 8.27]})
    assert one(estimate(quiet, RESPONSES)).verdict == "costs"
    again = quiet + [trial("native", block, {"elapsed": 8.6 + 0.01 * block}) for block in range(4)]
    found = estimate(again, RESPONSES)
    (floor,) = found.noise
    assert floor.pairs == "same block" and floor.n == 4 and floor.cost > 0.05
    assert one(found).verdict == "no difference shown"


def test_noise_floor_of_successive_blocks_only_warns() -> None:
    native = noisy(8, 12, seed=1)
    found = estimate(blocks({"native": native, "guest": noisy(8.4, 12, seed=2)}), RESPONSES)
    (floor,) = found.noise
    assert floor.pairs == "successive blocks" and floor.n == 6
    assert floor.cost > 0.05 and one(found).verdict == "costs"
    assert warned(found, "below what the baseline varied")


def test_boots_that_differ() -> None:
    rng = np.random.default_rng(1)
    boots = np.repeat(np.arange(4), 5).tolist()
    effect = np.repeat([0.0, 0.1, 0.2, 0.05], 5)
    guest = 8 * np.exp(effect + 0.005 * rng.standard_normal(20))
    native = 8 * np.exp(0.005 * rng.standard_normal(20))
    figures = {"native": native.tolist(), "guest": guest.tolist()}
    known = estimate(blocks(figures, boots=boots), RESPONSES)
    ignored = estimate(blocks(figures), RESPONSES)
    assert one(known).cost == pytest.approx(one(ignored).cost)
    wide = one(known).cost_high - one(known).cost_low  # type: ignore[operator]
    narrow = one(ignored).cost_high - one(ignored).cost_low  # type: ignore[operator]
    assert wide > 2 * narrow
    assert warned(known, "Boots differ in elapsed of guest") and not warned(known, "in one boot")
    assert warned(ignored, "Every trial of a cell of guest ran in one boot")


def test_drift_and_outliers_are_named() -> None:
    native = [8 * (1 + 0.01 * block) + 0.005 * (block % 3) for block in range(12)]
    guest = [11 + 0.01 * ((7 * block) % 12) for block in range(12)]
    guest[5] = 30.0
    trials = blocks({"native": native, "guest": guest})
    found = estimate(trials, RESPONSES)
    assert warned(found, "native (workload build) drifted over the run: elapsed by +10")
    assert not warned(found, "guest (workload build) drifted")
    odd = next(t for t in trials if t.values == {"elapsed": 30.0})
    assert warned(found, f"kept: elapsed in trial {odd.planned.id}.")
    assert one(found).n == 12


def test_values_that_are_not_finite() -> None:
    trials = blocks({"native": [8.0, 8.1, 8.2], "guest": [11.0, math.nan, math.inf]})
    found = estimate(trials, RESPONSES)
    assert one(found).n == 1 and one(found).blocks == 1
    assert warned(found, "2 values of elapsed of guest")


def test_what_many_comparisons_take_back_is_not_shown() -> None:
    trials = []
    for number in range(60):
        figures = {
            "native": noisy(8, 8, seed=2 * number),
            "guest": noisy(8 if number else 16, 8, seed=2 * number + 1),
        }
        trials += blocks(figures, cell={"workload": "w", "cell": number})
    found = estimate(trials, RESPONSES, threshold=0.0)
    shown = [e for e in found.estimates if e.verdict in ("costs", "gains")]
    assert [e.cell["cell"] for e in shown] == [0]
    others = [e for e in found.estimates if e.baseline and e.cell["cell"]]
    assert all(e.cost_low <= 0 <= e.cost_high for e in others)  # type: ignore[operator]
    alone = [e for e in found.by_themselves if e.verdict in ("costs", "gains")]
    assert len(alone) > 1 and {e.cost_confidence for e in alone} == {0.95}


def test_the_question_does_not_pay_for_what_is_reported_beside_it() -> None:
    """One response leads; 60 others are beside it, in which nothing differs."""
    figures = {"native": noisy(8, 5, seed=1), "guest": noisy(8.15, 5, seed=2)}
    trials = blocks(figures, cell={"workload": "w", "cell": 0})
    for number in range(1, 61):
        beside = {"native": noisy(8, 5, seed=3 * number), "guest": noisy(8, 5, seed=3 * number + 1)}
        trials += blocks(beside, cell={"workload": "other", "cell": number})
    alone = next(e for e in estimate(trials[:10], RESPONSES).estimates if e.verdict)
    assert alone.verdict == "costs"
    (asked,) = (
        e
        for e in estimate(trials, RESPONSES, leading={"w": "elapsed"}).estimates
        if e.cell["workload"] == "w" and e.verdict
    )
    (unasked,) = (
        e for e in estimate(trials, RESPONSES).estimates if e.cell["workload"] == "w" and e.verdict
    )
    assert (asked.verdict, unasked.verdict, unasked.reason) == (
        "costs",
        "no difference shown",
        "chance",
    )


@pytest.mark.parametrize(
    ("figures", "reason"),
    [
        ({"native": [8.0, 8.1, 8.2], "guest": [8.2, 8.0, 8.1]}, "chance"),
        ({"native": [8.0, 8.1, 8.2], "guest": [8.016, 8.117, 8.216]}, "size"),
        ({"native": [8.0, 8.1, 8.2], "guest": [9.0, 9.1, 9.2]}, None),
    ],
)
def test_a_verdict_says_why(figures: dict[str, list[float]], reason: str | None) -> None:
    assert one(estimate(blocks(figures), RESPONSES)).reason == reason


def test_unlike_platforms() -> None:
    def state(platform: str, **others: object) -> PlatformState:
        fields: dict[str, object] = {
            "node": platform,
            "kernel": "6.1.0",
            "cpus": 2,
            "memory": 1 << 30,
            "clocksource": "tsc",
            "interfaces": {"eth0": {"driver": platform, "mtu": 1500, "tso": True}},
        }
        return PlatformState(platform=platform, **(fields | others))  # type: ignore[arg-type]

    trials = blocks({"native": [8.0, 8.1], "guest": [9.0, 9.2]})
    same = estimate(trials, RESPONSES, platforms=[state("native"), state("guest")])
    assert not warned(same, "not alike")
    other = state("guest", cpus=1, interfaces={"sut0": {"driver": "x", "mtu": 500, "tso": False}})
    (text,) = warned(estimate(trials, RESPONSES, platforms=[state("native"), other]), "not alike")
    assert "CPUs 1 against 2, mtu 500 against 1500, tso off against on" in text


def with_offloads(platform: str, *, tso: bool, tx: bool = True) -> PlatformState:
    return PlatformState(
        platform=platform, node=platform, kernel="6.1", cpus=1, memory=1 << 30, clocksource="tsc",
        interfaces={"eth0": {"driver": platform, "tx": tx, "tso": tso, "gro": True}},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tso", "tx", "doubted"), [(True, True, True), (False, True, False), (False, False, False)]
)
def test_a_gain_under_unlike_offloads_is_no_gain(tso: bool, tx: bool, doubted: bool) -> None:
    """The guest hands over many segments as one, and native does not; a cost is a cost all the same."""
    states = (with_offloads("native", tso=False), with_offloads("guest", tso=tso, tx=tx))
    figures = {"native": noisy(5e9, 8, seed=1), "guest": noisy(9e9, 8, seed=2)}
    swapped = {"native": figures["guest"], "guest": figures["native"]}
    for gains, sides in ((True, figures), (False, swapped)):
        trials = blocks(sides, "goodput")
        workload = str(trials[0].planned.cell["workload"])
        found = estimate(trials, RESPONSES, platforms=states, leading={workload: "goodput"})
        seen = one(found, response="goodput")
        assert (seen.doubt is not None) == (doubted and gains)
        assert seen.verdict == (None if seen.doubt else "gains" if gains else "costs")
        if seen.doubt is not None:
            assert "tso on against off" in seen.doubt and "knobs.offloads" in seen.doubt


def test_a_cost_is_a_difference_too() -> None:
    native, guest = [8.0, 8.2, 7.9, 8.4], [11.0, 11.4, 10.8, 11.5]
    seen = one(estimate(blocks({"native": native, "guest": guest}), RESPONSES))
    apart = np.array(guest) - np.array(native)
    half = stats.t.ppf(0.975, 3) * apart.std(ddof=1) / 2
    assert seen.difference == pytest.approx(apart.mean())
    assert seen.difference_low == pytest.approx(apart.mean() - half)
    assert seen.difference_high == pytest.approx(apart.mean() + half)


def test_working_sets_in_unlike_pages() -> None:
    def run(guest: float) -> Estimates:
        trials = [trial("native", b, {"huge_share": 1.0, "elapsed": 1.0}) for b in range(3)]
        trials += [trial("guest", b, {"huge_share": guest, "elapsed": 1.0}) for b in range(3)]
        return estimate(trials, RESPONSES)

    assert not warned(run(0.95), "not alike")
    (text,) = warned(run(0.0), "not alike")
    assert "0 % and 100 % of the working set" in text and "Set knobs.thp" in text


def test_nothing_measured() -> None:
    found = estimate([], RESPONSES)
    assert found == Estimates((), (), (), (), (), ())
    failed = estimate([trial("native", 0, None)], RESPONSES)
    assert failed.estimates == () and len(failed.failed) == 1


def test_responses_that_only_a_guest_has() -> None:
    trials = [trial("native", b, {"elapsed": 8.0 + b}) for b in range(3)]
    trials += [trial("guest", b, {"elapsed": 9.0 + b, "loss": 0.1 + b}) for b in range(3)]
    seen = one(estimate(trials, RESPONSES), response="loss")
    assert seen.cost is None and seen.baseline is None and seen.n == 3


PAIRS = st.lists(st.tuples(st.floats(0.1, 100), st.floats(0.1, 100)), min_size=2, max_size=8)


@settings(max_examples=60)
@given(PAIRS, st.floats(1e-3, 1e3), st.randoms())
def test_unit_and_order_of_trials_do_not_matter(
    pairs: list[tuple[float, float]], factor: float, shuffler: random.Random
) -> None:
    native, guest = (list(side) for side in zip(*pairs, strict=True))
    seen = one(estimate(blocks({"native": native, "guest": guest}), RESPONSES))
    trials = blocks({"native": [factor * v for v in native], "guest": [factor * v for v in guest]})
    shuffler.shuffle(trials)
    other = one(estimate(trials, RESPONSES))
    assert other.cost == pytest.approx(seen.cost, rel=1e-9, abs=1e-9)
    assert other.estimate == pytest.approx(factor * seen.estimate)
    if seen.cost_low is not None and other.cost_low is not None:
        assert other.cost_low == pytest.approx(seen.cost_low, rel=1e-6, abs=1e-6)
        assert seen.cost_low <= seen.cost <= seen.cost_high  # type: ignore[operator]


@settings(max_examples=60)
@given(PAIRS)
def test_swapping_baseline_inverts_the_ratio(pairs: list[tuple[float, float]]) -> None:
    native, guest = (list(side) for side in zip(*pairs, strict=True))
    trials = blocks({"native": native, "guest": guest})
    one_way = one(estimate(trials, RESPONSES))
    other = one(estimate(trials, RESPONSES, baseline="guest"), "native")
    assert (1 + one_way.cost) * (1 + other.cost) == pytest.approx(1)  # type: ignore[operator]


@pytest.mark.parametrize("overlap", [0.4, 0.6])
def test_streams_that_hardly_ran_at_once_put_their_goodput_in_doubt(overlap: float) -> None:
    cell = {"workload": "tcp", "sut.guests": 2}
    trials = [
        trial(platform, block, {"goodput": 1e9, "loss": 0.0, "overlap": share}, cell)
        for block in range(3)
        for platform, share in (("native", 1.0), ("xen", overlap if block == 1 else 0.9))
    ]
    found = {(e.platform, e.response): e for e in estimate(trials, RESPONSES).estimates}
    doubt = found["xen", "goodput"].doubt
    assert found["xen", "loss"].doubt is None and found["native", "goodput"].doubt is None
    assert (doubt is None) == (overlap > 0.5)
    assert doubt is None or doubt.startswith("in 1 of 3 trials")


def shared(values: dict[int, list[dict[str, float]]]) -> dict[tuple[int, str], Estimate]:
    """Of guests of Xen, by their number and response; each number has blocks of its own."""
    made: list[FinishedTrial] = []
    for n, some in values.items():
        for block, one in enumerate(some):
            ended = trial("xen", 100 * n + block, one, {"workload": "tcp", "sut.guests": n})
            made.append(replace(ended, guests=tuple({} for _ in range(n))))
    known = {response.name: response for response in REPORTED["stream"]}
    found = estimate(made, known).estimates
    return {(int(e.cell["sut.guests"]), e.response): e for e in found}


def test_what_a_guest_has_beside_others_of_what_it_has_alone() -> None:
    found = shared(
        {
            1: [{"goodput": 10e6}, {"goodput": 10.2e6}],
            2: [{"goodput": 8e6}, {"goodput": 8.2e6}],
            4: [{"goodput": 9e6, "fair_rate": 2.5e6}, {"goodput": 9e6, "fair_rate": 2.6e6}],
        }
    )
    assert found[1, "goodput"].of_alone is None and found[4, "fair_rate"].of_alone is None
    assert found[2, "goodput"].of_alone == pytest.approx(math.sqrt(8 * 8.2 / (10 * 10.2)))
    four = found[4, "goodput"]
    assert four.of_alone == pytest.approx(math.sqrt(2.5 * 2.6 / (10 * 10.2)))
    assert four.of_alone_low is not None and four.of_alone_high is not None
    assert four.of_alone_low < four.of_alone < four.of_alone_high


def test_the_least_that_an_index_of_four_can_be() -> None:
    found = shared({4: [{"jain_goodput": 0.3}, {"jain_goodput": 0.9}]})[4, "jain_goodput"]
    assert (found.low, found.high) == (0.25, 1.0)
