"""What a tuning found: effects, the search, the confirmation, the knobs; over a factor levels and laws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.base.figures import (
    factor_text,
    level_text,
    percent,
    quantity,
    significant,
    span,
    word,
)
from hypertare.base.variables import Level
from hypertare.findings.tuning import (
    AtLevel,
    EffectFound,
    KnobTried,
    LawFitted,
    Tried,
    Tuning,
    TuningOver,
)
from hypertare.report.tables.table import Column, Row, Table, text
from hypertare.report.verdict import change_text

_AS_FACTOR = 9.0
"""From this change on a factor reads better: ×48 and not +4,700 %."""


def tables(found: Tuning, most: int | None = None) -> Iterator[Table]:
    """Effects by response, the search, the confirmation: what there is of them.

    Args:
        most: settings of the search, and effects twice as many; all where none.
    """
    for response in responses(found):
        yield effects(found, response, most)
    if found.tried:
        yield tried(found, most)
    if found.confirmation is not None:
        yield confirmation(found)


def responses(found: Tuning) -> list[str]:
    """Returns the responses of which a tuning has effects."""
    return list(dict.fromkeys(effect.response for effect in found.effects))


def effects(found: Tuning, response: str, most: int | None = None) -> Table:
    chosen = effects_of(found, response)[: None if most is None else 2 * most]
    texts = changes([(one.change, one.low, one.high) for one in chosen])
    rows = (
        Row((named(one), *change, f"{one.p:.2g}"), one.shown)
        for one, change in zip(chosen, texts, strict=True)
    )
    confidence = f"{100 * found.effects[0].confidence:g} % interval"
    return Table(
        f"effects{responses(found).index(response)}",
        word(response),
        f"What matters for {word(response)} ({found.design})",
        "",
        (
            text("knob, from its default to"),
            Column("change"),
            Column(confidence),
            Column("p (Holm)"),
        ),
        tuple(rows),
    )


def changes(
    found: Sequence[tuple[float, float | None, float | None]],
) -> list[tuple[str, str]]:
    """Changes of one response with their intervals, all in per cent or, where one reaches tenfold, all as
    factors.
    """
    tenfold = any(change >= _AS_FACTOR for change, _, _ in found)
    return [
        change_text(
            100 * change, [None if e is None else 100 * e for e in (low, high)], "%", tenfold
        )
        for change, low, high in found
    ]


def effects_of(found: Tuning, response: str) -> list[EffectFound]:
    """Returns the effects on a response: of each knob, and of two knobs together if it was shown."""
    every = (effect for effect in found.effects if effect.response == response)
    return [effect for effect in every if effect.shown or len(effect.knobs) == 1]


def named(effect: EffectFound) -> str:
    names = " x ".join(
        f"{path} = {level_text(far)}"
        for path, (_, far) in zip(effect.knobs, effect.levels, strict=True)
    )
    others = "".join(f" or {' x '.join(alias)}" for alias in effect.aliases)
    return names + others


def tried(found: Tuning, most: int | None = None) -> Table:
    best = sorted(found.tried, key=lambda one: (not one.knee, not one.front, -one.throughput))
    throughput = changes([(one.throughput, None, None) for one in best])
    cpu = changes([(0.0 if one.cpu is None else one.cpu, None, None) for one in best])
    rows = [
        Row(
            (
                changed(one, found),
                throughput[number][0],
                "" if one.cpu is None else cpu[number][0],
                str(one.n),
                place(one),
            )
        )
        for number, one in enumerate(best)
    ]
    return Table(
        "search",
        "Search",
        "Best of the search (it chose by these figures, so they flatter)",
        "",
        (
            text("setting"),
            Column(word(found.throughput)),
            Column(word(found.cpu or "")),
            Column("blocks"),
            text(""),
        ),
        tuple(rows[:most]),
    )


def place(one: Tried) -> str:
    return "knee" if one.knee else "front" if one.front else ""


def changed(one: Tried, found: Tuning) -> str:
    """The setting, by what is not its default."""
    default = {knob.path: knob.default for knob in found.knobs}
    return settings({p: v for p, v in one.setting.items() if v != default.get(p)})


def settings(setting: dict[str, Level]) -> str:
    return (
        ", ".join(f"{path} = {level_text(level)}" for path, level in setting.items()) or "default"
    )


def confirmation(found: Tuning) -> Table:
    confirmed = found.confirmation
    assert confirmed is not None
    rows = (
        Row(
            (
                word(change.response),
                quantity(change.default, change.unit),
                quantity(change.winner, change.unit),
                *changes([(change.change, change.low, change.high)])[0],
                change.verdict,
            )
        )
        for change in confirmed.changes
    )
    return Table(
        "confirmation",
        "Confirmation",
        f"Confirmation: {confirmed.blocks} fresh blocks, winner beside default",
        "",
        (
            text("response"),
            Column("default"),
            Column("winner"),
            Column("change"),
            Column(f"{100 * confirmed.confidence:g} % interval"),
            text(""),
        ),
        tuple(rows),
    )


def knobs(found: Tuning) -> Table:
    columns = (text("knob"), text("default"), text("tried"), text("refused here"))
    rows = []
    for knob in found.knobs:
        refused = "; ".join(f"{level}: {reason}" for level, reason in knob.refused.items())
        rows.append(Row((knob.path, level_text(knob.default), _levels(knob), refused)))
    return Table("knobs", "Knobs", "Knobs", "", columns, tuple(rows))


def _levels(knob: KnobTried) -> str:
    if knob.low is not None and knob.high is not None:
        return f"{knob.low} to {knob.high}"
    return ", ".join(map(level_text, knob.levels))


def over_tables(found: TuningOver) -> Iterator[Table]:
    """Yields the tables so far: of every level that is tuned, and of the laws."""
    if found.tuned:
        yield levels(found)
    if found.laws:
        yield laws(found)


def levels(found: TuningOver) -> Table:
    """The confirmation's row stands last, and says what it is."""
    every = [*found.tuned, *((found.confirmed,) if found.confirmed else ())]
    knobs = [knob.path for knob in every[0].found.knobs]
    return Table(
        "levels",
        "Best settings",
        f"The best setting by {found.asked.factor}",
        "",
        (
            text(factor_text(found.asked.factor)),
            *(Column(factor_text(path)) for path in knobs),
            Column(f"gain ({every[0].found.goal})"),
            Column("interval"),
            text("chosen by"),
        ),
        tuple(_level(one, knobs, by_law=one is found.confirmed) for one in every),
    )


