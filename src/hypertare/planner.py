"""From a plot to a bench, and from a planned trial to a plan for the agent. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from hypertare import plan
from hypertare.design import Plot, Variant
from hypertare.errors import InputError
from hypertare.phase import PHASE
from hypertare.quantities import OfCapacity
from hypertare.study import (
    BurnSettings,
    CommandSettings,
    ForkSettings,
    Knobs,
    PingSettings,
    StreamSettings,
    Study,
    TouchSettings,
)
from hypertare.trials import Cell

LINK = "lan"
PEER = "peer"
HOST = "host"
_STREAM_PORT = 5201
_PING_PORT = 7000
_SETTLE_S = 10.0
"""Time that a phase may take beyond what its tasks are asked to do, on a slow emulated guest."""


class Bootable(Protocol):
    """What a guest boots from."""

    @property
    def kernel(self) -> Path: ...
    @property
    def initramfs(self) -> Path: ...


@dataclass(frozen=True)
class Chance:
    """What chance moves between two boots of a real machine, here moved by a seed: addresses,
    ports, and where in the timer's period a trial starts.

    Layouts of address spaces and hash seeds follow from the machine's own random numbers, which
    have the same seed.
    """

    seed: int

    def mac(self, index: int) -> str:
        """Locally administered, as QEMU's are; the last byte keeps the NICs of a machine apart."""
        high, low = divmod(self._draw("mac", 1 << 16), 256)
        return f"52:54:00:{high:02x}:{low:02x}:{index + 2:02x}"

    def port(self, base: int) -> int:
        """Below the ports that the kernel gives out itself."""
        return base + self._draw("port", 20_000)

    def offset_s(self, trial: int) -> float:
        """1 to 21 ms: beyond some periods of the kernel's tick of 4 ms."""
        return 1e-3 + self._draw(f"offset/{trial}", 20_000_000) * 1e-9

    def _draw(self, of: str, below: int) -> int:
        return random.Random(f"{self.seed}/{of}").randrange(below)


@dataclass(frozen=True)
class Capacity:
    """What a workload carries at most, in b/s, on a bench of these levels."""

    workload: str
    levels: Cell
    bps: float


@dataclass(frozen=True)
class Surroundings:
    """What the machine gives: chosen once, the same for the whole run.

    `cpus`: those that the run may use. `images` by the name of their kernel. `chance` is what an
    emulated machine's boot leaves to chance; other machines need no help with that. `capacities` are
    what workloads carry at most, where the run has measured it. Commands start in a copy of `workdir`,
    or where there is none in `directory`, which is the machine's own.
    """

    cpus: tuple[int, ...]
    accelerator: plan.Accelerator
    images: Mapping[str, Bootable]
    environment: dict[str, str]
    workdir: Path | None = None
    directory: Path | None = None
    chance: Chance | None = None
    capacities: tuple[Capacity, ...] = ()


def sut_cpus(count: int, surroundings: Surroundings) -> tuple[int, ...]:
    """The CPUs of the system under test: the last ones, so that the peer can have the first.

    Raises:
        InputError: there are not so many.
    """
    available = surroundings.cpus
    if count > len(available):
        raise InputError(
            f"{count} CPUs were asked for, but this machine lets the run use {len(available)}.",
            f"Ask for at most {len(available)}.",
        )
    return available[-count:]


def files_memory(memory: int) -> int:
    """Of the memory of the system under test, what files may take.

    In a guest a quarter more may be taken by what it keeps of the file share, and the last quarter is
    for the work itself; its agent gives less where its kernel leaves less.
    """
    return memory // 2


def peer_cpus(count: int, surroundings: Surroundings) -> tuple[int, ...]:
    """The CPUs that the system under test leaves to its peer; all of them when it leaves none."""
    return surroundings.cpus[:-count] or surroundings.cpus


