"""This host as a machine: the host agent is a child process, plans go in and records come out by pipe."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Set
from pathlib import Path

from hypertare.base.errors import HypertareError
from hypertare.machines.host.engine import Engine, EngineImage
from hypertare.machines.host.given import GivenMachines
from hypertare.machines.host.keeper import NotPutBackError, SettingsLease
from hypertare.machines.host.settings import NOTHING, Needs
from hypertare.machines.steps import HostAgent
from hypertare.protocol import plan
from hypertare.protocol.records import BenchReady, Record
from hypertare.study.sut import Network

_OF_NETWORK: dict[Network, tuple[str, ...]] = {"none": (), "host": ("--network", "host")}


class LocalMachine(HostAgent):
    """Runs benches and trials on this host. Use as a context manager."""

    proc = Path("/proc")

    def __init__(
        self,
        agent: Path,
        lease: SettingsLease | None = None,
        image: EngineImage | None = None,
        network: Network = "none",
    ) -> None:
        argv: list[str | Path] = [agent, "host", *_OF_NETWORK[network]]
        super().__init__(argv, "the agent", f"the agent {agent}")
        self.engine = Engine(image, agent) if image is not None else None
        self.given = GivenMachines(agent)
        self.lease = lease or SettingsLease(NOTHING)
        self._allowed = os.sched_getaffinity(0)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Ends the agent and puts this host's settings back.

        Raises:
            NotPutBackError: a setting could not be put back.
        """
        self.close()
        try:
            self.lease.close()
        except NotPutBackError as left:
            if error is None:
                raise
            print(f"hypertare: {left}", file=sys.stderr)

    def make_bench(self, bench: plan.Bench, limit_s: float) -> list[Record]:
        """Makes a bench; the last record is its `BenchReady`, with an error if it could not be made.

        What it needs of this host's settings is seen to first.

        Raises:
            AgentError: the agent is gone or silent.
        """
        blamed: type[plan.NodeKind] = plan.Guest
        try:
            self.lease.provide(Needs.of(bench))
            if self.engine is not None:
                blamed = plan.Container
                bench = self.engine.start(bench, limit_s)
            blamed = plan.Given
            bench = self.given.start(bench, limit_s)
        except HypertareError as error:
            self.given.remove()
            if self.engine is not None:
                self.engine.remove()
            # No other node than a guest needs settings of the host.
            node = next((node.name for node in bench.nodes if isinstance(node.kind, blamed)), None)
            text = " ".join(filter(None, (error.what, error.do)))
            return [BenchReady(bench=bench.name, seconds_s=0.0, error=text, node=node)]
        return super().make_bench(bench, limit_s)

    def stand_aside(self, cpus: Set[int]) -> None:
        """Keeps this process off these CPUs as long as a bench stands, if the host has others.

        So the controller's work between two trials does not delay nodes that prepare the next trial there.
        """
        os.sched_setaffinity(0, self._allowed - cpus or self._allowed)

    def processes(self) -> tuple[int, ...]:
        """Returns the processes of the machine's nodes that are no descendants of this process."""
        return tuple(self.engine.pids.values()) if self.engine is not None else ()

    def teardown(self) -> list[Record]:
        self.stand_aside(frozenset())
        try:
            return super().teardown()
        finally:
            self.given.remove()
            if self.engine is not None:
                self.engine.remove()

    def close(self) -> None:
        """Ends the agent in order, or by force after a few seconds. Never raises."""
        with contextlib.suppress(OSError):
            self.stand_aside(frozenset())
        try:
            super().close()
        finally:
            self.given.remove()
            if self.engine is not None:
                self.engine.close()
