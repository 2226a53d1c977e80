"""Claims about one figure over many cells, of trials whose figures are known."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import count

import numpy as np
import pytest
from pydantic import ValidationError

from hypertare.base.variables import Level
from hypertare.design.trials import FinishedTrial
from hypertare.findings.claims import judge
from hypertare.findings.estimates import estimate
from hypertare.findings.many_cells import Over, log_ratios, mean, over
from hypertare.findings.series import series
from hypertare.runs.summary import JudgedClaim
from hypertare.study.claims import Claim
from tests.made_trials import RESPONSES, trial

SIZES = (64, 512, 8192)
EFFICIENCY = {64: 0.5, 512: 0.8, 8192: 0.98}


def made(
    boots: int = 4,
    noise: float = 0.003,
    lost: Collection[tuple[int, int]] = (),
    mtus: tuple[int, ...] = (1500,),
) -> list[FinishedTrial]:
    """Native and a guest side by side; a smaller MTU takes another tenth from the guest.

    `lost` are the sizes and boots of which the guest has no figure.
    """
    rng, blocks, found = np.random.default_rng(5), count(), []
    for boot in range(boots):
        for size in SIZES:
            for mtu in mtus:
                block = next(blocks)
                cell: dict[str, Level] = {"workload": "tcp", "message": size, "mtu": mtu}
                shared = 1e9 * float(np.exp(0.2 * rng.standard_normal()))
                of_guest = EFFICIENCY[size] * (0.9 if mtu < 1500 else 1.0)
                for platform, share in (("native", 1.0), ("guest", of_guest)):
                    value = shared * share * float(np.exp(noise * rng.standard_normal()))
                    gone = platform == "guest" and (size, boot) in lost
                    found.append(
                        trial(platform, block, None if gone else {"goodput": value}, cell, boot)
                    )
    return found


GIVEN: Mapping[str, object] = {
    "text": "so it is",
    "response": "goodput",
    "platform": "guest",
    "measure": "efficiency",
    "over": "mean",
    "op": "above",
    "value": 0.9,
}


def said(trials: list[FinishedTrial], **fields: object) -> JudgedClaim:
    known = estimate(
        trials, RESPONSES, baseline="native", confidence=0.95, threshold=0.01, clock="wall",
        leading={"tcp": "goodput"}, platforms=(),
    )  # fmt: skip
    return judge(Claim.model_validate(GIVEN | fields), known.estimates, measured=series(trials))


MEAN = (0.5 * 0.8 * 0.98) ** (1 / 3)


def test_the_mean_is_geometric_and_by_rounds() -> None:
    one = said(made(), op="within", value=[MEAN - 0.01, MEAN + 0.01])
    assert one.judgement == "holds"
    assert one.evidence.startswith("mean over 3 cells: efficiency of goodput 0.73")
    assert "95 % interval" in one.evidence
    assert said(made()).judgement == "fails"
    # In every cell is another claim: one of them holds.
    assert "holds in 1 of 3 cells" in said(made(), over=None).evidence


def test_least_and_most_name_the_cell() -> None:
    least = said(made(), over="least", op="within", value=[0.48, 0.52])
    assert least.judgement == "holds"
    assert (
        "least chosen of 3 cells, in guest (workload tcp, message 64, mtu 1500)" in least.evidence
    )
    most = said(made(), over="most", value=0.95)
    assert most.judgement == "holds" and "message 8192" in most.evidence


def test_a_cost_is_least_where_the_ratio_is_most() -> None:
    one = said(made(), measure="cost", over="least", op="within", value=["0 %", "4 %"])
    assert one.judgement == "holds" and "message 8192" in one.evidence
    assert said(made(), measure="cost", over="most", value="45 %").judgement == "holds"


def test_a_choice_costs_certainty() -> None:
    """One of many is surely below a bound only where its own interval would be with room to spare."""
    noisy = made(noise=0.02)
    alone = said(noisy, over=None, where={"message": 64}, op="below", value=0.53)
    chosen = said(noisy, over="least", op="below", value=0.53)
    assert alone.judgement == "holds"
    width = [
        one.evidence.split("interval ")[1].split(")")[0].split(" to ") for one in (alone, chosen)
    ]
    assert float(width[1][1]) - float(width[1][0]) > 0.015


def test_a_cell_without_figures_is_counted() -> None:
    one = said(made(lost=[(64, boot) for boot in range(4)]), value=0.5)
    assert one.judgement == "holds" and "mean over 2 cells (1 more lack figures)" in one.evidence


@pytest.mark.parametrize(
    ("lost", "cells"),
    [
        ([], 3),
        # Rounds 2 and 3 are left: no cell has to go.
        ([(64, 0), (512, 1)], 3),
        # No round is left of all, two are of two.
        ([(64, 0), (64, 1), (512, 2), (512, 3), (8192, 3)], 2),
        # Nothing is in common twice.
        ([(size, boot) for size in SIZES for boot in (0, 1, 2)], 3),
        ([(size, boot) for size in SIZES for boot in range(4)], 0),
    ],
)
def test_a_point_of_a_plot_is_of_all_cells_that_can_be_compared(
    lost: Collection[tuple[int, int]], cells: int
) -> None:
    every = series(made(lost=lost))
    figures = [(one, log_ratios(one, "goodput", every, "native")) for one in every]
    found = mean([(one, rounds) for one, rounds in figures if rounds])
    assert (found[1] if found else 0) == cells
    if found and cells == 3:
        assert found[0].estimate == pytest.approx(np.log(MEAN), abs=0.01)


@pytest.mark.parametrize(
    ("lost", "cells", "rounds"),
    [
        # One that has a single round does not take the others' rounds from them.
        ([(64, 0), (64, 1), (64, 3)], 2, 4),
        # One that failed once costs that round, and keeps its place.
        ([(64, 2)], 3, 3),
        # What no two rounds have alike is left out.
        ([(64, 0), (64, 1), (512, 2), (512, 3)], 1, 4),
    ],
)
def test_a_cell_that_fails_now_and_then_does_not_leave_the_claim_undecided(
    lost: list[tuple[int, int]], cells: int, rounds: int
) -> None:
    one = said(made(lost=lost), value=0.5)
    assert one.judgement == "holds" and f"over {cells} cell" in one.evidence
    assert ("lack figures" in one.evidence) == (cells < 3)
    every = series(made(lost=lost))
    guests = [one for one in every if one.platform == "guest"]
    found = over(Claim.model_validate(GIVEN), None, guests, every, "native", "higher")
    assert isinstance(found, Over)
    assert (found.cells, found.missing, found.rounds) == (cells, 3 - cells, rounds)


def test_against_other_cells_it_is_the_mean_of_differences() -> None:
    trials = made(mtus=(500, 1500))
    fields = {"where": {"mtu": 500}, "against": {"mtu": 1500}, "op": "below", "value": 0}
    one = said(trials, **fields)
    assert (
        one.judgement == "holds"
        and "the difference against mtu 1500: efficiency of goodput" in one.evidence
    )
    wanted = -0.1 * sum(EFFICIENCY.values()) / 3
    assert (
        said(trials, **fields | {"op": "within", "value": [wanted - 0.01, wanted + 0.01]}).judgement
        == "holds"
    )
    ratio = {
        "measure": "ratio",
        "where": {},
        "against": {"platform": "native"},
        "op": "below",
        "value": 1,
    }
    assert said(trials, **ratio).judgement == "holds"


def test_one_round_decides_nothing() -> None:
    one = said(made(boots=1))
    assert one.judgement == "undecided" and "fewer than two rounds" in one.evidence


@pytest.mark.parametrize(
    "fields",
    [
        {"measure": "correlation", "with_response": "loss"},
        {"measure": "value", "guest": 1},
        {"measure": "value", "against_response": "loss"},
        {"response": "loss_free_rate"},
    ],
)
def test_what_is_of_no_cells_is_refused(fields: dict[str, object]) -> None:
    given = {"text": "x", "response": "goodput", "platform": "guest", "op": "above", "value": 1}
    with pytest.raises(ValidationError, match="'over'"):
        Claim.model_validate({**given, "over": "mean", **fields})


def test_what_is_added_over_many_cells() -> None:
    """Rates of 1e9 on average, of which half, a fifth and a fiftieth are lost."""
    found = said(made(noise=0.0005), measure="difference", op="below", value=0.0)
    assert found.judgement == "holds"
    assert found.evidence.startswith("mean over 3 cells: difference of goodput")
    more = said(
        made(noise=0.0005, mtus=(500, 1500)), measure="difference", op="below", value=0.0,
        where={"mtu": 500}, against={"mtu": 1500},
    )  # fmt: skip
    assert "the difference against mtu 1500" in more.evidence
