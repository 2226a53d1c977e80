"""From a plot to a bench, and from a planned trial to a plan for the agent. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hypertare import plan, routers
from hypertare.design import Plot, Variant, numbered
from hypertare.errors import InputError
from hypertare.image.build import DEFAULT_PROFILE, GUEST_INITRAMFS, GUEST_KERNEL
from hypertare.image.profile import DOMAIN
from hypertare.pc import XEN, PcClass, class_of
from hypertare.phase import PHASE
from hypertare.quantities import OfCapacity
from hypertare.routers import Network, networks
from hypertare.study import (
    BASELINE,
    MOST_GUESTS,
    BurnSettings,
    CommandSettings,
    ForkSettings,
    Knobs,
    NeighbourSettings,
    PingSettings,
    StreamSettings,
    Study,
    TouchSettings,
)
from hypertare.trials import Cell

LINK = "lan"
WIRE = "wire"
"""The hub beyond the driver domain's bridge."""
PEER = "peer"
HOST = "host"
_STREAM_PORT = 5201
_PING_PORT = 7000
_LONGER_HEADER = 20
"""Bytes that an IPv6 header has more than one of IPv4: RFC 8200 section 3, RFC 791 section 3.1."""
_SETTLE_S = 10.0
"""Time that a phase may take beyond what its tasks are asked to do, on a slow emulated guest."""


_BUSY_S = 50.0
"""What is added to that where the machine's clock is this host's."""


class Bootable(Protocol):
    """What a guest boots from."""

    @property
    def kernel(self) -> Path: ...
    @property
    def initramfs(self) -> Path: ...


class Startable(Protocol):
    """A routing daemon: how it is started here and in a guest, and what a guest has it from."""

    @property
    def here(self) -> tuple[str, ...]: ...
    @property
    def in_guest(self) -> tuple[str, ...]: ...
    @property
    def archive(self) -> Path: ...


@dataclass(frozen=True)
class Chance:
    """What chance moves between two boots of a real machine, here moved by a seed: addresses,
    ports, and where in the timer's period a trial starts.

    Layouts of address spaces and hash seeds follow from the machine's own random numbers, which
    have the same seed.
    """

    seed: int

    def mac(self, index: int, rank: int = 0) -> str:
        """Locally administered, as QEMU's are; the third and the last byte keep the NICs of a machine
        apart.
        """
        high, low = divmod(self._draw("mac", 1 << 16), 256)
        return f"52:54:{rank:02x}:{high:02x}:{low:02x}:{index + 2:02x}"

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

    `cpus`: those that the run may use. `images` by the names of their kernel and profile. `chance` is
    what an emulated machine's boot leaves to chance; other machines need no help with that.
    `capacities` are what workloads carry at most, where the run has measured it. Commands start in a
    copy of `workdir`, or where there is none in `directory`, which is the machine's own. `programs` is
    what those of its image take of the memory of the system under test, in bytes. `daemon` is what
    routers learn networks by, where one does.
    """

    cpus: tuple[int, ...]
    accelerator: plan.Accelerator
    images: Mapping[tuple[str, str], Bootable]
    environment: dict[str, str]
    workdir: Path | None = None
    directory: Path | None = None
    programs: int = 0
    chance: Chance | None = None
    capacities: tuple[Capacity, ...] = ()
    daemon: Startable | None = None


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
    files = None
    if study.needs_files and on.workdir is not None:
        files = plan.Files(workdir=on.workdir, memory=files_memory(study.sut.memory))
    if study.routed:
        return _routed_bench(study, plot, cells, files, on)
    under = _host_of_guests(plot, on)
    cpus = sut_cpus(study.sut.cpus, on)
    nodes = [
        plan.Node(
            name=node,
            kind=_kind(variant, cells[variant.node], on),
            cpus=() if _is_placed_by_others(variant, under) else cpus,
            interfaces=_interfaces(study, cells[variant.node].sut.nic, variant, rank, on),
            files=files,
        )
        for variant in plot.variants
        for rank, node in enumerate(variant.nodes)
    ]
    if under:
        nodes.insert(0, _driver(study, under, on))
    links: tuple[plan.Link, ...] = ()
    if study.needs_network:
        links = _links(study, under, on)
        nodes += _peers(study, links[-1], under, on)
    return plan.Bench(
        name=study.name,
        nodes=tuple(nodes),
        links=links,
        weights=_has_weights(study, on),
        scheduler=_scheduler(study, under),
    )


def _driver(study: Study, under: PcClass, on: Surroundings) -> plan.Node:
    """The host of guests. Where it routes them, the PC's own NIC is an interface of its own."""
    if not _routes_guests(study, under):
        return plan.Node(name=HOST, kind=plan.Host())
    assert on.chance is not None
    uplink = plan.Interface(
        name=HUB_INTERFACE,
        link=LINK,
        address=_with_prefix(_DRIVER_ADDRESS, study),
        mac=on.chance.mac(_HOST_INDEX),
        nic=study.sut.nic,
    )
    router = plan.Router(ipv6=False)
    return plan.Node(name=HOST, kind=plan.Host(), interfaces=(uplink,), router=router)


