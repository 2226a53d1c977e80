"""The tasks of neighbours, which last until the measured guest has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.protocol import plan
from hypertare.protocol.phase import LOAD
from hypertare.workloads.neighbours import NeighbourSettings
from hypertare.workloads.pair import Pair
from hypertare.workloads.stream import StreamSettings
from hypertare.workloads.workload import TaskInputs


def load_tasks(
    load: NeighbourSettings, pairs: Sequence[Pair], seconds: float, inputs: TaskInputs
) -> Iterator[plan.Task]:
    """The tasks of all neighbours, for as many seconds as the others may take."""
    for pair in pairs:
        if load.stream is not None:
            flow = StreamSettings(
                type="stream",
                direction=load.stream,
                rate=None if load.rate is None else load.rate / len(pairs),
                socket_buffer=load.socket_buffer,
                duration=seconds,
                omit=0.0,
            )
            for task in flow.tasks(pair, inputs):
                name = f"{LOAD}-sink" if task.background else f"{LOAD}-stream"
                yield pair.task(LOAD, task.node, task.workload, name=name, background=True)
        if load.share is not None:
            work = plan.Burn(share=load.share, duration_s=seconds)
            yield pair.task(LOAD, pair.node, work, background=True)
