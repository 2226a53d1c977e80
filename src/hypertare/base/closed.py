"""What all models have in common, of studies, plans, runs and summaries."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.plugin import _loader

# Else pydantic asks every package that is installed whether it has a plugin for it, in each start.
_loader._plugins = {}


class Closed(BaseModel):
    """Unknown fields are refused, and none changes. What is not used is not built."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