def _routes_guests(study: Study, under: PcClass) -> bool:
    return under is XEN and study.bench.driver == "route" and study.needs_network


def _scheduler(study: Study, under: PcClass | None) -> plan.Scheduler | None:
    """What a machine under Xen must have been booted with."""
    return study.sut.scheduler if under is XEN else None


def _routed_bench(
    study: Study,
    plot: Plot,
    cells: dict[str, Study],
    files: plan.Files | None,
    on: Surroundings,
) -> plan.Bench:
    """Routers with their ends; see `routers`."""
    under = _host_of_guests(plot, on)
    count = study.bench_guests
    settings = plan.Router(queue=_queue(study))
    nodes = [
        routers.router(
            node,
            _kind(variant, cells[variant.node], on),
            range(1, count + 1) if variant.platform == BASELINE else (rank + 1,),
            way=variant.index,
            settings=settings,
            cpus=() if _is_placed_by_others(variant, under) else sut_cpus(study.sut.cpus, on),
            nics=lambda side, variant=variant: _router_nic(
                cells[variant.node].sut.nic, variant, side, on
            ),
        )
        for variant in plot.variants
        for rank, node in enumerate(variant.nodes)
    ]
    learning = _learning(study, plot, on)
    nodes = [learning(node).model_copy(update={"files": files}) for node in nodes]
    if under:
        nodes.insert(0, plan.Node(name=HOST, kind=plan.Host()))
    ways = [variant.index for variant in plot.variants]
    nodes += [_routed_end(study, side, ways, under, on) for side in routers.all_sides(count)]
    links = list(_routed_links(study, under, count, on))
    if study.bench.line_rate is not None:
        links = list(_shared_lines(study, under, on))
        nodes = [routers.on_shared_lines(node, count) for node in nodes]
    links += _cores(nodes, ways, under, study.bench.mtu, on)
    return plan.Bench(
        name=study.name,
        nodes=tuple(nodes),
        links=tuple(links),
        weights=_has_weights(study, on),
        scheduler=_scheduler(study, under),
    )


def _learning(study: Study, plot: Plot, on: Surroundings) -> Callable[[plan.Node], plan.Node]:
    """What makes routers that learn by OSPF of those that do. The baseline's one node knows every
    network already.
    """
    places = {
        node: (variant, rank + 1)
        for variant in plot.variants
        for rank, node in enumerate(variant.nodes)
        if variant.platform != BASELINE and study.bench.routing_of(rank + 1) == "ospf"
    }

    def learn(node: plan.Node) -> plan.Node:
        if node.name not in places or on.daemon is None:
            return node
        variant, number = places[node.name]
        mac, argv = None, on.daemon.here
        if on.chance:
            mac = on.chance.mac(variant.index, _CORE_RANK + number)
        elif not isinstance(node.kind, plan.Container):
            mac = f"52:54:00:78:{number:02x}:{variant.index + 2:02x}"
        nic = routers.Nic("eth2", mac, node.interfaces[0].nic)
        core = routers.core_interface(number, variant.index, nic)
        if isinstance(node.kind, plan.Guest | plan.Domain):
            argv = on.daemon.in_guest
            archives = (*node.kind.initramfs, on.daemon.archive)
            kind = node.kind.model_copy(update={"initramfs": archives})
            node = node.model_copy(update={"kind": kind})
        return routers.speaking_ospf(node, core, argv)

    return learn


