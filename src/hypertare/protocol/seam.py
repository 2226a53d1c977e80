"""What all types of the protocol have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Seam(BaseModel):
    """Base of everything that crosses the seam: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, allow_inf_nan=False)
