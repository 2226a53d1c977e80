"""`capture`: its settings, its tasks, and what is made of records of frames; and pings that are frames."""

from __future__ import annotations

import dataclasses

import pytest

from hypertare.base.errors import InputError
from hypertare.protocol import plan
from hypertare.protocol.records import Record
from hypertare.study import StudyFile
from hypertare.workloads import responses
from hypertare.workloads.capture import CaptureSettings
from hypertare.workloads.packets import account
from hypertare.workloads.pair import End, Pair
from hypertare.workloads.ping import PingSettings
from hypertare.workloads.workload import Line, NodeFacts, TaskInputs
from tests.made_guests import Streamed, result, streams
from tests.workloads.test_packets import drops

STUDY = """
name = "x"
question = "?"
[sut]
platforms = ["native"]
[workloads.w]
type = "capture"
"""
PAIR = Pair(1, "guest1", End("guest1", "10.77.0.3"), End("peer1", "10.77.0.1"), ("eth0",), None)


def frames(sent: float, captured: float, dropped: float, before: float = 100.0) -> list[Record]:
    """What both ends report; `before` frames were sent, and captured, before counting began."""
    send = {
        "elapsed_s": 2.0,
        "sent_packets": sent,
        "sent_bytes": 64 * sent,
        "sent_bps": 64 * 8 * sent / 2.0,
        "all_packets": sent + before,
    }
    receive = {
        "elapsed_s": 1.9,
        "received_packets": captured,
        "received_bytes": 64 * captured,
        "goodput_bps": 64 * 8 * captured / 1.9,
        "all_packets": captured + before,
        "all_drops": dropped,
        "lost_packets": sent - captured,
    }
    return [result("send", send), result("receive", receive)]


def test_what_was_sent_is_captured_dropped_at_the_ring_or_lost_elsewhere() -> None:
    values = responses.measure("capture", "native", ("host",), frames(900, 700, 150))
    assert values["sent_rate"] == pytest.approx(900 * 64 * 8 / 2)
    # Over the longer time: who captures only part of the time has no higher rate.
    assert values["goodput"] == pytest.approx(700 * 64 * 8 / 2)
    assert values["packet_rate"] == pytest.approx(700 / 2)
    assert values["loss"] == pytest.approx(200 / 900)
    assert values["capture_drops"] == pytest.approx(150 / 1000)


def test_the_account_adds_up_to_the_frame() -> None:
    made = [
        *frames(900, 700, 150),
        drops("peer", "eth0", eth0__queue=5),
        drops("host", "tap3", tap3__transmit=45),
        drops("guest1", "eth0"),
    ]
    found = account(made, "guest1")
    assert found is not None
    assert (found.sent, found.received) == (1000, 800)
    assert found.dropped["capture"] == 150 and found.dropped["tap"] == 45
    assert found.unexplained == 0 and found.adds_up
    short = [one for one in made if one is not made[3]]
    assert (missing := account(short, "guest1")) is None or not missing.adds_up


def test_guests_at_once_add_up_as_each_response_says() -> None:
    made = streams([Streamed(bps=8e6), Streamed(bps=2e6)])
    counted = {"sent_packets": 1000.0, "all_packets": 1000.0, "all_drops": 50.0}
    made = [_with(one, counted) for one in made]
    values = responses.measure("capture", "xen", ("xen1-1", "xen1-2"), made)
    assert values["goodput"] == pytest.approx(1e7)
    assert values["least_rate"] == pytest.approx(2e6)
    assert values["capture_drops"] == pytest.approx(0.05)
    first, second = responses.of_guests("capture", "xen", ("xen1-1", "xen1-2"), made)
    assert (first["goodput"], second["goodput"]) == pytest.approx((8e6, 2e6))


def _with(record: Record, values: dict[str, float]) -> Record:
    reported = getattr(record, "values", None)
    if reported is None or not hasattr(record, "histograms") or not hasattr(record, "error"):
        return record
    return record.model_copy(update={"values": values | reported})


