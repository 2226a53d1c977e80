"""What a probe is: who is asked, and which responses are made of what it counts.

Each has one file beside this one, and stands in `registry.py`. Its values are named in `VALUES` of
`crates/agent/src/probe/NAME.rs`; `tests/protocol/test_protocol.py` holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from hypertare.base.response import Found, Response
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase, sum_of_known

HOST = "host"
"""The node that is the machine itself."""

Place = Literal[
    "outside",
    "host",
    "machine",
    "way",
    "peer",
    "kernel",
    "processor",
    "guest",
    "datapath",
    "shared",
]
"""`outside`: what is under test, seen from the machine below. `host`: the machine. `machine`: what is under
test where that is a machine of its own, and nothing where it shares the host's kernel. `way`: others that
its packets pass, where drops are counted. `peer`: its peers, there. `kernel`: the machine itself and, where
guests' memory is its own, each guest. `processor`: the machine's CPUs. `guest`: each guest that works, as
KVM sees it. `datapath`: each whose packets a process of ours moves. `shared`: the machine, where it is one
on which others work too.
"""

Topic = Literal["polling", "translation"]
"""What workloads are asked: how packets were taken from NICs, or what translating addresses costs. A probe
that fits neither leaves it out, and has values only: a workload may make responses of them.
"""


class ProbeKind:
    """A probe: `responses` are those of its `topic` that `measure` makes of it.

    Values that every workload has in its CPU time are read where that is put together.
    """

    name: ClassVar[plan.ProbeName]
    places: ClassVar[tuple[Place, ...]]
    topic: ClassVar[Topic | None] = None
    responses: ClassVar[tuple[Response, ...]] = ()

    is_optional: ClassVar[bool] = False
    """Studies may have it or do without; all others are always read."""
    in_warmups_with: ClassVar[str | None] = None
    """It takes time of what it counts, so only warm-ups have it: of studies with this other probe."""
    is_of_network: ClassVar[bool] = False
    """It is asked only where something is sent."""

    def measure(self, phase: Phase, platform: str, nodes: Sequence[str]) -> Found:
        """Its responses.

        Args:
            phase: the measured phase of a trial, or the part of one guest in it.
            platform: the platform of the system under test.
            nodes: those under test.
        """
        return {}

    def total(self, phase: Phase, nodes: Iterable[str], value: str) -> float | None:
        """Over the nodes that worked, for others are not asked; none if none was."""
        return sum_of_known(phase.probe(node, self.name, value) for node in nodes)
