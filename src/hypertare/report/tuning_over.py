"""A tuning for each level of a factor, in a terminal and as a page (`hypertare.report.page`)."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.text import Text

from hypertare.base.figures import factor_text, level_text
from hypertare.findings.tuning import AtLevel, TuningOver
from hypertare.report import page, tuning
from hypertare.report.colours import LEVELS
from hypertare.report.tables.tuning import over_tables
from hypertare.report.terminal_tables import plain
from hypertare.report.vega import Chart, colour, field, fields, layers, mark, sized, values
from hypertare.workloads.responses import meaning

_HEIGHT = 300


# --- on a terminal


def show(found: TuningOver, console: Console | None = None) -> None:
    console = console or Console()
    console.print(Group(*_parts(found)))
    for one in _with_steps(found):
        console.print()
        console.print(Text(plain(f"For {_place(one, found)}:"), style="bold"))
        for step in one.found.steps:
            tuning.put_step(step, console)


def _parts(found: TuningOver) -> Iterator[RenderableType]:
    name = found.tuned[0].found.study if found.tuned else "tuning"
    yield Text(plain(f"{name} over {found.asked.factor}: {found.verdict}"), style="bold")
    for one in found.tuned[:1]:
        machine = one.found.machine
        where = (
            f"{one.found.workload} on {one.found.platform}, seed {found.asked.seed}; "
            f"{machine.hostname}, Linux {machine.kernel}, {one.found.clock} clock"
        )
        yield Text(plain(where), style="dim")
        if said := meaning(one.found.clock, machine.walks):
            yield Text(said, style="dim italic")
    yield from tuning.shown(over_tables(found))
    for warning in found.warnings:
        yield Text(plain(warning), style="yellow")


def _with_steps(found: TuningOver) -> list[AtLevel]:
    every = [*found.tuned, *((found.confirmed,) if found.confirmed else ())]
    return [one for one in every if one.found.steps]


def _place(one: AtLevel, found: TuningOver) -> str:
    return f"{found.asked.factor} = {level_text(one.level)}"


# --- as a page


def render(found: TuningOver) -> str:
    """The page."""
    knobs = dict.fromkeys(law.knob for law in found.laws)
    drawn = [_chart(found, number, knob) for number, knob in enumerate(knobs)]
    first = found.tuned[0].found if found.tuned else None
    return page.render(
        "tuning_over.html.j2",
        drawn,
        over=found,
        first=first,
        facts=_facts(found),
        meaning=meaning(first.clock, first.machine.walks) if first else "",
        tables=list(over_tables(found)),
        charts=drawn,
        stepped=[(_place(one, found), one) for one in _with_steps(found)],
        where=tuning.WHERE,
        lines=tuning.lines,
        level_text=level_text,
    )


def _facts(found: TuningOver) -> list[tuple[str, str]]:
    if not found.tuned:
        return []
    first = found.tuned[0].found
    return [
        ("platform", f"{first.platform}, {first.workload}"),
        ("goal", first.goal),
        ("levels", ", ".join(map(level_text, found.asked.levels))),
        ("trials", str(sum(one.found.trials for one in found.tuned))),
        *page.where(first),
        ("seed", str(found.asked.seed)),
    ]


def _chart(found: TuningOver, number: int, knob: str) -> Chart:
    laws = [law for law in found.laws if law.knob == knob]
    best = [
        {"level": level, "setting": setting, "law": "best setting"}
        for level, setting in laws[0].best
    ]
    rows = [
        {"level": level, "setting": value, "law": law.formula}
        for law in laws
        for level, value in law.at
    ]
    shades = dict(zip([law.formula for law in laws], LEVELS, strict=False))
    scale = {"type": "log", "nice": False, "padding": 14}
    x = field("level:Q", title=factor_text(found.asked.factor), scale=scale)
    y = field("setting:Q", title=factor_text(knob), scale=scale)
    tip = fields("law:N", "level:Q", "setting:Q")
    drawn = layers(
        mark("line", {"x": x, "y": y, "color": colour("law", shades), "tooltip": tip}, size=2),
        mark("point", {"x": x, "y": y, "tooltip": tip}, data=values(best), filled=True, size=110),
        data=values(rows),
    )
    return Chart(
        f"law{number}",
        f"{knob} by {found.asked.factor}",
        "Points: the best setting of each level, as its tuning confirmed it (the default where that is to "
        "be kept). Lines: the laws.",
        sized(drawn, height=_HEIGHT),
        table="laws",
    )
