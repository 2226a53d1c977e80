"""Why a mean decides nothing, and how other programs of its machine disturbed a run. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from hypertare.base.figures import listing, place
from hypertare.base.variables import Level
from hypertare.design.trials import FinishedTrial
from hypertare.probes.conditions import Seen
from hypertare.runs.store import OtherProgram
from hypertare.runs.summary import Disturbance
from hypertare.workloads.sending import OFFERED
from hypertare.workloads.stream_rates import RESPONSES as OF_STREAMS

if TYPE_CHECKING:
    from hypertare.findings.series import Series


LEAST_OVERLAP = 0.5
"""Least share of the longest stream's time in which all streams must run. Below it, a goodput of several
guests decides nothing.
"""

LEAST_OFFERED = 0.95
"""Least share of the requested rate that peers must send; the same as `stats.line_rate.FOLLOWS`."""

_OF_GOODPUT = frozenset({"goodput", "line_share", *(one.name for one in OF_STREAMS)} - {"overlap"})


def doubt(response: str, trials: Sequence[FinishedTrial]) -> str | None:
    """Why a mean of these trials decides nothing, whatever its interval says; none where it may."""
    little = [trial for trial in trials if trial.values.get("overlap", 1.0) < LEAST_OVERLAP]
    if response not in _OF_GOODPUT or not little:
        return None
    return (
        f"in {len(little)} of {len(trials)} trials its streams ran all at once for less than "
        f"{100 * LEAST_OVERLAP:.0f} % of the longest one's time"
    )


def not_offered(share: float) -> str | None:
    """Returns the doubt about a rate of which the peers sent only a share; None if that is near enough.

    The doubt concerns the figures of that rate: its goodput and loss are those of a lower rate. A
    comparison of two settings at the same rate is not in doubt, for a busy receiver may slow a sender on
    the same CPUs.
    """
    if share >= LEAST_OFFERED:
        return None
    sent = f"{100 * share:.0f} %"
    return f"its peer sent {sent} of the rate that it was asked for, so no receiver had this rate"


def offered_share(trials: Sequence[FinishedTrial]) -> float:
    """Returns the mean share of the requested rate that the peers sent; 1 if it was not measured."""
    return fmean([trial.values.get(OFFERED.name, 1.0) for trial in trials] or [1.0])


def rate_of(cell: Mapping[str, Level]) -> str:
    """The path of the rate that is offered in a cell."""
    return f"workloads.{cell.get('workload')}.rate"


def of_rates(every: Sequence[Series]) -> Iterator[str]:
    """A warning that names the settings whose rate was not offered."""
    short = [(one, share) for one in every if (share := offered_share(one.good)) < LEAST_OFFERED]
    if short:
        named = (f"{place(one.platform, one.cell)}, {100 * share:.0f} %" for one, share in short)
        yield (
            f"A peer sent less than the rate that it was asked for, in {len(short)} of {len(every)} "
            f"settings ({listing(named, 3)} of it): figures there are of the rate that was sent "
            "(offered_share), and say nothing of a receiver at more."
        )


What = Literal["program", "hypervisor", "unseen"]

LEAST_CPUS = 0.1
"""Least share of one CPU that counts as a disturbance. An idle desktop takes less."""

LEAST_BLOCKS = 0.1
"""Least share of all blocks that a disturbance is reported for: fewer hardly move the mean."""

_MOST_PROGRAMS = 3

_SURE_S = 0.03
"""Least seconds of CPU time within a block that stand out from rounding: three of the kernel's ticks."""

UNEVEN_CPUS = 0.25
"""Difference in other programs' CPU use, in CPUs, from which on two sides were not weighed alike. Trials
are paired within blocks because the conditions are meant to be the same for the whole block.
"""

_UNEVEN_S = 1.0
"""Least seconds that each side must have been watched: over less time the kernel's ticks decide."""

_WAITED = 0.1
"""Share of the time in which some task waited for a CPU; with CPUs left for all, others take nothing."""


def disturbances(
    trials: Iterable[FinishedTrial],
    seen: Mapping[int, Seen],
    programs: Sequence[OtherProgram],
) -> tuple[Disturbance, ...]:
    """What took CPU time from a run in a tenth of its blocks or more, the greatest first.

    Args:
        trials: of the run.
        seen: by trial, where the machine was watched.
        programs: by block, the busiest other ones.
    """
    counted = [trial for trial in trials if trial.counts and trial.planned.id in seen]
    blocks: dict[int, list[FinishedTrial]] = defaultdict(list)
    for trial in counted:
        blocks[trial.planned.block].append(trial)
    named = list(_programs(blocks.keys(), programs))
    stolen = {t.planned.id: t.values.get("machine_steal", 0.0) for t in counted}
    others = {t.planned.id: seen[t.planned.id].others_s for t in counted}
    by_kind = [*named, *_taken("hypervisor", blocks, stolen, seen)]
    if not named:
        by_kind += _taken("unseen", blocks, others, seen)
    return tuple(sorted(by_kind, key=lambda one: one.cpus * one.blocks, reverse=True))


