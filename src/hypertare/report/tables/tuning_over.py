"""A tuning for each level of a factor: the best setting of each, and the laws."""

from __future__ import annotations

from collections.abc import Iterator

from hypertare.base.figures import significant
from hypertare.base.words import factor_text, level_text, percent, span
from hypertare.findings.tuning import Tuning
from hypertare.findings.tuning_over import AtLevel, LawFitted, TuningOver
from hypertare.report.tables.table import Column, Row, Table, text


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
