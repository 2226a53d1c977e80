from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hypertare.base.errors import InputError
from hypertare.base.variables import Level, Response
from hypertare.design.trials import FinishedTrial
from hypertare.findings import setups
from hypertare.findings.compare import Gate, compare
from hypertare.findings.estimates import estimate
from hypertare.findings.setups import unlike_runs
from hypertare.runs.machine_state import MachineState
from hypertare.runs.summary import Disturbance, PlatformState, Summary
from hypertare.stats.interval import of_mean, welch
from hypertare.workloads.responses import HEADLINE
from tests import factory, made_searches
from tests.made_trials import RESPONSES, blocks, every, noisy, trial


def summary(**fields: object) -> Summary:
    machine = MachineState(
        kind="local",
        hostname="a",
        cpu="x",
        cpus=4,
        memory=1 << 34,
        kernel="6.1",
        architecture="x86_64",
        distribution="Debian 12",
    )
    given: dict[str, object] = {
        "hypertare": "0.1.0",
        "study": "s",
        "question": "?",
        "machine": machine,
        "clock": "wall",
        "accelerator": "tcg",
        "versions": {"qemu": "7.2"},
        "seed": 1,
        "threshold": 0.01,
        "complete": True,
        "started": datetime(2026, 1, 1, tzinfo=UTC),
        "ended": None,
        "platforms": (),
        "estimates": (),
    }
    return Summary.model_validate(given | fields)


@dataclass
class Made:
    trials: Sequence[FinishedTrial]
    summary: Summary = field(default_factory=summary)
    responses: dict[str, Response] = field(default_factory=lambda: RESPONSES)
    leading: Collection[str] = frozenset(HEADLINE.values())
    settings: Mapping[str, Level] = field(default_factory=dict)

    def setting(self, path: str) -> Level | None:
        return self.settings.get(path)


def run(values: Sequence[float], response: str = "elapsed", **fields: object) -> Made:
    return Made(blocks({"guest": values}, response), summary(**fields))


def test_by_hand() -> None:
    before, after = [8.0, 8.4, 7.9, 8.2, 8.1], [9.0, 9.9, 9.2, 9.4]
    (change,) = compare(run(before), run(after)).changes
    theirs = stats.ttest_ind(np.log(after), np.log(before), equal_var=False)
    expected = theirs.confidence_interval(0.95)
    assert change.ratio == pytest.approx(stats.gmean(after) / stats.gmean(before))
    assert change.ratio_low == pytest.approx(math.exp(expected.low))
    assert change.ratio_high == pytest.approx(math.exp(expected.high))
    assert change.loss == pytest.approx(change.ratio - 1)  # type: ignore[operator]
    assert (change.direction, change.n_a, change.n_b) == ("worse", 5, 4)


def test_direction_follows_what_is_better() -> None:
    slow, fast = noisy(8, 9, seed=1, shared=False), noisy(10, 9, seed=2, shared=False)
    assert compare(run(slow), run(fast)).changes[0].direction == "worse"
    rates = compare(run(slow, "goodput"), run(fast, "goodput"))
    assert rates.changes[0].direction == "better" and rates.worse == ()
    falling = compare(run(fast, "goodput"), run(slow, "goodput"))
    assert [change.response for change in falling.worse] == ["goodput"]


def test_threshold() -> None:
    a, b = run(noisy(8, 20, seed=1, shared=False)), run(noisy(8.4, 20, seed=2, shared=False))
    assert compare(a, b, threshold=0.02).changes[0].direction == "worse"
    assert compare(a, b, threshold=0.10).changes[0].direction == "no difference shown"


def test_a_run_against_itself() -> None:
    one = run(noisy(8, 9))
    found = compare(one, one)
    assert found.changes[0].ratio == pytest.approx(1)
    assert found.changes[0].direction == "no difference shown" and found.worse == ()


def test_clocks_are_not_mixed() -> None:
    with pytest.raises(InputError, match="wall time and run B in virtual time"):
        compare(run([8.0, 8.1]), run([8.0, 8.1], clock="virtual"))


