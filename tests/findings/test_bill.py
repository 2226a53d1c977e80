"""What a cost is made of, of trials whose figures are known."""

from __future__ import annotations

import itertools

import pytest

from hypertare.base.variables import Response
from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.findings.bill import bills
from hypertare.findings.series import Rules
from hypertare.runs.summary import Amount, Bill, BillItem
from hypertare.stats.practical import THRESHOLD
from hypertare.study.analyses import BillSettings

RULES = Rules("native", 0.95, THRESHOLD, "virtual")
RTT = Response("rtt_p50", "s (virtual)", "lower", "median round-trip time", "mean")
ASKED = BillSettings.model_validate(
    {
        "workload": "rtt",
        "response": "rtt_p50",
        "items": [
            {
                "name": "exits",
                "of": ["exits_per_packet"],
                "times": 2,
                "price": {"workload": "exit", "response": "cpuid_time"},
            },
            {"name": "back end", "of": ["vmm_cpu_per_packet", "backend_cpu_per_packet"]},
        ],
    }
)
PATH = "sut.datapath"
NUMBERS = itertools.count()


def trial(
    boot: int, platform: str, workload: str, values: dict[str, float], path: str = "vhost"
) -> FinishedTrial:
    """Each boot has one block of each platform and workload."""
    cell = {"workload": workload, **({PATH: path} if platform == "guest" else {})}
    planned = PlannedTrial(next(NUMBERS), boot, boot, platform, cell)
    return FinishedTrial(planned, "ok", None, 1.0, values)


def boot(number: int, exits: float, back_end: float, cost: float) -> list[FinishedTrial]:
    """An exit costs 25 us more than natively, a round trip `cost` us more than its 500."""
    us = 1e-6
    own = {"exits_per_packet": exits, "vmm_cpu_per_packet": us}
    return [
        trial(number, "native", "rtt", {"rtt_p50": 500 * us}),
        trial(number, "native", "exit", {"cpuid_time": 1 * us}),
        trial(number, "guest", "exit", {"cpuid_time": 26 * us}),
        trial(
            number,
            "guest",
            "rtt",
            {"rtt_p50": (500 + cost) * us, **own, "backend_cpu_per_packet": back_end * us},
        ),
    ]


def only(trials: list[FinishedTrial], asked: BillSettings = ASKED) -> Bill:
    (found,) = bills(trials, asked, RTT, RULES)
    return found


def items(bill: Bill) -> dict[str, BillItem]:
    return {item.name: item for item in bill.items}


def of(amount: Amount | None) -> float:
    assert amount is not None
    return amount.estimate * 1e6


def test_items_and_the_rest_add_up_to_the_cost() -> None:
    bill = only([*boot(1, 2.0, 139.0, 250.0), *boot(2, 3.0, 149.0, 310.0)])
    assert (bill.platform, bill.baseline, bill.n, bill.cell[PATH]) == (
        "guest",
        "native",
        2,
        "vhost",
    )
    exits, back_end = items(bill)["exits"], items(bill)["back end"]
    # Twice 2 and 3 exits of 25 us: 100 and 150; 140 and 150 for the back end; 10 and 10 are left.
    assert exits.count == pytest.approx(5.0) and exits.price == pytest.approx(25e-6)
    assert of(exits.amount) == pytest.approx(125.0)
    assert back_end.price is None and of(back_end.amount) == pytest.approx(145.0)
    assert of(bill.cost) == pytest.approx(280.0)
    assert of(bill.unexplained) == pytest.approx(10.0)


def test_the_interval_of_the_rest_is_over_boots_and_not_a_sum_of_the_items() -> None:
    """Boots differ by much in the cost, and the items by as much: the rest is known well."""
    bill = only(
        [*boot(1, 2.0, 139.0, 250.0), *boot(2, 3.0, 149.0, 311.0), *boot(3, 1.0, 99.0, 160.0)]
    )
    rest, cost = bill.unexplained, bill.cost
    assert rest is not None and cost is not None
    assert rest.low is not None and rest.high is not None
    assert cost.low is not None and cost.high is not None
    assert rest.low < 10e-6 < rest.high
    assert rest.high - rest.low < (cost.high - cost.low) / 50


