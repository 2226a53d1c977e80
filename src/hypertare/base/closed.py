"""The base classes of all pydantic models: of studies, plans, runs and summaries."""

from __future__ import annotations

from contextlib import suppress

from pydantic import BaseModel, ConfigDict

# Without this, pydantic searches all installed packages for plugins at each start. The name is private to
# pydantic: if it moves to another module, a start takes 10 ms longer.
with suppress(ImportError):
    from pydantic.plugin import _loader

    _loader._plugins = {}


class Closed(BaseModel):
    """A model that refuses unknown fields and never changes. Its validator is built at its first use."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Settings(Closed):
    """A table of a study file, or a table within one."""
