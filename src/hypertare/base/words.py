"""Figures and places in plain sentences: warnings, evidence, errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from hypertare.base.figures import number, plain_decimals, significant
from hypertare.base.level import Level

_AS_FACTOR = 9.0
"""From this change on a factor reads better."""


def percent(share: float) -> str:
    """A change with its sign, three digits at most; from tenfold on the factor: `+38 %`, `−0.42 %`, `×48`.

    >>> percent(0.381), percent(-0.0042), percent(46.9)
    ('+38.1 %', '−0.42 %', '×48')
    """
    if share >= _AS_FACTOR:
        return f"×{significant(1 + share)}"
    change = 100 * share
    text = number(change, plain_decimals(float(f"{change:.3g}")))
    return f"{'+' if share > 0 else ''}{text} %"


def span(low: float, high: float) -> str:
    """The ends of an interval of changes: `+34 % to +42 %`."""
    return f"{percent(low)} to {percent(high)}"


def place(platform: str, cell: Mapping[str, Level]) -> str:
    """A platform in a cell: `guest (workload build, cpus 1)`."""
    levels = ", ".join(f"{factor_text(factor)} {level}" for factor, level in cell.items())
    return f"{platform} ({levels})" if levels else platform


def word(response: str) -> str:
    """A response's name as it stands in a sentence."""
    return response.replace("_", " ")


def factor_text(factor: str) -> str:
    """A factor as a reader has it: of its path the last part.

    >>> factor_text("knobs.napi_weight")
    'napi weight'
    """
    return factor.rpartition(".")[2].replace("_", " ")


def no_such(kind: str, given: object, known: Iterable[str]) -> str:
    """Says that there is nothing of this name, and what there is."""
    names = list(dict.fromkeys(known))
    hint = did_you_mean(str(given), names)
    listed = f"There are: {', '.join(names)}" if names else "There are none"
    return f"there is no {kind} '{given}'.{hint} {listed}"


def listing(things: Iterable[str], most: int = 6) -> str:
    """So many things and how many more: `a, b and 3 more`."""
    every = list(things)
    if len(every) <= most:
        return ", ".join(every)
    return f"{', '.join(every[:most])} and {len(every) - most} more"


def level_text(level: Level) -> str:
    """A level as a study file has it: `true`, `16K`."""
    return str(level).lower() if isinstance(level, bool) else str(level)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A sentence to set behind another one, or nothing.

    >>> did_you_mean("paing", ["paging", "pages"])
    " Did you mean 'paging'?"
    """
    close = difflib.get_close_matches(given, list(known), n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def is_text(given: str) -> bool:
    """Whether the text can be encoded as UTF-8. Python holds other bytes from the system as surrogates."""
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True
