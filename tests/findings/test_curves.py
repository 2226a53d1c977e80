from __future__ import annotations

import pytest

from hypertare.base.variables import Level
from hypertare.findings.curves import curves, offered
from hypertare.runs.summary import Estimate


def seen(weight: int, rate: Level, goodput: float, **fields: object) -> Estimate:
    cell = {"workload": "load", "knobs.napi_weight": weight, "workloads.load.rate": rate}
    given: dict[str, object] = {
        "response": "goodput",
        "unit": "b/s (virtual)",
        "better": "higher",
        "cell": cell,
        "platform": "native",
        "n": 3,
        "estimate": goodput,
        "low": goodput,
        "high": goodput,
    }
    return Estimate.model_validate(given | fields)


RATES = ("10 % of capacity", "50 % of capacity", "100 % of capacity", "150 % of capacity")


def test_a_curve_for_each_setting() -> None:
    estimates = [
        *(seen(64, rate, goodput) for rate, goodput in zip(RATES, (10, 50, 90, 91), strict=True)),
        *(seen(1, rate, goodput) for rate, goodput in zip(RATES, (10, 40, 30, 5), strict=True)),
        seen(1, RATES[0], 7, response="loss"),
    ]
    one, other = curves(reversed(estimates))
    assert one.cell == {"workload": "load", "knobs.napi_weight": 1}
    assert (one.kind, one.peak_at, one.peak, one.last_at, one.last) == (
        "livelock",
        "50 % of capacity",
        40,
        "150 % of capacity",
        5,
    )
    assert (other.kind, other.rates, other.unit) == ("levels off", 4, "b/s (virtual)")


def test_few_rates_make_no_curve() -> None:
    assert list(curves([seen(1, rate, 1) for rate in RATES[:3]])) == []


@pytest.mark.parametrize(
    ("level", "number"), [("60 % of capacity", 0.6), ("2M", 2e6), (1500, 1500.0)]
)
def test_what_orders_rates(level: Level, number: float) -> None:
    assert offered(level) == pytest.approx(number)


def of_peer(rate: Level, goodput: float, share: float) -> list[Estimate]:
    return [seen(1, rate, goodput), seen(1, rate, share, response="offered_share", unit="share")]


def test_a_rate_that_was_not_offered_is_no_part_of_a_shape() -> None:
    """The peer ends at 55: its last two rates would make a receiver level off that follows each rate."""
    rates = [f"{share} % of capacity" for share in (10, 20, 30, 50, 200, 300)]
    sent = ((10, 1.0), (20, 0.99), (30, 1.0), (50, 0.96), (55, 55 / 200), (55, 55 / 300))
    found = [
        one
        for rate, (goodput, share) in zip(rates, sent, strict=True)
        for one in of_peer(rate, goodput, share)
    ]
    (one,) = curves(found)
    assert (one.kind, one.rates, one.last_at) == ("keeps up", 4, "50 % of capacity")
    assert one.doubt is not None
    assert one.doubt.startswith("at 300 % of capacity its peer sent 18 % of the rate")
    (blind,) = curves(one for one in found if one.response == "goodput")
    assert blind.kind == "levels off" and blind.doubt is None


def test_too_few_rates_that_were_offered_have_no_shape() -> None:
    found = [of_peer(rate, 55, 0.3 if rate in RATES[2:] else 1.0) for rate in RATES]
    (one,) = curves(one for pair in found for one in pair)
    assert (one.kind, one.rates, one.last_at) == ("undecided", 2, "50 % of capacity")
