"""What all types of the protocol have in common."""

from __future__ import annotations

from pydantic import ConfigDict

from hypertare.base.closed import Closed


class WireType(Closed):
    """Base of everything that crosses the protocol: unknown fields are refused."""

    model_config = ConfigDict(allow_inf_nan=False)
