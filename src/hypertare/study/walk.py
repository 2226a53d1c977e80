"""What a study asks to be modelled of its page walks.

In a study file:

    [walk]
    processors = ["phenom2"]
    shared_cache = ["own", "none"]
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from hypertare.base.closed import Settings
from hypertare.base.quantities import Share
from hypertare.walk.processors import DEFAULT, OWN, Description, Options, chosen

if TYPE_CHECKING:
    from hypertare.study.study import Study

PROCESSOR = "walk.processor"
SHARED_CACHE = "walk.shared_cache"
"""Factors of modelled responses: what one and the same trial would have cost on each of them."""


class WalkSettings(Settings):
    """Each workload is run once more under the model, for all processors and caches at a time."""

    processors: Annotated[tuple[str, ...], Field(min_length=1)] = (DEFAULT,)
    """A list of processors, by name (`hypertare walk --list-processors`) or by TOML files beside the
    study.
    """
    shared_cache: Annotated[tuple[str, ...], Field(min_length=1)] = (OWN,)
    """A list of sizes of the shared cache: `"own"`, as described; `"none"`; or a size, with the same sets
    and time, and more or fewer ways.
    """
    workloads: tuple[str, ...] = ()
    """The workloads that are modelled. Default: all that have an elapsed time."""
    cycles_per_instruction: Annotated[float, Field(gt=0, lt=1000)] = 1.0
    """The processor's cycles for an instruction of virtual time, if translation cost nothing."""
    cache_share: Annotated[Share, Field(gt=0, le=1)] = 0.25
    """The share of every cache that page tables may hold."""

    @model_validator(mode="after")
    def _each_once(self) -> WalkSettings:
        for name, given in (("processors", self.processors), ("shared_cache", self.shared_cache)):
            if len(set(given)) < len(given):
                raise ValueError(f"something stands twice in '{name}'")
        return self

    @property
    def options(self) -> Options:
        return Options(self.cycles_per_instruction, self.cache_share)

    @property
    def factors(self) -> dict[str, tuple[str, ...]]:
        return {PROCESSOR: self.processors, SHARED_CACHE: self.shared_cache}

    def descriptions(self, folder: Path) -> list[Description]:
        """Every processor with every shared cache; files are looked for from `folder`.

        Raises:
            InputError: there is no such processor, or it cannot have such a cache.
        """
        pairs = product(chosen(list(self.processors), folder), self.shared_cache)
        return [description.with_shared_cache(cache) for description, cache in pairs]


# --- rules


def walks_can_be_joined(study: Study) -> None:
    """Modelled walks are added to elapsed virtual time."""
    if study.walk is None:
        return
    if not study.clock_kind.counts_instructions:
        raise ValueError(
            "[walk] is for virtual time: by the wall clock a processor's page walks are in the "
            "elapsed time already"
        )
    for name in study.walk.workloads:
        if name not in study.workloads:
            known = ", ".join(study.workloads)
            raise ValueError(f"walk.workloads: there is no workload '{name}'; there are: {known}")
        if not study.workloads[name].kind.has_elapsed:
            raise ValueError(f"walk.workloads: '{name}' has no elapsed time to add walks to")
    if not study.walked:
        raise ValueError("[walk]: no workload has an elapsed time to add walks to")
    for name in study.walked:
        if study.workloads[name].needs_network:
            raise ValueError(
                f"[walk]: '{name}' speaks with a peer, and where walks are modelled there is none: name "
                "other workloads in walk.workloads"
            )
    if any(platform.translates_twice for platform in study.platforms):
        for path, given in (("paging", study.sut.paging), ("pages", study.sut.pages)):
            if given is None and f"sut.{path}" not in study.factors:
                raise ValueError(f"[walk] needs to know sut.{path} of the guest: set it")
    free = [one for one in study.walked if study.workloads[one].asked_pages is None]
    if free and study.knobs.thp is None and "knobs.thp" not in study.all_factors:
        raise ValueError(
            f"[walk] needs to know the pages of '{free[0]}': whether a kernel gives huge ones by itself "
            'depends on its memory, so guests may differ from native. Set knobs.thp = "never"'
        )