def test_nothing_in_common() -> None:
    other = Made(blocks({"guest": [1.0, 2.0]}, cell={"workload": "other"}))
    with pytest.raises(InputError, match="no measured cell in common"):
        compare(run([8.0, 8.1]), other)
    failed = Made([trial("guest", 0, None)])
    with pytest.raises(InputError):
        compare(run([8.0, 8.1]), failed)


def test_what_only_one_has() -> None:
    shared = blocks({"guest": [8.0, 8.1, 8.2]})
    a = Made(shared + blocks({"container": [8.0, 8.1]}))
    b = Made(shared + blocks({"guest": [1.0, 1.1]}, cell={"workload": "new"}))
    found = compare(a, b)
    assert found.only_a == ("container (workload build)",)
    assert found.only_b == ("guest (workload new)",)
    assert len(found.changes) == 1


def test_zero_values_give_a_difference() -> None:
    clean, lossy = run([0.0] * 6, "loss"), run([0.02, 0.03, 0.02, 0.04, 0.03, 0.02], "loss")
    (change,) = compare(clean, lossy).changes
    assert change.ratio is None and change.loss is None
    assert change.difference == pytest.approx(0.16 / 6)
    assert change.difference_low is not None and change.difference_low > 0
    assert change.direction == "worse"
    assert compare(lossy, clean).changes[0].direction == "better"


def test_values_without_spread() -> None:
    (four,) = compare(run([100.0] * 4), run([130.0] * 4)).changes
    assert four.direction == "worse" and four.ratio_low is None
    (three,) = compare(run([100.0] * 3), run([130.0] * 3)).changes
    assert three.direction == "undecided"
    virtual = {"clock": "virtual"}
    (exact,) = compare(run([100.0], **virtual), run([130.0, 130.0], **virtual)).changes
    assert exact.direction == "undecided"
    (exact,) = compare(run([100.0] * 2, **virtual), run([130.0] * 2, **virtual)).changes
    assert exact.direction == "worse" and exact.ratio_low == exact.ratio == pytest.approx(1.3)


def test_single_trials_show_nothing() -> None:
    (change,) = compare(run([8.0]), run([16.0])).changes
    assert change.ratio == pytest.approx(2) and change.ratio_low is None
    assert change.direction == "undecided"


def test_boots_widen() -> None:
    rng = np.random.default_rng(1)
    values = (
        8 * np.exp(np.repeat([0, 0.1, 0.2, 0.05], 5) + 0.004 * rng.standard_normal(20))
    ).tolist()
    boots = np.repeat(np.arange(4), 5).tolist()
    known = Made(blocks({"guest": values}, boots=boots))
    blind = Made(blocks({"guest": values}))
    other = run(noisy(9, 10, shared=False))

    def width(a: Made) -> float:
        (change,) = compare(a, other).changes
        return change.ratio_high - change.ratio_low  # type: ignore[operator]

    assert width(known) > 2 * width(blind)


def test_unlike_setups_are_named() -> None:
    def state(**fields: object) -> PlatformState:
        given: dict[str, object] = {
            "platform": "guest",
            "node": "sut",
            "kernel": "6.1",
            "cpus": 1,
            "memory": 1 << 28,
            "clocksource": "tsc",
            "interfaces": {"eth0": {"mtu": 1500}},
        }
        return PlatformState.model_validate(given | fields)

    a = run([8.0, 8.1, 8.2], platforms=(state(),))
    same = run([8.0, 8.1, 8.2], platforms=(state(),))
    assert not list(every(compare(a, same).warnings, "not alike"))
    b = run(
        [8.0, 8.1, 8.2],
        platforms=(state(cpus=2, kernel="6.12", interfaces={"eth0": {"mtu": 500}}),),
        accelerator="kvm",
        versions={"qemu": "9.0"},
        complete=False,
    )
    warnings = compare(a, b).warnings
    (text,) = every(warnings, "not alike")
    for part in (
        "accelerator tcg against kvm",
        "version of qemu 7.2 against 9.0",
        "guest's kernel 6.1 against 6.12",
        "guest's cpus 1 against 2",
        "guest's eth0 mtu 1500 against 500",
    ):
        assert part in text
    assert list(every(warnings, "Run B is not complete"))


