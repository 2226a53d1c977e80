"""What all types of the protocol have in common."""

from __future__ import annotations

from pydantic import ConfigDict

from hypertare.base.closed import Closed


class Seam(Closed):
    """Base of everything that crosses the seam: unknown fields are refused."""

    model_config = ConfigDict(allow_inf_nan=False)