def make_bench(study: Study, plot: Plot, cells: dict[str, Study], on: Surroundings) -> plan.Bench:
    """The bench of a plot.

    Args:
        study: the study with the plot's hard levels in place.
        plot: the plot.
        cells: by node, the study with that variant's levels in place too.
        on: what the machine gives.
    """
    cpus = sut_cpus(study.sut.cpus, on)
    files = None
    if study.needs_files and on.workdir is not None:
        files = plan.Files(workdir=on.workdir, memory=files_memory(study.sut.memory))
    nodes = [
        plan.Node(
            name=variant.node,
            kind=_kind(variant, cells[variant.node], on),
            cpus=cpus,
            interfaces=_interfaces(study, cells[variant.node].sut.nic, variant, on),
            files=files,
        )
        for variant in plot.variants
    ]
    links: tuple[plan.Link, ...] = ()
    if study.needs_network:
        links = (plan.Link(name=LINK, kind=_link_kind(on), mtu=study.bench.mtu),)
        interface = plan.Interface(
            name="eth0",
            link=LINK,
            address=f"{_address(PEER_INDEX)}/24",
            mac=on.chance.mac(PEER_INDEX) if on.chance else None,
            nic=study.sut.nic if on.chance else None,
        )
        peer = plan.Node(
            name=PEER,
            kind=plan.Container(),
            cpus=peer_cpus(study.sut.cpus, on),
            interfaces=(interface,),
        )
        nodes.append(peer)
    return plan.Bench(name=study.name, nodes=tuple(nodes), links=links)


PEER_INDEX = 252

HUB_INTERFACE = "sut0"
"""The PC's own NIC, which the kernel may know as `eth0` or `eth1` until it is renamed."""


def _link_kind(on: Surroundings) -> Literal["bridge", "hub"]:
    """An emulated machine has NICs on a hub, where others have a bridge."""
    return "hub" if on.chance else "bridge"


def interface_of(node: str, on: Surroundings) -> str:
    """How a node calls its interface on the link."""
    if node != HOST:
        return "eth0"
    return HUB_INTERFACE if on.chance else LINK


def _address(index: int) -> str:
    return f"10.77.0.{index + 2}"


def address_of(node: str, plot: Plot) -> str:
    if node == PEER:
        return _address(PEER_INDEX)
    return _address(next(v.index for v in plot.variants if v.node == node))


def _interfaces(
    study: Study, nic: plan.NicModel, variant: Variant, on: Surroundings
) -> tuple[plan.Interface, ...]:
    """Guests have a NIC, and so has every node of an emulated machine."""
    if not study.needs_network:
        return ()
    mac = f"52:54:00:77:00:{variant.index + 2:02x}" if variant.platform == "guest" else None
    if on.chance:
        mac = on.chance.mac(variant.index)
    interface = plan.Interface(
        name=interface_of(variant.node, on) if on.chance else "eth0",
        link=LINK,
        address=f"{_address(variant.index)}/24",
        mac=mac,
        nic=nic if mac else None,
    )
    return (interface,)


def _kind(variant: Variant, study: Study, on: Surroundings) -> plan.NodeKind:
    if variant.platform == "native":
        return plan.Host()
    if variant.platform == "container":
        return plan.Container(memory=study.sut.memory)
    image = on.images[study.sut.kernel]
    accelerator = on.accelerator if study.sut.accelerator == "auto" else study.sut.accelerator
    return plan.Guest(
        cpus=study.sut.cpus,
        memory=study.sut.memory,
        accelerator=accelerator,
        kernel=image.kernel,
        initramfs=(image.initramfs,),
        cpu_model=study.sut.cpu_model,
        kernel_args=study.sut.kernel_args,
        boot_limit_s=study.sut.boot_limit,
    )


