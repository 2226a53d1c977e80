"""A run made up for tests: several platforms and workloads, failures, histograms, intervals.

What the effects are is known: see `COST`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypertare.base.variables import Cell
from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.protocol.phase import PHASE
from hypertare.protocol.plan import ProbeName
from hypertare.protocol.records import (
    Console,
    Hello,
    Histogram,
    InterfaceState,
    Interval,
    NodeReady,
    ProbeValues,
    Record,
    TaskResult,
    TrialBegin,
    TrialEnd,
)
from hypertare.runs.machine_state import MachineState
from hypertare.runs.store import Meta, Store
from hypertare.runs.summary import Clock
from hypertare.workloads.responses import HEADLINE, RESPONSES, of_clock
from tests.made_tasks import purpose_of

MB = 1 << 20

# What virtualisation does to each variant: the factor on whatever is better when lower.
COST = {"native": 1.0, "container": 1.0, "guest virtio-net": 1.38, "guest e1000": 1.9}
NODES = {"native": "host", "container": "container1"}
NODES |= {"guest virtio-net": "guest2", "guest e1000": "guest3"}

WORKLOADS = {"build": "command", "tcp": "stream", "udp": "stream", "rtt": "ping"}

CELLS: tuple[Cell, ...] = (
    {"workload": "build"},
    {"workload": "tcp", "workloads.tcp.direction": "receive"},
    {"workload": "tcp", "workloads.tcp.direction": "transmit"},
    {"workload": "udp"},
    {"workload": "rtt"},
)

_NATIVE = {
    "elapsed": 8.31,
    "user": 6.9,
    "system": 1.2,
    "minor_faults": 184_300.0,
    "peak_memory": 87.0 * MB,
    "goodput": 9.4e9,
    "loss": 0.0,
    "rtt_p50": 21.4e-6,
    "rtt_p99": 48e-6,
}
_OF = {
    "build": ("elapsed", "user", "system", "minor_faults", "peak_memory"),
    "tcp": ("goodput",),
    "udp": ("goodput", "loss"),
    "rtt": ("rtt_p50", "rtt_p99"),
}


@dataclass(frozen=True)
class Script:
    """Which run to make."""

    blocks: int = 8
    seed: int = 7
    variants: tuple[str, ...] = tuple(COST)
    cells: tuple[Cell, ...] = CELLS
    noise: float = 0.02
    fail: frozenset[int] = frozenset({9, 41})
    failure: str = "the guest panicked"
    console: tuple[str, ...] = (
        "[    2.113] e1000: eth0 NIC Link is Up",
        "[    2.981] Kernel panic - not syncing: Attempted to kill init!",
    )
    slower: dict[str, float] = field(default_factory=dict)
    complete: bool = True
    study: str = "first-look"
    question: str = "What does virtualisation cost a build and a network path?"
    claims: tuple[dict[str, object], ...] = ()
    warnings: tuple[str, ...] = ("The CPU frequency governor is `powersave`: numbers vary more.",)
    text: str = ""
    factors: dict[str, list[object]] = field(default_factory=dict)
    clock: Clock = "wall"


def meta(script: Script) -> Meta:
    return Meta(
        hypertare="0.1.0",
        study=script.study,
        question=script.question,
        study_text='[study]\nname = "first-look"\n',
        settings={
            "design": {"precision": 0.02},
            "claims": list(script.claims),
            "factors": script.factors,
        },
        folder="/",
        argv=("hypertare", "run", script.study, "--seed", str(script.seed)),
        seed=script.seed,
        machine=MachineState(
            kind="local",
            hostname="bench-1",
            cpu="AMD EPYC 7B13",
            cpus=4,
            memory=24 << 30,
            kernel="6.1.0-18-amd64",
            architecture="x86_64",
            distribution="Debian GNU/Linux 12 (bookworm)",
        ),
        clock=script.clock,
        accelerator="kvm",
        versions={"qemu": "7.2.9", "python": "3.11.2", "agent": "0.1.0"},
        platforms=("native", "container", "guest"),
        nodes={node: name.partition(" ")[0] for name, node in NODES.items()},
        baseline="native",
        responses={
            name: tuple(of_clock(one, script.clock) for one in RESPONSES[WORKLOADS[name]])
            for name in WORKLOADS
        },
        threshold=0.0,
        headline={name: HEADLINE[WORKLOADS[name]] for name in WORKLOADS},
    )


def planned(script: Script) -> Iterator[PlannedTrial]:
    """One warm-up of each platform in each cell, then randomised blocks."""
    chance = random.Random(script.seed)
    ident = 0
    for place, cell in enumerate(script.cells):
        for number in range(script.blocks):
            order = list(script.variants)
            chance.shuffle(order)
            for variant in order:
                platform, _, nic = variant.partition(" ")
                levels = {**cell, "sut.nic": nic} if nic else cell
                kind = "warmup" if number == 0 else "measured"
                block = place * script.blocks + number
                yield PlannedTrial(ident, block, number // 2, platform, levels, kind)
                ident += 1


def variant(trial: PlannedTrial) -> str:
    """The platform with its NIC, a key of `COST`."""
    return " ".join(
        [trial.platform, *([str(trial.cell["sut.nic"])] if "sut.nic" in trial.cell else [])]
    )


def finish(trial: PlannedTrial, script: Script) -> FinishedTrial:
    chance = random.Random(f"{script.seed}/{trial.id}")
    drift = random.Random(f"{script.seed}/block/{trial.block}").gauss(0, script.noise)
    if trial.id in script.fail:
        return FinishedTrial(trial, "failed", script.failure, 3.2, {}, script.console)
    factor = COST.get(variant(trial), 1.5) * script.slower.get(variant(trial), 1.0)
    values = {}
    for name in _OF[trial.workload]:
        kind = WORKLOADS[trial.workload]
        better = next(r.better for r in RESPONSES[kind] if r.name == name)
        share = factor if better == "lower" else 1 / factor
        noise = math.exp(drift + chance.gauss(0, script.noise))
        values[name] = _NATIVE[name] * share * noise
    if trial.workload == "udp":
        values["loss"] = chance.randint(0, 40) / 1000 if factor > 1.2 else 0.0
    return FinishedTrial(trial, "ok", None, values.get("elapsed", 5.0), values)


def records(finished: FinishedTrial, script: Script) -> list[Record]:
    trial = finished.planned
    made: list[Record] = [TrialBegin(trial=trial.id, t_s=1.0)]
    if finished.status == "failed":
        made.append(Console(node=_node(finished), lines=finished.console))
    else:
        made += _RECORDS[trial.workload](finished, script)
        node = NODES.get(variant(trial), "guest2")
        made.append(_cpu("host", "stat", finished, 1.0))
        if trial.platform != "native":
            made.append(_cpu(node, "outside", finished, 0.95))
        if trial.platform == "guest":
            made.append(_cpu(node, "stat", finished, 0.7))
    end = TrialEnd(trial=trial.id, t_s=9.0, elapsed_s=finished.elapsed_s, error=finished.error)
    return [*made, end]


def _cpu(node: str, probe: ProbeName, finished: FinishedTrial, share: float) -> ProbeValues:
    busy = finished.elapsed_s * share * (1.6 if finished.planned.platform == "guest" else 1.0)
    values = {"user_s": busy * 0.7, "system_s": busy * 0.2, "softirq_s": busy * 0.1}
    values |= {"busy_s": busy, "cpu0.user_s": busy * 0.7, "guest_s": busy * 0.3}
    return ProbeValues(
        node=node,
        trial=finished.planned.id,
        phase=PHASE,
        probe=probe,
        elapsed_s=finished.elapsed_s,
        values=values,
    )


def _command(finished: FinishedTrial, script: Script) -> list[Record]:
    text = {"stdout": script.text or "  CC main.o\n  LD program\n"}
    return [_result(finished, values=finished.values, text=text)]


def _node(finished: FinishedTrial) -> str:
    return NODES.get(variant(finished.planned), "guest2")


def _stream(finished: FinishedTrial, script: Script) -> list[Record]:
    chance = random.Random(f"{script.seed}/interval/{finished.planned.id}")
    rate = finished.values["goodput"]
    made: list[Record] = []
    for step in range(10):
        got = rate * math.exp(chance.gauss(0, 0.05)) * (0.7 if step == 0 else 1.0)
        made.append(
            Interval(
                node=_node(finished),
                trial=finished.planned.id,
                phase=PHASE,
                task="receive",
                purpose=purpose_of("receive"),
                begin_s=step * 0.5,
                end_s=(step + 1) * 0.5,
                values={"goodput_bps": got, "received_bytes": got / 16},
            )
        )
    return [*made, _result(finished, task="receive", values=finished.values)]


def _ping(finished: FinishedTrial, script: Script) -> list[Record]:
    chance = random.Random(f"{script.seed}/rtt/{finished.planned.id}")
    middle = finished.values["rtt_p50"] * 1e9
    counts: dict[int, int] = {}
    for _ in range(2000):
        value = middle * math.exp(chance.gauss(0, 0.15)) * (4 if chance.random() < 0.02 else 1)
        edge = round(math.exp(round(math.log(value) / 0.01) * 0.01))
        counts[edge] = counts.get(edge, 0) + 1
    histogram = Histogram(unit="ns", buckets=tuple(sorted(counts.items())))
    reported = {"rtt": histogram}
    return [_result(finished, task="request", values=finished.values, histograms=reported)]


def _result(finished: FinishedTrial, task: str = "work", **rest: object) -> TaskResult:
    trial = finished.planned.id
    where = {"node": _node(finished), "trial": trial, "phase": PHASE, "task": task}
    return TaskResult(**where, purpose=purpose_of(task), **rest)  # type: ignore[arg-type]


_RECORDS = {"build": _command, "tcp": _stream, "udp": _stream, "rtt": _ping}


def write(directory: Path, script: Script | None = None) -> Path:
    """Writes the run and returns its directory."""
    script = script or Script()
    with Store.create(directory, meta(script)) as store:
        store.add_bench(0, bench_records(script))
        for warning in script.warnings:
            store.add_event(warning)
        for trial in planned(script):
            finished = finish(trial, script)
            store.append(finished, records(finished, script))
        if script.complete:
            store.ended(complete=True)
    return directory


def bench_records(script: Script) -> list[Record]:
    """What making the bench reported: every node, and a peer that is not under test."""
    made: list[Record] = []
    for name in (*script.variants, "peer"):
        guest = name.startswith("guest")
        node = NODES.get(name, name)
        made.append(
            Hello(
                node=node,
                protocol=1,
                agent="0.1.0",
                kernel="6.1.0-18-amd64",
                architecture="x86_64",
                cpus=1 if guest else 4,
                memory=512 * MB if guest else 24 << 30,
                clocksource="hpet" if guest else "tsc",
                uptime_s=1.9,
            )
        )
        made.append(
            NodeReady(
                node=node,
                start_s=2.6,
                ready_s=2.9,
                accelerator="kvm" if guest else None,
                vmm="QEMU 7.2.9" if guest else None,
                vmm_argv=("qemu-system-x86_64", "-accel", "kvm", "-append", "quiet panic=-1")
                if guest
                else (),
            )
        )
        made.append(
            InterfaceState(
                node=node,
                interface="eth0",
                driver=name.removeprefix("guest ") if guest else "veth",
                mtu=1500,
                offloads={"tso": False, "gro": False},
                rx_queues=1,
                tx_queues=1,
            )
        )
    return made


def first(script: Script | None = None) -> FinishedTrial:
    """One trial that went well."""
    script = replace(script or Script(), fail=frozenset())
    return finish(next(planned(script)), script)
