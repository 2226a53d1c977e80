"""Systems under test with the ends of their traffic, as a workload sees them."""

from __future__ import annotations

from dataclasses import dataclass

from hypertare.protocol import plan


@dataclass(frozen=True)
class End:
    """Where traffic begins or ends."""

    node: str
    address: str

    def at(self, port: int) -> str:
        """The end's address with a port, as in a URL."""
        return f"[{self.address}]:{port}" if self.is_ipv6 else f"{self.address}:{port}"

    def everywhere(self, port: int) -> str:
        """Any address of the family that the end has, with a port."""
        return f"[::]:{port}" if self.is_ipv6 else f"0.0.0.0:{port}"

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.address


@dataclass(frozen=True)
class Pair:
    """One of the systems under test that work at once, with the two ends of its traffic.

    - `near`, `far`: the system under test itself, or an end node if it is a router; and the peer.
    - `interfaces`: the interfaces of the system under test that the traffic passes.
    - `number`: counts from 1; None for a pair that works alone.
    - `place`: counts the pairs of one node from 0, since the baseline's node is in every pair.
    - `machine`: the node of the machine with which the system under test can share memory, if it can.
    """

    rank: int
    node: str
    near: End
    far: End
    interfaces: tuple[str, ...]
    number: int | None
    machine: str | None = None
    place: int = 0

    @property
    def others(self) -> tuple[str, ...]:
        """The ends that are not under test."""
        return tuple(end.node for end in (self.near, self.far) if end.node != self.node)

    def task(
        self,
        role: str,
        node: str,
        workload: plan.Workload,
        *,
        name: str | None = None,
        direction: plan.Direction | None = None,
        background: bool = False,
        cpus: tuple[int, ...] = (),
    ) -> plan.Task:
        """One of the pair's tasks, with a `name` where it has several of a role."""
        mark = "" if self.number is None else f".{self.number}"
        return plan.Task(
            id=f"{name or role}{mark}",
            node=node,
            background=background,
            cpus=cpus,
            purpose=plan.Purpose(role=role, pair=self.number, direction=direction),
            workload=workload,
        )
