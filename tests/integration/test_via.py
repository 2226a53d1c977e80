"""By which ways frames come to a capture program: what each reports, and where it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.protocol.records import TaskResult
from hypertare.runs.store import Store
from tests.integration.lab import Lab, Traces, summary

STUDY = """
name = "via"
question = "Which way do frames take to a capture program?"
machine = "{machine}"
[sut]
platforms = {platforms}
memory = "192M"
{sut}
[workloads.capture]
type = "capture"
via = "{via}"
{rate}
duration = "{duration}"
omit = "20ms"
{more}
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""
RTT = """
[workloads.rtt]
type = "ping"
protocol = "frame"
via = "xdp"
duration = "40ms"
"""
PAST_CARD = """
[workloads.{name}]
type = "ping"
protocol = "frame"
via = "shared"
direction = "{direction}"
duration = "40ms"
"""
BOTH_WAYS = "".join(
    PAST_CARD.format(name=f"rtt-{direction}", direction=direction)
    for direction in ("transmit", "receive")
)


def study(
    machine: str,
    via: str,
    *,
    sut: str = "",
    rate: str = "",
    more: str = "",
    duration: str = "100ms",
) -> str:
    platforms = '["native", "container", "guest"]' if via == "xdp" else '["native", "guest"]'
    return STUDY.format(
        machine=machine,
        platforms=platforms,
        via=via,
        sut=sut,
        rate=rate,
        more=more,
        duration=duration,
    )


SHARED = """
[workloads.past-card]
type = "capture"
via = "shared"
rate = "2M"
duration = "100ms"
omit = "20ms"
"""
EVERY_WAY = study(
    "emulated",
    "xdp",
    sut='cpus = 2\nqueues = 2\ndatapath = "vhost"',
    rate='rate = "2M"',
    more=RTT + SHARED + BOTH_WAYS,
)


def results(run: Path, role: str, workload: str | None = None) -> list[tuple[str, TaskResult]]:
    """Of tasks of this role, in all trials or in those of one workload, with the platform of each."""
    with Store.open(run) as store:
        return [
            (trial.planned.platform, one)
            for trial in store.trials()
            if workload in (None, trial.planned.workload)
            for one in store.records(trial.planned.id)
            if isinstance(one, TaskResult) and one.purpose is not None and one.purpose.role == role
        ]


@pytest.mark.guest
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("emulated")
def test_frames_are_taken_in_the_driver_on_every_platform_and_past_a_card(lab: Lab) -> None:
    """The second queue of the guests' cards has a socket of its own. Past a card no frame interrupts."""
    ran = lab.run("run", lab.study(EVERY_WAY), "--fresh", "--out", "run")
    assert ran.status == 0, ran.said
    found = summary(lab.work / "run")
    assert found["failed"] == [] and not any("XDP" in text for text in found["warnings"])
    captures = results(lab.work / "run", "receive", "capture")
    platforms = {"native", "container", "guest"}
    assert {platform for platform, _ in captures} == platforms
    for platform, one in captures:
        values = one.values
        assert (values["xdp_native"], values["xdp_zero_copy"]) == (1.0, 0.0), platform
        assert values["received_packets"] > 100
        assert values["lost_packets"] == values["all_drops"] == 0.0, (platform, values)
    assert {name for name, _ in results(lab.work / "run", "request", "rtt")} == platforms
    roles = {"past-card": "feed", "rtt-transmit": "relay", "rtt-receive": "relay"}
    for workload, role in roles.items():
        assert "guest" in {name for name, _ in results(lab.work / "run", role, workload)}
    means = {
        (one["cell"]["workload"], one["response"]): one["estimate"]
        for one in found["estimates"]
        if one["platform"] == "guest"
    }
    for workload in roles:
        interrupts, exits, cpu = (
            means[workload, f"{name}_per_packet"] for name in ("interrupts", "exits", "backend_cpu")
        )
        assert interrupts < 0.1 < exits and cpu > 0, workload


def test_by_xdp_is_refused_on_this_host_before_anything_starts(lab: Lab) -> None:
    ran = lab.run("run", lab.study(study("local", "xdp")), "--out", "run")
    assert ran.status == 2, ran
    assert "take machine = 'emulated'" in ran.said and "capture --via xdp" in ran.said
    assert not (lab.work / "run").exists()


@pytest.mark.guest
@pytest.mark.timeout(600)
def test_past_a_card_each_frame_is_taken_or_found_no_room(lab: Lab) -> None:
    """Natively there is nothing to be past of: it captures by its kernel's ring."""
    # By the wall clock, where a busy host may have no CPU for the sender for as long as 100 ms.
    both_ways = BOTH_WAYS.replace("40ms", "400ms")
    text = study("local", "shared", sut='accelerator = "tcg"', more=both_ways, duration="1s")
    before = Traces.now()
    ran = lab.run("run", lab.study(text), "--out", "run")
    assert ran.status == 0, ran.said
    assert summary(lab.work / "run")["failed"] == []
    fed, sent, taken = (
        [one.values for place, one in results(lab.work / "run", role) if place == "guest"]
        for role in ("feed", "send", "receive")
    )
    assert len(fed) == len(sent) == len(taken) == 2
    for feed, send, receive in zip(fed, sent, taken, strict=True):
        dropped = feed["full_packets"] + feed["ring_drops"]
        assert feed["fed_packets"] + dropped == send["all_packets"], (feed, send)
        assert receive["all_packets"] == feed["fed_packets"] > 1000
        assert receive["all_drops"] == dropped
        assert receive["socket_buffer_bytes"] == 8 << 20
    native = [one for place, one in results(lab.work / "run", "receive") if place == "native"]
    assert {one.values["socket_buffer_bytes"] for one in native} == {4 << 20}
    # Each request and each answer passed the memory, whoever asked; what came late was lost there and back.
    relayed = [one.values for _, one in results(lab.work / "run", "relay")]
    replies = [
        one.values["replies"]
        for place, one in results(lab.work / "run", "reply")
        if place == "guest"
    ]
    assert len(relayed) == len(replies) == 4
    for relay, count in zip(relayed, replies, strict=True):
        assert relay["fed_packets"] == relay["taken_packets"] == count > 20, (relay, count)
        assert relay["full_packets"] == relay["refused_packets"] == relay["polled"] == 0
    lab.assert_nothing_left(before)