def _programs(blocks: Iterable[int], programs: Sequence[OtherProgram]) -> Iterator[Disturbance]:
    of = len(known := set(blocks))
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for one in programs:
        if one.block in known and one.cpus >= LEAST_CPUS:
            found[one.name][one.block] = one.cpus
    made = [_disturbance("program", name, cpus.values(), of) for name, cpus in found.items()]
    often = [one for one in made if _is_often(one)]
    often.sort(key=lambda one: one.cpus * one.blocks, reverse=True)
    yield from often[:_MOST_PROGRAMS]


def _taken(
    what: What,
    blocks: Mapping[int, Sequence[FinishedTrial]],
    taken: Mapping[int, float],
    seen: Mapping[int, Seen],
) -> Iterator[Disturbance]:
    """Yields a disturbance if CPU time was taken in enough blocks.

    Only blocks count in which the time stands out from the rounding of ticks.
    """
    cpus = []
    for trials in blocks.values():
        sum_s = sum(taken[trial.planned.id] for trial in trials)
        share = sum_s / sum(seen[trial.planned.id].watched_s for trial in trials)
        if sum_s >= _SURE_S and share >= LEAST_CPUS:
            cpus.append(share)
    made = _disturbance(what, None, cpus, len(blocks)) if cpus else None
    if made is not None and _is_often(made):
        yield made


def _disturbance(what: What, name: str | None, cpus: Iterable[float], of: int) -> Disturbance:
    each = list(cpus)
    return Disturbance(what=what, program=name, cpus=sum(each) / len(each), blocks=len(each), of=of)


def _is_often(one: Disturbance) -> bool:
    return one.blocks >= LEAST_BLOCKS * one.of


def warning(one: Disturbance) -> str:
    """What happened, and what to do about it."""
    words = _words(one)
    advice = {
        "program": "It may have moved figures: stop it or wait for its end, and weigh again.",
        "hypervisor": "Use a machine with CPUs of its own; more trials help meanwhile.",
        "unseen": "See it with `top` on the machine itself, stop it, and weigh again.",
    }[one.what]
    return f"{words[:1].upper()}{words[1:]}. {advice}"


def disturbed(several: Sequence[Disturbance]) -> str:
    """For example: another program, qemu, took 76 % of a CPU in 8 of 20 blocks; so did cc1, 30 % in 5"""
    first, *others = several
    unnamed = {"hypervisor": "a hypervisor below", "unseen": "unseen work"}
    more = [f"{one.program or unnamed[one.what]}, {_much(one)} in {one.blocks}" for one in others]
    return "; so did ".join((_words(first), " and ".join(more))) if more else _words(first)


_OURS = "hypertare"
"""The name of processes of another run; processes of this run are not among the other programs."""


def _words(one: Disturbance) -> str:
    program = f"another program, {one.program}, took"
    if one.program is not None and one.program.startswith(_OURS):
        program = "another run of hypertare took"
    who = {
        "program": program,
        "hypervisor": "a hypervisor below this machine took",
        "unseen": "work that cannot be seen from here took",
    }[one.what]
    blocks = f"{one.blocks} of {one.of} blocks"
    if one.blocks == one.of:
        blocks = f"all {one.of} blocks" if one.of > 1 else "the one block"
    return f"{who} {_much(one)} in {blocks}"


def _much(one: Disturbance) -> str:
    return f"{100 * one.cpus:.0f} % of a CPU" if one.cpus < 1.5 else f"{one.cpus:.1f} CPUs"


def uneven(
    mine: Sequence[FinishedTrial], its: Sequence[FinishedTrial], seen: Mapping[int, Seen]
) -> str | None:
    """Why a comparison of these trials decides nothing: others were busier beside one side, and there
    were not CPUs enough for all. None where it may.
    """
    sides = [
        _total([seen[t.planned.id] for t in side if t.planned.id in seen]) for side in (mine, its)
    ]
    if any(side.watched_s < _UNEVEN_S for side in sides):
        return None
    cpus = [side.others_s / side.watched_s for side in sides]
    busier = sides[0] if cpus[0] > cpus[1] else sides[1]
    waited = busier.waited_s is None or busier.waited_s >= _WAITED * busier.watched_s
    if abs(cpus[0] - cpus[1]) < UNEVEN_CPUS or not waited:
        return None
    return (
        f"other programs had {cpus[0]:.2g} CPUs while it ran and {cpus[1]:.2g} while the baseline did, "
        "so the two were not weighed alike"
    )


def _total(seen: Sequence[Seen]) -> Seen:
    waited = [one.waited_s for one in seen if one.waited_s is not None]
    return Seen(
        sum(one.watched_s for one in seen),
        sum(one.others_s for one in seen),
        sum(waited) if len(waited) == len(seen) else None,
    )