def _cores(
    nodes: Sequence[plan.Node],
    ways: Sequence[int],
    under: PcClass | None,
    mtu: int,
    on: Surroundings,
) -> Iterator[plan.Link]:
    """Where routers speak with each other: nobody else is on it, nor any other link behind it."""
    used = {interface.link for node in nodes for interface in node.interfaces}
    hub = on.chance is not None and under is None
    for name in map(routers.core, ways):
        if name in used:
            yield plan.Link(name=name, kind="hub" if hub else "bridge", mtu=mtu)


def _routed_end(
    study: Study, side: Network, ways: Sequence[int], under: PcClass | None, on: Surroundings
) -> plan.Node:
    is_guest = under is not None and study.bench.peers == "guest"
    mac = on.chance.mac(PEER_INDEX, side.rank) if on.chance else None
    model = study.sut.nic if on.chance and not is_guest else None
    return routers.end(
        side,
        _domain(study, on) if is_guest else plan.Container(),
        ways=ways,
        cpus=() if under else peer_cpus(study.sut.cpus, on),
        nic=routers.Nic("eth0", mac, model),
        link=routers.beyond(side) if under else side.link,
    )


def _routed_links(
    study: Study, under: PcClass | None, count: int, on: Surroundings
) -> Iterator[plan.Link]:
    """Two for each router, on which nobody else is. Under a hypervisor each is a bridge with a NIC of
    the PC, and what is beyond that: a hub, or for ends that are guests one more such bridge.
    """
    mtu = study.bench.mtu
    for side in routers.all_sides(count):
        if under is None:
            yield plan.Link(name=side.link, kind="hub" if on.chance else "bridge", mtu=mtu)
            continue
        assert on.chance is not None
        wire = routers.beyond(side)
        near, far = (
            plan.Uplink(mac=on.chance.mac(index, side.rank), nic=study.sut.nic, wire=wire)
            for index in (_HOST_INDEX, _FAR_INDEX)
        )
        yield plan.Link(name=side.link, mtu=mtu, uplink=near)
        if study.bench.peers == "guest":
            yield plan.Link(name=wire, mtu=mtu, uplink=far)
        else:
            yield plan.Link(name=wire, kind="hub", mtu=mtu)


def _shared_lines(study: Study, under: PcClass | None, on: Surroundings) -> Iterator[plan.Link]:
    """One line on each side of all routers, with the bridges or the hub at its ends."""
    for side in networks(1):
        near, far = routers.shared_links(side)
        yield from _line_between(study, near, far, side.rank, under, on)


def _router_nic(
    nic: plan.NicModel, variant: Variant, side: Network, on: Surroundings
) -> routers.Nic:
    """The baseline's interfaces are all on one node, the others' are two on each."""
    name = f"eth{side.index}"
    if variant.platform == BASELINE:
        name = f"sut{side.rank}" if on.chance else side.link
    mac = f"52:54:00:77:{side.rank:02x}:{variant.index + 2:02x}"
    if on.chance:
        mac = on.chance.mac(variant.index, side.rank)
    elif variant.platform != "guest":
        return routers.Nic(name)
    return routers.Nic(name, mac, None if variant.platform == "xen" else nic)


def _is_placed_by_others(variant: Variant, under: PcClass | None) -> bool:
    """Under a hypervisor its scheduler, or that of the emulated machine, says what runs where: the CPUs
    that a driver domain sees are not the machine's.
    """
    return under is not None or variant.platform == "xen"


def _queue(study: Study) -> plan.Queue | None:
    bench = study.bench
    if bench.queue is None and bench.queue_length is None:
        return None
    return plan.Queue(discipline=bench.queue, length=bench.queue_length)


def _host_of_guests(plot: Plot, on: Surroundings) -> PcClass | None:
    """What an emulated machine is that has guests, so that its host moves their packets."""
    kinds = {class_of(variant.platform) for variant in plot.variants}
    return next((kind for kind in kinds if kind.has_guests and on.chance), None)


