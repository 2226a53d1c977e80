"""A tuning on a terminal: effects, front, confirmation, and what to type."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from hypertare.report.terminal import plain
from hypertare.report.units import quantity
from hypertare.report.verdict import word
from hypertare.responses import meaning
from hypertare.summary import Level
from hypertare.tune.document import EffectFound, Step, Tried, Tuning
from hypertare.wording import level_text, percent, span

_MOST = 8
_WHERE = {
    "host": "on the host",
    "guest": "in the guest",
    "container": "in the container",
    "application": "in the application",
    "study": "in the study alone",
}


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
    for response in dict.fromkeys(effect.response for effect in found.effects):
        yield Text()
        yield _effects(found, response)
    if found.tried:
        yield Text()
        yield _tried(found)
    if found.confirmation is not None:
        yield Text()
        yield _confirmation(found)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right")
    return table


def _effects(found: Tuning, response: str) -> Table:
    confidence = 100 * found.effects[0].confidence
    table = _table(
        f"What matters for {word(response)} ({found.design})",
        "knob, from its default to",
        "change",
        f"{confidence:g} % interval",
        "p (Holm)",
    )
    every = [effect for effect in found.effects if effect.response == response]
    shown = [e for e in every if e.shown or len(e.knobs) == 1][: 2 * _MOST]
    for effect in shown:
        table.add_row(
            plain(_named(effect)),
            percent(effect.change),
            span(effect.low, effect.high),
            f"{effect.p:.2g}",
            style="" if effect.shown else "dim",
        )
    return table


def _named(effect: EffectFound) -> str:
    names = " x ".join(
        f"{path} = {level_text(far)}"
        for path, (_, far) in zip(effect.knobs, effect.levels, strict=True)
    )
    others = "".join(f" or {' x '.join(alias)}" for alias in effect.aliases)
    return names + others


def _tried(found: Tuning) -> Table:
    table = _table(
        "Best of the search (it chose by these figures, so they flatter)",
        "setting",
        word(found.throughput),
        word(found.cpu or ""),
        "blocks",
        "",
    )
    best = sorted(found.tried, key=lambda one: (not one.knee, not one.front, -one.throughput))
    for one in best[:_MOST]:
        table.add_row(
            plain(_changed(one, found)),
            percent(one.throughput),
            "" if one.cpu is None else percent(one.cpu),
            str(one.n),
            "knee" if one.knee else "front" if one.front else "",
        )
    return table


def _changed(one: Tried, found: Tuning) -> str:
    default = {knob.path: knob.default for knob in found.knobs}
    return _settings({p: v for p, v in one.setting.items() if v != default.get(p)})


def _settings(setting: dict[str, Level]) -> str:
    return (
        ", ".join(f"{path} = {level_text(level)}" for path, level in setting.items()) or "default"
    )


def _confirmation(found: Tuning) -> Table:
    confirmation = found.confirmation
    assert confirmation is not None
    table = _table(
        f"Confirmation: {confirmation.blocks} fresh blocks, winner beside default",
        "response",
        "default",
        "winner",
        "change",
        f"{100 * confirmation.confidence:g} % interval",
        "",
    )
    for change in confirmation.changes:
        ends = "" if change.low is None or change.high is None else span(change.low, change.high)
        table.add_row(
            word(change.response),
            quantity(change.default, change.unit),
            quantity(change.winner, change.unit),
            percent(change.change),
            ends,
            change.verdict,
        )
    return table


def _step(step: Step) -> Iterator[Text]:
    yield Text(
        plain(f"{step.knob} = {level_text(step.level)} ({_WHERE[step.where]})"), style="bold"
    )
    for title, lines in (
        ("look first", step.look_first),
        ("apply", step.apply),
        ("keep", step.persist),
        ("undo", step.undo),
        ("libvirt", (step.xml,) if step.xml else ()),
        ("note", (step.note,) if step.note else ()),
    ):
        for place, line in enumerate(lines):
            label = f"  {title if place == 0 else '':<10} "
            yield Text(plain(label + line))
