"""What a bench turned out to be, from its records: negotiated, not asked for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.design import Plot
from hypertare.records import Hello, InterfaceState, NodeReady, Record
from hypertare.summary import Level, PlatformState


def platform_states(plot: Plot, records: Sequence[Record]) -> list[PlatformState]:
    """The state of every variant's node that came up, in the plot's order."""
    hellos = {r.node: r for r in records if isinstance(r, Hello)}
    ready = {r.node: r for r in records if isinstance(r, NodeReady)}
    interfaces: dict[str, dict[str, dict[str, Level | None]]] = {}
    for record in records:
        if isinstance(record, InterfaceState):
            interfaces.setdefault(record.node, {})[record.interface] = _interface(record)
    return [
        PlatformState(
            platform=variant.platform,
            node=variant.node,
            kernel=hellos[variant.node].kernel,
            cpus=hellos[variant.node].cpus,
            memory=hellos[variant.node].memory,
            accelerator=ready[variant.node].accelerator,
            vmm=ready[variant.node].vmm,
            clocksource=hellos[variant.node].clocksource,
            interfaces=interfaces.get(variant.node, {}),
        )
        for variant in plot.variants
        if variant.node in hellos and variant.node in ready
    ]


def _interface(state: InterfaceState) -> dict[str, Level | None]:
    return {
        "driver": state.driver,
        "mtu": state.mtu,
        "rx_queues": state.rx_queues,
        "tx_queues": state.tx_queues,
        **state.offloads,
    }