def test_a_change_that_many_comparisons_take_back_is_none() -> None:
    """Ten cells in which nothing changed, and one that did: the interval of each is its own."""
    a, b = (
        Made(
            [
                one
                for cell in range(40)
                for one in blocks(
                    {
                        "guest": noisy(
                            16 if side and not cell else 8, 8, seed=100 * side + cell, shared=False
                        )
                    },
                    cell={"workload": "w", "cell": cell},
                )
            ]
        )
        for side in range(2)
    )
    found = compare(a, b, threshold=0.0)
    assert [c.cell["cell"] for c in found.worse] == [0]
    others = [c for c in found.changes if c.cell["cell"]]
    assert all(c.ratio_low <= 1 <= c.ratio_high for c in others)  # type: ignore[operator]
    level = 1 - 0.05 / len(found.changes)
    assert all(c.confidence == pytest.approx(level) for c in found.changes)


def weighed(
    native: float, guest: float, seed: int = 0, spread: float = 0.002, busy: float = 0.0
) -> Made:
    """A build natively and in a guest; `busy`: of four CPUs so many that other programs took."""
    figures = {
        "native": noisy(native, 10, spread, seed),
        "guest": noisy(guest, 10, spread, seed + 1),
    }
    made = blocks(figures)
    found = estimate(made, RESPONSES, leading={"build": "elapsed"})
    others = Disturbance(what="program", program="rustc", cpus=busy, blocks=10, of=10)
    return Made(
        made,
        summary(
            estimates=found.estimates, noise=found.noise, disturbances=(others,) if busy else ()
        ),
    )


def directions(a: Made, b: Made) -> dict[tuple[str, str], str]:
    found = compare(a, b, 0.05)
    return {(one.platform, one.of): one.direction for one in found.changes if one.decides}


def test_a_program_that_became_slower_everywhere_got_worse() -> None:
    """Natively four times as slow, in the guest 2.5 times: the guest's cost fell, and nothing is better."""
    found = compare(weighed(8, 80), weighed(32, 200, seed=5), 0.05)
    assert {(one.platform, one.of) for one in found.worse} == {
        ("native", "value"),
        ("guest", "value"),
    }
    assert not any(one.direction == "better" for one in found.changes)


def test_a_program_that_became_faster_is_not_worse_for_a_guest_that_gained_less() -> None:
    reported = directions(weighed(8, 16), weighed(2, 8, seed=5))
    assert set(reported.values()) == {"better"}


def test_two_runs_of_one_machine_differ_a_little() -> None:
    """A tenth slower natively and in the guest: its cost is what it was."""
    reported = directions(weighed(8, 16), weighed(8.6, 17.2, seed=5))
    assert set(reported.values()) == {"no difference shown"}


def test_on_a_busy_machine_a_change_of_half_is_undecided_and_one_of_four_is_not() -> None:
    quiet = weighed(8, 16)
    reported = directions(quiet, weighed(12.4, 24.8, seed=5, busy=2.4))
    assert reported["native", "value"] == reported["guest", "value"] == "undecided"
    assert reported["guest", "cost"] == "no difference shown"
    reported = directions(quiet, weighed(32, 64, seed=5, busy=2.4))
    assert reported["native", "value"] == reported["guest", "value"] == "worse"


def test_what_machines_do_between_runs_is_no_change() -> None:
    """Simulated: 200 pairs of runs of the same work, on a machine whose speed differs by 4 % from run to
    run and by 4 % from block to block.
    """
    rng = np.random.default_rng(3)
    seen: list[set[str]] = []
    for number in range(200):
        a, b = (
            weighed(8 * speed, 16 * speed, seed=4 * number + 2 * side, spread=0.004)
            for side, speed in enumerate(np.exp(0.04 * rng.standard_normal(2)))
        )
        seen.append(set(directions(a, b).values()))
    assert sum("worse" in one for one in seen) <= 10
    assert sum("undecided" in one for one in seen) <= 20


