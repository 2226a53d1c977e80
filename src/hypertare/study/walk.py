"""What a study asks to be modelled of its page walks.

In a study file:

    [walk]
    processors = ["phenom2"]
    shared_cache = ["own", "none"]
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from hypertare.base.quantities import Share
from hypertare.base.settings import Settings
from hypertare.walk.options import Options
from hypertare.walk.processors import DEFAULT, OWN, Description, chosen

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
