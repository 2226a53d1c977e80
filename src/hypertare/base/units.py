"""Sizes, rates, durations and shares as people write them.

Sizes are bytes with binary multiples (`512M` = 512 x 1024^2). Rates are bits per second with
decimal multiples (`100M` = 10^8 b/s), as the field writes them. Durations are seconds (`500ms`,
`2s`, `5m`). Shares are fractions (`2%` = 0.02).
"""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(r"^\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z%/]*)\s*$")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SECONDS = {
    "": 1.0,
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "m": 60.0,
    "h": 3600.0,
}


def _split(text: object, what: str, example: str) -> tuple[float, str]:
    if isinstance(text, int | float):
        if isinstance(text, bool) or not (math.isfinite(text) and text >= 0):
            raise ValueError(f"{text} is not a {what}; write for example {example}")
        return float(text), ""
    match = _NUMBER.match(str(text))
    if match is None:
        raise ValueError(f"'{text}' is not a {what}; write for example {example}")
    return float(match[1]), match[2].lower()


def parse_size(text: object) -> int:
    """Bytes from `4096`, `64K`, `512M`, `1.5G`, `512MiB`."""
    number, suffix = _split(text, "size", "512M")
    power = _POWERS.get(suffix.removesuffix("ib").removesuffix("b"))
    if power is None:
        raise ValueError(f"'{text}' is not a size; write for example 64K, 512M or 2G")
    return round(number * 1024.0**power)


def parse_rate(text: object) -> float:
    """Bits per second from `1000000`, `100M`, `2.5G`, `10Mb/s`."""
    number, suffix = _split(text, "rate", "100M")
    power = _POWERS.get(suffix.removesuffix("b/s").removesuffix("bps").removesuffix("bit/s"))
    if power is None:
        raise ValueError(f"'{text}' is not a rate; write for example 500K, 100M or 2.5G")
    return number * 1000.0**power


def parse_duration(text: object) -> float:
    """Seconds from `2`, `500ms`, `2s`, `5m`, `1h`."""
    number, suffix = _split(text, "duration", "2s")
    if suffix not in _SECONDS:
        raise ValueError(f"'{text}' is not a duration; write for example 500ms, 2s or 5m")
    return number * _SECONDS[suffix]


def parse_share(text: object) -> float:
    """A fraction from `0.02` or `2%`."""
    number, suffix = _split(text, "share", "2%")
    if suffix not in ("", "%"):
        raise ValueError(f"'{text}' is not a share; write for example 2% or 0.02")
    if not suffix and number > 1:
        raise ValueError(f"{number:g} is no share; {number:g} percent are written {number:g}%")
    return number / 100 if suffix == "%" else number


_OF_CAPACITY = re.compile(r"^\s*([0-9]*\.?[0-9]+)\s*%\s*of\s+capacity\s*$", re.IGNORECASE)


def parse_of_capacity(text: object) -> float | None:
    """The share in `60 % of capacity`; none where the text is something else."""
    match = _OF_CAPACITY.match(text) if isinstance(text, str) else None
    return float(match[1]) / 100 if match else None


def human_duration(seconds: float) -> str:
    """`42 s`, `3 min 5 s`, `1 h 2 min`, `12 days`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, rest = divmod(whole, 3600)
    if hours >= 72:
        return f"{round(hours / 24):,} days"
    return f"{hours} h {rest // 60} min"


def human_size(size: float) -> str:
    """Bytes for people: `512 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
