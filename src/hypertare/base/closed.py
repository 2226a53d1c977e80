"""What all models have in common, of studies, plans, runs and summaries."""

from __future__ import annotations

from contextlib import suppress

from pydantic import BaseModel, ConfigDict

# Else pydantic asks every package that is installed whether it has a plugin for it, in each start. Where
# it looks for them is its own affair: if it is elsewhere, a start takes 10 ms longer.
with suppress(ImportError):
    from pydantic.plugin import _loader

    _loader._plugins = {}


class Closed(BaseModel):
    """Unknown fields are refused, and none changes. What is not used is not built."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
