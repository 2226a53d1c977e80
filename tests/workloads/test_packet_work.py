"""What a packet costs a guest, of records whose figures are known."""

from __future__ import annotations

from typing import Any

import pytest

from hypertare.protocol.phase import PHASE, Phase
from hypertare.protocol.records import ProbeValues, Record, TaskResult
from hypertare.workloads import packet_work, responses
from tests.made_tasks import purpose_of


def probe(name: Any, node: str = "guest1", **values: float) -> ProbeValues:
    named = {key.replace("__", "."): value for key, value in values.items()}
    return ProbeValues(node=node, trial=1, phase=PHASE, probe=name, elapsed_s=2.0, values=named)


def counted(node: str = "guest1", *, exits: float = 500.0, datapath_s: float = 0.0) -> list[Record]:
    """Of a guest whose card passed 200 packets."""
    card = {"eth0__rx_packets": 120.0, "eth0__tx_packets": 80.0, "eth0__rx_bytes": 9e5}
    devices: dict[str, Any] = {"virtio1-input.0": 90.0, "virtio1-output.0": 9.0, "virtio0": 1.0}
    parts = {"vcpu_s": 0.4, "vmm_s": 0.02, "vhost_s": 0.1, "datapath_s": datapath_s}
    return [
        probe("net_dev", node, **card, lo__rx_packets=7.0, lo__tx_packets=7.0),
        probe("interrupts", node, **devices, LOC=1000.0, RES=3.0),
        probe("kvm", node, exits=exits, irq_injections=170.0),
        probe("outside", node, cpu_s=0.6, **parts),
    ]


FOUND = {
    "exits_per_packet": 2.5,
    "interrupts_per_packet": 0.5,
    "kicks_per_packet": None,
    "guest_cpu_per_packet": 0.002,
    "vmm_cpu_per_packet": 0.0001,
    "backend_cpu_per_packet": 0.0005,
}


def test_whose_packets_the_kernel_moves() -> None:
    found = packet_work.measure(Phase.of(counted()), "guest1")
    assert found == pytest.approx(FOUND)
    assert found.keys() == {response.name for response in packet_work.RESPONSES}


def test_whose_packets_a_process_of_ours_moves() -> None:
    records = [*counted(datapath_s=0.06), probe("datapath", kicks=30.0, calls=100.0)]
    found = packet_work.measure(Phase.of(records), "guest1")
    assert found["kicks_per_packet"] == 0.15
    assert found["backend_cpu_per_packet"] == pytest.approx(0.0008)


def test_what_was_not_counted_is_not_there() -> None:
    """No exits without KVM, no parts of vhost's where its threads are out of sight."""
    without_kvm = [one for one in counted() if getattr(one, "probe", "") != "kvm"]
    assert packet_work.measure(Phase.of(without_kvm), "guest1")["exits_per_packet"] is None
    blind = [one for one in counted() if getattr(one, "probe", "") != "outside"]
    assert packet_work.measure(Phase.of(blind), "guest1") == {}
    blind.append(probe("outside", cpu_s=0.5, vcpu_s=0.4, vmm_s=0.02, datapath_s=0.0))
    found = packet_work.measure(Phase.of(blind), "guest1")
    assert (found["guest_cpu_per_packet"], found["backend_cpu_per_packet"]) == (0.002, None)


def test_a_card_that_nothing_passed_has_no_packets_to_share_by() -> None:
    idle = [probe("net_dev", eth0__rx_packets=0.0), probe("outside", vcpu_s=0.4)]
    assert packet_work.measure(Phase.of(idle), "guest1") == {}


def task(name: str, node: str, **values: float) -> TaskResult:
    return TaskResult(
        node=node, trial=1, phase=PHASE, task=name, values=values, purpose=purpose_of(name)
    )


@pytest.mark.parametrize("kind", ["ping", "stream"])
def test_pings_and_streams_have_them_and_a_baseline_has_not(kind: str) -> None:
    reported = [task("request", "guest1", rtt_p50_ns=5e4), task("send", "guest1")]
    values = responses.measure(kind, "guest", ("guest1",), [*reported, *counted()])
    assert values["exits_per_packet"] == 2.5 and values["interrupts_per_packet"] == 0.5
    own = [
        probe("net_dev", "host", sut0__rx_packets=200.0),
        probe("interrupts", "host", eth0=100.0),
    ]
    values = responses.measure(kind, "native", ("host",), [*reported, *own])
    assert not any(name.endswith("_per_packet") for name in values)


def test_round_trips_past_a_card_are_packets_too_each_guest_s_its_own() -> None:
    reported = [
        *(task(f"request.{n}", f"guest{n}", rtt_p50_ns=5e4, requests=1.0) for n in (1, 2)),
        task("relay.1", "host", fed_packets=20.0, taken_packets=30.0, user_s=0.1, system_s=0.05),
        task("relay.2", "host", fed_packets=0.0, taken_packets=0.0, user_s=0.0, system_s=0.0),
    ]
    records = [*reported, *counted(), *counted("guest2")]
    one, two = responses.of_guests("ping", "guest", ("guest1", "guest2"), records)
    assert one["exits_per_packet"] == 500 / 250
    assert one["backend_cpu_per_packet"] == pytest.approx(0.25 / 250)
    assert two["exits_per_packet"] == FOUND["exits_per_packet"]
    assert two["backend_cpu_per_packet"] == pytest.approx(FOUND["backend_cpu_per_packet"])


def test_guests_at_once_have_the_mean() -> None:
    reported = [task(f"request.{n}", f"guest{n}", rtt_p50_ns=5e4, requests=1.0) for n in (1, 2)]
    records = [*reported, *counted(), *counted("guest2", exits=100.0)]
    nodes = ("guest1", "guest2")
    parts = responses.of_guests("ping", "guest", nodes, records)
    assert [part["exits_per_packet"] for part in parts] == [2.5, 0.5]
    assert responses.measure("ping", "guest", nodes, records)["exits_per_packet"] == 1.5
