"""A virtual machine that hypertare did not start weighs what one of its own does, its settings are its own,
and what stands on it is kept to its limits by its kernel's cgroups.
"""

from __future__ import annotations

import os

import pytest

from hypertare.protocol.constants import NAPI_WEIGHT_FILE
from tests.integration.given_guest import given_guest
from tests.integration.lab import Lab, statuses, summary

pytestmark = [
    pytest.mark.guest,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="a TAP and a network namespace are root's"),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="the study has guests of two CPUs"),
]

STUDY = """
name = "alike"
question = "Does a machine that was given weigh what a guest does?"
[sut]
platforms = ["native", "guest", "given"]
cpus = 2
memory = "256M"
accelerator = "tcg"
[given.vm]
reach = "{reach}"
outside = "{outside}"
[workloads.fork]
type = "fork"
count = 60
[workloads.touch]
type = "touch"
memory = "8M"
duration = "200ms"
[design]
warmup = 1
min_trials = 5
max_trials = 5
blocks_per_boot = 5
min_boots = 1
time_limit = "2m"
"""
ALIKE = """
[[claims]]
text = "{workload}: alike"
workload = "{workload}"
response = "{response}"
platform = "given"
against = {{ platform = "guest" }}
measure = "ratio"
op = "within"
value = [0.85, 1.18]
"""
"""The noise floor of two busy CPUs: 15 % was found by hand (docs/given.md)."""
LEADING = {"fork": "elapsed", "touch": "access_rate"}

LIMITS = """
name = "limits"
question = "Are processes kept to the CPUs and the memory that they were given?"
machine = "remote"
[remote]
reach = "{reach}"
[sut]
platforms = ["native", "container"]
cpus = 1
memory = "32M"
[workloads.widen]
type = "command"
command = ["sh", "-c", "taskset -p 3 $$ && grep -q '^Cpus_allowed_list:.[01]$' /proc/self/status"]
[workloads.fill]
type = "command"
command = ["sh", "-c", "head -c 48m /dev/zero | tail -c 48m > /dev/null"]
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""

ATTEMPTS = 3

FACTORS = (
    'workloads.{0}.factors={{"knobs.napi_weight" = {1}, '
    '"workloads.{0}.rate" = ["150 % of capacity"]}}'
)
QUICK = (
    *("--set", "design.min_trials=2", "--set", "design.max_trials=2"),
    *("--set", "given.vm.settings=true", "--set", 'given.vm.what="QEMU, TCG"'),
    *("--set", 'workloads.tcp.factors={"knobs.napi_weight" = [2, 200]}'),
    *("--set", FACTORS.format("load", [1, 60])),
    *("--set", FACTORS.format("apart", [1])),
)


@pytest.mark.release
def test_it_is_alike(lab: Lab) -> None:
    with given_guest(lab, 2, "256M") as there:
        asked = (ALIKE.format(workload=one, response=LEADING[one]) for one in LEADING)
        lab.study(STUDY.format(reach=there.reach, outside=there.outside) + "".join(asked))
        # By the wall clock: what else the machine does may fall upon one of two guests for a whole run.
        # What is unlike for another reason is so in each.
        for attempt in range(ATTEMPTS):
            ran = lab.run(
                "run", "study.toml", "--out", f"alike{attempt}", wrap=there.wrap, **there.env
            )
            assert ran.status == 0, ran
            found = summary(lab.work / f"alike{attempt}")
            assert found["failed"] == []
            judged = {one["text"]: one for one in found["claims"]}
            claims = [judged[f"{workload}: alike"] for workload in LEADING]
            # An interval that lies within the floor, or reaches into it.
            unlike = [claim for claim in claims if claim["judgement"] not in ("holds", "undecided")]
            if not unlike:
                break
        assert not unlike, unlike
        # By the same trials both are far from native, where forking takes a tenth: a difference is seen.
        for platform in ("guest", "given"):
            low, _ = _cost(found, "fork", "elapsed", platform)
            assert low > 0, (platform, low)
        # Both are QEMU, whose CPU time is counted alike.
        given, guest = (_mean(found, "fork", "outside_cpu", one) for one in ("given", "guest"))
        assert 0.5 < given / guest < 2, (given, guest)


@pytest.mark.release
def test_the_study_of_hypervisors_sets_its_weights(lab: Lab) -> None:
    with given_guest(lab, 2, "256M") as there:
        weights = f"cat {NAPI_WEIGHT_FILE}"
        before = there.said(weights)
        argv = ("run", "hypervisors", "--quick", "--given", f"vm={there.reach}", *QUICK)
        argv += ("--set", f"given.vm.outside={there.outside}")
        ran = lab.run(*argv, "--out", "weights", wrap=there.wrap, **there.env)
        assert ran.status == 0, ran
        found = summary(lab.work / "weights")
        assert found["failed"] == []
        cells = [one for one in found["estimates"] if one["platform"] == "given"]
        assert {one["cell"]["knobs.napi_weight"] for one in cells} == {1, 2, 60, 200}
        texts = [one["text"] for one in found["claims"]]
        assert {"own_cpu_share", "outside_cpu_share"} <= {one["response"] for one in cells}
        assert len(texts) == 14 and all(text.startswith("vm: ") for text in texts)
        assert "eth0" in before and there.said(weights) == before


def test_what_stands_on_it_is_kept_to_its_limits(lab: Lab) -> None:
    with given_guest(lab, 2, "256M") as there:
        lab.study(LIMITS.format(reach=there.reach))
        ran = lab.run("run", "study.toml", "--out", "limits", wrap=there.wrap, **there.env)
        assert ran.status == 0, ran
        # A shell of one CPU sets its affinity to two, and has one nevertheless.
        for platform in ("native", "container"):
            assert statuses(lab.work / "limits", platform, "widen") == {"ok"}, ran
        assert statuses(lab.work / "limits", "native", "fill") == {"ok"}, ran
        assert statuses(lab.work / "limits", "container", "fill") == {"failed"}, ran
        assert "ran out of memory: the container has 32 MB" in ran.out, ran


def _mean(found: dict, workload: str, response: str, platform: str) -> float:  # type: ignore[type-arg]
    return float(_estimate(found, workload, response, platform)["estimate"])


def _cost(found: dict, workload: str, response: str, platform: str) -> tuple[float, float]:  # type: ignore[type-arg]
    one = _estimate(found, workload, response, platform)
    return one["cost_low"], one["cost_high"]


def _estimate(found: dict, workload: str, response: str, platform: str) -> dict:  # type: ignore[type-arg]
    (one,) = [
        one
        for one in found["estimates"]
        if (one["platform"], one["cell"]["workload"], one["response"])
        == (platform, workload, response)
    ]
    return one
