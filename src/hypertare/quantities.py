"""Sizes, rates, durations and shares as settings: written as people do, held as numbers."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from hypertare.units import parse_duration, parse_rate, parse_share, parse_size

Size = Annotated[int, BeforeValidator(parse_size)]
Rate = Annotated[float, BeforeValidator(parse_rate)]
Duration = Annotated[float, BeforeValidator(parse_duration)]
Share = Annotated[float, BeforeValidator(parse_share)]
