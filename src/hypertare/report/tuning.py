"""A tuning in a terminal, and what there is to type in the words that every form of it has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, Group, RenderableType
from rich.text import Text

from hypertare.base.figures import level_text
from hypertare.findings.tuning import KnownBefore, Step, Tuning
from hypertare.report.tables import tuning as tables
from hypertare.report.tables.table import Table
from hypertare.report.terminal_tables import Fitting, plain
from hypertare.workloads.responses import meaning

_MOST = 8
WHERE = {
    "host": "on the host",
    "guest": "in the guest",
    "container": "in the container",
    "application": "in the application",
    "study": "in the study alone",
}


# --- on a terminal


def show(found: Tuning, console: Console | None = None) -> None:
    console = console or Console()
    console.print(Group(*_parts(found)))
    for step in found.steps:
        console.print()
        put_step(step, console)


def _parts(found: Tuning) -> Iterator[RenderableType]:
    style = "yellow" if found.keep_default else "bold green"
    yield Text(plain(f"{found.study}: {found.verdict}"), style=style)
    machine = found.machine
    where = (
        f"{found.workload} on {found.platform}, goal {found.goal}, {found.trials} trials, seed "
        f"{found.seed}; {machine.hostname}, Linux {machine.kernel}, {found.clock} clock"
    )
    yield Text(plain(where), style="dim")
    if found.known is not None:
        yield Text(plain(known(found.known)), style="dim")
    if said := meaning(found.clock, machine.walks):
        yield Text(said, style="dim italic")
    yield from shown(tables.tables(found, _MOST))


def shown(found: Iterable[Table]) -> Iterator[RenderableType]:
    for one in found:
        yield Text()
        yield Text(plain(one.title), style="bold")
        yield Fitting(one, unsure="dim")


def put_step(step: Step, console: Console) -> None:
    """Commands are not broken, however narrow the terminal is, so that they can be copied."""
    named = f"{step.knob} = {level_text(step.level)} ({WHERE[step.where]})"
    console.print(Text(plain(named), style="bold"), soft_wrap=True)
    for title, words in lines(step):
        for number, line in enumerate(words):
            label = f"  {title if number == 0 else '':<10} "
            console.print(Text(plain(label + line)), soft_wrap=True)


# --- in words and figures


def known(before: KnownBefore) -> str:
    """For example: known from DIR: 24 settings of 96 trials; left out 2 of its cells: mtu 9000"""
    left = f"; left out {'; '.join(before.left_out)}" if before.left_out else ""
    return f"known from {before.run}: {before.settings} settings of {before.trials} trials{left}"


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
