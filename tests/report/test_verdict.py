"""Verdicts as sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hypertare.base.variables import Cell
from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.findings.summarise import summarise
from hypertare.report.verdict import (
    Wording,
    answer,
    change_text,
    cost_text,
    mean_text,
    overall,
    sentence,
)
from hypertare.runs.store import Meta
from hypertare.runs.summary import Estimate
from tests import factory

WORDING = Wording(
    shared={"build": frozenset({"workload"})},
    varied=frozenset(),
    workloads=1,
    clock="wall",
    accelerators={"guest": "tcg"},
)
FACTORS = replace(WORDING, in_factors=frozenset({"elapsed"}))


def estimate(**changes: object) -> Estimate:
    known: dict[str, object] = {
        "response": "elapsed",
        "unit": "s",
        "better": "lower",
        "cell": {"workload": "build"},
        "platform": "guest",
        "baseline": "native",
        "n": 12,
        "estimate": 11.4,
        "blocks": 12,
        "cost": 0.381,
        "cost_low": 0.339,
        "cost_high": 0.421,
        "verdict": "costs",
    }
    return Estimate.model_validate(known | changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {},
            "guest costs 38 % more elapsed time (95 % interval +34 to +42), n = 12 blocks, "
            "accelerator tcg",
        ),
        (
            {"response": "goodput", "better": "higher", "cost": 0.466}
            | {"cost_low": 0.457, "cost_high": 0.476},
            "guest loses 46.6 % of the goodput (95 % interval −47.6 to −45.7), "
            "n = 12 blocks, accelerator tcg",
        ),
        (
            {"cost": -0.12, "cost_low": -0.2, "cost_high": -0.04, "verdict": "gains"},
            "guest saves 12 % of the elapsed time (95 % interval −20 to −4), n = 12 blocks, "
            "accelerator tcg",
        ),
        (
            {"cost": 0.009, "cost_low": -0.011, "cost_high": 0.03}
            | {"verdict": "no difference shown", "platform": "container"},
            "container: no difference shown in elapsed time: +0.9 % (95 % interval −1.1 to +3.0), "
            "n = 12 blocks",
        ),
        (
            {"cost": None, "cost_low": None, "cost_high": None, "verdict": None, "blocks": None},
            "guest: no verdict on elapsed time: too few blocks with both platform and baseline",
        ),
        (
            {"cost": None, "cost_low": None, "cost_high": None, "response": "loss"}
            | {"unit": "share", "difference": 0.019, "difference_low": 0.008}
            | {"difference_high": 0.03},
            "guest costs +1.9 pp loss (95 % interval +0.8 to +3.0), n = 12 blocks, accelerator tcg",
        ),
        (
            {"exact": True, "cost": 1.5, "cost_low": 1.5, "cost_high": 1.5},
            "guest costs exactly 150 % more elapsed time (exact), n = 12 blocks, accelerator tcg",
        ),
        (
            {"exact": True, "cost": 0.0, "cost_low": 0.0, "cost_high": 0.0}
            | {"verdict": "no difference shown"},
            "guest: no difference shown in elapsed time: exactly the same (exact), n = 12 blocks, "
            "accelerator tcg",
        ),
        (
            {"cost": 0.002, "cost_low": 0.0015, "cost_high": 0.0025}
            | {"verdict": "no difference shown", "reason": "size"},
            "guest: no difference that matters in elapsed time: +0.20 % (95 % interval +0.15 to +0.25), "
            "n = 12 blocks, accelerator tcg; less than the 1 % that matter",
        ),
        (
            {"exact": True, "cost": 0.002, "cost_low": 0.002, "cost_high": 0.002}
            | {"verdict": "no difference shown", "reason": "size"},
            "guest: no difference that matters in elapsed time: +0.200 % (exact), n = 12 blocks, "
            "accelerator tcg; less than the 1 % that matter",
        ),
        (
            {"cost": 0.03, "cost_low": -0.012, "cost_high": 0.07}
            | {"verdict": "no difference shown", "reason": "chance", "cost_confidence": 0.995},
            "guest: no difference shown in elapsed time: +3 % (99.5 % interval −1 to +7), "
            "n = 12 blocks, accelerator tcg",
        ),
        (
            {"cost": 0.3, "cost_low": -0.98, "cost_high": 67.0}
            | {"verdict": "undecided", "reason": "wide"},
            "guest: too few trials to say, elapsed time: ×1.3 (95 % interval 0.020 to 68), "
            "n = 12 blocks, accelerator tcg",
        ),
        ({"blocks": 1, "cost_low": None, "cost_high": None}, None),
        (
            {"blocks": 1, "cost_low": None, "cost_high": None}
            | {"verdict": "undecided", "reason": "few"},
            "guest: one block decides nothing, elapsed time: +38.1 %, n = 1 block, accelerator tcg",
        ),
    ],
)
def test_sentences(changes: dict[str, object], text: str | None) -> None:
    said = sentence(estimate(**changes), WORDING, where=False).text
    if text is None:
        text = "guest costs 38.1 % more elapsed time, n = 1 block, accelerator tcg"
    assert said == text


def test_a_response_that_reaches_tenfold_is_reported_in_factors_beside_all_of_its_neighbours() -> (
    None
):
    far = estimate(cost=40.2, cost_low=24.8, cost_high=64.3)
    near = estimate(cost=-0.002, cost_low=-0.012, cost_high=0.008, platform="container")
    other = estimate(response="goodput", better="higher", cost=0.4, cost_low=0.3, cost_high=0.5)
    summary = replace_estimates(far, near, other)
    wording = Wording.of(summary, [])
    assert cost_text(far, wording) == ("×41", "26 to 65")
    assert cost_text(near, wording) == ("×0.998", "0.988 to 1.008")
    assert cost_text(other, wording) == ("−40 %", "−50 to −30")
    assert sentence(far, FACTORS, where=False).text == (
        "guest costs 41 times the elapsed time (95 % interval 26 to 65), n = 12 blocks, "
        "accelerator tcg"
    )


def test_what_is_undecided_makes_no_unit() -> None:
    wide = estimate(cost=0.3, cost_low=-0.98, cost_high=67.0, verdict="undecided", reason="wide")
    assert sentence(wide, WORDING, where=False).tone == "unknown"
    summary = replace_estimates(wide)
    assert not Wording.of(summary, []).in_factors


def replace_estimates(*estimates: Estimate):  # type: ignore[no-untyped-def]
    summary = _summary(factory.meta(factory.Script()))
    summary.estimates = estimates
    return summary


@pytest.mark.parametrize(
    ("change", "bounds", "text"),
    [
        (-96.3, (-99.6, 160.0), ("−96.3 %", "−99.6 to +160.0")),
        (3.4, (-53.0, 96.0), ("+3 %", "−53 to +96")),
        (-100.0, (-100.0, -99.0), ("−100.0 %", "−100.0 to −99.0")),
    ],
)
def test_a_wide_interval_rounds_no_change_to_nothing_or_to_all(
    change: float, bounds: tuple[float, float], text: tuple[str, str]
) -> None:
    assert change_text(change, bounds, "%") == text


def test_a_mean_of_a_few_boots_is_rounded_but_not_away_and_its_interval_not_below_nought() -> None:
    assert mean_text(estimate(estimate=0.56, low=-1.7, high=2.9), "s") == ("560 ms", "0 to 2,900")


def test_a_sentence_says_where_and_which_clock() -> None:
    virtual = Wording(WORDING.shared, WORDING.varied, 2, "virtual", {})
    said = sentence(estimate(), virtual, where=True).text
    assert " elapsed time in build (95 %" in said
    assert said.endswith("n = 12 blocks, virtual time")


def test_what_never_varied_is_exact_and_not_nought_more_or_less() -> None:
    nought = estimate(estimate=0.0, low=0.0, high=0.0, exact=True)
    assert mean_text(nought, "share (virtual)") == ("0 % (virtual)", "exact")
    same = estimate(cost=0.0, cost_low=0.0, cost_high=0.0)
    assert cost_text(same, WORDING) == ("0 %", "exact")
    assert change_text(4000.0, (4000.0, 4000.0), "%") == ("×41", "exact")
    assert change_text(1024.0, (1024.0, 1024.0), "blocks") == ("+1,024 blocks", "exact")
    assert change_text(170.0, (-100.0, 1e34), "%") == ("×2.7", "0 to over 1,000,000")
    assert mean_text(estimate(estimate=2.0, low=None, high=None), "s") == ("2 s", "")
    said = sentence(estimate(cost=0.3, cost_low=0.3, cost_high=0.3), WORDING, where=False).text
    assert "30 % more elapsed time (exact)" in said


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_the_interval_holds_the_change(better: str) -> None:
    text, interval = cost_text(estimate(better=better), WORDING)
    low, high, change = (
        float(figure.replace("−", "-")) for figure in (*interval.split(" to "), text[:-2])
    )
    assert low <= change <= high
    assert text.startswith("+" if better == "lower" else "−")


def _wording(cells: list[tuple[str, Cell]]) -> Wording:
    trials = [
        FinishedTrial(PlannedTrial(i, i, 0, platform, cell), "ok", None, 1.0)
        for i, (platform, cell) in enumerate(cells)
    ]
    meta = factory.meta(factory.Script())
    return Wording.of(_summary(meta), trials)


def _summary(meta: Meta):  # type: ignore[no-untyped-def]
    class Empty:
        estimates: tuple[Estimate, ...] = ()
        levels = ()
        loss_free = ()
        clock = "wall"
        platforms = ()
        threshold = 0.01

    return Empty()


def test_cells_are_named_by_what_differs() -> None:
    wording = _wording(
        [
            ("native", {"workload": "tcp", "sut.cpus": 1, "workloads.tcp.direction": "receive"}),
            ("native", {"workload": "tcp", "sut.cpus": 2, "workloads.tcp.direction": "receive"}),
            ("guest", {"workload": "tcp", "sut.cpus": 1, "workloads.tcp.direction": "receive"}),
            ("native", {"workload": "build", "sut.cpus": 1}),
        ]
    )
    assert wording.label({"workload": "tcp", "sut.cpus": 2}) == "tcp cpus 2"
    assert wording.label({"workload": "build", "sut.cpus": 1}) == "build"


def test_platforms_are_named_by_what_only_they_have() -> None:
    guest: Cell = {"workload": "tcp", "sut.nic": "e1000", "knobs.mtu": 1500}
    wording = _wording(
        [
            ("native", {"workload": "tcp", "knobs.mtu": 1500}),
            ("native", {"workload": "tcp", "knobs.mtu": 9000}),
            ("guest", guest),
            ("guest", guest | {"sut.nic": "virtio-net"}),
        ]
    )
    assert wording.platform("guest", guest) == "guest e1000"
    assert wording.platform("native", {"workload": "tcp", "knobs.mtu": 1500}) == "native"
    assert wording.label(guest) == "mtu 1500"


def many(*costs: tuple[str, str, float, str], platform: str = "guest") -> list[Estimate]:
    """Of workload, response, cost and verdict each."""
    return [
        estimate(
            cell={"workload": workload},
            platform=platform,
            response=response,
            better="higher" if response == "goodput" else "lower",
            cost=cost,
            cost_low=cost - 0.1 * abs(cost) - 0.02,
            cost_high=cost + 0.1 * abs(cost) + 0.02,
            verdict=verdict,
        )
        for workload, response, cost, verdict in costs
    ]


SEVERAL = Wording(
    {},
    frozenset(),
    workloads=4,
    clock="wall",
    accelerators={},
    in_factors=frozenset({"elapsed"}),
)
NOTHING = "no difference shown"


def test_over_all_verdicts_stand_the_least_and_the_largest_cost() -> None:
    guest = many(
        ("build", "elapsed", 39.0, "costs"),
        ("tcp", "goodput", 0.97, "costs"),
        ("udp", "goodput", 0.25, "costs"),
    )
    container = many(
        ("build", "elapsed", 0.01, NOTHING), ("tcp", "goodput", 0.0, NOTHING), platform="container"
    )
    reported = overall([*guest, *container], SEVERAL)
    assert reported is not None and reported.tone == "costs"
    assert reported.text == (
        "guest costs in all 3 comparisons, 25 % of the goodput in udp to 40 times the elapsed time in "
        "build; container: no difference shown in 2 comparisons (at most +3.1 % elapsed time in build)"
    )


def test_over_all_verdicts_gains_and_costs_stand_apart() -> None:
    found = many(
        ("build", "elapsed", 0.05, "costs"),
        ("tcp", "goodput", -0.5, "gains"),
        ("udp", "goodput", -0.1, "gains"),
        ("rtt", "rtt_p50", 0.0, NOTHING),
    )
    reported = overall(found, SEVERAL)
    assert reported is not None and reported.tone == "mixed"
    assert reported.text == (
        "guest costs in 1 of 4 comparisons, 5.0 % more elapsed time in build, "
        "and gains in 2 of 4 comparisons, 10.0 % more goodput in udp to 50 % more goodput in tcp"
    )


def test_over_all_verdicts_that_show_nothing_nothing_is_claimed() -> None:
    reported = overall(many(*[(f"w{i}", "elapsed", 0.01, NOTHING) for i in range(4)]), SEVERAL)
    assert reported is not None and reported.tone == "same"
    assert (
        reported.text
        == "guest: no difference shown in 4 comparisons (at most +3.1 % elapsed time in w0)"
    )


def test_over_all_verdicts_in_virtual_time_it_says_so() -> None:
    found = many(*[(f"w{i}", "elapsed", 0.5, "costs") for i in range(4)])
    reported = overall(found, replace(SEVERAL, clock="virtual"))
    assert reported is not None and reported.text.endswith("(virtual time)")


def test_of_few_verdicts_the_answer_reports_each() -> None:
    (guest,) = many(("build", "elapsed", 39.0, "costs"))
    (container,) = many(("build", "elapsed", 0.01, NOTHING), platform="container")
    tcg = replace(SEVERAL, accelerators={"guest": "tcg"})
    reported = answer([container, guest], tcg)
    assert reported is not None and reported.tone == "costs"
    assert reported.text == (
        "guest (tcg) costs 40 times the elapsed time; "
        "container: no difference shown (at most +3.1 %)"
    )
    wide = {"cost_low": -0.9, "cost_high": 5.0, "verdict": "undecided", "reason": "wide"}
    reported = answer([container.model_copy(update=wide)], SEVERAL)
    assert reported is not None and reported.tone == "unknown"
    assert reported.text == "container: too few trials to say (−90 to +500 %)"
    undecided = answer([guest.model_copy(update={"verdict": None})] * 4, SEVERAL)
    assert undecided is not None and undecided.text.startswith(
        "no verdict in 4 comparisons: too few"
    )
    assert answer([], SEVERAL) is None


def test_the_ends_of_all_verdicts_name_what_only_their_platform_has() -> None:
    wording = Wording(
        {"tcp": frozenset({"workload"})},
        frozenset({("tcp", "sut.nic")}),
        workloads=2,
        clock="wall",
        accelerators={},
    )
    cell = {"workload": "tcp", "sut.nic": "e1000"}
    found = [
        one.model_copy(update={"cell": cell}) for one in many(*[("tcp", "goodput", 0.5, "costs")])
    ]
    reported = overall(found * 4, wording)
    assert reported is not None
    assert "50 % of the goodput in tcp, e1000 to" in reported.text


def test_failures_are_counted_and_their_reason_given(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from hypertare.report.model import gather
    from hypertare.runs.store import Store

    run = factory.write(tmp_path / "run", factory.Script(blocks=4))
    with Store.open(run) as store:
        report = gather(store, summarise(store))
    failed = [sentence.text for sentence in report.remarks if sentence.tone == "failed"]
    assert len(failed) == 2
    assert all("failed in 1 of 4 trials of" in text for text in failed)
    assert all(text.endswith(": the guest panicked") for text in failed)
