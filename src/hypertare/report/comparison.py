"""Two runs side by side in a terminal: what got worse first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from hypertare.base import figures
from hypertare.base.figures import word
from hypertare.base.variables import VIRTUAL
from hypertare.findings.compare import Change, Comparison
from hypertare.findings.summarise import Found
from hypertare.report import verdict
from hypertare.report.terminal_tables import columns, plain
from hypertare.report.verdict import Wording
from hypertare.study.analyses import LOSS_FREE_RATE
from hypertare.workloads.responses import meaning

_STYLES = {"worse": "red", "better": "green", "no difference shown": "", "undecided": "yellow"}
_MARKS = {"worse": "▲", "better": "▼", "no difference shown": "=", "undecided": "?"}


def show(comparison: Comparison, a: Found, b: Found, console: Console | None = None) -> None:
    """Prints what B changed against A."""
    console = console or Console(highlight=False)
    wording = Wording.of(a.summary, (*a.trials, *b.trials))
    console.print(Group(*_parts(comparison, a, wording)))


def sentence(change: Change, wording: Wording) -> str:
    """For example: worse: guest goodput in tcp −12 % (95 % interval 10 to 14)"""
    text, interval = change_text(change)
    kind = "bounds" if change.confidence is None else verdict.confidence_text(change.confidence)
    around = f" ({kind} {interval})" if interval else ""
    return f"{change.direction}: {_named(change, wording)} {text}{around}"


def _named(change: Change, wording: Wording) -> str:
    what = f"{'cost of ' if change.of == 'cost' else ''}{word(change.response)}"
    return f"{_platform(change, wording)} {what} in {wording.label(change.cell)}"


def _platform(change: Change, wording: Wording) -> str:
    name = wording.platform(change.platform, change.cell)
    return name if change.guest is None else f"{name}, guest {change.guest}"


def change_text(change: Change) -> tuple[str, str]:
    """The change from A to B, in per cent where there is a ratio, and its interval. Of a cost it is that
    of the response as a multiple of the baseline's.
    """
    if change.ratio is not None:
        ends = (change.ratio_low, change.ratio_high)
        bounds = [None if end is None else 100 * (end - 1) for end in ends]
        return verdict.change_text(100 * (change.ratio - 1), bounds, "%")
    if change.difference is not None:
        return verdict.difference_text(
            change.difference,
            (change.difference_low, change.difference_high),
            change.unit,
            max(abs(change.a), abs(change.b)),
        )
    return "–", ""


def _parts(comparison: Comparison, a: Found, wording: Wording) -> Iterator[RenderableType]:
    if said := meaning(a.summary.clock, a.summary.machine.walks):
        yield Text(said, style="dim italic")
        yield Text()
    yield _answer(comparison, wording)
    changed = [c for c in comparison.changes if c.direction != "no difference shown"]
    for change in sorted(changed, key=lambda c: (c.direction != "worse", -abs(c.loss or 0.0))):
        style = _STYLES[change.direction]
        yield Text(f"{_MARKS[change.direction]} {plain(sentence(change, wording))}", style=style)
    rest = len(comparison.changes) - len(changed)
    if rest:
        yield Text(f"= no difference shown in {rest} of {len(comparison.changes)} comparisons")
    yield Text()
    yield from _table(comparison, a, wording)
    for title, places in (("only in A", comparison.only_a), ("only in B", comparison.only_b)):
        if places:
            yield Text(f"{title}: {plain('; '.join(places))}")
    if comparison.predictions:
        yield Text("predictability", style="bold")
        for line in comparison.predictions:
            yield Padding(Text(plain(line)), (0, 0, 0, 2), expand=False)
    if comparison.warnings:
        yield Text()
        yield Text("warnings", style="bold yellow")
        for warning in comparison.warnings:
            yield Padding(Text(plain(warning)), (0, 0, 0, 2), expand=False)


def _answer(comparison: Comparison, wording: Wording) -> Text:
    """Whether anything that decides got worse, and else by how much it may have."""
    deciding = [one for one in comparison.changes if one.decides]
    for direction, found in (("worse", comparison.worse), ("undecided", comparison.undecided)):
        if found:
            words = f"{direction}: {len(found)} of {len(deciding)} figures that decide"
            return Text(f"{_MARKS[direction]} {words}", style=_STYLES[direction])
    bounds = [(bound, one) for one in deciding if (bound := _worst(one)) is not None]
    words = "no worse"
    if bounds:
        most, one = max(bounds, key=lambda found: found[0])
        share = figures.significant(100 * most)
        words = f"no worse, or by {share} % at most ({_named(one, wording)})"
    return Text(f"{_MARKS['no difference shown']} {plain(words)}")


def _worst(change: Change) -> float | None:
    """The most that may have been lost, as a share; none where nothing may."""
    worst = change.ratio_high if change.better == "lower" else change.ratio_low
    if worst is None:
        return None
    loss = worst - 1 if change.better == "lower" else 1 - worst
    return loss if loss > 0 else None


def _table(comparison: Comparison, a: Found, wording: Wording) -> Iterator[RenderableType]:
    header = ("", "n", "A", "n", "B", "change", "interval")
    changes = _in_order(comparison.changes, a, wording)
    rows = {id(change): _row(change, wording) for change in changes}
    line = columns([header, *rows.values()])
    yield line(header, "")
    for _, group in groupby(changes, key=lambda c: (wording.label(c.cell), c.response, c.of)):
        chosen = list(group)
        yield Text(plain(_heading(chosen[0], wording)), style="italic")
        for change in chosen:
            yield line(rows[id(change)], _STYLES[change.direction])


def _in_order(changes: Sequence[Change], a: Found, wording: Wording) -> list[Change]:
    """By cell and response as run A has them, then by platform."""
    cells = list(dict.fromkeys(wording.label(change.cell) for change in changes))
    responses, platforms = [*a.responses, LOSS_FREE_RATE], list(a.meta.platforms)

    def place(change: Change) -> tuple[int, int, str, int, str, int]:
        return (
            cells.index(wording.label(change.cell)),
            responses.index(change.response),
            change.of,
            platforms.index(change.platform),
            wording.platform(change.platform, change.cell),
            change.guest or 0,
        )

    return sorted(changes, key=place)


def _row(change: Change, wording: Wording) -> tuple[str, ...]:
    unit = change.unit.removesuffix(VIRTUAL)
    if figures.counted(unit):
        unit = ""
    text, interval = change_text(change)
    return (
        f"  {plain(_platform(change, wording))}",
        str(change.n_a),
        _side(change, change.a, unit),
        str(change.n_b),
        _side(change, change.b, unit),
        text.removesuffix(VIRTUAL),
        interval,
    )


def _side(change: Change, value: float, unit: str) -> str:
    """A value, or a cost as the change of the response that it is."""
    if change.of == "value":
        return figures.quantity(value, unit)
    sign = 100 if change.better == "lower" else -100
    return verdict.change_text(sign * value, (), "%")[0]


def _heading(change: Change, wording: Wording) -> str:
    """With what is said once for the whole row: the unit, if it is a noun, and the clock."""
    unit = change.unit.removesuffix(VIRTUAL)
    clock = VIRTUAL if change.unit.endswith(VIRTUAL) else ""
    if change.of == "cost":
        return f"{wording.label(change.cell)}, cost of {word(change.response)}"
    noun = f" ({unit})" if figures.counted(unit) else ""
    return f"{wording.label(change.cell)}, {word(change.response)}{noun}{clock}"
