"""What the parts of a summary and of a run's description have in common."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from hypertare.base.closed import Closed


class Part(Closed):
    """Base of the summary's parts: closed, unchangeable."""


def means(text: str) -> Any:
    """What a field of a part is: its description in the schema."""
    return Field(description=text)
