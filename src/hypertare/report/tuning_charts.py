"""Charts of a tuning: what matters, what was tried, how the search went, whether the winner holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from hypertare.report import charts, tuning
from hypertare.report.verdict import word
from hypertare.responses import mark_of
from hypertare.tune.document import EffectFound, Tuning
from hypertare.wording import percent, span

_GREY = charts.TONES["no difference shown"]
_BLUE, _, _ORANGE, _, _YELLOW, _, _RED, *_ = charts.PALETTE
_PLACES = {"knee": _RED, "front": _BLUE, "beaten": _GREY}
_PHASES = {"screen": _GREY, "search": _BLUE, "race": _ORANGE}
_ROW = 34
_HEIGHT = 300


def effects(found: Tuning, response: str) -> Any:
    """Forest plot: what each change of a knob does to a response, against a line where it does nothing."""
    chosen = tuning.effects_of(found, response)
    rows = [_effect(effect, found) for effect in chosen]
    order = [row["name"] for row in rows]
    scale = alt.Scale(domain=list(charts.TONES), range=list(charts.TONES.values()))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("name:N", sort=order, title=None, axis=charts.name_axis()),
        color=alt.Color("tone:N", scale=scale, legend=alt.Legend(title=None, orient="top")),
        tooltip=[alt.Tooltip(f"{field}:N") for field in ("name", "effect", "interval")],
    )
    title = f"change of {word(response)}, %{mark_of(found.clock)}"
    return charts.sized(
        alt.layer(
            _rule("x", 0),
            base.mark_rule(size=3).encode(
                x=alt.X("low:Q", title=title, axis=charts.FEW_TICKS), x2="high:Q"
            ),
            base.mark_point(filled=True, size=130, opacity=1).encode(
                x=alt.X("change:Q", title=title)
            ),
        ),
        height=_ROW * max(2, len(rows)),
    )


def _effect(effect: EffectFound, found: Tuning) -> dict[str, Any]:
    gains = effect.change > 0 if effect.response == found.throughput else effect.change < 0
    tone = "no difference shown" if not effect.shown else "gains" if gains else "costs"
    return {
        "name": tuning.named(effect),
        "change": 100 * effect.change,
        "low": 100 * effect.low,
        "high": 100 * effect.high,
        "tone": tone,
        "effect": percent(effect.change),
        "interval": span(effect.low, effect.high),
    }


def front(found: Tuning) -> Any:
    """What was tried: throughput over CPU, with those that no other beats in both."""
    rows = [
        {
            "setting": tuning.changed(one, found),
            "throughput": 100 * one.throughput,
            "cpu": 100 * one.cpu,
            "blocks": one.n,
            "place": tuning.place(one) or "beaten",
        }
        for one in found.tried
        if one.cpu is not None
    ]
    x = alt.X(
        "cpu:Q",
        title=_title(found.cpu or "", found),
        scale=alt.Scale(padding=14),
        axis=charts.FEW_TICKS,
    )
    y = alt.Y("throughput:Q", title=_title(found.throughput, found), scale=alt.Scale(padding=14))
    dots = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_point(filled=True, opacity=0.9)
        .encode(
            x=x,
            y=y,
            color=_colour("place", _PLACES, [row["place"] for row in rows]),
            size=alt.Size("blocks:Q", scale=alt.Scale(range=[50, 260]), legend=None),
            tooltip=[
                alt.Tooltip("setting:N"),
                alt.Tooltip("throughput:Q", format=".3~g", title=f"{word(found.throughput)}, %"),
                alt.Tooltip("cpu:Q", format=".3~g", title=f"{word(found.cpu or '')}, %"),
                alt.Tooltip("blocks:Q"),
            ],
        )
    )
    line = (
        alt.Chart(alt.InlineData(values=[row for row in rows if row["place"] != "beaten"]))
        .mark_line(size=1.5, opacity=0.6, color=_PLACES["front"])
        .encode(x=x, y=y, order="cpu:Q")
    )
    return charts.sized(alt.layer(_rule("x", 0), _rule("y", 0), line, dots), height=_HEIGHT)


def course(found: Tuning) -> Any:
    """Every trial of screening, search and race in its order, against its block's default."""
    rows = [
        {
            "number": number,
            "phase": look.phase,
            "throughput": 100 * look.throughput,
            "setting": tuning.settings(look.setting),
        }
        for number, look in enumerate(found.looks, start=1)
    ]
    dots = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_point(filled=True, size=45, opacity=0.8)
        .encode(
            x=alt.X("number:Q", title="trial", axis=alt.Axis(grid=False, tickMinStep=1)),
            y=alt.Y("throughput:Q", title=_title(found.throughput, found)),
            color=_colour("phase", _PHASES, [row["phase"] for row in rows]),
            tooltip=[
                alt.Tooltip("number:Q"),
                alt.Tooltip("phase:N"),
                alt.Tooltip("setting:N"),
                alt.Tooltip("throughput:Q", format=".3~g", title="change, %"),
            ],
        )
    )
    return charts.sized(alt.layer(_rule("y", 0), dots), height=240)


def confirmation(found: Tuning) -> Any:
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
    promised = {"who": "promised", "value": 100 * confirmed.search_gain}
    order = [mean["who"], "each block", promised["who"]]
    title = f"gain, %{mark_of(found.clock)}"
    y = alt.Y("who:N", sort=order, title=None, axis=charts.name_axis())
    x = alt.X("value:Q", title=title, axis=charts.FEW_TICKS)
    whole = alt.Chart(alt.InlineData(values=[mean])).encode(y=y)
    return charts.sized(
        alt.layer(
            _rule("x", 0),
            _rule("x", 100 * confirmed.threshold, faint=True),
            whole.mark_rule(size=3, color=charts.TONES["gains"]).encode(
                x=alt.X("low:Q", title=title, axis=charts.FEW_TICKS), x2="high:Q"
            ),
            whole.mark_tick(thickness=3, size=22, color=charts.TONES["gains"]).encode(x=x),
            _dots(blocks, x, y, _BLUE),
            _dots([promised], x, y, _YELLOW),
        ),
        height=3 * _ROW,
    )


def _dots(rows: Sequence[dict[str, Any]], x: alt.X, y: alt.Y, colour: str) -> Any:
    return (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_point(size=70, color=colour, strokeWidth=2)
        .encode(x=x, y=y, tooltip=[alt.Tooltip("value:Q", format=".3~g", title="gain, %")])
    )


def _rule(axis: str, at: float, *, faint: bool = False) -> Any:
    """A line across: where nothing is gained, or what is the least that matters."""
    rule = alt.Chart(alt.InlineData(values=[{"at": at}])).mark_rule(
        strokeDash=[2, 4] if faint else [4, 3], size=1.5, opacity=0.5 if faint else 1
    )
    return rule.encode(x="at:Q") if axis == "x" else rule.encode(y="at:Q")


def _colour(field: str, colours: dict[str, str], there: Sequence[str]) -> alt.Color:
    shown = [name for name in colours if name in there]
    return alt.Color(
        f"{field}:N",
        scale=alt.Scale(domain=shown, range=[colours[name] for name in shown]),
        legend=alt.Legend(title=None, orient="top"),
    )


def _title(response: str, found: Tuning) -> str:
    return f"{word(response)} against the default, %{mark_of(found.clock)}"
