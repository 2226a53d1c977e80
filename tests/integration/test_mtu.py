"""The MTU as a factor: up and down from what the bench has, on every platform of this host."""

from __future__ import annotations

import pytest

from tests.integration.lab import Lab, summary

STUDY = """
name = "mtu"
question = "What does the MTU do?"
[sut]
platforms = {platforms}
memory = "192M"
accelerator = "tcg"
[workloads.receive]
type = "stream"
direction = "receive"
duration = "{duration}"
omit = "100ms"
factors = {{ "knobs.mtu" = [{least}, 1500, 9000] }}
[workloads.datagrams]
type = "stream"
protocol = "udp"
direction = "transmit"
message = 8000
rate = "2M"
duration = "{duration}"
omit = "100ms"
factors = {{ "knobs.mtu" = [1500, 9000] }}
[design]
min_trials = 2
max_trials = 2
min_boots = 1
"""


def check(lab: Lab, *platforms: str, least: int, duration: str = "400ms") -> None:
    text = STUDY.format(
        least=least, duration=duration, platforms=str(list(platforms)).replace("'", '"')
    )
    ran = lab.run("run", lab.study(text), "--out", "run", patience_s=300)
    assert ran.status == 0, ran.said
    found = summary(lab.work / "run")
    assert found["failed"] == []
    cells = {
        (one["platform"], one["cell"]["workload"], one["cell"]["knobs.mtu"]): one["estimate"]
        for one in found["estimates"]
        if one["response"] == "goodput"
    }
    assert len(cells) == len(platforms) * 5
    for platform in platforms:
        # Datagrams of 8,000 bytes arrive, whole or in parts.
        for mtu in (1500, 9000):
            assert cells[platform, "datagrams", mtu] == pytest.approx(2e6, rel=0.3)


@pytest.mark.runs
def test_the_mtu_goes_up_and_down(lab: Lab) -> None:
    check(lab, "native", "container", least=88)


@pytest.mark.guest
@pytest.mark.timeout(900)
def test_the_mtu_goes_up_and_down_in_a_guest(lab: Lab) -> None:
    # With less an emulated guest may take in nothing that counts in so short a time.
    # Nor may a sender beside it that has no CPU for half a second.
    check(lab, "native", "guest", least=576, duration="1200ms")