def test_what_was_not_counted_is_said_and_stays_in_the_rest() -> None:
    trials = [one for one in boot(1, 2.0, 139.0, 250.0) if one.planned.cell["workload"] == "rtt"]
    bill = only(trials)
    assert items(bill)["exits"].amount is None
    assert of(bill.unexplained) == pytest.approx(110.0)
    assert bill.unexplained is not None and bill.unexplained.low is None


def test_a_boot_without_its_price_is_left_out_of_all() -> None:
    second = [one for one in boot(2, 9.0, 9.0, 999.0) if one.planned.cell["workload"] == "rtt"]
    bill = only([*boot(1, 2.0, 139.0, 250.0), *second])
    assert bill.n == 1 and of(bill.cost) == pytest.approx(250.0)


def test_an_item_is_one_of_the_cells_that_it_names() -> None:
    of_vhost = ASKED.items[1].model_copy(update={"where": {PATH: "vhost"}})
    asked = ASKED.model_copy(update={"items": (ASKED.items[0], of_vhost)})
    trials = boot(1, 2.0, 139.0, 250.0)
    trials += [
        trial(1, "guest", "rtt", {"rtt_p50": 700e-6, "exits_per_packet": 2.0}, "qemu"),
        trial(1, "guest", "exit", {"cpuid_time": 26e-6}, "qemu"),
    ]
    by_path = {bill.cell[PATH]: bill for bill in bills(trials, asked, RTT, RULES)}
    assert set(items(by_path["vhost"])) == {"exits", "back end"}
    assert set(items(by_path["qemu"])) == {"exits"}
    assert of(by_path["qemu"].unexplained) == pytest.approx(100.0)


def test_without_items_or_a_baseline_there_is_no_bill() -> None:
    alone = trial(1, "guest", "rtt", {"rtt_p50": 1e-3})
    of_nothing = [trial(1, "native", "rtt", {"rtt_p50": 5e-4}), alone]
    assert list(bills(of_nothing, ASKED, RTT, RULES)) == []
    guests = [one for one in boot(1, 2.0, 139.0, 250.0) if one.planned.platform == "guest"]
    assert list(bills(guests, ASKED, RTT, RULES)) == []


WHOLE = BillSettings.model_validate(
    {
        "workload": "rtt",
        "response": "run",
        "whole": True,
        "instructions": True,
        "rest": "other threads",
        "items": [
            {"name": "program", "of": ["program"]},
            {"name": "exits", "of": ["vcpu"], "times": 2, "platforms": ["guest"]},
        ],
    }
)
RUN = Response("run", "s (virtual)", "lower", "time that tasks ran", "mean")


def test_a_bill_of_all_that_there_is_has_the_baseline_too_and_can_be_in_instructions() -> None:
    trials = [
        trial(1, "native", "rtt", {"run": 8e-6, "program": 8e-6, "vcpu": 1.0}),
        trial(1, "guest", "rtt", {"run": 80e-6, "program": 8e-6, "vcpu": 16e-6}),
        trial(1, "container", "rtt", {"run": 9e-6}),
    ]
    native, guest = bills(trials, WHOLE, RUN, RULES, instruction_s=8e-9)
    assert (native.platform, native.baseline, guest.baseline) == ("native", None, None)
    assert native.unit == guest.unit == "instructions (virtual)"
    # An instruction takes 8 ns: 1,000 of 1,000; 1,000 and twice 2,000 of 10,000.
    assert [item.name for item in native.items] == ["program"]
    found = [guest.cost, *(item.amount for item in guest.items), guest.unexplained]
    assert [of(one) / 1e6 for one in found] == pytest.approx([10_000, 1_000, 4_000, 5_000])
    assert guest.rest == "other threads" and items(guest)["exits"].count == pytest.approx(4_000)
    assert native.unexplained is not None and native.unexplained.estimate == 0.0
