"""`command`: what the user runs anyway, on every platform."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from hypertare.base import paths
from hypertare.base.quantities import Waiting
from hypertare.base.response import ELAPSED, Found, Response
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import GivenWork, LimitedSettings, TaskInputs, Workload

_SHELL = "/bin/sh"


class CommandSettings(LimitedSettings):
    type: Literal["command"]
    command: str | tuple[str, ...]
    prepare: str | None = None
    expected: Waiting | None = None

    @field_validator("command")
    @classmethod
    def _not_empty(cls, command: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not command or not command[0].strip():
            raise ValueError("the command is empty")
        return command

    @property
    def kind(self) -> Workload:
        return COMMAND

    @property
    def expected_s(self) -> float | None:
        return self.expected

    @property
    def argv(self) -> tuple[str, ...]:
        """A text goes to the shell, a list is taken as it is."""
        if isinstance(self.command, str):
            return (_SHELL, "-c", self.command)
        return self.command

    @property
    def programs(self) -> tuple[str, ...]:
        return (_SHELL, self.argv[0]) if self.prepare else (self.argv[0],)

    def given_work(self) -> GivenWork:
        in_image = self.argv[0] != paths.AGENT or self.prepare is not None
        return GivenWork(self.argv, self.prepare, in_image)

    def tasks(self, pair: Pair, inputs: TaskInputs) -> list[plan.Task]:
        work = plan.Command(
            argv=self.argv,
            env=inputs.environment,
            cwd=inputs.cwd,
            in_files=inputs.in_files,
            prepare=self.prepare,
            warmup=inputs.warmup,
        )
        return [pair.task("command", pair.node, work)]


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


COMMAND = Command()
