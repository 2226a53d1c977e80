"""What a stream brings through, over the time for which it was sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.protocol.phase import Phase
from hypertare.workloads import stream_rates
from hypertare.workloads.stream import STREAM
from tests.made_guests import result

SIZE = 1000


def phase(sent: int, sent_s: float, came: int, came_s: float, mark: str = "") -> Phase:
    received = {
        "received_packets": float(came),
        "received_bytes": float(came * SIZE),
        "lost_packets": float(sent - came),
        "elapsed_s": came_s,
    }
    if came > 1:
        received["goodput_bps"] = 8 * (came - 1) * SIZE / came_s
    sender = {
        "sent_packets": float(sent),
        "sent_bps": 8 * sent * SIZE / sent_s,
        "elapsed_s": sent_s,
    }
    return Phase.of([result(f"send{mark}", sender), result(f"receive{mark}", received)])


def test_a_stream_that_loses_nothing_has_the_rate_that_it_was_sent_at() -> None:
    # 1001 datagrams, one a millisecond: 1000 gaps of 1 ms.
    whole = phase(1001, 1.001, 1001, 1.0)
    assert stream_rates.goodput(whole) == pytest.approx(8e6)
    assert stream_rates.packet_rate(whole) == pytest.approx(1000)


def test_a_receiver_that_starves_is_not_flattered() -> None:
    # 100 of 1000 datagrams came, within a tenth of the second: 0.8 Mb/s, not 7.9.
    starved = phase(1000, 1.0, 100, 0.1)
    assert stream_rates.goodput(starved) == pytest.approx(0.8e6)
    assert stream_rates.packet_rate(starved) == pytest.approx(100)
    values = STREAM.measure(starved)
    assert values["goodput"] == pytest.approx(values["sent_rate"] * (1 - values["loss"]))  # type: ignore[operator]


def test_a_queue_that_is_drained_after_the_sender_ended_takes_its_time() -> None:
    queued = phase(1000, 1.0, 1000, 2.0)
    assert stream_rates.goodput(queued) == pytest.approx(8 * 999e3 / 2)
    assert stream_rates.packet_rate(queued) == pytest.approx(500)


def test_a_tcp_stream_that_stands_still_is_not_flattered() -> None:
    sent = result("send", {"elapsed_s": 2.0})
    came = {"received_bytes": 126e3, "goodput_bps": 10e6, "elapsed_s": 0.1}
    reported = Phase.of([sent, result("receive", came)])
    assert stream_rates.goodput(reported) == pytest.approx(8 * 126e3 / 2)
    assert stream_rates.first_bytes(reported, "receive") == pytest.approx(1000)
    assert STREAM.measure(reported)["goodput"] == stream_rates.goodput(reported)


def test_one_datagram_alone_has_a_rate_too() -> None:
    assert stream_rates.goodput(phase(1000, 2.0, 1, 0.0)) == pytest.approx(4e3)
    assert stream_rates.goodput(Phase({}, {})) is None


def test_streams_add_up_each_with_its_own_sender() -> None:
    both = Phase(
        {
            **phase(1000, 1.0, 100, 0.1, "-0").results,
            **phase(1000, 2.0, 1000, 2.0, "-1").results,
        },
        {},
    )
    assert stream_rates.goodput(both) == pytest.approx(0.8e6 + 8 * 999e3 / 2)


@given(st.integers(1, 10_000), st.floats(0.01, 100), st.integers(1, 10_000), st.floats(0.001, 1000))
def test_nothing_receives_more_than_it_was_sent(
    sent: int, sent_s: float, came: int, came_s: float
) -> None:
    made = phase(sent, sent_s, min(sent, came), came_s)
    found = stream_rates.goodput(made)
    assert found is not None and found <= 8 * sent * SIZE / sent_s * (1 + 1e-12)
    own = made.value("receive", "goodput_bps")
    assert own is None or found <= own
