"""A run of several guests made up for tests, after the published one: transmission is fair, receiving is
not, and a weight of 2048 mends it. Records and values are in step.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hypertare.base.variables import Level
from hypertare.design.design import numbered
from hypertare.design.trials import PlannedTrial
from hypertare.findings.outcome import outcome
from hypertare.protocol.records import Interval, Record, TaskResult
from hypertare.runs.store import Meta, Store
from hypertare.workloads.responses import HEADLINE, RESPONSES, of_clock
from tests import factory
from tests.made_guests import ELAPSED_S, Streamed, pings, probe, streams
from tests.made_tasks import work_of

KINDS = {"transmit": "stream", "receive": "stream", "latency": "ping"}
WEIGHTS = (256, 2048)

# Mb/s of each guest: Anhalt & Vicat-Blanc Primet (2008), INRIA RR-6658.
RATES: Mapping[tuple[str, int], tuple[float, ...]] = {
    ("transmit", 1): (914,),
    ("transmit", 2): (509, 431),
    ("transmit", 4): (237, 235, 236, 234),
    ("transmit", 8): (123, 122, 118, 114, 118, 120, 119, 116),
    ("receive", 1): (900,),
    ("receive", 2): (465, 420),
    ("receive", 4): (318, 291, 178, 87.2),
    ("receive", 8): (296, 274, 169, 65.3, 30.1, 14.4, 19, 4.86),
}
DRIVER = {1: 0.31, 2: 0.35, 4: 0.51, 8: 0.64}
NATIVE = 938.0

PLOTS: list[dict[str, Any]] = [
    {
        "title": "What each guest receives",
        "workload": "receive",
        "shape": "stacked",
        "x": "sut.guests",
        "y": "goodput",
        "facet": "knobs.driver_weight",
        "published": "Anhalt & Vicat-Blanc Primet (2008)",
    },
    {
        "title": "CPU of guests and driver domain",
        "workload": "transmit",
        "shape": "stacked",
        "x": "sut.guests",
        "y": "outside_cpu_share",
        "facet": "knobs.driver_weight",
    },
    {
        "title": "Aggregate against guests",
        "workload": "receive",
        "x": "sut.guests",
        "y": "goodput",
        "lines": "knobs.driver_weight",
    },
    {
        "title": "Jain's index against weight",
        "workload": "receive",
        "x": "knobs.driver_weight",
        "y": "jain_goodput",
        "lines": "sut.guests",
    },
    {
        "title": "Round trips",
        "workload": "latency",
        "shape": "distribution",
        "x": "rtt",
        "y": "share",
        "lines": "knobs.driver_weight",
        "facet": "sut.guests",
    },
]

CLAIMS: list[dict[str, Any]] = [
    {
        "text": "Receiving is unfair with eight guests",
        "workload": "receive",
        "response": "jain_goodput",
        "platform": "xen",
        "where": {"sut.guests": 8, "knobs.driver_weight": 256},
        "measure": "value",
        "op": "below",
        "value": 0.6,
    },
    {
        "text": "The earlier a guest is made the more it receives",
        "workload": "receive",
        "response": "goodput",
        "platform": "xen",
        "guest": 1,
        "where": {"sut.guests": 4, "knobs.driver_weight": 256},
        "against": {"guest": 4},
        "measure": "ratio",
        "op": "above",
        "value": 2,
    },
    {
        "text": "Transmission follows the fair rate",
        "workload": "transmit",
        "response": "least_rate",
        "platform": "xen",
        "law": "fair rate",
        "measure": "error",
        "op": "within",
        "value": ["-10 %", "10 %"],
    },
]


def meta(guests: tuple[int, ...]) -> Meta:
    base = factory.meta(factory.Script(study="virtual-router", clock="virtual"))
    factors = {"sut.guests": list(guests), "knobs.driver_weight": list(WEIGHTS)}
    return base.model_copy(
        update={
            "platforms": ("native", "xen"),
            "question": "Are guests efficient, fair, predictable?",
            "responses": {
                name: tuple(of_clock(one, "virtual") for one in RESPONSES[kind])
                for name, kind in KINDS.items()
            },
            "headline": {name: HEADLINE[kind] for name, kind in KINDS.items()},
            "settings": {
                "predictability": {"error": 0.1},
                "design": {"precision": 0.02},
                "factors": factors,
                "plots": PLOTS,
                "claims": CLAIMS,
            },
        }
    )


def planned(guests: tuple[int, ...], blocks: int) -> Iterator[PlannedTrial]:
    ident = block = 0
    for number in guests:
        for name in KINDS:
            for weight in WEIGHTS:
                cell: dict[str, Level] = {
                    "workload": name,
                    "sut.guests": number,
                    "knobs.driver_weight": weight,
                }
                for boot in range(blocks):
                    for platform in ("native", "xen"):
                        yield PlannedTrial(ident, block, boot, platform, cell)
                        ident += 1
                    block += 1


def nodes(trial: PlannedTrial) -> tuple[str, ...]:
    return ("host",) if trial.platform == "native" else numbered("xen1", 8)


def records(trial: PlannedTrial) -> list[Record]:
    chance = random.Random(trial.id)
    number = int(trial.cell["sut.guests"])

    def noisy(value: float) -> float:
        return value * math.exp(chance.gauss(0, 0.01))

    native = trial.platform == "native"
    node = "host" if native else "xen1"
    if trial.workload == "latency":
        slow = 1 if native or trial.cell["knobs.driver_weight"] == 2048 else 1 + number
        rtts = [
            [round(noisy(2e5 * slow) * math.exp(abs(chance.gauss(0, 0.6)))) for _ in range(200)]
            for _ in range(number)
        ]
        made = pings(rtts, node)
    else:
        rates = RATES[trial.workload, number]
        if native:
            rates = (NATIVE / number,) * number
        elif trial.cell["knobs.driver_weight"] == 2048:
            rates = (sum(rates) / number,) * number
        each = [
            Streamed(
                noisy(rate * 1e6),
                5 + chance.random() / 50,
                1.0,
                cpu_s=noisy(rate / 4500 * ELAPSED_S),
            )
            for rate in rates
        ]
        made = streams(each, node, driver_s=noisy(DRIVER[number]) * ELAPSED_S)
    if native:
        busy = noisy(0.33 * ELAPSED_S)
        return [
            *(r for r in made if getattr(r, "probe", None) != "outside"),
            probe("host", busy, "stat").model_copy(update={"values": {"busy_s": busy}}),
        ]
    return _single(made) if number == 1 else made


def _single(made: list[Record]) -> list[Record]:
    """One guest's tasks have no number."""
    return [_unnumbered(r) if isinstance(r, TaskResult | Interval) else r for r in made]


def _unnumbered(reported: TaskResult | Interval) -> TaskResult | Interval:
    purpose = reported.purpose and reported.purpose.model_copy(update={"pair": None})
    return reported.model_copy(
        update={"task": reported.task.removesuffix(".1"), "purpose": purpose}
    )


def write(directory: Path, guests: tuple[int, ...] = (1, 2, 4, 8), blocks: int = 4) -> Path:
    """Writes the run and returns its directory."""
    with Store.create(directory, meta(guests)) as store:
        for trial in planned(guests, blocks):
            reported = records(trial)
            kind = KINDS[trial.workload]
            store.append(outcome(work_of(kind), trial, nodes(trial), reported, None, 3.0), reported)
        store.ended(complete=True)
    return directory
