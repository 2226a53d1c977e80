"""What the parts of a summary and of a run's description have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Base of the summary's parts: closed, unchangeable."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
