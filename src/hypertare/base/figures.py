"""Numbers and places for people: scaled units, no more digits than are sure, plain sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from hypertare.base.variables import VIRTUAL, Level

_MINUS = "−"

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_SCALED_DOWN = {"s", "s/packet"}
_SCALED_UP = {"b/s", "B", "B/s", "packets/s", "messages/s", "loops/s"}
_PLAIN_DIGITS = 3


def scale(value: float, unit: str) -> tuple[float, str]:
    """The divisor with which `value` reads well, and the unit of the quotient.

    Shares become per cent, time goes down to nanoseconds, rates and sizes up by
    thousands; counts stay as they are.
    """
    if unit.endswith(VIRTUAL):
        divisor, name = scale(value, unit.removesuffix(VIRTUAL))
        return divisor, name + VIRTUAL
    magnitude = abs(value)
    if unit == "ns":
        divisor, name = scale(value * 1e-9, "s")
        return divisor * 1e9, name
    if unit == "share":
        return 0.01, "%"
    if unit in _SCALED_DOWN:
        step, prefix = next((p for p in _SMALL if magnitude >= p[0]), _SMALL[-1])
        return (1.0, unit) if magnitude == 0 else (step, f"{prefix}{unit}")
    if unit in _SCALED_UP:
        step, prefix = next((p for p in _PREFIXES if magnitude >= p[0]), _PREFIXES[-1])
        return step, f"{prefix}{unit}"
    return 1.0, unit


def axis_scale(
    drawn: Iterable[float], unit: str, *, logarithmic: bool = False
) -> tuple[float, str]:
    """As `scale`, for an axis that shows all of `drawn`. The divisor suits the largest value; on a
    logarithmic axis it suits the middle.

    >>> axis_scale([0.049, 310.0], "s")
    (1.0, 's')
    """
    sizes = [abs(value) for value in drawn if value and math.isfinite(value)]
    if not sizes:
        return scale(0.0, unit)
    far = max(sizes)
    return scale(math.sqrt(min(sizes)) * math.sqrt(far) if logarithmic else far, unit)


def decimals(half_width: float) -> int:
    """Decimal places that an uncertainty supports; negative where not even the units are sure.

    Rule of the Particle Data Group (Review of Particle Physics, Introduction, "Rounding"): by the
    three highest digits of the uncertainty, two digits of it are kept up to 354, one up to 949, and
    above it is rounded up to 1000 and two are kept.
    """
    if not math.isfinite(half_width) or half_width <= 0:
        raise ValueError(f"an uncertainty of {half_width}")
    power = math.floor(math.log10(half_width))
    lead = half_width / 10**power
    # From 9.5 on the power is one higher and two digits are kept: the same place.
    return 1 - power if lead < 3.55 else -power


def number(value: float, places: int) -> str:
    """`value` with so many decimal places, thousands apart; negative places round before the point.

    >>> number(184_312.0, -2)
    '184,300'
    """
    rounded = round(value, places)
    if rounded == 0:
        rounded = 0.0
    text = f"{abs(rounded):,.{max(places, 0)}f}"
    return f"{_MINUS}{text}" if rounded < 0 else text


def plain_decimals(value: float, digits: int = _PLAIN_DIGITS) -> int:
    """Decimal places for so many significant digits; whole numbers stay whole."""
    if value == 0 or not math.isfinite(value):
        return 0
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return min(places, 0) if value == int(value) else max(places, 0)


def significant(value: float, digits: int = 2) -> str:
    """So many significant digits; large whole numbers are rounded too.

    >>> significant(41.3), significant(0.036), significant(6543.0)
    ('41', '0.036', '6,500')
    """
    if value == 0 or not math.isfinite(value):
        return number(0.0, 0) if value == 0 else "–"
    return number(value, digits - 1 - math.floor(math.log10(abs(value))))


def quantity(value: float, unit: str, digits: int = _PLAIN_DIGITS) -> str:
    """A number without an interval.

    >>> quantity(9_412_345_678.0, "b/s")
    '9.41 Gb/s'
    """
    if not math.isfinite(value):
        return "–"
    divisor, name = scale(value, unit)
    scaled = value / divisor
    places = (
        0 if name and divisor == 1.0 and scaled == int(scaled) else plain_decimals(scaled, digits)
    )
    return _with_unit(number(scaled, places), name)


def measured(value: float, low: float | None, high: float | None, unit: str) -> tuple[str, str]:
    """A number and its interval, in one unit and to the same place: `("8.3 s", "8.1 to 8.5")`."""
    if low is None or high is None or high <= low:
        return quantity(value, unit), ""
    divisor, name = scale(value if value else high, unit)
    # Two digits stay, however little the interval supports: a mean of 0 s helps nobody.
    least = 1 - math.floor(math.log10(abs(value / divisor))) if value else 0
    places = max(decimals((high - low) / 2 / divisor), min(least, 0))
    interval = f"{number(low / divisor, places)} to {number(high / divisor, places)}"
    return _with_unit(number(value / divisor, places), name), interval


def counted(unit: str) -> bool:
    """Whether a unit is a plural noun, better said once than after every number."""
    return unit.isalpha() and unit.endswith("s") and len(unit) > 2


def _with_unit(text: str, unit: str) -> str:
    return f"{text} {unit}" if unit else text


_AS_FACTOR = 9.0
"""From this change on a factor reads better."""


def percent(share: float) -> str:
    """A change with its sign, three digits at most; from tenfold on the factor: `+38.1 %`, `×48`.

    >>> percent(0.381), percent(-0.0042), percent(46.9)
    ('+38.1 %', '−0.420 %', '×48')
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
    import difflib

    close = difflib.get_close_matches(given, list(known), n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def is_text(given: str) -> bool:
    """Whether the text can be encoded as UTF-8. Python holds other bytes from the system as surrogates."""
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True
