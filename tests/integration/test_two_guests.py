"""Every workload in two guests at once: what both have together is what each response says it is."""

from __future__ import annotations

from statistics import fmean

import pytest

from hypertare.workloads.responses import RESPONSES
from tests.integration.lab import Lab, summary

pytestmark = [pytest.mark.guest, pytest.mark.timeout(900)]

STUDY = """
name = "two"
question = "What do two guests have together?"
[sut]
platforms = ["native", "guest"]
guests = 2
memory = "192M"
accelerator = "tcg"
[workloads.command]
type = "command"
command = "sleep 0.2"
[workloads.stream]
type = "stream"
duration = 1
omit = 0.1
[workloads.datagrams]
type = "stream"
protocol = "udp"
rate = "1 Mb/s"
duration = 1
omit = 0.1
[workloads.ping]
type = "ping"
duration = 1
[workloads.burn]
type = "burn"
duration = "300ms"
[workloads.sleep]
type = "sleep"
duration = "300ms"
[workloads.fork]
type = "fork"
count = 20
[workloads.touch]
type = "touch"
memory = "8M"
duration = "300ms"
[workloads.capture]
type = "capture"
rate = "1 Mb/s"
duration = 1
omit = 0.1
[workloads.io]
type = "io"
read = 0.5
span = "2M"
depth = 4
sync_every = 16
duration = "300ms"
[workloads.cpuid]
type = "cpuid"
count = 5000
[workloads.life]
type = "life"
restore = false
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""

OWN_RULE = {
    "loss",
    "rtt_p50",
    "rtt_mean",
    "rtt_p99",
    "rtt_p999",
    "rtt_jitter",
    "rtt_sd",
    "wakeup_p50",
    "wakeup_p99",
    "wakeup_p999",
    "tcp_rtt",
    "goodput",
    *(f"{kind}_{name}" for kind in ("read", "write") for name in ("p50", "p99", "p999")),
    *("sync_p50", "sync_p99"),
}
"""Joined from the records of all, not from what each guest has."""


def test_every_workload_in_two_guests(lab: Lab) -> None:
    lab.study(STUDY)
    ran = lab.run("run", "study.toml", "--out", "run")
    assert ran.status == 0, ran
    found = summary(lab.work / "run")
    assert found["failed"] == []
    types = {"datagrams": "stream"}
    of_each: dict[tuple[str, str], list[float]] = {}
    for one in found["guests"]:
        if one["platform"] == "guest":
            at = one["cell"]["workload"], one["response"]
            of_each.setdefault(at, []).append(one["estimate"])
    seen = set()
    for one in found["estimates"]:
        workload, name = one["cell"]["workload"], one["response"]
        kind = types.get(workload, workload)
        response = next(r for r in RESPONSES[kind] if r.name == name)
        if response.unit in ("share", "index"):
            # Of one CPU there may be as many as the host has.
            assert one["estimate"] <= (1.0001 if "of one CPU" not in response.title else 64), one
        each = of_each.get((workload, name), [])
        if one["platform"] != "guest" or len(each) < 2 or name in OWN_RULE:
            continue
        seen.add((kind, response.of_guests))
        if response.of_guests == "most":
            # The mean of the larger is no less than the larger mean, and no more than both.
            assert max(each) * 0.999 <= one["estimate"] <= sum(each), one
        else:
            wanted = {"sum": sum, "mean": fmean}[response.of_guests](each)
            assert one["estimate"] == pytest.approx(wanted, rel=1e-3, abs=1e-9), one
    # A power cut is for disks of the emulated machine alone.
    assert {kind for kind, _ in seen} == set(RESPONSES) - {"power-cut"}
    assert {("touch", "mean"), ("touch", "most"), ("touch", "sum")} <= seen
