"""Study A in small: real machines in virtual time, from the measured capacity to judged claims."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hypertare.probes.napi import NAPI
from hypertare.runs.store import Store
from tests.integration.lab import Lab, own_cache, summary, without

pytestmark = pytest.mark.guest

WEIGHTS = '"knobs.napi_weight" = [1, 60]'
RATES = "[" + ", ".join(f'"{share} % of capacity"' for share in (20, 60, 100, 150)) + "]"
SMALL = (
    *(
        f"workloads.{name}.factors={{ {WEIGHTS} }}"
        for name in ("tcp", "tcp-large", "udp", "udp-large")
    ),
    "workloads.load.factors={ " + WEIGHTS + ', "workloads.load.rate" = ' + RATES + ", "
    '"workloads.load.socket_buffer" = ["16K", "8M"] }',
    'workloads.tcp.duration="100ms"',
    'workloads.udp.duration="100ms"',
    "plots=[]",
    # A quarter of each boot is a check of all page tables before the kernel protects itself.
    'sut.kernel_args=["rodata=off"]',
)


@pytest.mark.release
@pytest.mark.timeout(900)
def test_what_the_study_found_is_judged_from_what_was_measured(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    argv = [sys.executable, "-m", "hypertare", "run", "napi-budget", "--quick", "--jobs", "1"]
    argv += ["--out", str(folder)]
    argv += [word for setting in SMALL for word in ("--set", setting)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads((folder / "summary.json").read_text())
    judged = {claim["text"]: claim["judgement"] for claim in summary["claims"]}
    # At the capacity a boot of weight 1 loses nearly half or nothing: of three boots one may lose nothing.
    assert judged["Weight 1 loses packets that weight 60 delivers"] in ("holds", "undecided")
    assert value(summary, "loss", 1, 100) > 0.1 and value(summary, "loss", 60, 100) == 0
    assert judged["With a small receive buffer UDP is lost in the socket"] == "holds"
    assert judged["... and not in the driver"] == "holds"
    # Beyond the capacity even 8 MB may fill for a moment in one boot; the small buffer lost 6,800 there.
    assert judged["With a large receive buffer nothing is lost in the socket"] in (
        "holds",
        "undecided",
    )
    assert all(
        value(summary, "drops_socket", weight, share) == 0
        for weight in (1, 60)
        for share in (20, 60)
    )
    assert all(value(summary, "drops_socket", weight, 150) < 1000 for weight in (1, 60))
    # Two weights make no correlation.
    assert judged["What the driver takes and what arrives go together (TCP)"] == "undecided"
    kinds = {
        (curve["cell"]["knobs.napi_weight"], curve["cell"]["workloads.load.socket_buffer"]): curve
        for curve in summary["curves"]
    }
    # Three boots: which of these an interval still allows follows from kernel, QEMU and agent.
    assert kinds[1, "8M"]["kind"] in ("levels off", "livelock", "undecided")
    assert kinds[60, "8M"]["kind"] in ("levels off", "keeps up", "undecided")
    assert kinds[1, "8M"]["last"] < 0.95 * kinds[1, "8M"]["peak"]
    assert kinds[60, "8M"]["last"] > 0.9 * kinds[60, "8M"]["peak"]
    assert kinds[60, "8M"]["peak"] > 1.5 * kinds[1, "8M"]["peak"]
    assert kinds[1, "8M"]["unit"] == "b/s (virtual)"
    assert "Packets per poll" in (folder / "report.html").read_text()


def value(summary: dict[str, Any], response: str, weight: int, share: int) -> float:
    """Return a response where `share` % of the capacity is offered, with the large buffer."""
    (found,) = (
        one["estimate"]
        for one in summary["estimates"]
        if (one["response"], one["cell"]["workload"]) == (response, "load")
        and one["cell"]["knobs.napi_weight"] == weight
        and one["cell"]["workloads.load.rate"] == f"{share} % of capacity"
        and one["cell"]["workloads.load.socket_buffer"] == "8M"
    )
    return float(found)


COST = """
name = "cost"
question = "What does counting polls cost?"
machine = "emulated"
[sut]
memory = "192M"
nic = "e1000"
cpus = 3
[workloads.load]
type = "stream"
protocol = "udp"
direction = "receive"
segmentation = true
rate = "480M"
socket_buffer = "8M"
duration = "100ms"
omit = "50ms"
sender_cpus = [0]
receiver_cpus = [2]
[knobs]
offloads = { gro = false }
interrupt_cpus = [1]
napi_weight = 1
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


def test_counting_polls_takes_hardly_anything_of_them(lab: Lab) -> None:
    """With a weight of 1, where each packet is a poll, and the CPU that polls is full."""
    study, goodput = lab.study(COST), {}
    for name, probes in (("with", '["napi", "drops"]'), ("without", '["drops"]')):
        ran = lab.run("run", study, "--set", f"probes={probes}", "--out", name)
        assert ran.status == 0, ran.said
        assert "tracepoint" not in ran.said
        with Store.open(lab.work / name) as store:
            goodput[name] = [trial.values["goodput"] for trial in store.trials()]
            polled = ["poll_rate" in trial.values for trial in store.trials()]
            assert polled == [name == "with"] * 2
    assert sum(goodput["with"]) > 0.99 * sum(goodput["without"]), goodput


def test_without_the_module_polls_are_counted_in_warm_ups_alone(lab: Lab) -> None:
    """The kernel's tracepoint takes 7 us of each: never of a poll that is weighed."""
    study = lab.study(COST.replace("napi_weight = 1\n", ""))
    cache = own_cache(lab, "cache", but="modules")
    with without(lab, "make") as path:
        ran = lab.run("run", study, "--out", "run", PATH=path, HYPERTARE_CACHE=cache)
    assert ran.status == 0, ran.said
    assert "polls were not counted, for hypertare_napi is not to be had" in ran.said
    with Store.open(lab.work / "run") as store:
        trials = {trial.planned.kind: trial for trial in reversed(list(store.trials()))}
        counted = {
            kind: NAPI.histogram(store.records(trial.planned.id), "host")
            for kind, trial in trials.items()
        }
    assert not counted["measured"] and sum(counted["warmup"].values()) > 100
    assert "poll_rate" not in trials["measured"].values
    (rate,) = (
        one for one in summary(lab.work / "run")["estimates"] if one["response"] == "poll_rate"
    )
    assert (rate["n"], rate["estimate"]) == (1, trials["warmup"].values["poll_rate"])