def make_trial(
    id: int,
    study: Study,
    workload: str,
    variant: Variant,
    plot: Plot,
    on: Surroundings,
    *,
    warmup: bool = False,
) -> plan.Trial:
    """The plan of one trial.

    Args:
        id: the trial's number.
        study: the study with all of the trial's levels in place.
        workload: the workload's name.
        variant: the variant under test.
        plot: the plot on whose bench it runs.
        on: what the machine gives.
        warmup: it is not counted, so that a guest may get ready in it for those that are.
    """
    settings = study.workloads[workload]
    tasks, seconds = _tasks(settings, workload, variant.node, plot, on, warmup)
    own_machine = variant.platform == "guest" or on.chance is not None
    probes = [plan.ProbeRequest(node=HOST, probe=probe) for probe in ("stat", "softirqs")]
    if variant.node != HOST:
        probes.append(plan.ProbeRequest(node=variant.node, probe="outside"))
    if own_machine:
        own: tuple[plan.ProbeName, ...] = ("stat", "softirqs", "interrupts", "net_dev", "net_snmp")
        polling = _chosen(study, "napi", "drops") if study.needs_network else ()
        wanted = [plan.ProbeRequest(node=variant.node, probe=probe) for probe in own + polling]
        probes += [request for request in wanted if request not in probes]
        if "drops" in polling:
            probes += [plan.ProbeRequest(node=node, probe="drops") for node in _on_the_way(variant)]
            probes.append(plan.ProbeRequest(node=PEER, probe="net_dev"))
    probes += _memory_probes(study, variant, on)
    phase = plan.Phase(name=PHASE, tasks=tuple(tasks), probes=tuple(probes), limit_s=seconds)
    knobs = _knob_settings(study.knobs, variant.node, study.needs_network, own_machine, on)
    knobs += _memory_knobs(study.knobs, variant, own_machine)
    before = _before(id, study, variant, plot, on)
    return plan.Trial(id=id, knobs=tuple(knobs), phases=(*before, phase))


def _chosen(study: Study, *names: plan.ProbeName) -> tuple[plan.ProbeName, ...]:
    return tuple(name for name in names if name in study.probes)


def _memory_probes(study: Study, variant: Variant, on: Surroundings) -> list[plan.ProbeRequest]:
    """Of memory and its translation: of the machine, of a guest by itself and as KVM sees it."""
    nodes = (HOST, variant.node) if variant.platform == "guest" else (HOST,)
    found = [(node, probe) for probe in _chosen(study, "memory") for node in nodes]
    found += [(HOST, probe) for probe in _chosen(study, "hardware")]
    if variant.platform == "guest" and _under_kvm(study, on):
        found += [(variant.node, probe) for probe in _chosen(study, "kvm", "kvm_exits")]
    return [plan.ProbeRequest(node=node, probe=probe) for node, probe in found]


def _under_kvm(study: Study, on: Surroundings) -> bool:
    """Whether guests are KVM's; those of an emulated machine always are."""
    accelerator = on.accelerator if study.sut.accelerator == "auto" else study.sut.accelerator
    return study.machine == "emulated" or accelerator == "kvm"


def _on_the_way(variant: Variant) -> tuple[str, ...]:
    """Other nodes that may drop a packet: the peer, and for a guest the machine with its tap."""
    return (PEER, HOST) if variant.platform == "guest" else (PEER,)


def _before(
    id: int, study: Study, variant: Variant, plot: Plot, on: Surroundings
) -> tuple[plan.Phase, ...]:
    """What an emulated machine or a guest does first, unmeasured.

    `offset`: where nothing else varies the moment of a trial's start, this does.
    """
    if on.chance is None:
        return _reach(variant, plot) if variant.platform == "guest" and study.needs_network else ()
    work = plan.Burn(share=1.0, duration_s=on.chance.offset_s(id))
    offset = plan.Task(id="offset", node=variant.node, workload=work)
    phase = plan.Phase(name="offset", tasks=(offset,), limit_s=_SETTLE_S)
    return (*(_reach(variant, plot) if study.needs_network else ()), phase)


def _reach(variant: Variant, plot: Plot) -> tuple[plan.Phase, ...]:
    """One echo, so that both ends know each other's addresses and frames pass.

    QEMU's e1000 takes none in for a second after the kernel has set its filter; and what a sender
    has for an address that is not known yet is dropped where nobody counts it.
    """
    echo = plan.PingRequest(
        protocol="icmp",
        to=address_of(variant.node, plot),
        count=1,
        duration_s=_SETTLE_S / 2,
        timeout_s=_SETTLE_S / 2,
    )
    reach = plan.Task(id="reach", node=PEER, workload=echo)
    return (plan.Phase(name="reach", tasks=(reach,), limit_s=2 * _SETTLE_S),)


def expected_seconds(settings: object) -> float | None:
    """How long a workload is asked to take; none if only a trial can tell."""
    match settings:
        case CommandSettings():
            return settings.expected
        case ForkSettings():
            return None
        case TouchSettings():
            return settings.duration_s
    return float(getattr(settings, "duration", 0.0))


