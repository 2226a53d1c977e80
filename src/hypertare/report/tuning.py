"""A tuning: its tables in the words that every form of it has, and the terminal's form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from hypertare.base.level import Level
from hypertare.base.words import level_text, percent, span
from hypertare.findings.tuning import EffectFound, Step, Tried, Tuning
from hypertare.report.terminal import plain
from hypertare.report.units import quantity
from hypertare.report.verdict import word
from hypertare.workloads.responses import meaning

_MOST = 8
WHERE = {
    "host": "on the host",
    "guest": "in the guest",
    "container": "in the container",
    "application": "in the application",
    "study": "in the study alone",
}


@dataclass(frozen=True)
class Tabled:
    """A table; of each row its cells, and whether it shows anything. The first column holds text."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], bool], ...]


# --- on a terminal


def show(found: Tuning, console: Console | None = None) -> None:
    console = console or Console()
    console.print(Group(*_parts(found)))
    for step in found.steps:
        console.print()
        # Commands are not broken, however narrow the terminal is, so that they can be copied.
        for line in _step(step):
            console.print(line, soft_wrap=True)


def _parts(found: Tuning) -> Iterator[RenderableType]:
    style = "yellow" if found.keep_default else "bold green"
    yield Text(plain(f"{found.study}: {found.verdict}"), style=style)
    machine = found.machine
    where = (
        f"{found.workload} on {found.platform}, goal {found.goal}, {found.trials} trials, seed "
        f"{found.seed}; {machine.hostname}, Linux {machine.kernel}, {found.clock} clock"
    )
    yield Text(plain(where), style="dim")
    if said := meaning(found.clock):
        yield Text(said, style="dim italic")
    for one in tables(found, _MOST):
        yield Text()
        yield _table(one)


def _table(one: Tabled) -> Table:
    table = Table(
        title=one.title, title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    for place, column in enumerate(one.head):
        table.add_column(column, justify="left" if place == 0 else "right")
    for cells, shows in one.rows:
        table.add_row(*map(plain, cells), style="" if shows else "dim")
    return table


def _step(step: Step) -> Iterator[Text]:
    yield Text(plain(f"{step.knob} = {level_text(step.level)} ({WHERE[step.where]})"), style="bold")
    for title, words in lines(step):
        for number, line in enumerate(words):
            label = f"  {title if number == 0 else '':<10} "
            yield Text(plain(label + line))


# --- in words and figures


def lines(step: Step) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What there is to type or to know of a change, by what it is for."""
    for title, words in (
        ("look first", step.look_first),
        ("apply", step.apply),
        ("keep", step.persist),
        ("undo", step.undo),
        ("libvirt", (step.xml,) if step.xml else ()),
        ("note", (step.note,) if step.note else ()),
    ):
        if words:
            yield title, words


def tables(found: Tuning, most: int | None = None) -> Iterator[Tabled]:
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
    """Those of which effects were looked for."""
    return list(dict.fromkeys(effect.response for effect in found.effects))


def effects(found: Tuning, response: str, most: int | None = None) -> Tabled:
    chosen = effects_of(found, response)[: None if most is None else 2 * most]
    rows = tuple(
        (
            (
                named(effect),
                percent(effect.change),
                span(effect.low, effect.high),
                f"{effect.p:.2g}",
            ),
            effect.shown,
        )
        for effect in chosen
    )
    confidence = f"{100 * found.effects[0].confidence:g} % interval"
    head = ("knob, from its default to", "change", confidence, "p (Holm)")
    return Tabled(f"What matters for {word(response)} ({found.design})", head, rows)


def effects_of(found: Tuning, response: str) -> list[EffectFound]:
    """Each knob's, and of two knobs together what was shown."""
    every = (effect for effect in found.effects if effect.response == response)
    return [effect for effect in every if effect.shown or len(effect.knobs) == 1]


def named(effect: EffectFound) -> str:
    names = " x ".join(
        f"{path} = {level_text(far)}"
        for path, (_, far) in zip(effect.knobs, effect.levels, strict=True)
    )
    others = "".join(f" or {' x '.join(alias)}" for alias in effect.aliases)
    return names + others


def tried(found: Tuning, most: int | None = None) -> Tabled:
    best = sorted(found.tried, key=lambda one: (not one.knee, not one.front, -one.throughput))
    rows = tuple(
        (
            (
                changed(one, found),
                percent(one.throughput),
                "" if one.cpu is None else percent(one.cpu),
                str(one.n),
                place(one),
            ),
            True,
        )
        for one in best[:most]
    )
    head = ("setting", word(found.throughput), word(found.cpu or ""), "blocks", "")
    title = "Best of the search (it chose by these figures, so they flatter)"
    return Tabled(title, head, rows)


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


def confirmation(found: Tuning) -> Tabled:
    confirmed = found.confirmation
    assert confirmed is not None
    rows = tuple(
        (
            (
                word(change.response),
                quantity(change.default, change.unit),
                quantity(change.winner, change.unit),
                percent(change.change),
                "" if change.low is None or change.high is None else span(change.low, change.high),
                change.verdict,
            ),
            True,
        )
        for change in confirmed.changes
    )
    head = (
        "response",
        "default",
        "winner",
        "change",
        f"{100 * confirmed.confidence:g} % interval",
        "",
    )
    return Tabled(
        f"Confirmation: {confirmed.blocks} fresh blocks, winner beside default", head, rows
    )
