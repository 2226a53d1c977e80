"""A run of the shape of `napi-budget --quick`, made up for tests: the factors, claims and plots
of three of its workloads, 42 cells in an order drawn by lot, three boots. Goodput is what such a run found.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from hypertare.base.variables import Level
from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.runs.store import Meta, Store
from hypertare.workloads.responses import HEADLINE, RESPONSES, of_clock
from tests import factory

_STUDY = tomllib.loads(Path("studies/napi-budget.toml").read_text(encoding="utf-8"))
_NIC = "sut.nic"
_WEIGHT, _BUFFER, _RATE = (
    "knobs.napi_weight",
    "workloads.load.socket_buffer",
    "workloads.load.rate",
)
BOOTS = 3

# Mb/s by weight; under load by weight and buffer, at 30, 60, 100 and 150 % of capacity.
_TCP = {1: 64.8, 2: 84.0, 8: 198, 60: 246, 200: 254}
_UDP = {1: 70.0, 2: 108, 8: 140, 60: 140, 200: 140}
_LOAD = {
    (1, "16K"): (52.5, 54.9, 49.9, 51.5),
    (1, "8M"): (52.5, 65.6, 67.8, 24.9),
    (2, "16K"): (52.6, 105, 77.0, 75.6),
    (2, "8M"): (52.6, 105, 93.8, 34.7),
    (60, "16K"): (52.6, 105, 129, 81.5),
    (60, "8M"): (52.5, 105, 171, 175),
    (200, "16K"): (52.5, 105, 135, 81.5),
    (200, "8M"): (52.6, 105, 171, 175),
}


_WORKLOADS = ("tcp", "udp", "load")


def _about_those(table: str) -> list[dict[str, Any]]:
    return [one for one in _STUDY[table] if one["workload"] in _WORKLOADS]


def settings() -> dict[str, Any]:
    quick = _STUDY["quick"]
    workloads = {
        name: {**one, "factors": quick[f"workloads.{name}.factors"]}
        for name, one in _STUDY["workloads"].items()
        if name in _WORKLOADS
    }
    return {
        "design": {"precision": 0.03},
        "factors": quick["factors"],
        "workloads": workloads,
        "plots": _about_those("plots"),
        "claims": [
            {k: v for k, v in one.items() if k != "differs"} for one in _about_those("claims")
        ],
    }


def meta() -> Meta:
    base = factory.meta(factory.Script(study=_STUDY["name"], clock="virtual"))
    names = _WORKLOADS
    return base.model_copy(
        update={
            "machine": base.machine.model_copy(update={"kind": "emulated"}),
            "question": _STUDY["question"],
            "platforms": ("native",),
            "responses": {
                name: tuple(of_clock(one, "virtual") for one in RESPONSES["stream"])
                for name in names
            },
            "headline": dict.fromkeys(names, HEADLINE["stream"]),
            "settings": settings(),
        }
    )


def cells() -> Iterator[dict[str, Level]]:
    for name, one in settings()["workloads"].items():
        for levels in product(*one["factors"].values()):
            yield {
                "workload": name,
                **dict(zip(one["factors"], levels, strict=True)),
                _NIC: "e1000",
            }


def values(cell: dict[str, Level], chance: random.Random) -> dict[str, float]:
    weight, buffer = cell[_WEIGHT], cell.get(_BUFFER)
    offered = 175.0
    if cell["workload"] == "load":
        rates = settings()["workloads"]["load"]["factors"][_RATE]
        place = rates.index(cell[_RATE])
        mean = _LOAD[int(weight), str(buffer)][place]
        offered *= (0.3, 0.6, 1.0, 1.5)[place]
    else:
        mean = (_TCP if cell["workload"] == "tcp" else _UDP)[int(weight)]
    rate = 1e6 * mean * chance.gauss(1, 0.01)
    lost = max(0.0, 1 - mean / offered)
    small = buffer == "16K" and int(weight) >= 60
    return {
        "goodput": rate,
        "driver_packet_rate": rate / 12_000,
        "loss": lost,
        "drops_socket": 2_000.0 * lost if small else 0.0,
        "drops_ring": 0.0 if small else 2_000.0 * lost,
        "interrupt_rate": 3_000.0 / int(weight),
        "packets_per_poll": float(min(int(weight), 35)),
        "softirq_cpu": 0.3,
    }


def write(directory: Path) -> Path:
    """Writes the run and returns its directory."""
    chance = random.Random(1)
    order = list(cells())
    with Store.create(directory, meta()) as store:
        store.add_bench(0, factory.bench_records(factory.Script(variants=("native",))))
        ident = 0
        for boot in range(BOOTS):
            chance.shuffle(order)
            for place, cell in enumerate(order):
                block = boot * len(order) + place
                planned = PlannedTrial(ident, block, boot, "native", cell, "measured")
                trial = FinishedTrial(planned, "ok", None, 0.2, values(cell, chance))
                store.append(trial, [])
                ident += 1
        store.ended(complete=True)
    return directory
