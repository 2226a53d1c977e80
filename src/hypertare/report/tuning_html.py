"""A tuning as a page (`hypertare.report.page`): what matters, what was tried, how the search went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypertare.base.figures import level_text, percent, span, word
from hypertare.findings.tuning import Tuning
from hypertare.report import charts, page, tuning
from hypertare.report.colours import LEVELS, TONES
from hypertare.report.tables import tuning as tables
from hypertare.report.tables.table import Table
from hypertare.report.vega import (
    FEW_TICKS,
    Chart,
    Spec,
    colour,
    field,
    fields,
    layers,
    mark,
    sized,
    until,
    values,
)
from hypertare.workloads.responses import mark_of, meaning

_GREY = TONES["no difference shown"]
_VIOLET, _OCHRE, _RED, _OLIVE = LEVELS[:4]
_PLACES = {"knee": _RED, "front": _VIOLET, "beaten": _GREY}
_PHASES = {"screen": _GREY, "search": _VIOLET, "race": _OLIVE}
_ROW = 34
_HEIGHT = 300


def effects(found: Tuning, response: str) -> Spec:
    """Forest plot: what each change of a knob does to a response, against a line where it does nothing."""
    rows = []
    for effect in tables.effects_of(found, response):
        gains = effect.change > 0 if effect.response == found.throughput else effect.change < 0
        tone = "no difference shown" if not effect.shown else "gains" if gains else "costs"
        row = {
            "name": tables.named(effect),
            "change": 100 * effect.change,
            "low": 100 * effect.low,
            "high": 100 * effect.high,
            "tone": tone,
            "effect": percent(effect.change),
            "interval": span(effect.low, effect.high),
        }
        rows.append(row)
    order = [row["name"] for row in rows]
    title = f"change of {word(response)}, %{mark_of(found.clock)}"
    common = {
        "y": field("name:N", sort=order, title=None, axis=charts.name_axis()),
        "color": colour("tone", TONES),
        "tooltip": fields("name:N", "effect:N", "interval:N"),
    }
    ends = {**common, "x": field("low:Q", title=title, axis=FEW_TICKS), "x2": until("high")}
    middle = {**common, "x": field("change:Q", title=title)}
    drawn = layers(
        _rule("x", 0),
        mark("rule", ends, size=3),
        mark("point", middle, filled=True, size=130, opacity=1),
        data=values(rows),
    )
    return sized(drawn, height=_ROW * max(2, len(rows)))


def front(found: Tuning) -> Spec:
    """What was tried: throughput over CPU, with those that no other beats in both."""
    rows = [
        {
            "setting": tables.changed(one, found),
            "throughput": 100 * one.throughput,
            "cpu": 100 * one.cpu,
            "blocks": one.n,
            "place": tables.place(one) or "beaten",
        }
        for one in found.tried
        if one.cpu is not None
    ]
    x = field("cpu:Q", title=_title(found.cpu or "", found), scale={"padding": 14}, axis=FEW_TICKS)
    y = field("throughput:Q", title=_title(found.throughput, found), scale={"padding": 14})
    dots = {
        "x": x,
        "y": y,
        "color": _colour("place", _PLACES, [str(row["place"]) for row in rows]),
        "size": field("blocks:Q", scale={"range": [50, 260]}, legend=None),
        "tooltip": [
            field("setting:N"),
            field("throughput:Q", format=",.3~r", title=f"{word(found.throughput)}, %"),
            field("cpu:Q", format=",.3~r", title=f"{word(found.cpu or '')}, %"),
            field("blocks:Q"),
        ],
    }
    line = mark(
        "line",
        {"x": x, "y": y, "order": field("cpu:Q")},
        data=values([row for row in rows if row["place"] != "beaten"]),
        size=1.5,
        opacity=0.6,
        color=_PLACES["front"],
    )
    drawn = layers(
        _rule("x", 0),
        _rule("y", 0),
        line,
        mark("point", dots, data=values(rows), filled=True, opacity=0.9),
    )
    return sized(drawn, height=_HEIGHT)


def course(found: Tuning) -> Spec:
    """Every trial of screening, search and race in its order, against its block's default."""
    rows = [
        {
            "number": number,
            "phase": look.phase,
            "throughput": 100 * look.throughput,
            "setting": tables.settings(look.setting),
        }
        for number, look in enumerate(found.looks, start=1)
    ]
    dots = {
        "x": field("number:Q", title="trial", axis={"grid": False, "tickMinStep": 1}),
        "y": field("throughput:Q", title=_title(found.throughput, found)),
        "color": _colour("phase", _PHASES, [look.phase for look in found.looks]),
        "tooltip": [
            *fields("number:Q", "phase:N", "setting:N"),
            field("throughput:Q", format=",.3~r", title="change, %"),
        ],
    }
    drawn = layers(
        _rule("y", 0), mark("point", dots, data=values(rows), filled=True, size=45, opacity=0.8)
    )
    return sized(drawn, height=240)


