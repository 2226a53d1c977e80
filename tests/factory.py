"""A run made up for tests: several platforms and workloads, failures, histograms, intervals.

What the effects are is known: see `COST`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypertare.records import (
    Console,
    Hello,
    Histogram,
    InterfaceState,
    Interval,
    Log,
    ProbeValues,
    Record,
    TaskResult,
    TrialBegin,
    TrialEnd,
)
from hypertare.store import Meta, Store
from hypertare.summary import MachineState, PlatformState
from hypertare.trials import Cell, FinishedTrial, PlannedTrial, Response

MB = 1 << 20

ELAPSED = Response("elapsed_s", "s", "lower", "elapsed")
USER = Response("user_s", "s", "lower", "user time")
SYSTEM = Response("system_s", "s", "lower", "system time")
FAULTS = Response("minor_faults", "faults", "lower", "page faults")
MEMORY = Response("peak_memory_bytes", "B", "lower", "peak memory")
GOODPUT = Response("goodput_bps", "b/s", "higher", "goodput")
LOST = Response("lost_packets", "messages", "lower", "lost")
RTT = Response("rtt_p50_ns", "ns", "lower", "median RTT")
TAIL = Response("rtt_p99_ns", "ns", "lower", "RTT, 99th percentile")
RESPONSES = (ELAPSED, USER, SYSTEM, FAULTS, MEMORY, GOODPUT, LOST, RTT, TAIL)

# What virtualisation does to each platform: the factor on whatever is better when lower.
COST = {"native": 1.0, "container": 1.0, "guest virtio-net": 1.38, "guest e1000": 1.9}

CELLS: tuple[Cell, ...] = (
    {"workload": "build", "cpus": 1},
    {"workload": "tcp", "direction": "receive", "cpus": 1},
    {"workload": "udp", "direction": "receive", "cpus": 1},
    {"workload": "rtt", "cpus": 1},
)

_NATIVE = {
    "elapsed_s": 8.31,
    "user_s": 6.9,
    "system_s": 1.2,
    "minor_faults": 184_300.0,
    "peak_memory_bytes": 87.0 * MB,
    "goodput_bps": 9.4e9,
    "lost_packets": 0.0,
    "rtt_p50_ns": 21_400.0,
    "rtt_p99_ns": 48_000.0,
}
_OF = {
    "build": ("elapsed_s", "user_s", "system_s", "minor_faults", "peak_memory_bytes"),
    "tcp": ("goodput_bps",),
    "udp": ("goodput_bps", "lost_packets"),
    "rtt": ("rtt_p50_ns", "rtt_p99_ns"),
}


@dataclass(frozen=True)
class Script:
    """Which run to make."""

    blocks: int = 8
    seed: int = 7
    platforms: tuple[str, ...] = tuple(COST)
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
    claims: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ("The CPU frequency governor is `powersave`: numbers vary more.",)
    text: str = ""


def meta(script: Script) -> Meta:
    return Meta(
        hypertare="0.1.0",
        study=script.study,
        question=script.question,
        study_text='[study]\nname = "first-look"\n',
        settings={"precision": 0.02, "min_trials": 5, "max_trials": 30},
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
        accelerator="tcg",
        versions={"qemu": "7.2.9", "python": "3.11.2", "agent": "0.1.0"},
        platforms=script.platforms,
        factors={"cpus": (1,), "direction": ("receive",)},
        responses=RESPONSES,
        headline=("elapsed_s", "goodput_bps", "rtt_p50_ns"),
        claims=script.claims,
        planned_trials=script.blocks * len(script.platforms) * len(script.cells),
    )


def planned(script: Script) -> Iterator[PlannedTrial]:
    """One warm-up of each platform in each cell, then randomised blocks."""
    chance = random.Random(script.seed)
    ident = 0
    for place, cell in enumerate(script.cells):
        for number in range(script.blocks):
            order = list(script.platforms)
            chance.shuffle(order)
            for platform in order:
                boot = script.platforms.index(platform)
                kind = "warmup" if number == 0 else "measured"
                block = place * script.blocks + number
                yield PlannedTrial(ident, block, boot, platform, cell, kind)
                ident += 1


def finish(trial: PlannedTrial, script: Script) -> FinishedTrial:
    chance = random.Random(f"{script.seed}/{trial.id}")
    drift = random.Random(f"{script.seed}/block/{trial.block}").gauss(0, script.noise)
    if trial.id in script.fail:
        return FinishedTrial(trial, "failed", script.failure, 3.2, {}, script.console)
    factor = COST.get(trial.platform, 1.5) * script.slower.get(trial.platform, 1.0)
    values = {}
    for name in _OF[trial.workload]:
        better = next(r.better for r in RESPONSES if r.name == name)
        share = factor if better == "lower" else 1 / factor
        noise = math.exp(drift + chance.gauss(0, script.noise))
        values[name] = _NATIVE[name] * share * noise
    if trial.workload == "udp":
        values["lost_packets"] = float(chance.randint(0, 40) if factor > 1.2 else 0)
    return FinishedTrial(trial, "ok", None, values.get("elapsed_s", 5.0), values)


def records(finished: FinishedTrial, script: Script) -> list[Record]:
    trial = finished.planned
    made: list[Record] = [TrialBegin(trial=trial.id, t_s=1.0)]
    if finished.status == "failed":
        made.append(Console(node="sut", lines=finished.console))
    else:
        made += _RECORDS[trial.workload](finished, script)
        made.append(_stat("host", finished, 1.0))
        if trial.platform.startswith("guest"):
            made.append(_stat("sut", finished, 0.7))
    end = TrialEnd(trial=trial.id, t_s=9.0, elapsed_s=finished.elapsed_s, error=finished.error)
    return [*made, end]


def _stat(node: str, finished: FinishedTrial, share: float) -> ProbeValues:
    guest = finished.planned.platform.startswith("guest")
    busy = finished.elapsed_s * share * (1.6 if guest else 1.0)
    values = {"user_s": busy * 0.7, "system_s": busy * 0.2, "softirq_s": busy * 0.1}
    return ProbeValues(
        node=node,
        trial=finished.planned.id,
        phase="main",
        probe="stat",
        elapsed_s=finished.elapsed_s,
        values=values,
    )


def _command(finished: FinishedTrial, script: Script) -> list[Record]:
    text = {"stdout": script.text or "  CC main.o\n  LD program\n"}
    return [_result(finished, values=finished.values, text=text)]


def _stream(finished: FinishedTrial, script: Script) -> list[Record]:
    chance = random.Random(f"{script.seed}/interval/{finished.planned.id}")
    rate = finished.values["goodput_bps"]
    made: list[Record] = []
    for step in range(10):
        got = rate * math.exp(chance.gauss(0, 0.05)) * (0.7 if step == 0 else 1.0)
        made.append(
            Interval(
                node="sut",
                trial=finished.planned.id,
                phase="main",
                task="receive",
                begin_s=step * 0.5,
                end_s=(step + 1) * 0.5,
                values={"goodput_bps": got, "received_bytes": got / 16},
            )
        )
    return [*made, _result(finished, task="receive", values=finished.values)]


def _ping(finished: FinishedTrial, script: Script) -> list[Record]:
    chance = random.Random(f"{script.seed}/rtt/{finished.planned.id}")
    middle = finished.values["rtt_p50_ns"]
    counts: dict[int, int] = {}
    for _ in range(2000):
        value = middle * math.exp(chance.gauss(0, 0.15)) * (4 if chance.random() < 0.02 else 1)
        edge = round(math.exp(round(math.log(value) / 0.01) * 0.01))
        counts[edge] = counts.get(edge, 0) + 1
    histogram = Histogram(unit="ns", buckets=tuple(sorted(counts.items())))
    return [_result(finished, values=finished.values, histograms={"rtt": histogram})]


def _result(finished: FinishedTrial, task: str = "work", **rest: object) -> TaskResult:
    trial = finished.planned.id
    return TaskResult(node="sut", trial=trial, phase="main", task=task, **rest)  # type: ignore[arg-type]


_RECORDS = {"build": _command, "tcp": _stream, "udp": _stream, "rtt": _ping}


def platform_state(platform: str) -> PlatformState:
    guest = platform.startswith("guest")
    driver = platform.removeprefix("guest ") if guest else "veth"
    return PlatformState(
        platform=platform,
        node="sut",
        kernel="6.1.0-18-amd64",
        cpus=1,
        memory=(512 * MB) if guest else (24 << 30),
        accelerator="tcg" if guest else None,
        vmm="QEMU 7.2.9" if guest else None,
        clocksource="hpet" if guest else "tsc",
        interfaces={"eth0": {"driver": driver, "mtu": 1500, "tso": False, "gro": False}},
    )


def write(directory: Path, script: Script | None = None) -> Path:
    """Writes the run and returns its directory."""
    script = script or Script()
    with Store.create(directory, meta(script)) as store:
        for boot, platform in enumerate(script.platforms):
            store.add_bench(boot, (platform_state(platform),), [_hello(), _interface(platform)])
        for warning in script.warnings:
            store.add_event(warning)
        for trial in planned(script):
            finished = finish(trial, script)
            made = records(finished, script)
            if trial.id == 3:
                made.append(Log(node="sut", level="warning", text="the sender fell behind"))
            store.append(finished, made)
        if script.complete:
            store.ended(complete=True)
    return directory


def _hello() -> Hello:
    return Hello(
        node="sut",
        protocol=1,
        agent="0.1.0",
        kernel="6.1.0-18-amd64",
        architecture="x86_64",
        cpus=1,
        memory=512 * MB,
        clocksource="hpet",
        uptime_s=1.9,
    )


def _interface(platform: str) -> InterfaceState:
    return InterfaceState(
        node="sut",
        interface="eth0",
        driver=platform.removeprefix("guest "),
        mtu=1500,
        offloads={"tso": False, "gro": False},
        rx_queues=1,
        tx_queues=1,
    )


def first(script: Script | None = None) -> FinishedTrial:
    """One trial that went well."""
    script = replace(script or Script(), fail=frozenset())
    return finish(next(planned(script)), script)
