"""What factors do: which matter most, and what each level changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.base import figures
from hypertare.base.figures import factor_text, listing, word
from hypertare.report import answers, verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text, with_interval
from hypertare.report.verdict import EXACT, Wording
from hypertare.runs.summary import Effect, Effects, LevelChange

ID = "effects"
NAME = "What matters"

NOTE = (
    "Share: of what differs between a platform's settings, what differs by this factor alone, or by two "
    "together; total: with all interactions that it is in. Size: the best level in place of the worst, the "
    "mean over all other factors. Each with its interval; those of sizes know that the levels were chosen. "
    "p: by F, adjusted by Holm's method for all of the run."
)

_COLUMNS = (text("platform"), text("what"), Column("share"), text("levels"), Column("size"))
_MORE = (Column("total share"), Column("p"))
_BRIEF = (text("platform"), text("what"), Column("share"), Column("best for worst"))

MOST = 5
"""Rows that a terminal shows."""

_SURE = 0.05


def table(found: Sequence[Effects], wording: Wording) -> Table:
    """Those of each platform, the largest first, then all that is left of it."""
    rows: list[Row] = []
    for one in found:
        name = _name_of(one, found, wording)
        rows += _rows(one, name, one.effects)
        if one.rest is not None:
            share = _share(one, one.rest, one.rest_low, one.rest_high)
            rows.append(Row((name, "all else", share, "", "", "", "")))
    return _table(found, (*_COLUMNS, *_MORE), rows)


def brief(found: Sequence[Effects], wording: Wording) -> Table:
    """The largest of each platform, as many of each as there is room for; of the first response only, and
    of a size its estimate: a row has a line's length.
    """
    shown = [one for one in found if _response(one) == _response(found[0])]
    each = max(1, MOST // max(1, len(shown)))
    several = len({_name_of(one, shown, wording) for one in shown}) > 1
    rows = []
    for one in shown:
        name = _name_of(one, shown, wording)
        for place, row in enumerate(_rows(one, name, one.effects[:each])):
            _, what, share, _, size, *_ = row.cells
            cells = (what, share, size.partition(" (")[0])
            # Why there are none, or what is not in them.
            note = row.note if one.reason is not None else "; ".join(_missing(one))
            named = (name, *cells) if several else cells
            rows.append(Row(named, row.sure, note if place == 0 else ""))
    return _table(shown, _BRIEF if several else _BRIEF[1:], rows[:MOST])


def _table(found: Sequence[Effects], columns: tuple[Column, ...], rows: Sequence[Row]) -> Table:
    responses = ", ".join(dict.fromkeys(map(_response, found)))
    title = f"{NAME} for {responses} of {verdict.workloads(one.cell for one in found)}"
    return Table(ID, NAME, title, NOTE, columns, tuple(rows))


def _response(one: Effects) -> str:
    kind = "the efficiency in " if one.of == "efficiency" else ""
    return kind + word(one.response)


def _name_of(one: Effects, found: Sequence[Effects], wording: Wording) -> str:
    """Returns a platform's name, with the response and the workload if the table has several of them."""
    named = [wording.platform(one.platform, one.cell)]
    for of in (_response, lambda one: str(one.cell.get("workload"))):
        if len({of(other) for other in found}) > 1:
            named.append(of(one))
    return ", ".join(named)


def _rows(one: Effects, platform: str, shown: Sequence[Effect]) -> Iterator[Row]:
    """Yields the rows of a platform; the first row has the notes about the whole platform."""
    if one.reason is not None:
        yield Row((platform, "–", "–", "", "", "", ""), False, f"no effects: {one.reason}")
        return
    notes = "; ".join(_notes(one))
    for place, effect in enumerate(shown):
        total = ""
        if effect.total is not None:
            total = _share(one, effect.total, effect.total_low, effect.total_high)
        cells = (
            platform,
            " × ".join(map(factor_text, effect.factors)),
            _share(one, effect.share, effect.share_low, effect.share_high),
            _levels(effect),
            _size(one, effect),
            total,
            _p(effect),
        )
        is_sure = effect.adjusted is None or effect.adjusted <= _SURE
        yield Row(cells, one.doubt is None and is_sure, notes if place == 0 else "")


def _share(one: Effects, share: float, low: float | None, high: float | None) -> str:
    if one.exact or low is None or high is None or low == high:
        return f"{figures.significant(100 * share)} %"
    places = min(max(figures.decimals(50 * (high - low)), 0), 2)
    value, *ends = (figures.number(100 * end, places) for end in (share, low, high))
    return f"{value} % ({' to '.join(ends)})"


def _levels(effect: Effect) -> str:
    is_none = effect.difference == 0 or effect.ratio == 1
    if effect.level is None or effect.against is None or is_none:
        return ""
    return f"{verdict.shown(effect.level)} in place of {verdict.shown(effect.against)}"


def _size(one: Effects, effect: Effect) -> str:
    """`×1.9 (1.7 to 2.1)`, or a difference in the unit of the response."""
    if effect.ratio is not None:
        return f"×{_around(one, effect.ratio, effect.ratio_low, effect.ratio_high, '')}"
    if effect.difference is None:
        return ""
    return _around(one, effect.difference, effect.difference_low, effect.difference_high, one.unit)


def _around(one: Effects, value: float, low: float | None, high: float | None, unit: str) -> str:
    """With as many digits as the interval allows."""
    if one.exact or low is None or high is None or low == high:
        return figures.quantity(value, unit)
    divisor, name = figures.scale(value, unit)
    named = f" {name}" if name else ""
    places = figures.decimals((high - low) / 2 / divisor)
    ends = [figures.number(end / divisor, places) for end in (value, low, high)]
    return f"{ends[0]}{named} ({ends[1]} to {ends[2]})"


def _p(effect: Effect) -> str:
    if effect.adjusted is None:
        return EXACT
    return "below 0.001" if effect.adjusted < 0.001 else f"{effect.adjusted:.2g}"


def _notes(one: Effects) -> Iterator[str]:
    if one.noise is not None:
        yield f"noise is {figures.significant(100 * one.noise)} % of a trial's variance"
    yield from _missing(one)
    if one.doubt is not None:
        yield one.doubt


def _missing(one: Effects) -> Iterator[str]:
    if one.left_out:
        cells = (verdict.setting("", cell).strip() for cell in one.left_out)
        yield f"left out, for no trial of it was good: {listing(cells, 3)}"
    if not one.balanced:
        yield "not every cell has as many trials: by least squares"


LEVELS = TableSpec(
    "levels",
    "What each factor changes",
    "Each level against another one of the same platform, with its interval; with several factors, the "
    "mean over the settings of the others. Cost: how much more of the baseline is lost at this level than "
    "at the other, in points.",
    (
        text("platform"),
        text("level"),
        text("response"),
        Column("change"),
        Column("cost"),
    ),
)


def levels_table(found: Sequence[LevelChange], wording: Wording) -> Table:
    rows = []
    for one in found:
        cells = (
            wording.platform(one.platform, one.cell),
            answers.compared(one),
            f"{word(one.response)} in {wording.label(one.cell)}",
            with_interval(*verdict.cost_text(one, wording)),
            with_interval(*answers.points(one)),
        )
        notes = (f"mean over {one.settings} settings" if one.settings > 1 else "", one.doubt)
        is_sure = one.verdict in ("costs", "gains")
        rows.append(Row(cells, is_sure, "; ".join(filter(None, notes))))
    return LEVELS.table(verdict.workloads(one.cell for one in found), rows)
