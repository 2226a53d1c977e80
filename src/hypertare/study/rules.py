"""Rules for settings of a study that do not go together.

Each rule raises `ValueError` with a sentence on the problem and the remedy. It stands beside the settings
of the table that it is about, or here where it is about several. Rules are checked in the order of `RULES`,
and the first broken one is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hypertare.analyses.registry import KINDS as ANALYSES
from hypertare.base.variables import Response
from hypertare.platforms.registry import BASELINE
from hypertare.study import bench, emulated, sut
from hypertare.study.analyses import GOAL, LEAST_FACTORS, LOSS_FREE_RATE, EffectsSettings
from hypertare.study.factors import (
    can_be_carried_out,
    factors_of_a_workload_are_its_own,
    levels_are_single_values,
    measured_guest_is_there,
)
from hypertare.study.machines import given_machines_fit, remote_machines_fit
from hypertare.study.walk import walks_can_be_joined
from hypertare.workloads.responses import of_workload
from hypertare.workloads.workload import NodeFacts

if TYPE_CHECKING:
    from hypertare.study.claims import Claim
    from hypertare.study.study import Study


def _cpus_of_peers(study: Study) -> int:
    """What peers may use of an emulated machine: its guests, and what moves their packets, may have CPUs of
    their own. Where there are not enough of them the guests' rule says so.
    """
    if not study.sut.datapath_apart and "sidecore" not in study.levels("sut.datapath"):
        return study.sut.cpus
    return max(study.sut.cpus - study.sut.virtual_cpus(has_driver=False) - 1, 1)


def _cpus_under_test(study: Study) -> int:
    """Returns the CPUs of the node under test that has the fewest."""
    guests = [one for one in study.platforms if one.has_own_kernel]
    given = (study.sut.virtual_cpus(has_driver=one.pc.has_driver_domain) for one in guests)
    return min((study.sut.cpus, *given))


def interrupts_fit_the_cpus(study: Study) -> None:
    """CPUs that take interrupts are there."""
    cpus, most = study.knobs.interrupt_cpus or (), _cpus_under_test(study)
    if max(cpus, default=0) >= most:
        raise ValueError(
            f"knobs.interrupt_cpus names CPU {max(cpus)}, and there are {most}, counted from 0: name "
            "others, or raise sut.cpus"
        )


def workloads_fit_the_nodes(study: Study) -> None:
    """Every workload fits the nodes of its bench."""
    guests = [one for one in study.platforms if one.has_own_kernel]
    sandboxed = study.machine_kind.is_sandboxed
    # Programs are in the image of a guest, not of its host.
    hosts_guests = any(one.pc.has_guests for one in study.platforms)
    has_programs = not (study.machine_kind.boots_whole_pcs and hosts_guests)
    if study.sut.disk_directory is not None and not study.machine_kind.is_this_host:
        raise ValueError(
            f"sut.disk_directory is a directory of this host, and the machine '{study.machine}' sees none "
            "of those: leave it out, or take machine = 'local'"
        )
    has_devices = study.machine_kind.boots_whole_pcs and not study.shares_files
    if study.sut.disk_latency and not has_devices:
        raise ValueError(
            f"sut.disk_latency is {study.sut.disk_latency:g} s, which a block device of machine = "
            "'emulated' takes, without sut.files; elsewhere a disk is a file: leave it out"
        )
    can = (one.has_disk and (has_devices or one.has_disk_of_file) for one in study.platforms)
    several = study.bench_guests > 1
    facts = NodeFacts(
        routed=study.bench.topology == "routers",
        cpus=_cpus_under_test(study),
        mtu=study.knobs.mtu or study.bench.mtu,
        sandboxed=sandboxed,
        shares_memory=bool(guests) and all(one.shares_memory for one in guests),
        peers_have_programs=has_programs,
        has_disks=all(can) and study.sut.image is None,
        several_on_a_disk=several and any(one.is_host for one in study.platforms),
        all_made=all(one.is_made for one in study.platforms) and study.sut.image is None,
        under_hypervisor=study.under_hypervisor,
        several=several,
        cuts_power=study.machine_kind.boots_whole_pcs,
        # Peers work on the machine below guests, and on all of this host.
        peer_cpus=None if sandboxed else _cpus_of_peers(study),
    )
    for name, workload in study.workloads.items():
        misfit = workload.misfit(facts)
        if misfit is not None:
            raise ValueError(f"workloads.{name}: {misfit}")


def responses_of_a_name_are_alike(study: Study) -> None:
    """What two workloads print under one name is one column, of one unit."""
    known: dict[str, Response] = {}
    for name, workload in study.workloads.items():
        for one in workload.responses:
            other = known.setdefault(one.name, one)
            if (one.unit, one.better) != (other.unit, other.better):
                raise ValueError(
                    f"workloads.{name}.value: '{one.name}' is another workload's response, with another "
                    "unit or direction: give it another name (value.name)"
                )


def plots_show_what_is_there(study: Study) -> None:
    """Axes are responses and factors of their workload."""
    responses, factors = _responses(study), _factors(study)
    for plot in study.plots:
        problem = plot.problem(responses, factors)
        if problem is not None:
            raise ValueError(f"plots: '{plot.title}': {problem}")


def unknown(study: Study) -> dict[tuple[str, str], str]:
    """Returns the problems of claims and plots that name something which the study lacks.

    The keys are the table and the claim's text or the plot's title. This is no rule, because `--quick` may
    leave levels out.
    """
    factors = _factors(study)
    problems = {
        **{("claims", claim.text): _unknown(claim, study) for claim in study.claims},
        **{("plots", plot.title): plot.unknown(factors) for plot in study.plots},
    }
    return {where: problem for where, problem in problems.items() if problem is not None}


def _unknown(claim: Claim, study: Study) -> str | None:
    responses, factors = _responses(study), _factors(study)
    if study.search is not None and claim.response == LOSS_FREE_RATE:
        name = study.search.workload
        over = {path: study.all_factors.get(path, ()) for path in study.search.over}
        responses = {name: [LOSS_FREE_RATE]}
        factors = {name: {**over, GOAL: study.search.loss}}
    problem = claim.problem(responses, factors, study.sut.platforms, study.bench_guests)
    if problem is None and claim.factor is not None:
        return _no_share(claim, study)
    return problem


def _no_share(claim: Claim, study: Study) -> str | None:
    """Why the report's effects will not give a factor's share."""
    settings = study.effects or EffectsSettings()
    covered = [
        name
        for name, known in _responses(study).items()
        if claim.workload in (None, name)
        and name in (settings.workloads or (name,))
        and claim.response in known
        and claim.response in (settings.responses or (study.workloads[name].headline,))
    ]
    if not covered:
        return f"[effects] does not cover {claim.response}: name it in effects.responses"
    for key, wanted in (("platforms", claim.platform), ("factors", claim.factor)):
        given = getattr(settings, key)
        if given and wanted not in given:
            return f"[effects] does not cover {wanted}: name it in effects.{key}"
    if settings.of == "efficiency" and claim.platform == BASELINE:
        return f"[effects] gives efficiencies against {BASELINE}, which has none itself"
    factors = _factors(study)
    varied = [[path for path, of in factors[name].items() if len(of) > 1] for name in covered]
    if any(claim.factor in paths and len(paths) >= LEAST_FACTORS for paths in varied):
        return None
    known = ", ".join(dict.fromkeys(path for paths in varied for path in paths)) or "none"
    return (
        f"'{claim.factor}' is none of {LEAST_FACTORS} or more factors with two levels each; those "
        f"with two: {known}"
    )


def no_effects(study: Study) -> str | None:
    """Why what `[effects]` asks for cannot be had. No rule: overrides may leave one level of a factor."""
    if study.effects is None:
        return None
    asked = _responses(study), _factors(study), study.sut.platforms, BASELINE
    return study.effects.problem(*asked)


def no_analysis(name: str, study: Study) -> str | None:
    """Why what the table of an analysis asks for cannot be had. No rule, as `no_effects`."""
    settings = getattr(study, name)
    return None if settings is None else ANALYSES[name].problem(settings, study.workloads)


def no_bill(study: Study) -> str | None:
    """Why what `[bill]` asks for cannot be had. No rule: a tuning has no factors."""
    asked = _responses(study), _factors(study), _why_no_instructions(study)
    return next((said for bill in study.bill if (said := bill.problem(*asked))), None)


def _why_no_instructions(study: Study) -> str | None:
    """Why a time is no number of instructions."""
    if study.clock != "virtual":
        return f"the clock is {study.clock}'s"
    if study.emulated.walks_take_time:
        return f"with emulated.walks = '{study.emulated.walks}' page walks take some of it"
    varied = {path for path in study.factors if path.startswith("emulated.")}
    return f"{varied.pop()} is a factor" if varied else None


def _responses(study: Study) -> dict[str, list[str]]:
    """Returns the names of responses, by workload."""
    walked = study.walked
    return {
        name: [one.name for one in of_workload(workload, walked=name in walked)]
        for name, workload in study.workloads.items()
    }


def _factors(study: Study) -> dict[str, dict[str, Any]]:
    """Returns, by workload, the factors of its cells with their levels."""
    shared = {path: v for path, v in study.factors.items() if not path.startswith("workloads.")}
    modelled = study.walk.factors if study.walk else {}
    return {
        name: {**shared, **study.factors_of(name), **(modelled if name in study.walked else {})}
        for name in study.workloads
    }


RULES: tuple[Callable[[Study], None], ...] = (
    can_be_carried_out,
    emulated.fits_the_machine,
    bench.line_can_be_had,
    bench.rings_are_of_a_line,
    bench.frames_fit_the_line,
    bench.frames_fit_the_nics,
    bench.segments_fit_the_frames,
    remote_machines_fit,
    given_machines_fit,
    sut.programs_are_of_an_image,
    sut.devices_are_of_this_host,
    sut.images_can_be_run,
    sut.network_of_host_can_be_had,
    emulated.walks_can_take_time,
    walks_can_be_joined,
    bench.routing_can_be_had,
    sut.cpus_are_shared_out,
    sut.counter_is_read_by_guests,
    workloads_fit_the_nodes,
    interrupts_fit_the_cpus,
    bench.peers_and_driver_can_be_had,
    sut.guests_fit,
    measured_guest_is_there,
    bench.classes_are_of_a_driver_domain,
    bench.driver_domain_is_a_bridge,
    sut.settings_fit_the_guests,
    factors_of_a_workload_are_its_own,
    sut.disks_in_memory_fit,
    levels_are_single_values,
    responses_of_a_name_are_alike,
    plots_show_what_is_there,
)
