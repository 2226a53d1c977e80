"""The counts of the model of page walks, and the costs that follow from them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import computed_field

from hypertare.base.closed import Closed
from hypertare.base.variables import Cell

Pages = Literal["4K", "2M"]
Paging = Literal["native", "shadow", "nested"]

ONE_STAGE: Paging = "native"
"""Addresses go through one set of page tables."""


class Counts(Closed):
    """The counts of one layout on one processor, as the plugin writes them."""

    paging: Paging
    guest_pages: Pages
    host_pages: Pages | None
    uncached_references: int
    first_tlb_misses: int
    second_tlb_hits: int
    second_tlb_cycles: int
    walks: int
    references: int
    memory_references: int
    walk_cache_hits: int
    nested_tlb_hits: int
    cycles: int

    def plus(self, other: Counts) -> Counts:
        """The counts of both."""
        summed = set(type(self).model_fields) - _SAME
        return self.model_copy(
            update={name: getattr(self, name) + getattr(other, name) for name in summed}
        )


_SAME = {"paging", "guest_pages", "host_pages", "uncached_references"}


class ProcessorCounts(Closed):
    processor: str
    layouts: list[Counts]


class Answer(Closed):
    """What one program did under QEMU; `ended` is false if its end was not seen."""

    program: str
    ended: bool
    threads: int
    marked: bool
    """Whether the program marked parts of itself, and all counts are of these alone."""
    instructions: int
    accesses: int
    processors: list[ProcessorCounts]


class Cost(Closed):
    """One layout on one processor: the counts and what follows of them."""

    counts: Counts
    accesses: int
    base_cycles: float
    """Cycles of the program if translation cost nothing: instructions x cycles per instruction."""

    @computed_field  # type: ignore[prop-decorator]  # mypy refuses what pydantic asks for
    @property
    def references_per_walk(self) -> float | None:
        return self.counts.references / self.counts.walks if self.counts.walks else None

    @computed_field  # type: ignore[prop-decorator]  # mypy refuses what pydantic asks for
    @property
    def cycles_per_access(self) -> float:
        return self.cycles / self.accesses if self.accesses else 0.0

    @computed_field  # type: ignore[prop-decorator]  # mypy refuses what pydantic asks for
    @property
    def slow_down(self) -> float:
        """Elapsed time relative to the same program with free translation: 1 is none. Cycles of walks
        are taken to delay the program by their full length."""
        return 1 + self.cycles / self.base_cycles if self.base_cycles else 1.0

    @property
    def cycles(self) -> int:
        """Cycles of address translation: look-ups in the second-level TLB, and walks."""
        return self.counts.second_tlb_cycles + self.counts.cycles


class ProcessorCosts(Closed):
    name: str
    title: str
    shared_cache: str = "own"
    """`own`: as the description has it; `none`, or a size."""
    assumed: list[str]
    layouts: list[Cost]


class WalkSummary(Closed):
    """What `hypertare walk --json` writes."""

    command: list[str]
    status: int
    elapsed_s: float
    cycles_per_instruction: float
    cache_share: float
    programs: int
    lost: list[str]
    """Programs not seen to their end, because they were killed or executed what cannot be followed:
    what they accessed is in no figure."""
    threads: int = 1
    """The most of one program. Programs of one thread give the same counts in every run; threads take
    turns as this host lets them."""
    marked: int = 0
    """Programs that marked parts of themselves: of each, counts are of these alone."""
    instructions: int
    accesses: int
    processors: list[ProcessorCosts]


def summed(answers: Sequence[Answer]) -> dict[str, list[Counts]]:
    """The counts of all programs by processor, in the order of the first."""
    sums: dict[str, list[Counts]] = {}
    for counted in (part for answer in answers for part in answer.processors):
        if counted.processor in sums:
            pairs = zip(sums[counted.processor], counted.layouts, strict=True)
            sums[counted.processor] = [held.plus(other) for held, other in pairs]
        else:
            sums[counted.processor] = counted.layouts
    return sums


@dataclass(frozen=True)
class Walked:
    """What the model said of a workload with these levels of its own factors (`workload` is one)."""

    cell: Cell
    result: WalkSummary
