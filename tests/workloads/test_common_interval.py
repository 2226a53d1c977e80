"""Streams over the time in which all of them ran."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.protocol.records import Interval
from hypertare.workloads.stream_rates import Common, Flow, Piece, common, flow
from tests.made_guests import Streamed, stream

BYTES = st.floats(0, 1e9)
SPAN = st.floats(0.3, 2)


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    """Pieces that follow each other; all flows share at least the second from 2 to 3."""
    begin = draw(st.floats(0, 2))
    ends = [begin]
    while ends[-1] < 3:
        ends.append(ends[-1] + draw(SPAN))
    return tuple(Piece(a, b, draw(BYTES)) for a, b in pairwise(ends))


NAMED = st.dictionaries(
    st.sampled_from(["receive.1", "receive.2", "receive.3"]), flows(), min_size=1
)


def of(streams: dict[str, Streamed]) -> Common | None:
    reported = {
        name: [r for r in stream(one, name) if isinstance(r, Interval)]
        for name, one in streams.items()
    }
    found = {name: flow(intervals) for name, intervals in reported.items()}
    return common({name: pieces for name, pieces in found.items() if pieces})


def test_by_hand() -> None:
    early = (Piece(0, 1, 100), Piece(1, 2, 300))
    late = (Piece(1.5, 2.5, 50),)
    found = common({"a": early, "b": late})
    assert found is not None
    # From 1.5 to 2: half of 300 bytes, half of 50.
    assert found.seconds_s == pytest.approx(0.5)
    assert found.rates == pytest.approx({"a": 8 * 150 / 0.5, "b": 8 * 25 / 0.5})
    assert found.share == pytest.approx(0.25)


@given(NAMED)
def test_it_lies_in_every_stream_and_takes_no_more_than_came(named: dict[str, Flow]) -> None:
    found = common(named)
    assert found is not None and 0 < found.share <= 1 + 1e-12
    assert found.seconds_s >= 1
    for name, pieces in named.items():
        assert found.seconds_s <= pieces[-1].end_s - pieces[0].begin_s + 1e-9
        whole = sum(piece.bytes for piece in pieces)
        assert -1e-6 <= found.rates[name] * found.seconds_s / 8 <= whole * (1 + 1e-9) + 1e-6


@given(flows())
def test_a_stream_alone_has_its_own_time(alone: Flow) -> None:
    found = common({"receive.1": alone})
    assert found is not None
    own = alone[-1].end_s - alone[0].begin_s
    assert (found.seconds_s, found.share) == pytest.approx((own, 1))
    assert found.rates["receive.1"] == pytest.approx(8 * sum(p.bytes for p in alone) / own)


@given(NAMED, st.floats(-1e3, 1e3))
def test_it_does_not_matter_when_the_clock_began(named: dict[str, Flow], shift: float) -> None:
    moved = {
        name: tuple(Piece(p.begin_s + shift, p.end_s + shift, p.bytes) for p in pieces)
        for name, pieces in named.items()
    }
    one, other = common(named), common(moved)
    assert one is not None and other is not None
    assert one.seconds_s == pytest.approx(other.seconds_s, abs=1e-9)
    assert one.rates == pytest.approx(other.rates, rel=1e-6, abs=1e-3)


@given(st.floats(0, 0.5), st.floats(0, 0.4), st.floats(1e3, 1e9))
def test_who_begins_late_has_even_streams_rates_all_the_same(
    late: float, early: float, bps: float
) -> None:
    found = of({"a": Streamed(bps, 5 - early), "b": Streamed(2 * bps, 5 + late)})
    if late + early >= 1:
        assert found is None or found.seconds_s < 1e-6
        return
    assert found is not None
    assert found.rates == pytest.approx({"a": bps, "b": 2 * bps}, rel=1e-6)
    assert found.seconds_s == pytest.approx(1 - late - early)


def test_records_that_are_held_up_move_nothing() -> None:
    found = of({"a": Streamed(8e6, 5.0, delay_s=0.001), "b": Streamed(8e6, 5.0, delay_s=0.001)})
    assert found is not None and found.share == pytest.approx(1)


def test_streams_that_never_ran_at_once_have_no_common_time() -> None:
    assert of({"a": Streamed(8e6, 5.0, 1.0), "b": Streamed(8e6, 6.5, 1.0)}) is None
    assert common({}) is None


def test_without_the_host_agents_word_no_clock_can_be_set() -> None:
    (one,) = [r for r in stream(Streamed(8e6, lasts_s=0.1), "a") if isinstance(r, Interval)]
    assert flow([one]) is not None
    assert flow([one.model_copy(update={"heard_s": None})]) is None
    assert flow([one.model_copy(update={"end_s": one.begin_s})]) is None