def _links(study: Study, under: PcClass | None, on: Surroundings) -> tuple[plan.Link, ...]:
    """The link of the systems under test, and that of their peers last, where it is another.

    The PC's own NIC, which is the baseline's, is a port of the host's bridge, or guests are routed to
    it: what they send takes the same wire. Peers that are guests have a bridge with a NIC at its other
    end, and so have those beyond a line of a limited rate, so that all of them share it.
    """
    mtu, limited = study.bench.mtu, study.bench.line_rate is not None
    if limited or (under is not None and study.bench.peers == "guest"):
        return tuple(_line_between(study, LINK, WIRE, 0, under, on))
    if under is None:
        return (plan.Link(name=LINK, kind="hub" if on.chance else "bridge", mtu=mtu),)
    assert on.chance is not None
    near = plan.Uplink(mac=on.chance.mac(_HOST_INDEX), nic=study.sut.nic)
    lan = plan.Link(name=LINK, kind=_joining(study, under), mtu=mtu, uplink=near)
    return lan, plan.Link(name=WIRE, kind="hub", mtu=mtu)


def _line_between(
    study: Study, near: str, far: str, rank: int, under: PcClass | None, on: Surroundings
) -> Iterator[plan.Link]:
    """The link of the systems under test and that of their peers, which have one line between them.

    On an emulated machine it is a wire between NICs: that of the far bridge, and that of the near one
    or, where the baseline has it, of the system under test itself.
    """
    mtu, rate = study.bench.mtu, study.bench.line_rate
    if on.chance is None:
        assert rate is not None
        yield plan.Link(name=near, mtu=mtu, trunk=plan.Trunk(to=far, rate_bps=round(rate)))
        yield plan.Link(name=far, mtu=mtu)
        return
    mac = on.chance.mac
    beyond = _FAR_INDEX if study.routed else PEER_INDEX
    if under is None:
        yield plan.Link(name=near, kind="hub", mtu=mtu)
    else:
        own = plan.Uplink(mac=mac(_HOST_INDEX, rank), nic=study.sut.nic, wire=near)
        yield plan.Link(name=near, kind=_joining(study, under), mtu=mtu, uplink=own)
    other = plan.Uplink(mac=mac(beyond, rank), nic=study.sut.nic, wire=near)
    yield plan.Link(name=far, mtu=mtu, uplink=other)


def _joining(study: Study, under: PcClass | None) -> plan.LinkKind:
    return "route" if _routes_guests(study, under) else "bridge"


def _is_switched(study: Study, under: PcClass | None) -> bool:
    """Whether an emulated machine's peers stand behind a bridge with a NIC for all of them."""
    if study.bench.line_rate is not None:
        return True
    return under is not None and study.bench.peers == "guest"


def _peers(
    study: Study, link: plan.Link, under: PcClass | None, on: Surroundings
) -> Iterator[plan.Node]:
    """One for each that works at once."""
    is_guest = under is not None and study.bench.peers == "guest"
    # The far bridge's NIC has the address that a single peer's would have.
    switched = _is_switched(study, under)
    first = 1 if switched else 0
    for rank, name in enumerate(numbered(PEER, study.bench_guests)):
        interface = plan.Interface(
            name="eth0",
            link=link.name,
            address=_with_prefix(_address(PEER_INDEX, rank), study),
            mac=on.chance.mac(PEER_INDEX, rank + first) if on.chance else None,
            nic=study.sut.nic if on.chance and not switched else None,
        )
        yield plan.Node(
            name=name,
            kind=_domain(study, on) if is_guest else plan.Container(),
            cpus=() if under else peer_cpus(study.sut.cpus, on),
            interfaces=(interface,),
        )


PEER_INDEX = 252
_CORE_RANK = 2 * MOST_GUESTS
"""Before those of NICs between routers: behind both sides of all."""
_DRIVER_ADDRESS = "10.77.0.1"
"""Of a driver domain that routes; those of nodes under test begin after it."""
_HOST_INDEX = 0
_FAR_INDEX = 253
"""Of the NIC of a far bridge, where the ends of routers are guests."""

HUB_INTERFACE = "sut0"
"""The PC's own NIC, which the kernel may know as `eth0` or `eth1` until it is renamed."""


def interface_of(node: str, on: Surroundings) -> str:
    """How a node calls its interface on the link."""
    if node != HOST:
        return "eth0"
    return HUB_INTERFACE if on.chance else LINK


def _address(index: int, rank: int) -> str:
    """Of the node of a variant, by its place on the bench and among its like."""
    return f"10.77.{rank}.{index + 2}"


def _with_prefix(address: str, study: Study) -> str:
    return f"{address}/{24 if study.bench_guests == 1 else 16}"


@dataclass(frozen=True)
class End:
    """Where traffic begins or ends."""

    node: str
    address: str


