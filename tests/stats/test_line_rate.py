from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.stats import line_rate

GIGABIT = 1e9


def test_tcp_on_gigabit_ethernet() -> None:
    assert line_rate.on_wire(1500) == 1538
    # 941.482...; the study (INRIA RR-6658) writes 941.49.
    assert line_rate.tcp(GIGABIT) / 1e6 == pytest.approx(941.49, abs=0.01)


def test_by_hand() -> None:
    assert line_rate.tcp(GIGABIT, ip=6) == pytest.approx(GIGABIT * 1428 / 1538)
    assert line_rate.tcp(GIGABIT, 9000) == pytest.approx(GIGABIT * 8948 / 9038)
    assert line_rate.udp(GIGABIT, 1472) == pytest.approx(GIGABIT * 1472 / 1538)
    # The least frame: 64 bytes, with preamble and gap 84, so 1,488,095 a second.
    assert line_rate.udp(GIGABIT, 18) == pytest.approx(1_488_095 * 18 * 8, rel=1e-6)
    assert line_rate.udp(GIGABIT, 1) == pytest.approx(GIGABIT * 1 / 84)


@given(st.integers(68, 65535), st.floats(1e3, 1e12))
def test_goodput_is_below_the_link_and_grows_with_the_mtu(mtu: int, link: float) -> None:
    assert 0 < line_rate.tcp(link, mtu) < link
    assert line_rate.tcp(link, mtu) < line_rate.tcp(link, mtu + 1)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="the MTU is 1500"):
        line_rate.udp(GIGABIT, 1473)
    with pytest.raises(ValueError):
        line_rate.tcp(GIGABIT, 52)
    with pytest.raises(ValueError):
        line_rate.udp(GIGABIT, 0)
