"""The base class of probes: the nodes that a probe reads, and the responses made of its counters.

Each probe stands in a file beside this one, alone or with those that one reads with it, and has an entry in
`registry.py`. Its values are named in `VALUES` of `crates/agent/src/probe/NAME.rs`;
`tests/protocol/test_protocol.py` holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from hypertare.base.variables import Found, Response
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
"""Where a probe is read.

- `outside`: the systems under test, seen from the machine below.
- `host`: the machine.
- `machine`: the systems under test, if they do not share the host's kernel.
- `way`: other nodes that their packets pass, if drops are counted.
- `peer`: the peers among these.
- `kernel`: the machine and, if guests' memory is the machine's own, each guest.
- `processor`: the machine's CPUs.
- `guest`: each guest that works, as KVM sees it.
- `datapath`: each guest whose packets a process of ours moves.
- `shared`: the machine, if other programs use it too.
"""

Topic = Literal["polling", "translation"]
"""Subjects of probes for workloads: how packets were taken from NICs, and the cost of address translation.

A probe without a topic has values alone, of which a workload may make responses.
"""


class ProbeKind:
    """A probe. `responses` belong to its `topic`; `measure` makes them of its values.

    CPU time, which every workload has, is read elsewhere (`hypertare.workloads.responses`).
    """

    name: ClassVar[plan.ProbeName]
    places: ClassVar[tuple[Place, ...]]
    topic: ClassVar[Topic | None] = None
    responses: ClassVar[tuple[Response, ...]] = ()

    is_optional: ClassVar[bool] = False
    """Studies may have it or do without; all others are always read."""
    in_warmups_with: ClassVar[str | None] = None
    """The probe that a study must ask for to have this one, in warm-ups only: its reading takes time.

    None for a probe that is read in trials.
    """
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
        """Returns the sum of a value over the nodes that worked; None if no node has it."""
        return sum_of_known(phase.probe(node, self.name, value) for node in nodes)
