"""From a plot to a bench, and from a planned trial to a plan for the agent. Pure."""

from hypertare.design.planner.bench import make_bench as make_bench
from hypertare.design.planner.knobs_and_probes import counts_in_warmups as counts_in_warmups
from hypertare.design.planner.knobs_and_probes import warnings as warnings
from hypertare.design.planner.machine_resources import Capacity as Capacity
from hypertare.design.planner.machine_resources import Chance as Chance
from hypertare.design.planner.machine_resources import Likeness as Likeness
from hypertare.design.planner.machine_resources import MachineResources as MachineResources
from hypertare.design.planner.machine_resources import files_memory as files_memory
from hypertare.design.planner.machine_resources import sut_cpus as sut_cpus
from hypertare.design.planner.network import HOST as HOST
from hypertare.design.planner.network import pairs as pairs
from hypertare.design.planner.nodes import boot_limit_s as boot_limit_s
from hypertare.design.planner.trial import make_trial as make_trial
