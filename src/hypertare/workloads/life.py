"""`life`: one like the system under test is made, answers, works, is saved and restored, and ends."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hypertare.base.variables import Found, Response
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase
from hypertare.workloads.pair import End, Pair
from hypertare.workloads.workload import LimitedSettings, NodeFacts, Workload

_ROLE = "life"
_WORK, _SERVE, _ASK = "first_work", "serve", "ask"
_PORT = 7300
_PATIENCE_S = 5.0
"""For the first answer over the network, once there is who gives it; the kernel looks for a neighbour again
each second."""
_VALUES = {
    "answer": "answer_s",
    "first_work": "work_s",
    "first_reply": "reply_s",
    "fitting": "fitted",
    "slowest": "slowest",
    "memory_each": "crowd_bytes",
    "vmm_memory": "vmm_bytes",
    "vmm_start": "vmm_s",
    "kernel_boot": "kernel_s",
    "agent_start": "agent_s",
    "memory": "memory_bytes",
    "save": "save_s",
    "saved_size": "saved_bytes",
    "restore": "restore_s",
    "stop": "stop_s",
}
"""Responses by the value that a life reports."""


class LifeSettings(LimitedSettings):
    type: Literal["life"]
    restore: bool = True
    """A guest under QEMU is also saved, ended, and made anew from what was saved."""
    network: bool = False
    """The guest has a NIC as the system under test has, and a peer asks it across the network; not under
    Xen and not with routers.
    """
    most: Annotated[int, Field(ge=2, le=4096)] | None = None
    """2 to 4096: more like it are made beside it and stay, until there are so many, one takes twice as
    long to answer as the first, or seven eighths of the machine's memory are taken; an emulated machine
    has memory for all of them.
    """

    @model_validator(mode="after")
    def _alone_or_many(self) -> LifeSettings:
        if self.most is None:
            return self
        if self.restore and "restore" in self.model_fields_set:
            raise ValueError(
                "'most' fills the machine with such that only live, and 'restore' saves one: leave one out"
            )
        if self.network:
            raise ValueError(
                "'most' fills the machine with such that are on no network: leave 'network' out"
            )
        return self

    @property
    def is_restored(self) -> bool:
        return self.restore and self.most is None

    @property
    def needs_network(self) -> bool:
        return self.network

    @property
    def nodes_beside(self) -> int:
        # Saved and restored, it is in memory once more, as the state that it was saved in.
        return 2 if self.is_restored else 1

    @property
    def most_beside(self) -> int:
        return self.most or self.nodes_beside

    def misfit(self, node: NodeFacts) -> str | None:
        if not node.all_made:
            return (
                "it makes a system under test anew in each trial, and neither the platform given nor a "
                "container of an engine's image is made here: leave them out"
            )
        if self.network and node.routed:
            return (
                "'network' has a peer ask across one link, and bench.topology is 'routers': leave one of "
                "them out"
            )
        if self.network and node.under_hypervisor:
            return (
                "'network' is for guests under QEMU, containers and native: leave it out, or the platform "
                "xen"
            )
        if self.most is not None and node.several:
            return "'most' adds to one system under test, and sut.guests asks for several: leave one out"
        return None

    def lives(self, pair: Pair, like: plan.Node, instant: float) -> list[plan.Life]:
        mark = "" if pair.number is None else f".{pair.number}"
        name = f"{pair.node}-life{pair.place + 1}"
        node = like.model_copy(update={"name": name})
        if not self.network:
            node = node.model_copy(update={"interfaces": ()})
        # It reports no CPU time, which a guest that has just booted may count wrongly on a busy host.
        work = pair.task(_WORK, name, plan.Cpuid(count=10))
        return [
            plan.Life(
                id=f"{_ROLE}{mark}",
                of=pair.node,
                node=node,
                work=work,
                reached=self._reached(pair, node) if self.network else None,
                most=self.most,
                restored=self.is_restored and isinstance(node.kind, plan.Guest),
                purpose=plan.Purpose(role=_ROLE, pair=pair.number),
            )
        ]

    def _reached(self, pair: Pair, node: plan.Node) -> plan.Reached:
        """Returns a peer's request that the node must answer, at its own or its machine's address."""
        own = [one.address.partition("/")[0] for one in node.interfaces]
        end = End(node.name, own[0] if own else pair.near.address)
        port = _PORT + pair.rank
        reply = plan.PingReply(protocol="udp", on=end.everywhere(port))
        ask = plan.PingRequest(
            protocol="udp",
            to=end.at(port),
            count=1,
            duration_s=2 * _PATIENCE_S,
            timeout_s=_PATIENCE_S,
        )
        return plan.Reached(
            answer=pair.task(_SERVE, node.name, reply, background=True),
            ask=pair.task(_ASK, pair.far.node, ask),
        )


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
        Response("init", "s", "lower", "from the start until its kernel began init", "mean"),
        Response(
            "first_work",
            "s",
            "lower",
            "from the start until a process in it had worked, and ended",
            "mean",
        ),
        Response(
            "first_reply", "s", "lower", "from the start to its first answer to a peer", "mean"
        ),
        Response("memory", "B", "lower", "memory of its process (PSS) when it has worked"),
        Response("vmm_memory", "B", "lower", "of that what is no memory of the guest"),
        Response(
            "fitting",
            "nodes",
            "higher",
            "living at once, each answering in less than twice the time of the first",
        ),
        Response("memory_each", "B", "lower", "memory of the process of each of them", "mean"),
        Response(
            "slowest",
            "ratio",
            "lower",
            "the longest time of any of them to its answer, to that of the first",
            "most",
        ),
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
        found: Found = {name: phase.total(_ROLE, value) for name, value in _VALUES.items()}
        vmm, kernel = found["vmm_start"], found["kernel_boot"]
        return {**found, "init": None if vmm is None or kernel is None else vmm + kernel}


LIFE = Life()
