"""`command`: what the user runs anyway, on every platform."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from hypertare.base import paths
from hypertare.base.quantities import Size, Waiting
from hypertare.base.variables import ELAPSED, Found, Response
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase
from hypertare.workloads import packet_work
from hypertare.workloads.pair import Pair
from hypertare.workloads.printed import Printed
from hypertare.workloads.workload import (
    GivenWork,
    LimitedSettings,
    NodeFacts,
    TaskInputs,
    Workload,
    disk_misfit,
)

_SHELL = "/bin/sh"

PEER = "HYPERTARE_PEER"
"""In the environment of a command that has a peer: the peer's address."""

OWN_ADDRESS = "HYPERTARE_ADDRESS"
"""In the environment of its server: the address to listen at."""


class CommandSettings(LimitedSettings):
    type: Literal["command"]
    command: str | tuple[str, ...]
    """The command: a list is taken as it is, a text goes to `/bin/sh -c`. An emulated machine has
    `hypertare-agent` and `sut.programs`.
    """
    prepare: str | None = None
    """A shell command before each run: it is not timed, but it is in the probes' counters."""
    input: str | None = None
    """A file that each run has as standard input, from its beginning. Default: none."""
    tty: bool = False
    """The command has a terminal of its own, 80 by 24, in place of pipes; then no `input`."""
    value: Printed | None = None
    """A figure that it prints, which leads instead of elapsed time: `{ find = 'per second: +([0-9.]+)',
    better = "higher", unit = "1/s", name = "events" }`, or `{ path = "end.sum_received.bits_per_second" }`
    through JSON ([rules](weigh.md#a-figure-of-its-own)).
    """
    disk: Annotated[Size, Field(ge=1 << 20, le=1 << 44)] | None = None
    """Bytes of [a disk of its own](disks.md), which it finds at `$HYPERTARE_DISK`."""
    peer: str | tuple[str, ...] | None = None
    """A server on the peer, across the bench's link, for each run: [what it gets, when the command
    starts](weigh.md#across-a-network). List or text, as `command`. Of emulated guests:
    `["hypertare-agent", ...]` alone.
    """
    expected: Waiting | None = None
    """The time that it takes natively, for `--dry-run` and the remaining time. Default: learnt from the
    first.
    """

    @field_validator("peer")
    @classmethod
    def _serves(cls, peer: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if peer is not None and (not peer or not peer[0].strip()):
            raise ValueError("the peer's server is empty: name a program, or leave 'peer' out")
        return peer

    @model_validator(mode="after")
    def _reads_one_thing(self) -> CommandSettings:
        if self.tty and self.input is not None:
            raise ValueError("with 'tty' its standard input is the terminal: leave 'input' out")
        return self

    @field_validator("command")
    @classmethod
    def _not_empty(cls, command: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not command or not command[0].strip():
            raise ValueError("the command is empty")
        return command

    @property
    def responses(self) -> tuple[Response, ...]:
        return (*self._printed, *self.kind.responses)

    @property
    def headline(self) -> str:
        return next((one.name for one in self._printed), self.kind.headline)

    @property
    def _printed(self) -> tuple[Response, ...]:
        return () if self.value is None else (self.value.response(self.kind.responses),)

    def measure_asked(self, phase: Phase) -> Found:
        results = phase.results_of("command")
        if self.value is None or not results:
            return {}
        (printed,) = self._printed
        found = [self.value.read(result.text) for result in results]
        return {printed.name: sum(found) / (len(found) if printed.of_guests == "mean" else 1)}

    @property
    def expected_s(self) -> float | None:
        return self.expected

    @property
    def argv(self) -> tuple[str, ...]:
        return _argv(self.command)

    @property
    def programs(self) -> tuple[str, ...]:
        shell = (_SHELL,) if self.prepare else ()
        server = () if self.peer is None else (_argv(self.peer)[0],)
        return (*shell, self.argv[0], *server)

    @property
    def input_file(self) -> str | None:
        return self.input

    @property
    def disk_bytes(self) -> int:
        return self.disk or 0

    @property
    def needs_network(self) -> bool:
        return self.peer is not None

    @property
    def peer_needs_files(self) -> bool:
        return self.peer is not None

    def misfit(self, node: NodeFacts) -> str | None:
        if self.disk is not None and (no_disk := disk_misfit(node)) is not None:
            return no_disk
        if self.disk is not None and node.several_on_a_disk:
            return (
                "natively the commands of several guests would write to the one 'disk' of their host: set "
                "sut.guests = 1, leave the platform native out, or take the workload io"
            )
        if self.peer is None:
            return None
        if node.routed:
            return "a command with a 'peer' is no work for routers: set bench.topology = \"hosts\""
        if node.peers_have_programs or _argv(self.peer)[0] == paths.AGENT:
            return None
        return (
            "the peer of an emulated machine's guests is a node of their host, which has no program but "
            f'{paths.AGENT}: take peer = ["{paths.AGENT}", "ping", "--listen"], or machine = "local"'
        )

    def given_work(self) -> GivenWork:
        in_image = self.argv[0] != paths.AGENT or self.prepare is not None
        return GivenWork(self.argv, self.prepare, in_image)

    def tasks(self, pair: Pair, inputs: TaskInputs) -> list[plan.Task]:
        of_peer = {} if self.peer is None else {PEER: pair.far.address}
        work = plan.Command(
            argv=self.argv,
            env={**inputs.environment, **of_peer},
            cwd=inputs.cwd,
            in_files=inputs.in_files,
            prepare=self.prepare,
            input=None if self.input is None else Path(self.input),
            warmup=inputs.warmup,
            # Those are for what has no disk.
            watch_syncs=inputs.watched and self.disk is None,
            tty=self.tty,
        )
        command = pair.task("command", pair.node, work)
        if self.peer is None:
            return [command]
        server = plan.Serve(
            argv=_argv(self.peer),
            env={**inputs.environment, OWN_ADDRESS: pair.far.address},
            cwd=inputs.peer_cwd,
            in_files=inputs.in_files,
        )
        return [pair.task("serve", pair.far.node, server, background=True), command]


def _argv(command: str | tuple[str, ...]) -> tuple[str, ...]:
    """A text goes to the shell, a list is taken as it is."""
    return (_SHELL, "-c", command) if isinstance(command, str) else command


class Command(Workload):
    name = "command"
    settings = CommandSettings
    own_responses = (
        Response(ELAPSED, "s", "lower", "elapsed time", "most"),
        Response("user", "s", "lower", "CPU time in user mode"),
        Response("system", "s", "lower", "CPU time in the kernel"),
        Response("minor_faults", "faults", "lower", "minor page faults"),
        Response("major_faults", "faults", "lower", "major page faults"),
        Response("voluntary_switches", "switches", "lower", "voluntary context switches"),
        Response("involuntary_switches", "switches", "lower", "involuntary context switches"),
        Response("peak_memory", "B", "lower", "largest resident set of a process", "most"),
        *packet_work.RESPONSES,
    )
    headline = ELAPSED
    needs_files = True
    warms_up = True
    translates = True

    def measure(self, phase: Phase) -> Found:
        names = {
            "elapsed": "elapsed_s",
            "user": "user_s",
            "system": "system_s",
            "minor_faults": "minor_faults",
            "major_faults": "major_faults",
            "voluntary_switches": "voluntary_switches",
            "involuntary_switches": "involuntary_switches",
            "peak_memory": "peak_memory_bytes",
        }
        return {name: phase.total("command", value) for name, value in names.items()}

    def measure_node(self, phase: Phase, node: str) -> Found:
        """With a peer only: without one there are no packets."""
        return packet_work.measure(phase, node)


COMMAND = Command()