def confirmation(found: Tuning) -> Spec:
    """The gain of each fresh block, with the mean of all, its interval, and what the search promised."""
    confirmed = found.confirmation
    assert confirmed is not None
    blocks = [{"who": "each block", "value": 100 * gain} for gain in confirmed.by_block]
    low = confirmed.gain if confirmed.low is None else confirmed.low
    high = confirmed.gain if confirmed.high is None else confirmed.high
    mean = {
        "who": "mean",
        "value": 100 * confirmed.gain,
        "low": 100 * low,
        "high": 100 * high,
    }
    promised = [
        {"who": "promised", "value": 100 * gain}
        for gain in (confirmed.search_gain,)
        if gain is not None
    ]
    order = [mean["who"], "each block", *(one["who"] for one in promised)]
    title = f"gain, %{mark_of(found.clock)}"
    y = field("who:N", sort=order, title=None, axis=charts.name_axis())
    x = field("value:Q", title=title, axis=FEW_TICKS)
    ends = {"x": field("low:Q", title=title, axis=FEW_TICKS), "x2": until("high"), "y": y}
    drawn = layers(
        _rule("x", 0),
        _rule("x", 100 * confirmed.threshold, faint=True),
        mark("rule", ends, size=3, color=TONES["gains"]),
        mark("tick", {"x": x, "y": y}, thickness=3, size=22, color=TONES["gains"]),
        _dots(blocks, x, y, _VIOLET),
        _dots(promised, x, y, _OCHRE),
        data=values([mean]),
    )
    return sized(drawn, height=3 * _ROW)


def _dots(rows: Sequence[dict[str, Any]], x: Spec, y: Spec, shade: str) -> Spec:
    encoding = {"x": x, "y": y, "tooltip": [field("value:Q", format=",.3~r", title="gain, %")]}
    return mark("point", encoding, data=values(rows), size=70, color=shade, strokeWidth=2)


def _rule(axis: str, at: float, *, faint: bool = False) -> Spec:
    """A line across: where nothing is gained, or what is the least that matters."""
    return mark(
        "rule",
        {axis: field("at:Q")},
        data=values([{"at": at}]),
        strokeDash=[2, 4] if faint else [4, 3],
        size=1.5,
        opacity=0.5 if faint else 1,
    )


def _colour(name: str, colours: dict[str, str], there: Sequence[str]) -> Spec:
    """The colours of those levels that are there."""
    return colour(name, {level: shade for level, shade in colours.items() if level in there})


def _title(response: str, found: Tuning) -> str:
    return f"{word(response)} against the default, %{mark_of(found.clock)}"


def render(found: Tuning) -> str:
    """The page."""
    parts = list(_parts(found))
    return page.render(
        "tuning.html.j2",
        [chart for _, charts in parts for chart in charts],
        tuning=found,
        parts=parts,
        facts=_facts(found),
        meaning=meaning(found.clock, found.machine.walks),
        knobs=tables.knobs(found),
        where=tuning.WHERE,
        lines=tuning.lines,
        level_text=level_text,
    )


def _facts(found: Tuning) -> list[tuple[str, str]]:
    before = [] if found.known is None else [("earlier run", tuning.known(found.known))]
    return [
        ("platform", f"{found.platform}, {found.workload}"),
        ("goal", found.goal),
        ("trials", f"{found.trials}, budget {found.budget}"),
        *before,
        *page.where(found),
        *page.when(found),
    ]


def _parts(found: Tuning) -> Iterator[tuple[Table, tuple[Chart, ...]]]:
    """Tables with their charts."""
    for response in tables.responses(found):
        table = tables.effects(found, response)
        chart = Chart(
            table.id,
            f"Effects on {word(response)}",
            "Each knob from its default to the level named, over the levels of the others, with its "
            "interval. Grey: no difference shown.",
            effects(found, response),
            *_figures(table),
        )
        yield table, (chart,)
    if found.tried:
        table = tables.tried(found)
        yield table, tuple(_search(found, table))
    if found.confirmation is not None:
        gains = enumerate(found.confirmation.by_block, start=1)
        duels = Chart(
            "duels",
            "The winner against the default",
            "Fresh trials, of which none had a part in the choice. Bar: mean and interval; below it "
            "what the search had promised. The fine line is the least gain that matters.",
            confirmation(found),
            ("block", "gain"),
            tuple((str(block), percent(gain)) for block, gain in gains),
        )
        yield tables.confirmation(found), (duels,)


def _search(found: Tuning, table: Table) -> Iterator[Chart]:
    if any(one.cpu is not None for one in found.tried):
        yield Chart(
            "front",
            f"{word(found.throughput).capitalize()} and {word(found.cpu or '')}",
            "A point is a setting, the larger the more blocks; up and to the left is better, and nought "
            "is the default. On the front are those that no other beats in both; the knee is the "
            "compromise.",
            front(found),
            *_figures(table),
        )
    if found.looks:
        rows = tuple(
            (str(number), look.phase, tables.settings(look.setting), percent(look.throughput))
            for number, look in enumerate(found.looks, start=1)
        )
        yield Chart(
            "course",
            "Course",
            "Each trial of screening, search and race in its order, against the default of its block.",
            course(found),
            ("trial", "phase", "setting", word(found.throughput)),
            rows,
        )


def _figures(table: Table) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    head = tuple(column.name for column in table.columns)
    return head, tuple(row.cells for row in table.rows)
