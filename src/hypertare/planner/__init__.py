"""From a plot to a bench, and from a planned trial to a plan for the agent. Pure."""

from hypertare.planner.addresses import HOST, HUB_INTERFACE
from hypertare.planner.bench import make_bench
from hypertare.planner.knobs import warnings
from hypertare.planner.limits import expected_seconds
from hypertare.planner.nodes import INNER_CPU, boot_limit_s
from hypertare.planner.pairs import pairs
from hypertare.planner.surroundings import Capacity, Chance, Surroundings, files_memory, sut_cpus
from hypertare.planner.trial import make_trial

__all__ = [
    "HOST",
    "HUB_INTERFACE",
    "INNER_CPU",
    "Capacity",
    "Chance",
    "Surroundings",
    "boot_limit_s",
    "expected_seconds",
    "files_memory",
    "make_bench",
    "make_trial",
    "pairs",
    "sut_cpus",
    "warnings",
]
