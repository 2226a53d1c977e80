"""Several guests at once: what each got, and what all of them did."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.design.design import numbered
from hypertare.design.trials import PlannedTrial
from hypertare.findings.outcome import outcome
from hypertare.protocol.records import ProbeValues, Record
from hypertare.runs.store import Store
from hypertare.workloads import guests, responses, stream_rates
from hypertare.workloads.responses import RESPONSES
from hypertare.workloads.sending import OF_LINE
from tests import factory
from tests.made_guests import Streamed, pings, probe, result, streams, weight
from tests.made_tasks import work_of

# Mb/s and % of CPU of the published guests: Anhalt & Vicat-Blanc Primet (2008), receive, 4.
RECEIVED = [(318, 8.80), (291, 8.35), (178, 6.53), (87.2, 3.97)]


XEN = numbered("xen1", 4)
"""A bench has as many guests as any cell needs; of those the first ones work."""


def four() -> list[Record]:
    guests = [Streamed(mbps * 1e6, cpu_s=2 * percent / 100) for mbps, percent in RECEIVED]
    return streams(guests, driver_s=2 * 0.4724)


def test_the_published_trial() -> None:
    values = responses.measure("stream", "xen", XEN, four())
    assert values["goodput"] == pytest.approx(874.2e6)
    assert values["fair_rate"] == pytest.approx(874.2e6 / 4)
    assert (values["least_rate"], values["most_rate"]) == pytest.approx((87.2e6, 318e6))
    assert values["jain_goodput"] == pytest.approx(0.849, abs=6e-4)
    assert values["jain_cpu"] == pytest.approx(27.65**2 / (4 * 205.5643), rel=1e-3)
    assert values["overlap"] == pytest.approx(1)
    assert values["driver_cpu_share"] == pytest.approx(0.4724)
    assert values["outside_cpu"] == pytest.approx(2 * 0.2765)
    assert values["machine_cpu"] == pytest.approx(2 * (0.2765 + 0.4724))
    assert values["retransmits"] == 8


def test_how_long_the_driver_domain_waits_is_xen_s_to_say() -> None:
    records = [
        record.model_copy(update={"values": {**record.values, "wait_s": 0.5}})
        if isinstance(record, ProbeValues) and record.node == "host"
        else record
        for record in four()
    ]
    values = responses.measure("stream", "xen", XEN, records)
    assert values["driver_wait_share"] == pytest.approx(0.25)
    assert "driver_wait_share" not in responses.measure("stream", "xen", XEN, four())


def test_each_guest_has_its_own_values() -> None:
    each = responses.of_guests("stream", "xen", XEN, four())
    assert [one["goodput"] / 1e6 for one in each] == pytest.approx([mbps for mbps, _ in RECEIVED])
    assert [100 * one["outside_cpu_share"] for one in each] == pytest.approx(
        [percent for _, percent in RECEIVED]
    )
    assert all("jain_goodput" not in one and "entitlement" not in one for one in each)


def test_a_late_stream_does_not_profit_from_being_late() -> None:
    # The first has the line to itself for half a second: over its own time it got 1.5 times as much.
    found = streams([Streamed(100e6, 5.0, 1.0), Streamed(50e6, 5.5, 1.0)])
    values = responses.measure("stream", "xen", XEN, found)
    assert values["overlap"] == pytest.approx(0.5, abs=0.01)
    assert values["goodput"] == pytest.approx(150e6)


@pytest.mark.parametrize("lost", [None, 19000.0], ids=["tcp", "udp"])
def test_a_stream_that_starves_is_not_flattered_by_its_own_silence(lost: float | None) -> None:
    """It chooses the common interval, in which it has as much as the other."""
    found = streams(
        [
            Streamed(10e6, lasts_s=2.0, lost=None if lost is None else 0.0),
            Streamed(10e6, lasts_s=0.1, sent_s=2.0, lost=lost),
        ]
    )
    values = responses.measure("stream", "xen", XEN, found)
    assert (values["least_rate"], values["most_rate"]) == pytest.approx((0.5e6, 10e6))
    assert values["goodput"] == pytest.approx(10.5e6)
    assert values["jain_goodput"] == pytest.approx(10.5**2 / (2 * (100 + 0.25)))
    each = responses.of_guests("stream", "xen", XEN, found)
    assert [one["goodput"] for one in each[:2]] == pytest.approx([10e6, 0.5e6])


@given(
    st.lists(
        st.tuples(st.floats(1e5, 1e9), st.floats(0.3, 2), st.floats(0.5, 4)), min_size=2, max_size=4
    )
)
def test_no_guest_receives_more_a_second_than_it_was_sent(
    made: list[tuple[float, float, float]],
) -> None:
    guests = [Streamed(bps, lasts_s=lasts, sent_s=sent) for bps, lasts, sent in made]
    each = responses.of_guests("stream", "xen", numbered("xen1", len(guests)), streams(guests))
    for one, guest in zip(each, guests, strict=True):
        assert guest.sent_s is not None
        most = guest.bps * min(1, guest.lasts_s / guest.sent_s)
        assert one["goodput"] <= most * (1 + 1e-6)
        assert one["goodput"] == pytest.approx(most)


def test_what_came_with_the_first_arrival_came_in_no_time() -> None:
    """As alone: n arrivals are n - 1 gaps."""
    found = streams([Streamed(1e6, first=4344.0, sent_s=0.9), Streamed(1e6, 5.0)])
    values = responses.measure("stream", "xen", XEN, found)
    assert (values["least_rate"], values["most_rate"]) == pytest.approx((1e6, 1e6))


def test_streams_that_never_ran_at_once_fail_their_trial() -> None:
    found = streams([Streamed(100e6, 5.0, 1.0), Streamed(50e6, 7.0, 1.0)])
    planned = PlannedTrial(1, 0, 0, "xen", {"workload": "tcp", "sut.guests": 2})
    ended = outcome(work_of("stream"), planned, XEN, found, None, 1.0)
    assert (ended.status, ended.guests) == ("failed", ())
    assert ended.error is not None and "never ran all at the same time" in ended.error


def test_one_guest_is_as_it_always_was() -> None:
    alone = [
        result("send", {"sent_bps": 9e8}),
        result("receive", {"goodput_bps": 9e8, "received_packets": 10.0, "elapsed_s": 1.0}),
        probe("xen1-1", 0.4),
        probe("host", 0.6),
    ]
    values = responses.measure("stream", "xen", XEN, alone)
    assert values["goodput"] == 9e8
    assert values["machine_cpu"] == pytest.approx(1.0)
    assert "jain_goodput" not in values and "fair_rate" not in values
    assert responses.of_guests("stream", "xen", XEN, alone) == ()


def test_guests_that_disturb_have_their_cpu_time_and_no_part_in_fairness() -> None:
    found = streams([Streamed(200e6, cpu_s=0.3)], load_s=[1.2, 1.4])
    values = responses.measure("stream", "xen", XEN, found)
    assert values["goodput"] == pytest.approx(200e6)
    assert values["neighbours_cpu"] == pytest.approx(2.6)
    assert values["neighbours_cpu_share"] == pytest.approx(1.3)
    assert values["jain_neighbours_cpu"] == pytest.approx(2.6**2 / (2 * (1.2**2 + 1.4**2)))
    assert values["outside_cpu"] == pytest.approx(2.9)
    assert "jain_goodput" not in values
    each = responses.of_guests("stream", "xen", XEN, found)
    assert "goodput" not in each[1] and each[1]["outside_cpu"] == pytest.approx(1.2)


def test_what_idle_guests_and_peers_take_is_the_machine_s_and_no_platform_s() -> None:
    found = [*four(), probe("xen1-5", 0.01), probe("peer-1", 0.2)]
    values = responses.measure("stream", "xen", numbered("xen1", 5), found)
    assert values["outside_cpu"] == pytest.approx(2 * 0.2765)
    assert values["machine_cpu"] == pytest.approx(2 * (0.2765 + 0.4724) + 0.21)
    without = [r for r in found if getattr(r, "node", "") != "host"]
    assert "machine_cpu" not in responses.measure("stream", "xen", XEN, without)


def test_a_local_guest_s_qemu_is_its_driver_domain_where_that_has_a_weight() -> None:
    guests = numbered("guest1", 2)
    split = {"cpu_s": 1.0, "vcpu_s": 0.6, "vmm_s": 0.3, "vhost_s": 0.1, "datapath_s": 0.0}
    plain = [
        r.model_copy(update={"values": split}) if getattr(r, "probe", None) == "outside" else r
        for r in streams([Streamed(1e6), Streamed(1e6)], "guest1")
        if getattr(r, "node", "") != "host"
    ]
    plain.append(probe("host", 0.0, "stat").model_copy(update={"values": {"busy_s": 2.5}}))
    whole = responses.measure("stream", "guest", guests, plain)
    assert whole["outside_cpu"] == 2 and "driver_cpu" not in whole
    driver = weight("any", 2048)
    knob = driver.knob.model_copy(update={"guest": None})
    weighed = [*plain, driver.model_copy(update={"knob": knob})]
    found = responses.measure("stream", "guest", guests, weighed)
    assert found["outside_cpu"] == pytest.approx(1.2)
    assert found["outside_cpu_share"] == pytest.approx(0.6)
    assert found["driver_cpu"] == pytest.approx(0.8)
    assert found["driver_cpu_share"] == pytest.approx(0.4)
    assert found["machine_cpu"] == whole["machine_cpu"] == 2.5
    each = responses.of_guests("stream", "guest", guests, weighed)
    assert [one["outside_cpu"] for one in each] == pytest.approx([0.6, 0.6])
    failed = [*plain, driver.model_copy(update={"knob": knob, "error": "no cgroup"})]
    assert "driver_cpu" not in responses.measure("stream", "guest", guests, failed)


def test_share_against_weight() -> None:
    guests = [Streamed(1e6, cpu_s=0.2), Streamed(1e6, cpu_s=0.6)]
    found = streams(guests, weights=[256, 768])
    values = responses.measure("stream", "xen", XEN, found)
    assert values["jain_weighted_cpu"] == pytest.approx(1)
    assert values["jain_cpu"] == pytest.approx(0.8)
    each = responses.of_guests("stream", "xen", XEN, found)
    assert [one["entitlement"] for one in each] == pytest.approx([1, 1])
    upside_down = responses.of_guests("stream", "xen", XEN, streams(guests, weights=[768, 256]))
    assert [one["entitlement"] for one in upside_down] == pytest.approx([1 / 3, 3])


def test_round_trips_of_all_guests_have_one_distribution() -> None:
    # Nine of ten of the first at 100, all of the second at 1000: the median of all is 1000.
    found = pings([[100] * 9 + [200], [1000] * 30])
    values = responses.measure("ping", "xen", XEN, found)
    assert values["rtt_p50"] == pytest.approx(1000e-9)
    assert values["rtt_mean"] == pytest.approx((9 * 100 + 200 + 30 * 1000) / 40 / 1e9)
    assert values["rtt_jitter"] == pytest.approx((10 * 10 + 30 * 20) / 40 / 1e9)
    assert values["loss"] == pytest.approx(2 / 42)
    each = responses.of_guests("ping", "xen", XEN, found)
    assert [one["rtt_p50"] for one in each] == pytest.approx([100e-9, 1000e-9])


def test_work_of_guests_adds_up_and_shares_do_not() -> None:
    found: list[Record] = [probe("host", 0.1)]
    for number, share in enumerate((0.9, 0.3), start=1):
        values = {"loops": 1000.0 * share, "elapsed_s": 2.0, "share": share}
        found += [result(f"burn.{number}", values), probe(f"xen1-{number}", share * 2)]
    values = responses.measure("burn", "xen", XEN, found)
    assert values["work_rate"] == pytest.approx(600)
    assert values["share"] == pytest.approx(0.6)
    assert values["jain_cpu"] == pytest.approx((0.9 + 0.3) ** 2 / (2 * (0.81 + 0.09)))


def test_commands_end_with_the_last() -> None:
    found: list[Record] = [
        result(f"command.{number}", {"elapsed_s": 2.0 * number, "user_s": 1.0})
        for number in (1, 2, 3)
    ]
    values = responses.measure("command", "guest", numbered("guest1", 3), found)
    assert (values["elapsed"], values["user"]) == (6, 3)


@pytest.mark.parametrize("platform", ["xen", "native", "guest", "container"])
def test_what_is_measured_is_declared(platform: str) -> None:
    node = "host" if platform == "native" else f"{platform}1"
    nodes = (node,) if platform == "native" else numbered(node, 2)
    for kind, found in (
        ("stream", streams([Streamed(1e6)] * 2, node)),
        ("ping", pings([[5]], node)),
    ):
        known = {response.name for response in RESPONSES[kind]}
        assert set(responses.measure(kind, platform, nodes, found)) <= known
        for one in responses.of_guests(kind, platform, nodes, found):
            assert set(one) <= known


def test_guests_enter_the_runs_file_and_come_back(tmp_path: Path) -> None:
    planned = PlannedTrial(1, 0, 0, "xen", {"workload": "tcp", "sut.guests": 4})
    ended = outcome(work_of("stream"), planned, XEN, four(), None, 1.0)
    with Store.create(tmp_path / "run", factory.meta(factory.Script())) as store:
        store.append(ended, four())
        (kept,) = store.trials()
    assert kept == ended
    assert len(kept.guests) == 4


BESIDE = {one.name for one in (*stream_rates.RESPONSES, *guests.OF_CPU, *OF_LINE)}
"""Of all guests from the first: no guest has one of its own."""


@pytest.mark.parametrize("workload", RESPONSES)
def test_no_share_and_no_time_is_a_sum(workload: str) -> None:
    """But for CPU time, and for shares of one CPU, of which a machine may have several."""
    for response in RESPONSES[workload]:
        if response.unit in ("share", "index", "s") and response.name not in BESIDE:
            of_cpu = re.search(
                r"CPU time|share of one CPU|held the machine's|waited", response.title
            )
            assert (response.of_guests == "sum") == bool(of_cpu), response


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_three_guests_have_no_share_of_three(shares: list[float]) -> None:
    parts = {
        number: {"huge_share": share, "elapsed": share, "minor_faults": share}
        for number, share in enumerate(shares, 1)
    }
    joined = guests.join(parts, RESPONSES["touch"])
    assert joined["huge_share"] == pytest.approx(sum(shares) / len(shares))
    assert joined["elapsed"] == max(shares)
    assert joined["minor_faults"] == pytest.approx(sum(shares))
    assert guests.join({}, RESPONSES["touch"]) == {}
    assert "huge_share" not in guests.join({**parts, 99: {"elapsed": 1.0}}, RESPONSES["touch"])
