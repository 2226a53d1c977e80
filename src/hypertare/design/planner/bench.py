"""The bench of a plot. Pure."""

from __future__ import annotations

from dataclasses import replace

from hypertare.design.design import WholePlot
from hypertare.design.planner.hosts import hosts
from hypertare.design.planner.knobs import has_weights
from hypertare.design.planner.links import make_links
from hypertare.design.planner.machine_resources import MachineResources, files_memory
from hypertare.design.planner.nodes import datapath_cpu, host_of_guests
from hypertare.design.planner.routed import routed, routed_links
from hypertare.protocol import plan
from hypertare.study import Study


def make_bench(
    study: Study, plot: WholePlot, cells: dict[str, Study], on: MachineResources
) -> plan.Bench:
    """The bench of a plot.

    Args:
        study: the study with the plot's hard levels in place.
        plot: the plot.
        cells: by node, the study with that variant's levels in place too.
        on: what the machine gives.
    """
    topology = routed if study.routed else hosts
    of_datapath = datapath_cpu(plot, cells, study, on)
    rest = tuple(cpu for cpu in on.cpus if cpu != of_datapath)
    on = replace(on, datapath_cpu=of_datapath, cpus=rest)
    nodes, links = topology(study, plot, cells, _files(study, on), on)
    # With what a machine under Xen, and its driver domain, must have been booted.
    scheduler, driver = None, None
    under = host_of_guests(study, plot)
    if under is not None and under.has_driver_domain:
        scheduler = study.sut.scheduler
        count = study.sut.virtual_cpus_of_driver
        apart = study.sut.pinning == "apart"
        driver = plan.VirtualCpus(count=count, on=tuple(range(count)) if apart else ())
    return plan.Bench(
        name=study.name,
        nodes=tuple(nodes),
        links=tuple(links),
        weights=has_weights(study),
        scheduler=scheduler,
        driver=driver,
        datapath_cpu=of_datapath,
    )


def way(study: Study, plot: WholePlot, on: MachineResources) -> list[plan.Link]:
    """The links of a plot's bench that packets of its workloads take."""
    if not study.needs_network:
        return []
    links = routed_links if study.routed else make_links
    return links(study, host_of_guests(study, plot), on)


def _files(study: Study, on: MachineResources) -> plan.Files | None:
    """Returns the files that commands work on; None if no workload needs files or no directory is given."""
    if not study.needs_files or on.workdir is None:
        return None
    return plan.Files(
        workdir=on.workdir,
        memory=files_memory(study.sut.memory),
        devices=study.sut.devices,
        root=None if on.image is None else on.image.root,
        host_name=on.likeness.host_name,
        limits=on.likeness.limits,
    )