def _tasks(
    settings: object, workload: str, node: str, plot: Plot, on: Surroundings, warmup: bool
) -> tuple[Sequence[plan.Task], float]:
    """The tasks of a workload, and the seconds they may take: what the user said of a command, for
    the others what they are asked to do and some more."""
    match settings:
        case CommandSettings():
            return [_command_task(settings, node, on, warmup)], settings.limit
        case StreamSettings():
            seconds = settings.duration + settings.omit + _SETTLE_S
            return _stream_tasks(settings, workload, node, plot, on), seconds
        case PingSettings():
            seconds = settings.duration + settings.timeout + _SETTLE_S
            return _ping_tasks(settings, node, plot, on), seconds
        case BurnSettings():
            work = plan.Burn(
                share=settings.share, duration_s=settings.duration, threads=settings.threads
            )
            return [plan.Task(id="burn", node=node, workload=work)], settings.duration + _SETTLE_S
        case ForkSettings():
            fork = plan.Fork(count=settings.count, touch=settings.touch)
            return [plan.Task(id="fork", node=node, workload=fork)], settings.limit
        case TouchSettings():
            return [plan.Task(id="touch", node=node, workload=_touch(settings))], settings.limit
    raise AssertionError(f"unknown workload settings: {settings!r}")


def _touch(settings: TouchSettings) -> plan.Touch:
    return plan.Touch(
        memory=settings.memory,
        pages=settings.pages,
        count=settings.count,
        duration_s=settings.duration_s,
    )


def _command_task(
    settings: CommandSettings, node: str, on: Surroundings, warmup: bool
) -> plan.Task:
    work = plan.Command(
        argv=settings.argv,
        env=on.environment,
        cwd=on.workdir or on.directory,
        in_files=on.workdir is not None,
        prepare=settings.prepare,
        warmup=warmup,
    )
    return plan.Task(id="command", node=node, workload=work)


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
    settings: StreamSettings, workload: str, node: str, plot: Plot, on: Surroundings
) -> list[plan.Task]:
    pairs = {
        "transmit": [(node, PEER)],
        "receive": [(PEER, node)],
        "both": [(node, PEER), (PEER, node)],
    }[settings.direction]
    receivers, senders = [], []
    rate_bps = _rate(settings, workload, plot, on)
    for index, (source, sink) in enumerate(pairs):
        port = _port(_STREAM_PORT, on) + 300 * index
        mark = f"-{index}" if len(pairs) > 1 else ""
        receive = plan.StreamReceive(
            protocol=settings.protocol,
            on=f"0.0.0.0:{port}",
            flows=settings.flows,
            message=settings.message_bytes,
            socket_buffer=settings.socket_buffer,
            batch=settings.batch,
            interval_s=settings.interval,
            omit_s=settings.omit,
        )
        send = plan.StreamSend(
            protocol=settings.protocol,
            to=f"{address_of(sink, plot)}:{port}",
            duration_s=settings.duration,
            flows=settings.flows,
            message=settings.message_bytes,
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
                node=sink,
                background=True,
                cpus=settings.receiver_cpus,
                workload=receive,
            )
        )
        senders.append(
            plan.Task(id=f"send{mark}", node=source, cpus=settings.sender_cpus, workload=send)
        )
    return receivers + senders


def _port(base: int, on: Surroundings) -> int:
    return on.chance.port(base) if on.chance else base


def _ping_tasks(settings: PingSettings, node: str, plot: Plot, on: Surroundings) -> list[plan.Task]:
    source, sink = (node, PEER) if settings.direction == "transmit" else (PEER, node)
    icmp = settings.protocol == "icmp"
    to = address_of(sink, plot)
    request = plan.PingRequest(
        protocol=settings.protocol,
        to=to if icmp else f"{to}:{_port(_PING_PORT, on)}",
        message=settings.message,
        duration_s=settings.duration,
        interval_s=settings.interval,
        timeout_s=settings.timeout,
        omit=settings.omit,
    )
    tasks = [plan.Task(id="request", node=source, workload=request)]
    if not icmp:
        reply = plan.PingReply(
            protocol=settings.protocol,
            on=f"0.0.0.0:{_port(_PING_PORT, on)}",
            message=settings.message,
        )
        tasks.insert(0, plan.Task(id="reply", node=sink, background=True, workload=reply))
    return tasks


