from __future__ import annotations

import pytest

from hypertare.base.errors import InputError, MachineError
from hypertare.base.quantities import OfCapacity
from hypertare.base.units import parse_of_capacity
from hypertare.design.design import Variant, WholePlot, make
from hypertare.design.planner import Capacity, Chance, MachineResources, make_trial
from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.engine.session import Need, capacity_needs, measured_capacity
from hypertare.protocol.plan import StreamSend
from hypertare.study import StudyFile

STUDY = """
name = "t"
question = "?"
machine = "emulated"
[workloads.load]
type = "stream"
protocol = "udp"
rate = "100 % of capacity"
factors = { "workloads.load.rate" = ["50 % of capacity", "2M"], "knobs.napi_weight" = [1, 64] }
[workloads.other]
type = "stream"
[factors]
"sut.nic" = ["e1000", "vmxnet3"]
"""

GUEST = Variant("guest", {"sut.nic": "e1000"}, "guest1", 1)
NATIVE = Variant("native", {}, "host", 0)


def file(text: str = STUDY) -> StudyFile:
    return StudyFile(text, "study")


def trial(platform: str, cell: dict, goodput: float | None, kind="capacity") -> FinishedTrial:
    planned = PlannedTrial(0, 0, 0, platform, {"workload": "load", **cell}, kind)
    if goodput is None:
        return FinishedTrial(planned, "failed", "no carrier", 1.0)
    return FinishedTrial(planned, "ok", None, 1.0, {"goodput": goodput})


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("60 % of capacity", 0.6),
        ("150% of capacity", 1.5),
        ("60 %", None),
        ("60M", None),
        (7, None),
    ],
)
def test_shares_of_a_capacity(text: object, share: float | None) -> None:
    assert parse_of_capacity(text) == (pytest.approx(share) if share else None)


def test_a_rate_is_a_number_or_a_share() -> None:
    study = file().study()
    assert study.workloads["load"].rate == OfCapacity(1.0)
    assert file().cell({"workloads.load.rate": "2M"}).workloads["load"].rate == 2e6
    for wrong in ("0 % of capacity", "fast", "10 % of the capacity"):
        with pytest.raises(InputError, match="rate"):
            file().cell({"workloads.load.rate": wrong})


def test_a_capacity_is_needed_for_each_bench_and_only_where_a_rate_is_a_share_of_it() -> None:
    one = file()
    found = capacity_needs(one, one.study(), make(one.study(), 1))
    assert [(need.workload, need.plot.levels["sut.nic"]) for need in found] == [
        ("load", "e1000"),
        ("load", "vmxnet3"),
    ]
    plain = file(STUDY.replace("50 % of capacity", "1M").replace("100 % of capacity", "3M"))
    assert capacity_needs(plain, plain.study(), make(plain.study(), 1)) == []


def test_the_ask_paces_nothing_and_leaves_the_knobs_alone() -> None:
    need = Need("load", WholePlot({"sut.nic": "e1000"}, (NATIVE,)))
    ask = need.ask(NATIVE, 2)
    assert ask.levels == {"sut.nic": "e1000", "workloads.load.rate": None}
    assert (ask.cell, ask.replicate) == ({"sut.nic": "e1000"}, 2)


def test_it_is_the_least_median_of_the_platforms() -> None:
    need = Need("load", WholePlot({}, (NATIVE, GUEST)))
    slow = [trial("guest", {"sut.nic": "e1000"}, goodput) for goodput in (3e6, 9e6, 4e6)]
    fast = [trial("native", {}, 50e6)]
    assert measured_capacity(need, [*slow, *fast]) == Capacity("load", {}, 4e6)
    assert measured_capacity(need, slow) is None
    others = [trial("native", {}, 1.0, kind="measured"), trial("native", {"sut.nic": "x"}, 1.0)]
    assert measured_capacity(need, [*slow, *fast, *others]) == Capacity("load", {}, 4e6)


@pytest.mark.parametrize("goodput", [None, 0.0])
def test_without_a_capacity_the_reason_is_said(goodput: float | None) -> None:
    need = Need("load", WholePlot({}, (NATIVE,)))
    with pytest.raises(MachineError, match="load on native is not known"):
        measured_capacity(need, [trial("native", {}, goodput)])


def test_a_share_becomes_a_rate_of_the_bench_that_fits_best() -> None:
    known = (
        Capacity("load", {}, 1e6),
        Capacity("load", {"sut.nic": "e1000"}, 8e6),
        Capacity("other", {"sut.nic": "e1000"}, 5.0),
    )
    on = MachineResources((0,), "tcg", {}, {}, chance=Chance(1), capacities=known)
    assert sent(on, "50 % of capacity", {"sut.nic": "e1000", "bench.mtu": 1500}) == 4e6
    assert sent(on, "50 % of capacity", {"sut.nic": "vmxnet3"}) == 0.5e6
    assert sent(on, "2M", {"sut.nic": "e1000"}) == 2e6


def sent(on: MachineResources, rate: str, levels: dict) -> float | None:
    study = file().cell({"workloads.load.rate": rate})
    made = make_trial(1, study, "load", NATIVE, WholePlot(levels, (NATIVE,)), on)
    (send,) = [
        task.workload
        for phase in made.phases
        for task in phase.tasks
        if isinstance(task.workload, StreamSend)
    ]
    return send.rate_bps


def test_factors_of_one_workload() -> None:
    study = file().study()
    assert study.factors_of("other") == {}
    cells = [cell.levels for cell in make(study, 1).cells]
    assert len(cells) == 2 * 2 + 1
    assert {"workload": "other"} in cells
    for wrong in ("sut.nic", "workloads.other.rate", "workloads.load.factors"):
        with pytest.raises(InputError, match="cannot be varied for 'load' alone"):
            file(STUDY.replace('"knobs.napi_weight"', f'"{wrong}"')).study()
