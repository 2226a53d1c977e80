"""The platforms as they turned out: what ran them, on what, with which offloads."""

from __future__ import annotations

from collections.abc import Iterator

from hypertare.base.level import Level
from hypertare.base.units import human_size
from hypertare.report.tables.table import Column, Row, Table, text
from hypertare.runs.summary import Placement, PlatformState, Summary


def table(summary: Summary) -> Table:
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
    return Table("platforms", name, name, "", columns, tuple(_rows(summary)))


def _rows(summary: Summary) -> Iterator[Row]:
    for state in summary.platforms:
        yield Row(
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


def _below(state: PlatformState) -> str:
    """What runs a guest: `Xen 4.17.5, credit2, route, on CPU 1, driver domain 1 on CPU 0`."""
    placed = f"on {_cpus(state.placed)}" if state.placed else ""
    driver = f"driver domain {state.driver.cpus} on {_cpus(state.driver)}" if state.driver else ""
    bound = f" on {_any_of(state.datapath_cpus)}" if state.datapath_cpus else ""
    path = f"packets by {state.datapath}{bound}" if state.datapath else ""
    tsc = f"TSC {state.tsc}" if state.tsc else ""
    parts = (state.vmm, state.processor, path, state.scheduler, tsc, state.joined, placed, driver)
    return ", ".join(filter(None, parts)) or "–"


def _cpus(of: Placement) -> str:
    """Of the machine."""
    return _any_of(of.on)


def _any_of(cpus: tuple[int, ...]) -> str:
    return f"CPU {', '.join(map(str, cpus))}" if cpus else "any CPU"


def _mapping(state: PlatformState) -> str:
    """How a guest's memory is mapped: `shadow page tables, 4K`."""
    tables = f"{state.paging} page tables" if state.paging else ""
    return ", ".join(filter(None, (tables, state.pages))) or "–"


def _interfaces(state: PlatformState) -> str:
    parts = (
        f"{name}: " + ", ".join(_setting(key, value) for key, value in settings.items())
        for name, settings in state.interfaces.items()
    )
    return "; ".join(parts) or "–"


def _setting(key: str, value: Level | None) -> str:
    if isinstance(value, bool):
        return f"{key} {'on' if value else 'off'}"
    return f"{key} {'unknown' if value is None else value}"