def _knob_settings(
    knobs: Knobs, node: str, network: bool, own_machine: bool, on: Surroundings
) -> list[plan.KnobSetting]:
    settings: list[plan.KnobSetting] = []
    ends = (node, PEER) if network else (node,)
    for end in ends:
        interface = interface_of(end, on)
        if knobs.mtu is not None:
            settings.append(_knob(end, plan.Mtu(interface=interface, bytes=knobs.mtu)))
        for offload, set_to in knobs.offloads.items():
            knob = plan.Offload(interface=interface, offload=offload, on=set_to)
            settings.append(_knob(end, knob))
        if knobs.socket_buffers is not None:
            settings.append(_knob(end, plan.SocketBuffers(bytes=knobs.socket_buffers)))
    interface = interface_of(node, on)
    if knobs.receive_steering is not None:
        settings.append(
            _knob(node, plan.ReceiveSteering(interface=interface, cpus=knobs.receive_steering))
        )
    if own_machine:
        settings += [_knob(node, knob) for knob in _polling_knobs(knobs, interface)]
    return settings


_POLLING = (
    "interrupt_cpus",
    "napi_weight",
    "napi_budget",
    "dev_weight",
    "interrupt_coalescing",
    "busy_poll",
    "defer_hard_irqs",
)


def warnings(study: Study) -> list[str]:
    """What of the study does not reach every platform."""
    platforms = [platform for platform in study.sut.platforms if platform != "guest"]
    if study.machine != "local" or not platforms:
        return []
    asked = [
        name
        for name in (*_POLLING, "thp")
        if getattr(study.knobs, name) is not None or f"knobs.{name}" in study.all_factors
    ]
    return [
        f"knobs.{name} is for guests: {' and '.join(platforms)} share this host's, which is left alone"
        for name in asked
    ]


def _polling_knobs(knobs: Knobs, interface: str) -> list[plan.Knob]:
    """Of how a machine takes packets from its NIC: where the system under test is no machine of its
    own, these are its host's to choose."""
    found: list[plan.Knob] = []
    if knobs.interrupt_cpus is not None:
        found.append(plan.InterruptCpus(interface=interface, cpus=knobs.interrupt_cpus))
    if knobs.napi_weight is not None:
        found.append(plan.NapiWeight(interface=interface, weight=knobs.napi_weight))
    if knobs.napi_budget is not None:
        found.append(plan.NapiBudget(**knobs.napi_budget.model_dump()))
    if knobs.dev_weight is not None:
        found.append(plan.DevWeight(packets=knobs.dev_weight))
    if knobs.interrupt_coalescing is not None:
        wanted = knobs.interrupt_coalescing.model_dump()
        found.append(plan.InterruptCoalescing(interface=interface, **wanted))
    if knobs.busy_poll is not None:
        found.append(plan.BusyPoll(microseconds=knobs.busy_poll))
    if knobs.defer_hard_irqs is not None:
        wanted = knobs.defer_hard_irqs.model_dump()
        found.append(plan.DeferHardIrqs(interface=interface, **wanted))
    return found


def _memory_knobs(knobs: Knobs, variant: Variant, own_machine: bool) -> list[plan.KnobSetting]:
    """Of the kernel that the work runs on, and of the machine below where that is another one."""
    own = variant.node if variant.platform == "guest" else HOST
    settings: list[plan.KnobSetting] = []
    if knobs.thp is not None and own_machine:
        settings.append(_knob(own, plan.Thp(**knobs.thp.model_dump())))
    if variant.platform != "guest":
        return settings
    if knobs.host_thp is not None:
        settings.append(_knob(HOST, plan.Thp(**knobs.host_thp.model_dump())))
    if knobs.ksm is not None:
        settings.append(_knob(HOST, plan.Ksm(**knobs.ksm.model_dump())))
    return settings


def _knob(node: str, knob: plan.Knob) -> plan.KnobSetting:
    return plan.KnobSetting(node=node, knob=knob)
