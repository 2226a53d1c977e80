"""What nodes do in a trial: the tasks of each workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.base.quantities import OfCapacity
from hypertare.design.design import Plot
from hypertare.design.planner.limits import settling_s, time_limit_s
from hypertare.design.planner.pairs import End, Pair
from hypertare.design.planner.surroundings import Surroundings
from hypertare.protocol import plan
from hypertare.study import (
    BurnSettings,
    CommandSettings,
    ForkSettings,
    NeighbourSettings,
    PingSettings,
    StreamSettings,
    TouchSettings,
)

_STREAM_PORT = 5201
_PING_PORT = 7000
_LONGER_HEADER = 20
"""Bytes that an IPv6 header has more than one of IPv4: RFC 8200 section 3, RFC 791 section 3.1."""


def make_tasks(
    settings: object,
    workload: str,
    working: Sequence[Pair],
    plot: Plot,
    on: Surroundings,
    warmup: bool,
) -> tuple[Sequence[plan.Task], float]:
    """The tasks of a workload, and the seconds they may take."""
    neighbours = getattr(settings, "neighbours", None)
    seconds = time_limit_s(settings) + settling_s(working)
    load: list[plan.Task] = []
    if neighbours is not None:
        load = [t for p in working[1:] for t in _load_tasks(neighbours, settings, p, seconds, on)]
        working = working[:1]
    tasks = [
        task for pair in working for task in _pair_tasks(settings, workload, pair, plot, on, warmup)
    ]
    return [*load, *tasks], seconds


def _pair_tasks(
    settings: object, workload: str, pair: Pair, plot: Plot, on: Surroundings, warmup: bool
) -> list[plan.Task]:
    match settings:
        case CommandSettings():
            return [_command_task(settings, pair, on, warmup)]
        case StreamSettings():
            return _stream_tasks(settings, _rate(settings, workload, plot, on), pair, on)
        case PingSettings():
            return _ping_tasks(settings, pair, on)
        case BurnSettings():
            work = plan.Burn(
                share=settings.share, duration_s=settings.duration, threads=settings.threads
            )
            return [plan.Task(id=f"burn{pair.mark}", node=pair.node, workload=work)]
        case ForkSettings():
            fork = plan.Fork(count=settings.count, touch=settings.touch)
            return [plan.Task(id=f"fork{pair.mark}", node=pair.node, workload=fork)]
        case TouchSettings():
            touch = _touch(settings)
            return [plan.Task(id=f"touch{pair.mark}", node=pair.node, workload=touch)]
    raise AssertionError(f"unknown workload settings: {settings!r}")


def _load_tasks(
    load: NeighbourSettings, settings: object, pair: Pair, seconds: float, on: Surroundings
) -> Iterator[plan.Task]:
    """What a neighbour does until those who are measured have ended."""
    if load.stream is not None:
        flow = StreamSettings(type="stream", direction=load.stream, duration=seconds, omit=0.0)
        for task in _stream_tasks(flow, None, pair, on):
            role = "load-sink" if task.background else "load-stream"
            yield task.model_copy(update={"id": f"{role}{pair.mark}", "background": True})
    if load.share is not None:
        work = plan.Burn(share=load.share, duration_s=seconds)
        yield plan.Task(id=f"load{pair.mark}", node=pair.node, background=True, workload=work)


def _touch(settings: TouchSettings) -> plan.Touch:
    return plan.Touch(
        memory=settings.memory,
        pages=settings.pages,
        count=settings.count,
        duration_s=settings.duration_s,
    )


def _command_task(
    settings: CommandSettings, pair: Pair, on: Surroundings, warmup: bool
) -> plan.Task:
    work = plan.Command(
        argv=settings.argv,
        env=on.environment,
        cwd=on.workdir or on.directory,
        in_files=on.workdir is not None,
        prepare=settings.prepare,
        warmup=warmup,
    )
    return plan.Task(id=f"command{pair.mark}", node=pair.node, workload=work)


def _rate(settings: StreamSettings, workload: str, plot: Plot, on: Surroundings) -> float | None:
    """In b/s; none for as fast as it goes."""
    if not isinstance(settings.rate, OfCapacity):
        return settings.rate
    # Measured before anything is planned that is a share of it. A bench may have more levels than
    # those: what is tuned or searched over is offered the same rate at every level.
    known = [c for c in on.capacities if c.workload == workload]
    fitting = [c for c in known if c.levels.items() <= plot.levels.items()]
    return settings.rate.share * max(fitting, key=lambda c: len(c.levels)).bps


def _stream_tasks(
    settings: StreamSettings, rate_bps: float | None, pair: Pair, on: Surroundings
) -> list[plan.Task]:
    out, back = (pair.near, pair.far), (pair.far, pair.near)
    ways = {"transmit": [out], "forward": [out], "receive": [back], "both": [out, back]}
    receivers, senders = [], []
    for index, (source, sink) in enumerate(ways[settings.direction]):
        # Each flow has a port of its own; a baseline's node has those of all pairs.
        port = _port(_STREAM_PORT, on) + (2 * pair.rank + index) * settings.flows
        mark = f"-{index}{pair.mark}" if settings.direction == "both" else pair.mark
        receive = plan.StreamReceive(
            protocol=settings.protocol,
            on=_everywhere(sink, port),
            flows=settings.flows,
            message=_message(settings, sink),
            socket_buffer=settings.socket_buffer,
            batch=settings.batch,
            interval_s=settings.interval,
            omit_s=settings.omit,
        )
        send = plan.StreamSend(
            protocol=settings.protocol,
            to=_at(sink, port),
            duration_s=settings.duration,
            flows=settings.flows,
            message=_message(settings, sink),
            rate_bps=rate_bps,
            socket_buffer=settings.socket_buffer,
            batch=settings.batch,
            segmentation=settings.segmentation,
            interval_s=settings.interval,
            omit_s=settings.omit,
        )
        receivers.append(
            plan.Task(
                id=f"receive{mark}",
                node=sink.node,
                background=True,
                cpus=settings.receiver_cpus,
                workload=receive,
            )
        )
        senders.append(
            plan.Task(id=f"send{mark}", node=source.node, cpus=settings.sender_cpus, workload=send)
        )
    return receivers + senders


def _at(end: End, port: int) -> str:
    address = f"[{end.address}]" if ":" in end.address else end.address
    return f"{address}:{port}"


def _everywhere(end: End, port: int) -> str:
    """Any address of the family that the end has."""
    return f"[::]:{port}" if ":" in end.address else f"0.0.0.0:{port}"


def _message(settings: StreamSettings, sink: End) -> int:
    """What fills a packet is less where the header is longer."""
    if settings.protocol == "udp" and settings.message is None and ":" in sink.address:
        return settings.message_bytes - _LONGER_HEADER
    return settings.message_bytes


def _port(base: int, on: Surroundings) -> int:
    return on.chance.port(base) if on.chance else base


def _ping_tasks(settings: PingSettings, pair: Pair, on: Surroundings) -> list[plan.Task]:
    out = settings.direction == "transmit"
    source, sink = (pair.near, pair.far) if out else (pair.far, pair.near)
    icmp = settings.protocol == "icmp"
    port = _port(_PING_PORT, on) + pair.rank
    request = plan.PingRequest(
        protocol=settings.protocol,
        to=sink.address if icmp else _at(sink, port),
        message=settings.message,
        duration_s=settings.duration,
        interval_s=settings.interval,
        timeout_s=settings.timeout,
        omit=settings.omit,
    )
    tasks = [plan.Task(id=f"request{pair.mark}", node=source.node, workload=request)]
    if not icmp:
        reply = plan.PingReply(
            protocol=settings.protocol,
            on=_everywhere(sink, port),
            message=settings.message,
        )
        tasks.insert(
            0, plan.Task(id=f"reply{pair.mark}", node=sink.node, background=True, workload=reply)
        )
    return tasks