def test_a_factor_of_one_run_is_a_setting_of_the_other() -> None:
    """A run at two MTUs, and one at an MTU that `--set` gave."""
    both = [
        one
        for mtu, value in ((1500, 8.0), (9000, 4.0))
        for one in blocks({"guest": noisy(value, 6, seed=mtu)}, cell={"workload": "w", "mtu": mtu})
    ]
    single = blocks({"guest": noisy(4, 6, seed=1)}, cell={"workload": "w"})
    for a, b in (
        (Made(both), Made(single, settings={"mtu": 9000})),
        (Made(single, settings={"mtu": 9000}), Made(both)),
    ):
        found = compare(a, b)
        assert [one.direction for one in found.changes] == ["no difference shown"]
    with pytest.raises(InputError, match="mtu is 1500, 9000 in A and 4000 in B"):
        compare(Made(both), Made(single, settings={"mtu": 4000}))


def test_a_dearer_guest_is_worse_also_on_a_faster_machine() -> None:
    found = compare(weighed(8, 16), weighed(6, 15, seed=5), 0.05)
    (worse,) = found.worse
    assert (worse.platform, worse.of) == ("guest", "cost")
    assert worse.ratio == pytest.approx(1.25, abs=0.02)


def test_the_gate_may_be_moved() -> None:
    busier = weighed(8, 16), weighed(12.4, 24.8, seed=5)
    native = compare(*busier, 0.05, gate=Gate(platforms=("native",)))
    assert [one.platform for one in native.worse] == ["native"]
    assert compare(*busier, 0.05, gate=Gate(responses=("goodput",))).worse == ()


def test_other_work_is_not_compared() -> None:
    a, b = (factory.meta(factory.Script()) for _ in range(2))
    setups.refuse(a, b)
    work = {"workloads": {"command": {"command": ["make"]}}, "sut": {"workdir": "/a"}}
    one = a.model_copy(update={"settings": work})
    for changed, part in (
        ({**work, "workloads": {"command": {"command": ["true"]}}}, "`make` in A and `true` in B"),
        ({**work, "sut": {"workdir": "/b"}}, "work directory is `/a` in A and `/b` in B"),
    ):
        with pytest.raises(InputError, match=part):
            setups.refuse(one, b.model_copy(update={"settings": changed}))


SIDE = st.lists(st.floats(0.1, 100), min_size=2, max_size=8)


@settings(max_examples=80)
@given(SIDE, SIDE)
def test_swapping_the_runs_inverts_the_ratio(a: list[float], b: list[float]) -> None:
    (forth,) = compare(run(a), run(b)).changes
    (back,) = compare(run(b), run(a)).changes
    assert forth.ratio * back.ratio == pytest.approx(1)  # type: ignore[operator]
    if forth.ratio_low is not None and back.ratio_high is not None and back.ratio_high < 1e200:
        assert forth.ratio_low * back.ratio_high == pytest.approx(1, rel=1e-6)


@settings(max_examples=80)
@given(SIDE, SIDE)
def test_welch_is_scipys(a: list[float], b: list[float]) -> None:
    if np.ptp(a) < 1e-3 or np.ptp(b) < 1e-3:
        return
    seen = welch(of_mean(a), of_mean(b))
    theirs = stats.ttest_ind(b, a, equal_var=False)
    expected = theirs.confidence_interval(0.95)
    assert (seen.low, seen.high) == pytest.approx((expected.low, expected.high), rel=1e-6, abs=1e-6)
    assert seen.freedom == pytest.approx(theirs.df)


def test_a_node_in_several_states_is_compared_with_the_likest() -> None:
    """As a bench's factor, such as an emulated machine's NIC, makes them."""
    cards = [
        PlatformState(
            platform="native", node="host", kernel="6.1", cpus=1, memory=1, clocksource="tsc",
            interfaces={"sut0": {"driver": driver, "mtu": 1500}},
        )
        for driver in ("e1000", "virtio_net")
    ]  # fmt: skip
    both = run([8.0, 8.1]).summary.model_copy(update={"platforms": tuple(cards)})
    assert unlike_runs(both, both) == []
    one = both.model_copy(update={"platforms": (cards[0],)})
    assert unlike_runs(both, one) == ["native's sut0 driver virtio_net against e1000"]