@dataclass(frozen=True)
class Pair:
    """A system under test with the two ends of its traffic, of several that work at once.

    The near end is the system under test itself, unless that is a router, and the far one its peer.
    `interfaces` are those of the system under test that the traffic passes. `mark` tells its tasks
    from those of the others.
    """

    rank: int
    node: str
    near: End
    far: End
    interfaces: tuple[str, ...]
    mark: str

    @property
    def others(self) -> tuple[str, ...]:
        """The ends that are not under test."""
        return tuple(end.node for end in (self.near, self.far) if end.node != self.node)


def pairs(study: Study, variant: Variant, on: Surroundings) -> list[Pair]:
    """Those that work at once in a trial: the first of the bench. A baseline's node is in every one."""
    count = study.sut.guests
    own = variant.nodes * count if variant.platform == BASELINE else variant.nodes
    found = []
    for rank in range(count):
        ends = _routed_ends if study.routed else _direct_ends
        near, far, interfaces = ends(study, variant, rank, own[rank], on)
        mark = f".{rank + 1}" if count > 1 else ""
        found.append(Pair(rank, own[rank], near, far, interfaces, mark))
    return found


_Ends = tuple[End, End, tuple[str, ...]]


def _direct_ends(study: Study, variant: Variant, rank: int, node: str, on: Surroundings) -> _Ends:
    own_rank = 0 if variant.platform == BASELINE else rank
    near = End(node, _address(variant.index, own_rank))
    far = End(numbered(PEER, variant.guests)[rank], _address(PEER_INDEX, rank))
    return near, far, (interface_of(node, on),)


def _routed_ends(study: Study, variant: Variant, rank: int, node: str, on: Surroundings) -> _Ends:
    sides = networks(rank + 1, variant.index)
    near, far = (End(side.end, side.end_address(study.bench.family)) for side in sides)
    shared = variant.platform == BASELINE and study.bench.line_rate is not None
    own = networks(1, variant.index) if shared else sides
    names = [_router_nic(study.sut.nic, variant, side, on).name for side in own]
    if shared and on.chance is None:
        names = [routers.shared_links(side)[0] for side in own]
    return near, far, tuple(names)


def _interfaces(
    study: Study, nic: plan.NicModel, variant: Variant, rank: int, on: Surroundings
) -> tuple[plan.Interface, ...]:
    """Guests have a NIC, and so has every node of an emulated machine."""
    if not study.needs_network:
        return ()
    guest = variant.platform == "guest"
    mac = f"52:54:00:77:{rank:02x}:{variant.index + 2:02x}" if guest else None
    if on.chance:
        mac = on.chance.mac(variant.index, rank)
    own = None if variant.platform == "xen" else nic
    interface = plan.Interface(
        name=interface_of(variant.node, on) if on.chance else "eth0",
        link=LINK,
        address=_with_prefix(_address(variant.index, rank), study),
        mac=mac,
        nic=own if mac else None,
    )
    return (interface,)


_DOMAIN_ARGUMENTS = (
    # Under PV each change of a page's protection is a hypercall: without it a boot takes seconds less.
    *("quiet", "rodata=off", "cryptomgr.notests", "panic=-1", "random.trust_cpu=off"),
    "hypertare.modules=xen_netfront",
)


def _kind(variant: Variant, study: Study, on: Surroundings) -> plan.NodeKind:
    if variant.platform == "native":
        return plan.Host()
    if variant.platform == "container":
        return plan.Container(memory=study.sut.memory)
    if variant.platform == "xen":
        return _domain(study, on)
    if on.chance:
        return _inner_guest(study, on.chance)
    image = on.images[study.sut.kernel, DEFAULT_PROFILE]
    accelerator = on.accelerator if study.sut.accelerator == "auto" else study.sut.accelerator
    return plan.Guest(
        cpus=study.sut.cpus,
        memory=study.sut.memory,
        accelerator=accelerator,
        kernel=image.kernel,
        initramfs=(image.initramfs,),
        cpu_model=study.sut.cpu_model,
        kernel_args=study.sut.kernel_args,
        boot_limit_s=boot_limit_s(study),
        paging=study.sut.paging,
        pages=study.sut.pages,
    )


