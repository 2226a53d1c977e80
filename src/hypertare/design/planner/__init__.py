"""From a plot to a bench, and from a planned trial to a plan for the agent. Pure."""

from hypertare.design.planner.addresses import HOST, HUB_INTERFACE
from hypertare.design.planner.bench import make_bench
from hypertare.design.planner.knobs import warnings
from hypertare.design.planner.machine_resources import (
    Capacity,
    Chance,
    Likeness,
    MachineResources,
    files_memory,
    sut_cpus,
)
from hypertare.design.planner.nodes import boot_limit_s
from hypertare.design.planner.pairs import pairs
from hypertare.design.planner.probes import counts_in_warmups
from hypertare.design.planner.trial import make_trial

__all__ = [
    "HOST",
    "HUB_INTERFACE",
    "Capacity",
    "Chance",
    "Likeness",
    "MachineResources",
    "boot_limit_s",
    "counts_in_warmups",
    "files_memory",
    "make_bench",
    "make_trial",
    "pairs",
    "sut_cpus",
    "warnings",
]