def test_runs_in_which_page_walks_take_time_are_unlike_those_in_which_they_do_not() -> None:
    free = run([8.0, 8.1]).summary
    machine = free.machine.model_copy(update={"walks": ("phenom2", "zen4")})
    timed = free.model_copy(update={"machine": machine})
    assert unlike_runs(free, timed) == ["machine's walks none against phenom2, zen4"]


def searched(lower: float | None, upper: float | None, **fields: object) -> Made:
    """A run with one search and nothing else."""
    cell = {"workload": "udp", "knobs.napi_weight": 1}
    one = made_searches.searched(lower, upper, **({"cell": cell} | fields))
    return Made((), summary(loss_free=(one,)))


def test_loss_free_rates_by_hand() -> None:
    found = compare(searched(100e6, 102e6), searched(80e6, 84e6))
    (change,) = found.changes
    assert (change.response, change.direction) == ("loss_free_rate", "worse")
    assert change.cell == {"workload": "udp", "knobs.napi_weight": 1, "search.loss": 0.005}
    assert (change.a, change.b, change.n_a, change.n_b) == (100e6, 80e6, 12, 12)
    assert change.ratio == pytest.approx(0.8) and change.loss == pytest.approx(0.2)
    assert change.ratio_low == pytest.approx(80 / 102)
    assert change.ratio_high == pytest.approx(84 / 100)
    assert change.confidence is None and found.worse == (change,)
    assert list(every(found.warnings, "no confidence interval"))


def test_loss_free_rates_whose_bounds_overlap_show_no_difference() -> None:
    (change,) = compare(searched(100e6, 110e6), searched(108e6, 115e6)).changes
    assert change.direction == "no difference shown" and change.ratio == pytest.approx(1.08)
    (change,) = compare(searched(100e6, 102e6), searched(103e6, 104e6)).changes
    assert change.direction == "better"
    (small,) = compare(searched(100e6, 102e6), searched(103e6, 104e6), threshold=0.05).changes
    assert small.direction == "no difference shown"


def test_where_the_sender_was_the_limit_there_is_no_upper_bound() -> None:
    limited = searched(100e6, 102e6, sender=True)
    (change,) = compare(searched(50e6, 51e6), limited).changes
    assert change.direction == "better" and change.ratio_high is None
    assert change.ratio_low == pytest.approx(100 / 51)
    (change,) = compare(limited, searched(200e6, 201e6)).changes
    assert change.direction == "undecided"


def test_a_rate_that_is_lost_altogether_got_worse() -> None:
    nothing = searched(None, 1e4, state="all lose")
    (change,) = compare(searched(100e6, 102e6), nothing).changes
    assert (change.direction, change.ratio, change.b) == ("worse", 0.0, 0.0)
    assert change.ratio_high == pytest.approx(1e-4)
    (change,) = compare(nothing, searched(100e6, 102e6)).changes
    assert change.direction == "better" and change.ratio is None
    assert change.difference == pytest.approx(100e6)


def test_searches_that_only_one_run_has_or_that_failed() -> None:
    one, other = searched(100e6, 102e6), searched(100e6, 102e6, goal=0.0)
    with pytest.raises(InputError, match="no measured cell in common"):
        compare(one, other)
    shared = blocks({"guest": [8.0, 8.1, 8.2]})
    found = compare(Made(shared, one.summary), Made(shared, other.summary))
    assert found.only_a == ("loss_free_rate of guest (workload udp, napi weight 1, loss 0.005)",)
    assert len(found.only_b) == 1
    failed = searched(None, None, state="failed", reason="no such knob")
    found = compare(Made(shared, one.summary), Made(shared, failed.summary))
    assert len(found.changes) == 1 and list(every(found.warnings, "no such knob"))