def _level(one: AtLevel, knobs: list[str], *, by_law: bool) -> Row:
    confirmed = one.found.confirmation
    kept = one.found.keep_default
    gain, interval = "", ""
    if confirmed is not None:
        gain = percent(confirmed.gain)
        if confirmed.low is not None and confirmed.high is not None:
            interval = span(confirmed.low, confirmed.high)
    chosen = "default kept" if kept else "law, confirmed" if by_law else "search, confirmed"
    settings = (setting(one.found, path) for path in knobs)
    return Row((level_text(one.level), *settings, gain, interval, chosen), not kept)


def setting(found: Tuning, path: str) -> str:
    """A knob's recommended level, or the default that is to be kept."""
    default = {knob.path: knob.default for knob in found.knobs}
    return level_text(found.recommendation.get(path, default[path]))


def laws(found: TuningOver) -> Table:
    """What each predicts of the level that was not tuned stands last."""
    several = len({law.knob for law in found.laws}) > 1
    confirm = found.asked.confirm
    columns = (
        *((text("knob"),) if several else ()),
        text("law"),
        Column("w"),
        Column("residual"),
        Column("left out"),
        *(() if confirm is None else (Column(f"at {level_text(confirm)}"),)),
        text(""),
    )
    return Table(
        "laws",
        "Laws",
        f"Laws of {', '.join(dict.fromkeys(law.knob for law in found.laws))}",
        "Residual and left out: root mean squares of log2(best / law), over all levels, and over each with "
        "the law fitted to the others.",
        columns,
        tuple(_law(law, several=several) for law in found.laws),
    )


def _law(law: LawFitted, *, several: bool) -> Row:
    tuned = {level for level, _ in law.best}
    return Row(
        (
            *((factor_text(law.knob),) if several else ()),
            law.formula,
            significant(law.scale, 3),
            significant(law.residual),
            significant(law.left_out),
            *(significant(value, 3) for level, value in law.at if level not in tuned),
            "preferred" if law.preferred else "",
        ),
        law.preferred,
    )