def test_the_peer_sends_and_the_system_under_test_captures_a_session_of_its_own() -> None:
    settings = CaptureSettings(type="capture", rate=512e3)
    capture, send = settings.tasks(PAIR, TaskInputs(environment={}))
    assert (capture.node, capture.background, send.node) == ("guest1", True, "peer1")
    assert isinstance(capture.workload, plan.FrameCapture)
    assert isinstance(send.workload, plan.FrameSend)
    assert capture.workload.on == send.workload.to == "10.77.0.3"
    assert capture.workload.session == send.workload.session
    (other, _) = settings.tasks(dataclasses.replace(PAIR, rank=2), TaskInputs(environment={}))
    assert isinstance(other.workload, plan.FrameCapture)
    assert other.workload.session != capture.workload.session


def test_a_ping_of_frames_has_no_ports_and_says_how_they_come_in() -> None:
    tasks = PingSettings(type="ping", protocol="frame").tasks(PAIR, TaskInputs(environment={}))
    reply, request = (task.workload for task in tasks)
    assert isinstance(reply, plan.PingReply) and isinstance(request, plan.PingRequest)
    assert reply.on == request.to == "10.77.0.1"
    assert reply.via == request.via == "packet"


@pytest.mark.parametrize("direction", ["transmit", "receive"])
def test_a_ping_past_a_guest_s_card_has_its_machine_move_frames_both_ways(direction: str) -> None:
    settings = PingSettings.model_validate(
        {
            "type": "ping",
            "protocol": "frame",
            "via": "shared",
            "message": 50,
            "direction": direction,
        }
    )
    pair, inputs = dataclasses.replace(PAIR, machine="host"), TaskInputs(environment={})
    relay, reply, request = settings.tasks(pair, inputs)
    assert (relay.node, relay.background, relay.purpose.role) == ("host", True, "relay")
    assert relay.workload == plan.FrameRelay(guest="guest1", frame=64)
    assert isinstance(reply.workload, plan.PingReply)
    assert isinstance(request.workload, plan.PingRequest)
    ways = {one.node: one.workload.via for one in (reply, request)}
    assert ways == {"guest1": "shared", "peer1": "packet"}
    # Only the peer has to be notified of the address beside the card: the guest knows its own.
    assert request.workload.past_card == (direction == "receive")
    # What has no machine beneath it has its kernel's own ring.
    natively = [task.workload for task in settings.tasks(PAIR, inputs)]
    assert [one.via for one in natively] == ["packet", "packet"]
    assert not natively[1].past_card


def test_a_line_carries_preamble_and_gap_beside_a_frame() -> None:
    settings = CaptureSettings(type="capture", frame=60)
    # 64 bytes with its FCS, 20 more on the wire: 1,488,095 frames a second of 1 Gb/s.
    assert settings.carried_at_most(Line(1e9, 1500, 4)) == pytest.approx(60 * 8 * 1e9 / (84 * 8))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("frame = 59", "at least 60"),
        ("frame = 1515", "from 60 to 1514"),
        ('ring = "5000"', "whole pages"),
        ('ring = "512M"', "at most 256M"),
        ('via = "pakcet"', "Did you mean 'packet'"),
        ("burst = 0", "at least 1"),
        ('omit = "5s"', "shorter than 'duration'"),
        ('rate = "quick"', "60 % of capacity"),
        ("[bench]\ntopology = 'routers'\n[knobs]", "no router forwards"),
    ],
)
def test_what_cannot_be_captured_is_refused_before_a_run(setting: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        StudyFile(STUDY + setting + "\n", "x.toml").study()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('via = "packet"', "'via' is of protocol = 'frame'"),
        ('protocol = "frame"\nmessage = 40', "from 46 to 1500"),
        ('protocol = "frame"\nmessage = 1501', "from 46 to 1500"),
    ],
)
def test_what_is_no_frame_is_refused(setting: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        StudyFile(STUDY.replace("capture", "ping") + setting + "\n", "x.toml").study()
    assert said in str(caught.value)


def test_a_larger_mtu_carries_longer_frames() -> None:
    settings = CaptureSettings(type="capture", frame=9014)
    assert settings.misfit(NodeFacts(routed=False, cpus=1, mtu=9000)) is None
    assert settings.misfit(NodeFacts(routed=False, cpus=1, mtu=1500)) is not None
