"""`life`: one like the system under test is made, answers, is saved and restored, and ends."""

from __future__ import annotations

from typing import Literal

from hypertare.base.response import Found, Response
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import LimitedSettings, NodeFacts, TaskInputs, Workload

_ROLE = "life"
_VALUES = {
    "answer": "answer_s",
    "vmm_start": "vmm_s",
    "kernel_boot": "kernel_s",
    "agent_start": "agent_s",
    "memory": "memory_bytes",
    "save": "save_s",
    "saved_size": "saved_bytes",
    "restore": "restore_s",
    "stop": "stop_s",
}
"""Responses by the value that a life tells."""


class LifeSettings(LimitedSettings):
    type: Literal["life"]
    restore: bool = True

    @property
    def kind(self) -> Workload:
        return LIFE

    @property
    def nodes_beside(self) -> int:
        # Saved and restored, it is in memory once more, as the state that it was saved in.
        return 2 if self.restore else 1

    def misfit(self, node: NodeFacts) -> str | None:
        if node.all_made:
            return None
        return (
            "it makes a system under test anew in each trial, and neither the platform given nor a "
            "container of an engine's image is made here: leave them out"
        )

    def tasks(self, pair: Pair, inputs: TaskInputs) -> list[plan.Task]:
        return []

    def lives(self, pair: Pair, like: plan.Node, instant: float) -> list[plan.Life]:
        mark = "" if pair.number is None else f".{pair.number}"
        node = like.model_copy(update={"name": f"{pair.node}-life{pair.place + 1}"})
        purpose = plan.Purpose(role=_ROLE, pair=pair.number)
        return [
            plan.Life(
                id=f"{_ROLE}{mark}",
                of=pair.node,
                node=node,
                restored=self.restore and isinstance(node.kind, plan.Guest),
                purpose=purpose,
            )
        ]


class Life(Workload):
    name = "life"
    settings = LifeSettings
    own_responses = (
        Response("answer", "s", "lower", "from the start to the first answer of its agent", "mean"),
        Response(
            "vmm_start", "s", "lower", "of that until its kernel began: VMM and firmware", "mean"
        ),
        Response("kernel_boot", "s", "lower", "of that its kernel until the agent began", "mean"),
        Response("agent_start", "s", "lower", "of that its agent until the first record", "mean"),
        Response("memory", "B", "lower", "memory of its process (PSS) when it has answered"),
        Response("save", "s", "lower", "saving its state, which stops it", "mean"),
        Response("saved_size", "B", "lower", "size of that state"),
        Response(
            "restore",
            "s",
            "lower",
            "from the start of a VMM with that state to an answer",
            "mean",
        ),
        Response("stop", "s", "lower", "from the order to end to the end of its process", "mean"),
    )
    headline = "answer"
    works_on_node = False

    def measure(self, phase: Phase) -> Found:
        return {name: phase.total(_ROLE, value) for name, value in _VALUES.items()}


LIFE = Life()