INNER_CPU = "host,-kvm-pv-eoi,-kvm-poll-control"
"""The emulated processor's. TCG's SVM gives a guest an interrupt twice when its host's timer runs out
before the guest leaves for the first time, which is when it ends the interrupt; with the paravirtual
EOI it does not leave for that, and most guests then wait for ever for a lock that they hold
(docs/virtual-time.md). A guest that polls before it halts would take its host's only CPU.
"""


def _inner_guest(study: Study, chance: Chance) -> plan.Guest:
    """A guest of an emulated machine, which is its KVM host."""
    return plan.Guest(
        cpus=study.sut.cpus,
        memory=study.sut.memory,
        accelerator="kvm",
        kernel=Path("/") / GUEST_KERNEL,
        initramfs=(Path("/") / GUEST_INITRAMFS,),
        cpu_model=INNER_CPU,
        kernel_args=(
            "random.trust_cpu=off",
            f"hypertare.seed={chance.seed}",
            *study.sut.kernel_args,
        ),
        boot_limit_s=boot_limit_s(study),
        paging=study.sut.paging,
        pages=study.sut.pages,
    )


def boot_limit_s(study: Study) -> float:
    """Guests boot at the same time, on CPUs that they share."""
    guests = study.bench_guests * (2 if study.bench.peers == "guest" else 1)
    return study.sut.boot_limit * guests


