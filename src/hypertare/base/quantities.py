"""Sizes, rates, durations and shares as settings: written as people do, held as numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from hypertare.base.units import (
    parse_duration,
    parse_of_capacity,
    parse_rate,
    parse_share,
    parse_size,
)


def between(least: float, most: float, words: str) -> AfterValidator:
    """A range, with both of its ends, in words such as `1 s to 1 h`."""

    def check(given: float) -> float:
        if not least <= given <= most:
            raise ValueError(f"it must lie within {words}")
        return given

    return AfterValidator(check)


Size = Annotated[int, BeforeValidator(parse_size)]
Rate = Annotated[float, BeforeValidator(parse_rate)]
Duration = Annotated[float, BeforeValidator(parse_duration)]
Share = Annotated[float, BeforeValidator(parse_share)]
MOST_S = 86_400
"""Seconds that each of the agent's workloads takes."""
Working = Annotated[Duration, between(1e-3, MOST_S, "1 ms to 86400 s (a day)")]
"""How long a workload works."""
Waiting = Annotated[Duration, between(0, MOST_S, "0 to 86400 s (a day)")]
Limit = Annotated[Duration, between(0.1, 2_592_000, "100 ms to 2592000 s (30 days)")]
Memory = Annotated[Size, between(16 << 20, 1 << 46, "16M to 64T")]
"""Bytes of a machine's memory. No kernel starts with less than the lower limit."""
Dscp = Annotated[int, Field(ge=0, le=63)]
"""A mark in the header of an IP packet, the differentiated services code point (RFC 2474)."""


_CPU_RANGE = re.compile(r"\s*([0-9]{1,5})\s*(?:-\s*([0-9]{1,5})\s*)?")
"""One part of a list of CPUs, as the kernel and taskset(1) read it: `3` or `1-3`."""


def parse_cpus(given: object) -> tuple[int, ...]:
    """CPUs by number: `[0, 2]`, or the text `0,2` or `1-3`.

    Raises:
        ValueError: it is neither, or a CPU stands twice in it.
    """
    if isinstance(given, str):
        found = _listed(given)
    elif isinstance(given, list | tuple) and all(_is_cpu(one) for one in given):
        found = tuple(given)
    else:
        raise ValueError(f'\'{given}\' is no list of CPUs; write [0, 2], or "0,2" or "1-3"')
    if len(set(found)) < len(found):
        raise ValueError("a CPU stands twice in the list")
    return found


def _is_cpu(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 100_000


def _listed(text: str) -> tuple[int, ...]:
    cpus: list[int] = []
    for part in text.split(","):
        match = _CPU_RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f'\'{text}\' is no list of CPUs; write for example "0,2" or "1-3"')
        first = int(match[1])
        last = int(match[2] or first)
        if last < first or last - first > 4096:
            raise ValueError(f"'{part.strip()}' is no range of CPUs")
        cpus += range(first, last + 1)
    return tuple(cpus)


Cpus = Annotated[tuple[int, ...], BeforeValidator(parse_cpus)]


def cpus_text(cpus: tuple[int, ...]) -> str:
    """As taskset -c has it: `0,2`."""
    return ",".join(map(str, cpus))


def _as_level(given: object) -> object:
    """Turns a list of CPUs, or of weights, into its text: in cells, tables and commands a level is a single
    value.
    """
    if isinstance(given, list | tuple) and given and all(map(_is_cpu, given)):
        return cpus_text(tuple(given))
    return given


def as_levels(given: Any) -> Any:
    """Levels as a study may have them: `[[0], [0, 1]]` are two lists of CPUs."""
    return tuple(map(_as_level, given)) if isinstance(given, list | tuple) else given


FactorLevels = Annotated[tuple[Any, ...], Field(min_length=1), BeforeValidator(as_levels)]


@dataclass(frozen=True)
class OfCapacity:
    """A rate as a share of what the machine can carry, which the run measures first."""

    share: float


def parse_offered(given: object) -> float | OfCapacity | None:
    """A rate in b/s, or `60 % of capacity`.

    Raises:
        ValueError: it is neither.
    """
    if given is None or isinstance(given, OfCapacity):
        return given
    share = parse_of_capacity(given)
    if share is None:
        try:
            return parse_rate(given)
        except ValueError as error:
            raise ValueError(f"{error}, or '60 % of capacity'") from None
    if not 0 < share <= 100:
        raise ValueError(f"'{given}': a share of the capacity lies above 0 and at most at 10000 %")
    return OfCapacity(share)


OfferedRate = Annotated[float | OfCapacity | None, BeforeValidator(parse_offered)]


LEAST_LINE, MOST_LINE = 1e6, 100e9
"""b/s. Below, a frame takes longer than what waits for it may."""


def parse_line_rate(given: object) -> float | None:
    """A rate in b/s, or `none`.

    Raises:
        ValueError: it is neither, or no rate of a line.
    """
    if given is None or given == "none":
        return None
    try:
        rate = parse_rate(given)
    except ValueError as error:
        raise ValueError(f"{error}, or 'none'") from None
    if not LEAST_LINE <= rate <= MOST_LINE:
        raise ValueError(f"'{given}': the rate of a line lies between 1M and 100G")
    return rate


LineRate = Annotated[float | None, BeforeValidator(parse_line_rate)]
