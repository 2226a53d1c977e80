"""Colours: a platform has its own wherever it is drawn, and what is no platform has none of those.

Legible on white and on near-black, and apart for the colour-blind (after Okabe and Ito, 2008).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hypertare.platforms.registry import KINDS

_PLATFORMS = dict(
    zip(KINDS, ("#3f8fd2", "#1f9e89", "#e07b39", "#9467c7", "#c561a6", "#b8860b"), strict=True)
)
_SHADES = (0.0, 0.35, -0.3, 0.6)
"""Shades of a platform's variants: towards white if positive, towards black if negative."""

LEVELS = ("#7d7ce0", "#a98f1e", "#d1495b", "#6b8e5a", "#8c6d5b", "#4d7f96", "#b0a0d8", "#7a869a")
"""Colours of everything but platforms."""

TONES = {
    "costs": "#d1495b",
    "gains": "#4c9a2a",
    "no difference shown": "#7a869a",
    "undecided": "#b07d12",
}
"""The colour of each verdict."""

MODES = {"user": LEVELS[0], "kernel": LEVELS[1], "interrupts": LEVELS[3], "stolen": LEVELS[7]}
PARTS = {"elapsed": LEVELS[0], "walks": LEVELS[1]}


def of_platforms(platforms: Mapping[str, str]) -> dict[str, str]:
    """Returns a colour for each name of a platform in the report; variants of a platform differ in shade.

    Args:
        platforms: the platform, by the name that the report gives it.
    """
    seen: Counter[str] = Counter()
    made = {}
    for name, platform in platforms.items():
        made[name] = _shade(_PLATFORMS.get(platform, LEVELS[-1]), _SHADES[seen[platform] % 4])
        seen[platform] += 1
    return made


def of_lines(platforms: Mapping[str, str]) -> dict[str, str]:
    """Returns a colour for each line of a chart, given its platform by the line's name.

    It is the platform's colour if the lines are of several platforms, else a colour of `LEVELS`.
    """
    if len(set(platforms.values())) > 1 or set(platforms) <= set(platforms.values()):
        return of_platforms(platforms)
    return of_levels(list(platforms))


def of_levels(names: Sequence[str]) -> dict[str, str]:
    return {name: LEVELS[place % len(LEVELS)] for place, name in enumerate(names)}


def _shade(colour: str, towards: float) -> str:
    parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    end = 255 if towards > 0 else 0
    mixed = (round(part + (end - part) * abs(towards)) for part in parts)
    return "#" + "".join(f"{part:02x}" for part in mixed)
