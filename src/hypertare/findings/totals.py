"""What a trial would have taken if page walks were not free: its elapsed time and modelled walks. Pure.

In virtual time every instruction takes as long as any other, and translating addresses takes nothing.
A model of the hardware, fed with the same program's accesses, says how many cycles translation takes
(`hypertare walk`). The two are added in one currency: an instruction of virtual time stands for
`cycles_per_instruction` cycles of the modelled processor, so that one of its cycles takes

    2^shift ns / cycles_per_instruction

of virtual time, whatever the real one's frequency is. The cycles of a walk and those of an
instruction are then of the same clock, which is what a ratio of totals needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hypertare.base.variables import ELAPSED, Cell, key
from hypertare.design.trials import FinishedTrial
from hypertare.platforms.registry import find
from hypertare.runs.summary import Estimate, Total
from hypertare.study import Study, StudyFile
from hypertare.study.walk import PROCESSOR, SHARED_CACHE
from hypertare.walk.result import ONE_STAGE, Cost, Pages, Paging, Walked
from hypertare.workloads.responses import TOTAL, WALK_CYCLES, WALK_TIME


@dataclass(frozen=True)
class Layout:
    """How addresses are translated: see `hypertare.walk.result`."""

    paging: Paging
    guest_pages: Pages
    host_pages: Pages | None = None


def layout(platform: str, study: Study, workload: str) -> Layout | None:
    """The layout of a trial on a platform; none where the study leaves it open which one it has.

    The pages of the guest are those of the workload, and 4 KB where it asks for none and the system
    under test gives none by itself; those of the host are what backs the guest. Transparent huge pages
    are as the kernel finds some, and whether it looks depends on its memory (Linux has them off below
    512 MB): no one layout. The model has none for large pages in small ones either.
    """
    own: Pages
    if (asked := study.workloads[workload].asked_pages) in ("4K", "2M"):
        own = asked
    elif asked is None and study.knobs.thp is not None and study.knobs.thp.enabled == "never":
        own = "4K"
    else:
        return None
    if not find(platform).translates_twice:
        return Layout(ONE_STAGE, own)
    paging, backing = study.sut.paging, study.sut.pages
    if paging is None or backing not in ("4K", "2M") or (own, backing) == ("2M", "4K"):
        return None
    return Layout(paging, own, backing)


def cycle_s(study: Study) -> float:
    """Seconds of virtual time that a cycle of the modelled processor takes."""
    assert study.walk is not None
    return (1 << study.emulated.shift) * 1e-9 / study.walk.cycles_per_instruction


def joined(
    file: StudyFile, trials: Iterable[FinishedTrial], walked: Sequence[Walked]
) -> Iterator[FinishedTrial]:
    """Every good trial once for each processor and shared cache, with what the model adds to it.

    They keep block and boot, so that a total is compared with the baseline's of the same block.
    """
    by_cell = {key(one.cell): one.result for one in walked}
    study_of = _Studies(file)
    for trial in trials:
        planned = trial.planned
        result = by_cell.get(key(own_levels(planned.cell)))
        if result is None or not trial.counts or ELAPSED not in trial.values:
            continue
        study = study_of(planned.cell)
        wanted = layout(planned.platform, study, planned.workload)
        for processor in result.processors:
            cost = _cost(processor.layouts, wanted) if wanted else None
            if cost is None:
                continue
            cell = {**planned.cell, PROCESSOR: processor.name, SHARED_CACHE: processor.shared_cache}
            walk_s = cost.cycles * cycle_s(study)
            values = {
                WALK_CYCLES: float(cost.cycles),
                WALK_TIME: walk_s,
                TOTAL: trial.values[ELAPSED] + walk_s,
            }
            yield replace(trial, planned=replace(planned, cell=cell), values=values)


def totals(
    file: StudyFile, estimates: Iterable[Estimate], walked: Sequence[Walked]
) -> Iterator[Total]:
    """The totals with their parts, from the estimates of a run."""
    known = list(estimates)
    parts = {(one.response, one.platform, key(one.cell)): one for one in known}
    by_cell = {key(one.cell): one.result for one in walked}
    study_of = _Studies(file)
    for one in known:
        if one.response != TOTAL:
            continue
        plain = {factor: v for factor, v in one.cell.items() if factor not in _MODELLED}
        result = by_cell[key(own_levels(plain))]
        wanted = layout(one.platform, study_of(plain), str(one.cell["workload"]))
        (layouts,) = (
            processor.layouts
            for processor in result.processors
            if (processor.name, processor.shared_cache)
            == (one.cell[PROCESSOR], one.cell[SHARED_CACHE])
        )
        cost = _cost(layouts, wanted) if wanted else None
        assert cost is not None
        counts = cost.counts
        yield Total(
            platform=one.platform,
            cell=one.cell,
            unit=one.unit,
            elapsed=parts[ELAPSED, one.platform, key(plain)].estimate,
            walk_time=parts[WALK_TIME, one.platform, key(one.cell)].estimate,
            total=one.estimate,
            ratio=None if one.cost is None else 1 + one.cost,
            ratio_low=None if one.cost_low is None else 1 + one.cost_low,
            ratio_high=None if one.cost_high is None else 1 + one.cost_high,
            paging=counts.paging,
            guest_pages=counts.guest_pages,
            host_pages=counts.host_pages,
            walks=counts.walks,
            references=counts.references,
            uncached_references=counts.uncached_references,
            walk_cycles=cost.cycles,
            threads=result.threads,
        )


_MODELLED = frozenset({PROCESSOR, SHARED_CACHE})


def own_levels(cell: Mapping[str, object]) -> Cell:
    """Returns the part of a cell that decides which work is done: the workload and its own settings."""
    own = f"workloads.{cell['workload']}."
    return {
        factor: level  # type: ignore[misc]
        for factor, level in cell.items()
        if factor == "workload" or factor.startswith(own)
    }


def _cost(layouts: Iterable[Cost], wanted: Layout) -> Cost | None:
    """None where the processor cannot: one without nested page tables."""
    for cost in layouts:
        counts = cost.counts
        if Layout(counts.paging, counts.guest_pages, counts.host_pages) == wanted:
            return cost
    return None


class _Studies:
    """The study of a cell; validating it takes longer than anything here."""

    def __init__(self, file: StudyFile) -> None:
        self._file = file
        self._known: dict[frozenset[tuple[str, str, object]], Study] = {}

    def __call__(self, cell: Cell) -> Study:
        levels = {factor: level for factor, level in cell.items() if factor != "workload"}
        name = key(levels)
        if name not in self._known:
            self._known[name] = self._file.cell(levels)
        return self._known[name]
