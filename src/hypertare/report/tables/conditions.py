"""What a run was made with: its platforms as they turned out, and the noise floor."""

from __future__ import annotations

from hypertare.base import figures
from hypertare.base.figures import word
from hypertare.base.units import human_size
from hypertare.report import levels
from hypertare.report.model import Report
from hypertare.report.tables.table import Column, Row, Table, text
from hypertare.runs.summary import PlatformState, Summary


def platform_table(summary: Summary) -> Table:
    name = "Platforms as they turned out"
    columns = (
        text("platform"),
        text("node"),
        text("VMM"),
        text("accelerator"),
        Column("CPUs"),
        Column("memory"),
        text("mapped by"),
        text("kernel"),
        text("clock source"),
        text("interfaces"),
    )
    rows = tuple(
        Row(
            (
                state.platform,
                state.node,
                _below(state),
                state.accelerator or "–",
                str(state.cpus),
                human_size(state.memory),
                _mapping(state),
                state.kernel,
                state.clocksource,
                _interfaces(state),
            )
        )
        for state in summary.platforms
    )
    return Table("platforms", name, name, "", columns, rows)


def _below(state: PlatformState) -> str:
    """What runs a guest: `Xen 4.17.5, credit2, route, on CPU 1, driver domain 1 on CPU 0`."""
    placed = f"on {_cpus(state.placed.on)}" if state.placed else ""
    driver = (
        f"driver domain {state.driver.cpus} on {_cpus(state.driver.on)}" if state.driver else ""
    )
    bound = f" on {_cpus(state.datapath_cpus)}" if state.datapath_cpus else ""
    path = f"packets by {state.datapath}{bound}" if state.datapath else ""
    tsc = f"TSC {state.tsc}" if state.tsc else ""
    parts = (state.vmm, state.processor, path, state.scheduler, tsc, state.joined, placed, driver)
    return ", ".join(filter(None, parts)) or "–"


def _cpus(cpus: tuple[int, ...]) -> str:
    """Of the machine."""
    return f"CPU {', '.join(map(str, cpus))}" if cpus else "any CPU"


def _mapping(state: PlatformState) -> str:
    """How a guest's memory is mapped: `shadow page tables, 4K`."""
    tables = f"{state.paging} page tables" if state.paging else ""
    return ", ".join(filter(None, (tables, state.pages))) or "–"


def _interfaces(state: PlatformState) -> str:
    parts = (
        f"{name}: "
        + ", ".join(
            f"{key} {'unknown' if value is None else levels.shown(value)}"
            for key, value in settings.items()
        )
        for name, settings in state.interfaces.items()
    )
    return "; ".join(parts) or "–"


def noise_table(report: Report) -> Table:
    baseline = report.meta.baseline
    rows = []
    for floor in report.summary.noise:
        # Of hundreds of cells that of what leads: what else is, `--format json` has.
        leading = report.meta.headline.get(str(floor.cell.get("workload")))
        if report.has_hundreds_of_cells and floor.response != leading:
            continue
        low, high = 100 * floor.cost_low, 100 * floor.cost_high
        cells = (
            report.wording.label(floor.cell),
            word(floor.response),
            str(floor.n),
            f"{figures.significant(100 * floor.cost)} %",
            f"{figures.significant(low)} to {figures.significant(high)}",
            floor.pairs,
        )
        rows.append(Row(cells))
    return Table(
        "noise",
        "Noise floor",
        "Noise floor",
        f"{baseline} against itself: the least cost that this run could have shown, and the bounds of "
        f"what {baseline} cost against itself.",
        (
            text("cell"),
            text("response"),
            Column("pairs"),
            Column("least cost"),
            Column("bounds, %"),
            text("paired from"),
        ),
        tuple(rows),
    )
