"""Parameters of a stream natively, in Xen's driver domain and in its guest, as they are on the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hypertare.protocol.records import KnobOutcome, ProbeValues, Record
from hypertare.runs.store import Store
from tests.integration.lab import Lab, summary

pytestmark = [pytest.mark.guest, pytest.mark.timeout(900)]

STUDY = """
name = "parameters"
question = "Which parameters of a stream matter?"
machine = "emulated"
probes = ["napi", "drops", "vmstat"]
[sut]
platforms = ["native", "driver", "xen"]
memory = "128M"
[knobs]
offloads = { tso = false, gso = false, gro = false }
[factors]
"knobs.mtu" = [500, 1500]
[workloads.transmit]
type = "stream"
direction = "transmit"
nodelay = false
duration = "60ms"
omit = "15ms"
[workloads.transmit.factors]
"workloads.transmit.message" = [512, "64K"]
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
[effects]
responses = ["goodput"]
"""

PLATFORMS = ("native", "driver", "xen")
ETHERNET = 14


@pytest.fixture(scope="module")
def run(shared: Lab) -> Path:
    ran = shared.run("run", shared.study(STUDY), "--out", "run", patience_s=600)
    assert ran.status == 0, ran.said
    return shared.work / "run"


def good(run: Path, platform: str) -> list[tuple[dict[str, Any], dict[str, float], list[Record]]]:
    """Cell, values and records of each trial of a platform."""
    with Store.open(run) as store:
        trials = [one for one in store.trials() if one.planned.platform == platform]
        assert trials and all(one.error is None for one in trials), trials
        return [
            (dict(one.planned.cell), dict(one.values), store.records(one.planned.id))
            for one in trials
        ]


def counted(records: list[Record], node: str) -> dict[str, float]:
    (found,) = (
        one
        for one in records
        if isinstance(one, ProbeValues)
        and (one.node, one.probe, one.phase) == (node, "net_dev", "measure")
    )
    return found.values


def test_every_cell_was_measured_and_the_sides_are_alike(run: Path) -> None:
    found = summary(run)
    assert found["failed"] == []
    assert {one["platform"] for one in found["platforms"]} == set(PLATFORMS)
    # What differs by design is said; offloads do not.
    for warning in found["warnings"]:
        assert not any(f"{name} o" in warning for name in ("tso", "gso", "gro")), warning
    (effects,) = {one["platform"] for one in found["effects"]} - {"native", "driver"}
    assert effects == "xen"


def test_a_small_mtu_is_on_the_wire_everywhere(run: Path) -> None:
    for platform in PLATFORMS:
        for cell, _, records in good(run, platform):
            came = counted(records, "peer")
            mean = came["eth0.rx_bytes"] / came["eth0.rx_packets"]
            # The header of Ethernet is taken off before a kernel counts, but not by every driver.
            assert mean <= cell["knobs.mtu"] + ETHERNET, (platform, cell)
            if cell["workloads.transmit.message"] != 512:
                assert mean > 0.8 * cell["knobs.mtu"], (platform, cell)


def test_the_driver_domain_is_a_bridge(run: Path) -> None:
    """What its own stream sends passes its bridge and then the NIC that is a port of it."""
    for _, _, records in good(run, "driver"):
        sent = counted(records, "driver1")
        nics = {name.partition(".")[0] for name in sent} - {"lo", "lan"}
        through = [sent[f"{nic}.tx_packets"] for nic in nics]
        assert sent["lan.tx_packets"] > 100
        assert max(through) == pytest.approx(sent["lan.tx_packets"], rel=0.05)
    states = {one["platform"]: one for one in summary(run)["platforms"]}
    (interface,) = states["driver"]["interfaces"].values()
    assert interface["driver"] == "bridge"
    assert states["driver"]["vmm"].startswith("Xen") and states["native"]["vmm"] is None


def test_offloads_are_off_on_the_whole_way(run: Path) -> None:
    """At both ends and, under Xen, on each port of the driver domain's bridge; read back, and put back."""
    _, _, records = good(run, "xen")[0]
    turned = [one for one in records if isinstance(one, KnobOutcome) and one.knob.type == "offload"]
    assert all(one.error is None for one in turned)
    between = [one for one in turned if one.node == "host" and one.action == "applied"]
    assert {getattr(one.knob, "offload", None) for one in between} == {"tso", "gso", "gro"}
    for one in between:
        assert one.after is not None
        places = dict(word.rsplit("=", 1) for word in one.after.replace(" of ", "@").split())
        # The guest's interface and the NIC.
        assert len(places) == 2 and set(places.values()) == {"off"}
        assert any("@vif" in place for place in places)
    back = [one for one in turned if one.node == "host" and one.action == "put_back"]
    assert len(back) == len(between) and all("=on" in (one.after or "") for one in back)


def test_what_explains_is_there(run: Path) -> None:
    for platform in PLATFORMS:
        for cell, values, _ in good(run, platform):
            assert values["context_switch_rate"] > 0 and values["switches_per_megabyte"] > 0
            assert values["fault_rate"] >= 0
            segment = cell["knobs.mtu"] - 52
            assert values["mean_segment"] <= segment
            if cell["workloads.transmit.message"] != 512:
                assert values["mean_segment"] > 0.8 * segment, (platform, cell)
        small, large = (
            [v["calls_per_megabyte"] for c, v, _ in good(run, platform) if c[MESSAGE] == message]
            for message in (512, "64K")
        )
        # Calls of 512 bytes each, and none of a larger message hands over less.
        assert min(small) > 0.999e6 / 512 and max(large) < min(small)
    for one in summary(run)["estimates"]:
        if one["response"] == "cpu_per_gigabyte" and one["platform"] != "native":
            assert one["cost"] is not None and one["difference"] is not None


MESSAGE = "workloads.transmit.message"


def test_the_driver_domain_s_cpu_time_is_the_whole_machine_s(run: Path) -> None:
    """No guest is there to have any."""
    for _, values, _ in good(run, "driver"):
        assert values["driver_cpu"] == pytest.approx(values["machine_cpu"])
        assert "outside_cpu" not in values
    for _, values, _ in good(run, "xen"):
        assert 0 < values["driver_cpu"] < values["machine_cpu"]


PINGS = """
name = "pings"
question = "Does an echo come back whatever the MTU was before?"
machine = "emulated"
[sut]
memory = "128M"
[factors]
"sut.nic" = ["e1000", "e1000e"]
"knobs.mtu" = [500, 1500, 9000]
[workloads.rtt]
type = "ping"
protocol = "icmp"
duration = "50ms"
omit = 1
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


def test_nics_that_begin_anew_for_an_mtu_are_waited_for(shared: Lab) -> None:
    ran = shared.run("run", shared.study(PINGS), "--out", "pings", patience_s=600)
    assert ran.status == 0, ran.said
    found = summary(shared.work / "pings")
    assert found["failed"] == []
    lost = [one["estimate"] for one in found["estimates"] if one["response"] == "loss"]
    assert len(lost) == 6 and not any(lost)