def _domain(study: Study, on: Surroundings) -> plan.Domain:
    """An emulated machine has what its guests boot from in its own initramfs."""
    kernel, initramfs = Path("/") / GUEST_KERNEL, Path("/") / GUEST_INITRAMFS
    if on.chance is None:
        image = on.images[study.sut.kernel, DOMAIN.name]
        kernel, initramfs = image.kernel, image.initramfs
    return plan.Domain(
        cpus=study.sut.cpus,
        memory=study.sut.memory,
        kernel=kernel,
        initramfs=(initramfs,),
        kernel_args=(*_DOMAIN_ARGUMENTS, *study.sut.kernel_args),
        boot_limit_s=boot_limit_s(study),
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
    working = pairs(study, variant, on)
    tasks, seconds = _tasks(settings, workload, working, plot, on, warmup)
    own_machine = variant.platform in ("guest", "xen") or on.chance is not None
    nodes = list(dict.fromkeys(pair.node for pair in working))
    probes = _probes(study, variant, working, nodes if own_machine else ())
    probes += _memory_probes(study, variant, nodes, on)
    limit_s = seconds + _patience_s(study, settings)
    phase = plan.Phase(name=PHASE, tasks=tuple(tasks), probes=tuple(probes), limit_s=limit_s)
    knobs = _knob_settings(study, working, own_machine, on)
    if variant.platform == "xen" or (variant.platform == "guest" and _has_weights(study, on)):
        knobs += _weights(study.knobs, nodes)
    if own_machine:
        knobs += _memory_knobs(study.knobs, variant, nodes)
    before = _before(id, study, variant, working, on)
    return plan.Trial(id=id, knobs=tuple(knobs), phases=(*before, phase))


def _probes(
    study: Study, variant: Variant, working: Sequence[Pair], machines: Sequence[str]
) -> list[plan.ProbeRequest]:
    """What is read in a trial; `machines` are the nodes that are machines of their own."""
    wanted = [plan.ProbeRequest(node=HOST, probe=probe) for probe in ("stat", "softirqs")]
    outside = [pair.node for pair in working if pair.node != HOST]
    if variant.platform == "xen":
        outside.append(HOST)
    wanted += [plan.ProbeRequest(node=node, probe="outside") for node in outside]
    own: tuple[plan.ProbeName, ...] = ("stat", "softirqs", "interrupts", "net_dev", "net_snmp")
    polling = _chosen(study, "napi", "drops") if study.needs_network else ()
    wanted += [
        plan.ProbeRequest(node=node, probe=probe) for node in machines for probe in own + polling
    ]
    if machines and "drops" in polling:
        peers = [node for pair in working for node in pair.others]
        # A peer may drop a packet, and so may the machine that a guest's frames pass through.
        way = [*peers, HOST] if variant.platform in ("guest", "xen") else peers
        wanted += [plan.ProbeRequest(node=node, probe="drops") for node in way]
        wanted += [plan.ProbeRequest(node=peer, probe="net_dev") for peer in peers]
    return list(dict.fromkeys(wanted))


def _chosen(study: Study, *names: plan.ProbeName) -> tuple[plan.ProbeName, ...]:
    return tuple(name for name in names if name in study.probes)


def _memory_probes(
    study: Study, variant: Variant, nodes: Sequence[str], on: Surroundings
) -> list[plan.ProbeRequest]:
    """Of memory and its translation: of the machine, of its guests and as KVM sees them."""
    guests = nodes if variant.platform == "guest" else ()
    found = [(node, probe) for probe in _chosen(study, "memory") for node in (HOST, *guests)]
    found += [(HOST, probe) for probe in _chosen(study, "hardware")]
    if _under_kvm(study, on):
        counted = _chosen(study, "kvm", "kvm_exits")
        found += [(guest, probe) for guest in guests for probe in counted]
    return [plan.ProbeRequest(node=node, probe=probe) for node, probe in found]


def _under_kvm(study: Study, on: Surroundings) -> bool:
    """Whether guests are KVM's; those of an emulated machine always are."""
    accelerator = on.accelerator if study.sut.accelerator == "auto" else study.sut.accelerator
    return study.machine == "emulated" or accelerator == "kvm"


def _before(
    id: int, study: Study, variant: Variant, working: Sequence[Pair], on: Surroundings
) -> tuple[plan.Phase, ...]:
    """What an emulated machine or a guest does first, unmeasured.

    `offset`: where nothing else varies the moment of a trial's start, this does.
    """
    if on.chance is None:
        reached = study.routed or variant.platform in ("guest", "xen")
        reached = reached and study.needs_network
        return _reach(working) if reached else ()
    work = plan.Burn(share=1.0, duration_s=on.chance.offset_s(id))
    offset = plan.Task(id="offset", node=working[0].node, workload=work)
    phase = plan.Phase(name="offset", tasks=(offset,), limit_s=_SETTLE_S)
    return (*(_reach(working) if study.needs_network else ()), phase)


def _reach(working: Sequence[Pair]) -> tuple[plan.Phase, ...]:
    """One echo, so that both ends know each other's addresses and frames pass.

    QEMU's e1000 takes none in for a second after the kernel has set its filter; and what a sender
    has for an address that is not known yet is dropped where nobody counts it.
    """
    tasks = tuple(
        plan.Task(
            id=f"reach{pair.mark}",
            node=pair.far.node,
            workload=plan.PingRequest(
                protocol="icmp",
                to=pair.near.address,
                count=1,
                duration_s=_SETTLE_S / 2,
                timeout_s=_SETTLE_S / 2,
            ),
        )
        for pair in working
    )
    return (plan.Phase(name="reach", tasks=tasks, limit_s=2 * _SETTLE_S + _settling_s(working)),)


def _settling_s(working: Sequence[Pair]) -> float:
    """What further ones add: each is told to begin, and to read its probes, after the other."""
    return _SETTLE_S * (len(working) - 1)


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
    settings: object,
    workload: str,
    working: Sequence[Pair],
    plot: Plot,
    on: Surroundings,
    warmup: bool,
) -> tuple[Sequence[plan.Task], float]:
    """The tasks of a workload, and the seconds they may take: what the user said of a command, for
    the others what they are asked to do and some more.
    """
    neighbours = getattr(settings, "neighbours", None)
    seconds = _limit_s(settings) + _settling_s(working)
    load: list[plan.Task] = []
    if neighbours is not None:
        load = [t for p in working[1:] for t in _load_tasks(neighbours, settings, p, seconds, on)]
        working = working[:1]
    tasks = [
        task for pair in working for task in _pair_tasks(settings, workload, pair, plot, on, warmup)
    ]
    return [*load, *tasks], seconds


def _patience_s(study: Study, settings: object) -> float:
    """By the wall clock an emulated machine is as slow as its host is busy: with six runnable threads a
    CPU, streams of a second took eleven to begin and end.
    """
    slow = study.machine == "emulated" and study.clock == "wall"
    timed = isinstance(settings, StreamSettings | PingSettings | BurnSettings)
    return _BUSY_S if slow and timed else 0.0


def _limit_s(settings: object) -> float:
    match settings:
        case CommandSettings() | ForkSettings() | TouchSettings():
            return settings.limit
        case StreamSettings():
            return settings.duration + settings.omit + _SETTLE_S
        case PingSettings():
            return settings.duration + settings.timeout + _SETTLE_S
        case BurnSettings():
            return settings.duration + _SETTLE_S
        case ForkSettings() | TouchSettings():
            return settings.limit
    raise AssertionError(f"unknown workload settings: {settings!r}")


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


