"""Laws of a setting by a factor's level, against hand-computed cases."""

from __future__ import annotations

import math

import pytest

from hypertare.stats.growth import fit, laws, preferred

LEVELS = (1.0, 2.0, 4.0, 8.0)


def fits(settings: tuple[float, ...], default: float = 256.0, *, of_guests: bool = True):  # type: ignore[no-untyped-def]
    return [fit(law, LEVELS, settings) for law in laws(default, of_guests=of_guests)]


def test_the_published_law_is_found_in_its_own_figures() -> None:
    # (log2 N + 1) N is 1, 4, 12, 32.
    default, constant, grows = fits((100.0, 400.0, 1200.0, 3200.0))
    assert grows.scale == pytest.approx(100) and grows.residual == pytest.approx(0, abs=1e-12)
    assert preferred([default, constant, grows]) is grows
    assert grows.at(6) == pytest.approx(100 * (math.log2(6) + 1) * 6)


def test_by_hand() -> None:
    # Logs to base 2 are 8, 9, 10, 11: their mean is 9.5, the others' of each 10, 9.67, 9.33, 9.
    default, constant, grows = fits((256.0, 512.0, 1024.0, 2048.0))
    assert default.scale == 256 and default.residual == default.left_out
    assert default.residual == pytest.approx(math.sqrt((0 + 1 + 4 + 9) / 4))
    assert constant.scale == pytest.approx(2**9.5)
    assert constant.residual == pytest.approx(math.sqrt((2.25 + 0.25) / 2))
    # Without one of n the mean misses it by n / (n - 1) of its distance from the mean of all.
    assert constant.left_out == pytest.approx(constant.residual * 4 / 3)
    logs = [8 - 0, 9 - 2, 10 - math.log2(12), 11 - 5]
    assert grows.scale == pytest.approx(2 ** (sum(logs) / 4))
    assert preferred([default, constant, grows]) is grows


def test_of_laws_that_predict_alike_the_simplest_is_preferred() -> None:
    found = fits((256.0,) * 4)
    assert preferred(found).law.name == "the default"
    found = fits((1024.0,) * 4)
    assert preferred(found).law.name == "constant" and preferred(found).scale == pytest.approx(1024)


def test_of_another_factor_a_setting_may_be_in_proportion() -> None:
    found = preferred(fits((10.0, 20.0, 40.0, 80.0), of_guests=False))
    assert found.law.name == "in proportion" and found.at(6) == pytest.approx(60)


def test_one_level_makes_no_law() -> None:
    with pytest.raises(ValueError, match="1 levels"):
        fit(laws(1.0, of_guests=True)[0], (1.0,), (2.0,))