def _knob_settings(
    study: Study, working: Sequence[Pair], own_machine: bool, on: Surroundings
) -> list[plan.KnobSetting]:
    own = [(pair.node, name) for pair in working for name in pair.interfaces]
    own = list(dict.fromkeys(own))
    others = [(node, "eth0") for pair in working for node in pair.others]
    settings = _link_knobs(study.knobs, [*own, *(others if study.needs_network else [])])
    steering = study.knobs.receive_steering
    for node, interface in own:
        if steering is not None:
            settings.append(_knob(node, plan.ReceiveSteering(interface=interface, cpus=steering)))
        if own_machine:
            settings += [_knob(node, knob) for knob in _polling_knobs(study.knobs, interface)]
    # What is of a node and not of its interface is set once.
    return list({repr(setting): setting for setting in settings}.values())


def _link_knobs(knobs: Knobs, ends: Sequence[tuple[str, str]]) -> list[plan.KnobSetting]:
    """At both ends of each link."""
    settings: list[plan.KnobSetting] = []
    for node, interface in ends:
        if knobs.mtu is not None:
            settings.append(_knob(node, plan.Mtu(interface=interface, bytes=knobs.mtu)))
        for offload, set_to in knobs.offloads.items():
            knob = plan.Offload(interface=interface, offload=offload, on=set_to)
            settings.append(_knob(node, knob))
        if knobs.socket_buffers is not None:
            settings.append(_knob(node, plan.SocketBuffers(bytes=knobs.socket_buffers)))
    return settings


def _has_weights(study: Study, on: Surroundings) -> bool:
    """Whether guests of this host have CPU weights, which a bench must be made for."""
    asked = any(
        getattr(study.knobs, name) is not None or f"knobs.{name}" in study.all_factors
        for name in ("driver_weight", "guest_weights")
    )
    return asked and "guest" in study.sut.platforms and on.chance is None


def _weights(knobs: Knobs, guests: Sequence[str]) -> Iterator[plan.KnobSetting]:
    """Of the driver domain, and of the guests that work: in Xen's scheduler, or of their cgroups."""
    if knobs.driver_weight is not None:
        yield _knob(HOST, plan.SchedulerWeight(weight=knobs.driver_weight))
    for guest, weight in zip(guests, knobs.guest_weights or (), strict=False):
        yield _knob(HOST, plan.SchedulerWeight(weight=weight, guest=guest))


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
    """What of the study does not reach every platform, or is not what it may seem."""
    own_machines = ("guest", "xen")
    platforms = [platform for platform in study.sut.platforms if platform not in own_machines]
    if study.machine != "local" or not platforms:
        return []
    asked = [
        name
        for name in (*_POLLING, "thp")
        if getattr(study.knobs, name) is not None or f"knobs.{name}" in study.all_factors
    ]
    found = [
        f"knobs.{name} is for guests: {' and '.join(platforms)} share this host's, which is left alone"
        for name in asked
    ]
    if "xen" in study.sut.platforms:
        found.append(
            "native is this host's driver domain, which runs under Xen itself: what Xen takes from "
            "that is in no cost (machine = 'emulated' has a baseline without Xen)"
        )
    return found


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


def _memory_knobs(knobs: Knobs, variant: Variant, nodes: Sequence[str]) -> list[plan.KnobSetting]:
    """Of the kernel that the work runs on, and of the machine below where that is another one."""
    own = (HOST,) if variant.platform in (BASELINE, "container") else nodes
    settings: list[plan.KnobSetting] = []
    if knobs.thp is not None:
        settings += [_knob(node, plan.Thp(**knobs.thp.model_dump())) for node in own]
    if variant.platform != "guest":
        return settings
    if knobs.host_thp is not None:
        settings.append(_knob(HOST, plan.Thp(**knobs.host_thp.model_dump())))
    if knobs.ksm is not None:
        settings.append(_knob(HOST, plan.Ksm(**knobs.ksm.model_dump())))
    return settings


def _knob(node: str, knob: plan.Knob) -> plan.KnobSetting:
    return plan.KnobSetting(node=node, knob=knob)
