"""Rules for settings of a study that do not go together.

Each rule raises `ValueError` with a sentence on the problem and the remedy. Rules are checked in the order
of `RULES`, and the first broken one is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hypertare.analyses.registry import KINDS as ANALYSES
from hypertare.base.response import Response
from hypertare.base.units import human_size
from hypertare.base.words import listing
from hypertare.knobs.knob import OF_GIVEN, KnobKind
from hypertare.knobs.mtu import MOST_OF_NIC
from hypertare.knobs.registry import HOST_KNOBS
from hypertare.knobs.registry import KINDS as KNOBS
from hypertare.platforms.guest_settings import GuestFacts
from hypertare.platforms.platform import Platform
from hypertare.platforms.registry import BASELINE, has_own
from hypertare.platforms.registry import KINDS as PLATFORMS
from hypertare.study.bench import LEAST_IPV6_MTU, LEAST_TCP_MTU
from hypertare.study.effects import LEAST_FACTORS, EffectsSettings
from hypertare.study.factors import GUESTS, is_easy
from hypertare.study.given import PEER, UNDER_TEST
from hypertare.study.search import GOAL, LOSS_FREE_RATE
from hypertare.study.size import can_be_carried_out
from hypertare.workloads.life import LifeSettings
from hypertare.workloads.responses import of_workload
from hypertare.workloads.workload import NodeFacts

if TYPE_CHECKING:
    from hypertare.study.claims import Claim
    from hypertare.study.study import Study

LEAST_GUEST = 80 << 20
"""Least bytes of a guest's memory. With less, Debian's kernel prints nothing. From here on it reports a
panic for lack of memory if its work needs more.
"""

LEAST_EMULATED = 128 << 20
"""Bytes with which the distribution's kernel boots and a stream runs."""

MOST_VIRTUAL_CPUS = 8
"""The emulator has not been tried with more."""

LEAST_DRIVER_DOMAIN = 384 << 20
"""Bytes with which Xen's driver domain unpacks its image, what its guests boot from in it."""


def fits_the_machine(study: Study) -> None:
    """Its clock, memory and CPUs are those that the machine can have."""
    machine = study.machine_kind
    if study.clock not in machine.clocks:
        raise ValueError(
            f"the machine '{study.machine}' has no {study.clock} clock: "
            f"it has {' or '.join(machine.clocks)}"
        )
    if not machine.boots_whole_pcs:
        _leaves_this_host_alone(study)
        return
    if _under_hypervisor(study) is None and study.sut.memory < LEAST_EMULATED:
        raise ValueError(
            f"sut.memory is {human_size(study.sut.memory)}, but an emulated machine needs "
            f"{human_size(LEAST_EMULATED)}: its kernel would not fit, or end in a loop"
        )
    if study.clock_kind.counts_instructions and study.sut.cpus > MOST_VIRTUAL_CPUS:
        raise ValueError(
            f"sut.cpus is {study.sut.cpus}, but in virtual time a machine has 1 to {MOST_VIRTUAL_CPUS}: "
            "ask for fewer, or for clock = 'wall'"
        )


def frames_fit_the_line(study: Study) -> None:
    """An emulated line's cards count frames, each as long as one of `bench.mtu`."""
    limited = study.machine_kind.line_counts_frames and study.has_line
    if limited and study.largest_mtu > study.bench.mtu:
        raise ValueError(
            f"knobs.mtu goes up to {study.largest_mtu}, but on the emulated machine's line a frame takes "
            f"the time of one of bench.mtu, {study.bench.mtu} bytes: larger ones would be carried for "
            f"nothing. Set bench.mtu = {study.largest_mtu}"
        )


def segments_fit_the_frames(study: Study) -> None:
    """Linux's TCP makes no segment of less than 48 bytes (net.ipv4.tcp_min_snd_mss), 88 with its headers,
    and marks it as not to be cut up: on a link that takes less, a connection stands still.
    """
    mtu = study.bench.mtu if study.knobs.mtu is None else study.knobs.mtu
    tcp = [name for name, one in study.workloads.items() if getattr(one, "protocol", "") == "tcp"]
    if tcp and mtu < LEAST_TCP_MTU:
        raise ValueError(
            f"an MTU of {mtu} bytes is too little for TCP ({listing(tcp)}), which makes no packets of less "
            f"than {LEAST_TCP_MTU}: take that, or protocol = 'udp' in a study without TCP"
        )


def frames_fit_the_nics(study: Study) -> None:
    """Links are made for the largest MTU of all cells, and every level meets every NIC."""
    if (
        study.knobs.mtu is not None
        and study.bench.family == "ipv6"
        and study.knobs.mtu < LEAST_IPV6_MTU
    ):
        raise ValueError(
            f"IPv6 needs an MTU of {LEAST_IPV6_MTU} bytes, not {study.knobs.mtu} (knobs.mtu)"
        )
    own = any(has_own(platform, "sut.nic") for platform in study.platforms)
    if not study.needs_network or not (own or study.machine_kind.boots_whole_pcs):
        return
    for nic in study.levels("sut.nic"):
        most = MOST_OF_NIC.get(nic)
        if most is not None and study.largest_mtu > most:
            raise ValueError(
                f"an MTU of {study.largest_mtu} bytes is too much for sut.nic = '{nic}': its driver takes "
                f"{most} at most: take a smaller one, or virtio-net, which takes any"
            )


def _leaves_this_host_alone(study: Study) -> None:
    """What is of the whole machine is not set on this host."""
    for name in HOST_KNOBS:
        if getattr(study.knobs, name) is not None:
            raise ValueError(
                f"knobs.{name} is a setting of the whole machine below the guests, here "
                f"{'of a host elsewhere' if study.machine_kind.is_reached else 'of this host'}, which is "
                "left alone: take machine = 'emulated', or set it yourself"
            )


def line_can_be_had(study: Study) -> None:
    """A line of a limited rate has something to carry, and a NIC that keeps to it."""
    if study.bench.line_rate is None:
        return
    if not study.needs_network:
        raise ValueError("bench.line_rate is set, but no workload sends anything: leave it out")
    needed = study.machine_kind.line_nic
    if needed is not None and study.sut.nic != needed:
        raise ValueError(
            f"bench.line_rate needs sut.nic = '{needed}' on an emulated machine, not "
            f"'{study.sut.nic}': of QEMU's NICs only that one sends by a clock"
        )
    if study.knobs.mtu is not None and study.knobs.mtu > study.bench.mtu:
        raise ValueError(
            f"knobs.mtu is {study.knobs.mtu}, but the line has bench.mtu = {study.bench.mtu}: "
            "raise that too"
        )


def rings_are_of_a_line(study: Study) -> None:
    """Only the emulated machine's cards hold what waits for a line."""
    if study.knobs.line_ring is None:
        return
    if not study.has_line or not study.machine_kind.boots_whole_pcs:
        raise ValueError(
            "knobs.line_ring is of the cards at the ends of an emulated machine's line: set "
            "bench.line_rate with machine = 'emulated', or knobs.line_ring = 'none'"
        )


def remote_machines_fit(study: Study) -> None:
    """A lab elsewhere is reached; its settings are not changed, and it gets nothing that is not brought."""
    if not study.machine_kind.is_reached:
        if study.remote is not None:
            raise ValueError(
                "[remote] is of machine = 'remote': set that too, or leave [remote] out"
            )
        return
    if study.remote is None:
        raise ValueError(
            f"the machine '{study.machine}' is a host of yours: say how it is reached, [remote] with "
            "reach = 'ssh USER@HOST' (--set remote.reach='ssh USER@HOST')"
        )
    hosts, boots = len(study.remote.reach), study.design.most_boots
    if hosts > boots:
        raise ValueError(
            f"remote.reach names {hosts} hosts, of which each has boots of its own, and a cell has {boots} "
            f"at most: design.max_trials must be at least {hosts * study.design.blocks_of_a_boot}"
        )
    for key, changing in (("paging", None), ("pages", "2M")):
        asked = study.levels(f"sut.{key}")
        if any(level == changing if changing else level is not None for level in asked):
            raise ValueError(
                f"sut.{key} needs settings of the host, and those of a host elsewhere are not changed: "
                "leave it out, or run hypertare on that host"
            )
    strange = next((one.name for one in study.platforms if one.under_hypervisor), None)
    if strange is not None:
        raise ValueError(
            f"the platform {strange} needs a look at its hypervisor, which is not taken elsewhere: leave "
            "it out of sut.platforms, or run hypertare on that host"
        )
    if study.speaks_ospf:
        raise ValueError(
            "bench.routing = 'ospf' needs a routing daemon, which is not brought elsewhere: take 'static'"
        )


def given_machines_fit(study: Study) -> None:
    """A machine that was there before is reached, has no network of a bench, and is left as it is."""
    given = [one for one in study.platforms if not one.is_made]
    if not given:
        if study.given:
            names = _those(lambda one: not one.is_made)
            raise ValueError(f"[given] is of the platform {names}: add '{names}' to sut.platforms")
        return
    name = given[0].name
    if not study.machine_kind.is_this_host:
        raise ValueError(f"the platform {name} is reached from this host: take machine = 'local'")
    if not study.given_under_test:
        raise ValueError(
            f"the platform {name} is a machine of yours: say how it is reached, [given.NAME] with "
            "reach = 'ssh USER@HOST' (weigh: --given 'ssh USER@HOST')"
        )
    levels = study.levels(UNDER_TEST)
    if len(study.given_under_test) > 1 and levels == (None,):
        raise ValueError(
            f"there are several machines in [given], {', '.join(study.given_under_test)}: name the one in "
            f'sut.given, or compare them, factors."sut.given" = {list(study.given_under_test)}'
        )
    strange = next(
        (one for one in levels if one is not None and one not in study.given_under_test), None
    )
    if strange is not None:
        raise ValueError(
            f"sut.given: there is no [given.{strange}]; there are: {', '.join(study.given_under_test)}"
        )
    _is_left_alone(study, name)
    _is_in_a_process_of_its_own(study)
    if study.needs_network:
        _can_be_sent_to(study, name)
    elif PEER in study.given:
        raise ValueError(
            f"[given.{PEER}] is whom the others speak with, and no workload needs a network: leave it out"
        )


def _is_in_a_process_of_its_own(study: Study) -> None:
    if PEER in study.given and study.given[PEER].outside is not None:
        raise ValueError(
            f"given.{PEER}.outside: CPU time is counted of machines under test alone: leave it out"
        )
    known = [one.outside for one in study.given_at_work.values() if one.outside is not None]
    twice = next((one for one in known if known.count(one) > 1), None)
    if twice is not None:
        raise ValueError(
            f"two machines in [given] have outside = {twice!r}: each is in a process of its own"
        )


def _can_be_sent_to(study: Study, name: str) -> None:
    """Traffic goes over a network that is there, to addresses that are known."""
    for workload, settings in study.workloads.items():
        if settings.needs_network and not settings.is_of_addresses:
            raise ValueError(
                f"workloads.{workload} needs a bench's own network, and the platform {name} is on none: "
                f"take streams or pings over IP, or leave {name} out of sut.platforms"
            )
    if study.routed:
        raise ValueError(
            f"bench.topology = 'routers': a machine of the platform {name} is no router"
        )
    if study.has_line:
        raise ValueError(
            f"bench.line_rate is of a bench's link, and the platform {name} is on none"
        )
    asked = dict(study.given_at_work)
    if PEER in study.given:
        asked[PEER] = study.given[PEER]
    for key, machine in asked.items():
        if machine.address is None:
            raise ValueError(
                f"given.{key} is sent packets: say where they go, given.{key}.address = '192.0.2.10', "
                "which must be an address of that machine"
            )
    addresses = [machine.address for machine in asked.values()]
    twice = next((one for one in addresses if addresses.count(one) > 1), None)
    if twice is not None:
        raise ValueError(f"two machines in [given] have the address {twice}: each has its own")
    if PEER in asked and len({":" in str(address) for address in addresses}) > 1:
        raise ValueError(
            f"given.{PEER}.address is of another family than that of a machine which speaks with it: take "
            "IPv4 for all, or IPv6"
        )


def _is_left_alone(study: Study, name: str) -> None:
    knobs = [kind for kind in study.knobs.given() if study.knobs.level(kind) != {}]
    varied = {path.split(".")[1] for path in study.all_factors if path.startswith("knobs.")}
    knobs += [kind for kind in KNOBS if kind.name in varied and kind not in knobs]
    if knobs:
        _may_be_set(study, name, knobs)
    if study.bench_guests > 1:
        raise ValueError(f"sut.guests: a machine of the platform {name} is one, and works alone")
    if study.sut.devices:
        raise ValueError(
            f"sut.devices are of this host, and the platform {name} is another machine: leave them out"
        )


def _may_be_set(study: Study, name: str, knobs: Sequence[KnobKind[Any]]) -> None:
    kept = next((key for key, one in study.given_at_work.items() if not one.settings), None)
    if kept is not None:
        raise ValueError(
            f"knobs.{knobs[0].name} would change a setting of a machine of the platform {name}, where "
            f"nothing is changed unasked: given.{kept}.settings = true (its user is root there, or may use "
            "sudo without a password), or leave the knob out and set it there yourself"
        )
    strange = next((kind for kind in knobs if kind.place not in OF_GIVEN), None)
    if strange is not None:
        raise ValueError(
            f"knobs.{strange.name} is of what runs a guest, and a machine of the platform {name} is known "
            "from inside alone: leave it out"
        )
    nowhere = next((key for key, one in study.given_at_work.items() if one.address is None), None)
    of_interface = next((kind for kind in knobs if kind.is_of_interface), None)
    if nowhere is not None and of_interface is not None:
        raise ValueError(
            f"knobs.{of_interface.name} is of an interface, and that of given.{nowhere} is known by its "
            f"address: given.{nowhere}.address = '192.0.2.10'"
        )


def programs_are_of_an_image(study: Study) -> None:
    """Only an emulated machine has an image to put programs in."""
    if study.sut.programs and not study.machine_kind.boots_whole_pcs:
        raise ValueError(
            "sut.programs are put into the image of an emulated machine; on this host commands "
            "find its own programs, and what they work on in sut.workdir"
        )
    if "sut.programs" in study.factors:
        raise ValueError(
            "sut.programs cannot be a factor: all machines of a run have the same image"
        )


def devices_are_of_this_host(study: Study) -> None:
    """Commands on this host are kept from its devices; an emulated machine has none of them."""
    if "sut.devices" in study.factors:
        raise ValueError("sut.devices cannot be a factor: all platforms of a run have the same")
    if not study.sut.devices:
        return
    if not study.machine_kind.is_this_host:
        raise ValueError(
            f"sut.devices are of this host; the machine '{study.machine}' has devices of its own: leave "
            "sut.devices out"
        )
    if not study.needs_files:
        raise ValueError(
            "sut.devices is for workloads of the type command, and there is none: leave it out"
        )


def images_can_be_run(study: Study) -> None:
    """An engine's containers are of this host, and their network is the engine's."""
    if {"sut.image", "sut.engine"} & study.factors.keys():
        raise ValueError("sut.image and sut.engine cannot be factors: a run weighs one image")
    if study.sut.image is None:
        return
    if not study.machine_kind.is_this_host:
        raise ValueError("sut.image is of an engine of this host: take machine = 'local'")
    strange = [platform.name for platform in study.platforms if not platform.runs_images]
    if strange:
        able = ",".join(kind.name for kind in PLATFORMS.values() if kind.runs_images)
        raise ValueError(
            f"sut.image: {' and '.join(strange)} cannot run an image of a container engine yet: leave it "
            f"out of sut.platforms (weigh: --on {able})"
        )
    if study.needs_network:
        raise ValueError(
            "sut.image: the network of an engine's containers does not lead to a bench's peers, so "
            "that only commands without a peer and other work without a network can be weighed"
        )


def network_of_host_can_be_had(study: Study) -> None:
    """This host's network is for commands alone: a bench would be made in it, and knobs would set it."""
    if "sut.network" in study.factors:
        raise ValueError("sut.network cannot be a factor: all platforms of a run have the same")
    if study.sut.network == "none":
        return
    if not study.machine_kind.is_this_host:
        raise ValueError("sut.network = 'host' is of this host: take machine = 'local'")
    apart = [platform.name for platform in study.platforms if platform.has_own_kernel]
    if apart:
        able = ",".join(kind.name for kind in PLATFORMS.values() if not kind.has_own_kernel)
        raise ValueError(
            f"sut.network: {' and '.join(apart)} has a kernel of its own and no way to this host's "
            f"network: leave it out of sut.platforms (weigh: --on {able})"
        )
    if study.sut.image is not None:
        raise ValueError(
            "sut.network: a container of your engine has the network that the engine gives it: leave it "
            "out"
        )
    strange = [
        name if settings.kind.needs_network else f"the peer of {name}"
        for name, settings in study.workloads.items()
        if settings.needs_network
    ]
    given = [kind for kind in study.knobs.given() if study.knobs.level(kind) != {}]
    strange += [f"knobs.{kind.name}" for kind in given]
    strange += [name for name in study.all_factors if name.startswith("knobs.")]
    if strange:
        raise ValueError(
            f"sut.network = 'host' is for commands: {listing(strange)} would work in this host's own "
            "network: leave it out"
        )


def walks_can_take_time(study: Study) -> None:
    """Of a processor that is emulated; a real one takes its own."""
    if not study.emulated.walks_take_time:
        return
    if not study.clock_kind.counts_instructions:
        raise ValueError(
            f"emulated.walks is '{study.emulated.walks}', but only in virtual time (machine = 'emulated') "
            "page walks are emulated: by the wall clock this host's own are in all figures; leave it out"
        )
    if study.walk is not None:
        raise ValueError(
            f"[walk] adds modelled page walks to elapsed time, and with emulated.walks = "
            f"'{study.emulated.walks}' they are in it: leave one of the two out"
        )


def walks_that_cost_more_take_time(study: Study) -> None:
    """Where page walks take no time, there is none to change."""
    if study.emulated.walk_cost != 1 and not study.emulated.walks_take_time:
        raise ValueError(
            f"emulated.walk_cost is {study.emulated.walk_cost:g}, but page walks take no time here: name a "
            "processor with emulated.walks, or leave it out"
        )


def walks_can_be_joined(study: Study) -> None:
    """Modelled walks are added to elapsed virtual time."""
    if study.walk is None:
        return
    if not study.clock_kind.counts_instructions:
        raise ValueError(
            "[walk] is for virtual time: by the wall clock a processor's page walks are in the "
            "elapsed time already"
        )
    for name in study.walk.workloads:
        if name not in study.workloads:
            known = ", ".join(study.workloads)
            raise ValueError(f"walk.workloads: there is no workload '{name}'; there are: {known}")
        if not study.workloads[name].kind.has_elapsed:
            raise ValueError(f"walk.workloads: '{name}' has no elapsed time to add walks to")
    if not study.walked:
        raise ValueError("[walk]: no workload has an elapsed time to add walks to")
    for name in study.walked:
        if study.workloads[name].needs_network:
            raise ValueError(
                f"[walk]: '{name}' speaks with a peer, and where walks are modelled there is none: name "
                "other workloads in walk.workloads"
            )
    if _has_paging_of_guests(study):
        for path, given in (("paging", study.sut.paging), ("pages", study.sut.pages)):
            if given is None and f"sut.{path}" not in study.factors:
                raise ValueError(f"[walk] needs to know sut.{path} of the guest: set it")
    free = [one for one in study.walked if study.workloads[one].asked_pages is None]
    if free and study.knobs.thp is None and "knobs.thp" not in study.all_factors:
        raise ValueError(
            f"[walk] needs to know the pages of '{free[0]}': whether a kernel gives huge ones by itself "
            'depends on its memory, so guests may differ from native. Set knobs.thp = "never"'
        )


def routing_can_be_had(study: Study) -> None:
    """Each router knows how it learns of networks."""
    routing = study.bench.routing
    if not isinstance(routing, str) and len(routing) < study.bench_guests:
        raise ValueError(
            f"bench.routing has {len(routing)} of them for {study.bench_guests} routers: give one "
            "each, or one word for all"
        )
    if study.speaks_ospf and all(platform.is_host for platform in study.platforms):
        raise ValueError(
            "bench.routing = 'ospf' is for routers that are containers or guests: natively one "
            "kernel is all of them and knows every network. Add a platform to sut.platforms"
        )


def _cpus_of_peers(study: Study) -> int:
    """What peers may use of an emulated machine: its guests, and what moves their packets, may have CPUs of
    their own. Where there are not enough of them the guests' rule says so.
    """
    if not study.sut.datapath_apart and "sidecore" not in study.levels("sut.datapath"):
        return study.sut.cpus
    return max(study.sut.cpus - study.sut.virtual_cpus(has_driver=False) - 1, 1)


def _cpus_under_test(study: Study) -> int:
    """Returns the CPUs of the node under test that has the fewest."""
    guests = [one for one in study.platforms if one.has_own_kernel]
    given = (study.sut.virtual_cpus(has_driver=one.pc.has_driver_domain) for one in guests)
    return min((study.sut.cpus, *given))


def interrupts_fit_the_cpus(study: Study) -> None:
    """CPUs that take interrupts are there."""
    cpus, most = study.knobs.interrupt_cpus or (), _cpus_under_test(study)
    if max(cpus, default=0) >= most:
        raise ValueError(
            f"knobs.interrupt_cpus names CPU {max(cpus)}, and there are {most}, counted from 0: name "
            "others, or raise sut.cpus"
        )


def workloads_fit_the_nodes(study: Study) -> None:
    """Every workload fits the nodes of its bench."""
    routed = study.bench.topology == "routers"
    guests = [one for one in study.platforms if one.has_own_kernel]
    cpus = _cpus_under_test(study)
    mtu = study.knobs.mtu or study.bench.mtu
    sandboxed = study.machine_kind.is_sandboxed
    shares_memory = bool(guests) and all(one.shares_memory for one in guests)
    # Programs are in the image of a guest, not of its host.
    hosts_guests = any(one.pc.has_guests for one in study.platforms)
    has_programs = not (study.machine_kind.boots_whole_pcs and hosts_guests)
    if study.sut.disk_directory is not None and not study.machine_kind.is_this_host:
        raise ValueError(
            f"sut.disk_directory is a directory of this host, and the machine '{study.machine}' sees none "
            "of those: leave it out, or take machine = 'local'"
        )
    has_devices = study.machine_kind.boots_whole_pcs and not study.shares_files
    if study.sut.disk_latency and not has_devices:
        raise ValueError(
            f"sut.disk_latency is {study.sut.disk_latency:g} s, which a block device of machine = "
            "'emulated' takes, without sut.files; elsewhere a disk is a file: leave it out"
        )
    can = (one.has_disk and (has_devices or one.has_disk_of_file) for one in study.platforms)
    has_disks = all(can) and study.sut.image is None
    several = study.bench_guests > 1 and any(one.is_host for one in study.platforms)
    facts = NodeFacts(
        routed=routed,
        cpus=cpus,
        mtu=mtu,
        sandboxed=sandboxed,
        shares_memory=shares_memory,
        peers_have_programs=has_programs,
        has_disks=has_disks,
        several_on_a_disk=several,
        all_made=all(one.is_made for one in study.platforms) and study.sut.image is None,
        under_hypervisor=any(one.under_hypervisor for one in study.platforms),
        several=study.bench_guests > 1,
        cuts_power=study.machine_kind.boots_whole_pcs,
        # Peers work on the machine below guests, and on all of this host.
        peer_cpus=None if sandboxed else _cpus_of_peers(study),
    )
    for name, workload in study.workloads.items():
        misfit = workload.misfit(facts)
        if misfit is not None:
            raise ValueError(f"workloads.{name}: {misfit}")


def disks_in_memory_fit(study: Study) -> None:
    """A file in memory counts as memory of whoever writes it."""
    limited = any(
        one.is_made and not one.is_host and not one.has_own_kernel for one in study.platforms
    )
    is_file = study.machine_kind.is_sandboxed or study.shares_files
    in_memory = is_file and study.sut.disk_directory is None
    if limited and in_memory and study.disk_bytes >= study.sut.memory:
        raise ValueError(
            f"sut.memory is {human_size(study.sut.memory)}, and a container's disk of "
            f"{human_size(study.disk_bytes)} in memory is a part of that: raise it, ask for a "
            "smaller disk, or put the disk into a directory with sut.disk_directory"
        )


def measured_guest_is_there(study: Study) -> None:
    """The guest that neighbours leave to be measured is one of those that work, in every cell."""
    for name, workload in study.workloads.items():
        if workload.load is None:
            continue
        path = f"workloads.{name}.neighbours.measured"
        factors = study.factors_of(name)
        guests = min(_numbers(factors.get(GUESTS, ())) or [study.sut.guests])
        measured = max(_numbers(factors.get(path, ())) or [workload.load.measured])
        if measured > guests:
            raise ValueError(
                f"{path} = {measured} names a guest that is not there: {GUESTS} is {guests} in some cell "
                f"of '{name}'. Guests are numbered from 1; measure one of these, or ask for more"
            )


def _numbers(levels: tuple[Any, ...]) -> list[int]:
    """Of a factor. What is no number is refused where each level is put in its place."""
    return [level for level in levels if isinstance(level, int)]


def _boots_its_image(study: Study) -> None:
    """A guest of this host unpacks its image into its memory."""
    if study.machine_kind.boots_whole_pcs or study.sut.memory >= LEAST_GUEST:
        return
    if any(platform.image is not None for platform in study.platforms):
        raise ValueError(
            f"sut.memory is {human_size(study.sut.memory)}, but a guest needs "
            f"{human_size(LEAST_GUEST)} to boot, and more for its work"
        )


def guests_fit(study: Study) -> None:
    """Several guests have what each needs."""
    guests, weights = study.sut.guests, study.knobs.guest_weights
    if weights is not None and len(weights) < guests:
        raise ValueError(
            f"knobs.guest_weights has {len(weights)} of them for sut.guests = {guests}: "
            "give one a guest"
        )
    _has_peers_and_driver(study)
    _boots_its_image(study)
    for platform in study.platforms:
        if study.sut.memory < platform.least_memory:
            raise ValueError(
                f"sut.memory is {human_size(study.sut.memory)}, but {platform.least_memory_of} needs "
                f"{human_size(platform.least_memory)} to boot"
            )
    hypervisors_guest = _under_hypervisor(study)
    if hypervisors_guest is None:
        return
    if not study.machine_kind.boots_whole_pcs:
        for platform in filter(lambda one: one.under_hypervisor, study.platforms):
            _fits_a_users_hypervisor(study, platform)
    elif study.sut.driver_memory < LEAST_DRIVER_DOMAIN:
        raise ValueError(
            f"sut.driver_memory is {human_size(study.sut.driver_memory)}, but Xen's driver domain "
            f"needs {human_size(LEAST_DRIVER_DOMAIN)} for its image"
        )


def _has_peers_and_driver(study: Study) -> None:
    """Peers that are guests, and a driver domain that routes, are there to be had."""
    if study.bench.peers_are_guests and not any(p.has_guests_as_peers for p in study.platforms):
        names = _those(lambda platform: platform.has_guests_as_peers)
        raise ValueError(f"bench.peers = 'guest' is for the platform {names}")
    if study.bench.driver != "route":
        return
    if _under_hypervisor(study) is None:
        names = _those(lambda platform: platform.under_hypervisor)
        raise ValueError(f"bench.driver = 'route' is for the platform {names}")
    if not study.machine_kind.boots_whole_pcs:
        raise ValueError(
            "bench.driver = 'route' needs machine = 'emulated': on a host of your own the driver "
            "domain's addresses and routes are left alone"
        )


def classes_are_of_a_driver_domain(study: Study) -> None:
    """Traffic waits in classes where a driver domain of this bench sends it, below the line's rate."""
    classes, line = study.knobs.traffic_classes, study.bench.line_rate
    if classes is None:
        return
    if _under_hypervisor(study) is None or not study.machine_kind.boots_whole_pcs:
        names = _those(lambda platform: platform.under_hypervisor)
        raise ValueError(
            "knobs.traffic_classes is of the driver domain that sends what guests do, and this bench has "
            f"none: add '{names}' to sut.platforms, with machine = 'emulated', or leave it out"
        )
    if line is not None and classes.rate >= line:
        raise ValueError(
            f"knobs.traffic_classes.rate is {classes.rate / 1e6:g} Mb/s and bench.line_rate "
            f"{line / 1e6:g} Mb/s: packets would wait in the NIC, where no class passes another; take at "
            "most 95 % of the line's"
        )


def driver_domain_is_a_bridge(study: Study) -> None:
    """Where the driver domain is under test itself, its end is the bridge."""
    driver = next((one for one in study.platforms if one.is_host and one.under_hypervisor), None)
    if driver is None:
        return
    if study.bench.driver == "route":
        raise ValueError(
            f"the platform {driver.name} is the driver domain with its bridge, and bench.driver = 'route' "
            f"is for its guests: take bench.driver = 'bridge', or leave {driver.name} out of sut.platforms"
        )
    if study.routed:
        raise ValueError(
            f"the platform {driver.name} is for the topology 'hosts': leave it out of sut.platforms, or "
            "take bench.topology = 'hosts'"
        )


def _under_hypervisor(study: Study) -> Platform | None:
    """The platform that needs a hypervisor below the host, where there is one."""
    return next((platform for platform in study.platforms if platform.under_hypervisor), None)


def _some_platform_has(study: Study, key: str) -> None:
    """A setting that a hypervisor gives its guests, or its host, is of a platform that it has."""
    if any(key in platform.hypervisor_settings for platform in study.platforms):
        return
    names = _those(lambda platform: key in platform.hypervisor_settings)
    which = "one" if " or " in names else "it"
    raise ValueError(f"sut.{key} is of the platform {names}: add {which} to sut.platforms")


def _those(fact: Callable[[Platform], bool], between: str = " or ") -> str:
    return between.join(platform.name for platform in PLATFORMS.values() if fact(platform))


def _fits_a_users_hypervisor(study: Study, platform: Platform) -> None:
    """What guests of Xen on this host have not."""
    other = next((one for one in study.platforms if one.uses_accelerator), None)
    if other is not None:
        raise ValueError(
            f"the platforms {other.name} and {platform.name} do not stand on one host: under Xen there "
            "is no KVM. Take machine = 'emulated', or one of them"
        )
    if study.bench.peers_are_guests:
        raise ValueError(
            "bench.peers = 'guest' needs machine = 'emulated': on a Xen host of your own peers "
            "are processes of its driver domain"
        )
    if study.speaks_ospf:
        raise ValueError(
            "bench.routing = 'ospf' is not for guests of Xen on this host: take 'static'"
        )
    if study.needs_files and not platform.sees_host_files:
        raise ValueError(
            f"the platform {platform.name}: its nodes do not see this host's files, so commands cannot run "
            "there: leave out workloads of the type command, or take machine = 'emulated' with sut.programs"
        )


def cpus_are_shared_out(study: Study) -> None:
    """Guests and Xen's driver domain have CPUs that are there; whose machine it is not is left alone."""
    sut = study.sut
    keys = ("driver_cpus", "pinning", "guest_cpus", "datapath_apart")
    asked = [key for key in keys if key in sut.model_fields_set]
    if not asked:
        return
    if not study.machine_kind.boots_whole_pcs:
        # It says what is so anyway: a study of an emulated machine is asked of this host, too.
        if asked == ["guest_cpus"] and sut.guest_cpus == sut.cpus:
            return
        if asked == ["datapath_apart"]:
            raise ValueError(
                "sut.datapath_apart needs machine = 'emulated': on this host a core that polls alone "
                "(sut.datapath = 'sidecore') has a CPU of its own"
            )
        raise ValueError(
            f"sut.{asked[0]} needs machine = 'emulated': on this host guests have as many virtual CPUs as "
            "sut.cpus, and a driver domain is left as it is (xl vcpu-set and xl vcpu-pin change it)"
        )
    for key in asked:
        _some_platform_has(study, key)
    if sut.datapath_apart and any(
        isinstance(one, LifeSettings) for one in study.workloads.values()
    ):
        raise ValueError(
            "sut.datapath_apart is not for a workload of the type 'life', whose guests are placed anew: "
            "leave it out"
        )
    _driver_leaves_cpus(study)


def _driver_leaves_cpus(study: Study) -> None:
    sut, driver = study.sut, study.sut.virtual_cpus_of_driver
    apart = sut.pinning == "apart"
    if driver > sut.cpus:
        raise ValueError(
            f"sut.driver_cpus is {driver}, but the machine has sut.cpus = {sut.cpus}: ask for at most "
            "so many, or raise sut.cpus"
        )
    if apart and driver == sut.cpus:
        raise ValueError(
            f"sut.pinning = 'apart' leaves guests no CPU: the machine has sut.cpus = {sut.cpus}, and the "
            f"driver domain {driver}. Set sut.cpus = {driver + 1} or more"
        )
    left = len(sut.cpus_beside_driver) if apart else sut.cpus
    if sut.guest_cpus is not None and sut.guest_cpus > left:
        raise ValueError(
            f"sut.guest_cpus is {sut.guest_cpus}, but there are {left} for guests: ask for at most so "
            "many, or raise sut.cpus"
        )


def counter_is_read_by_guests(study: Study) -> None:
    """How the time-stamp counter is read can be set of guests that a hypervisor gives one."""
    if "tsc" not in study.sut.model_fields_set and "sut.tsc" not in study.factors:
        return
    _some_platform_has(study, "tsc")


def settings_fit_the_guests(study: Study) -> None:
    """What is set of guests goes together, and there are guests."""
    sut = study.sut
    asked = sut.asked_of_hypervisor()
    if asked:
        _some_platform_has(study, asked[0])
    problem = sut.problem(
        GuestFacts(
            nic=sut.nic,
            accelerator=sut.accelerator,
            memory=sut.memory,
            cpus=sut.virtual_cpus(has_driver=False),
            cpus_key="cpus" if sut.guest_cpus is None else "guest_cpus",
            machine_cpus=sut.cpus,
            on_emulated=study.machine_kind.boots_whole_pcs,
            needs_network=study.needs_network,
            shares_memory=study.shared_memory is not None,
            needs_disk=study.disk_bytes > 0,
            # The emulated machine's disk is a device of its kernel's, but where files are shared.
            disk_in_memory=sut.disk_directory is None
            and (study.machine_kind.is_this_host or study.shares_files),
            datapath_apart=sut.datapath_apart,
        )
    )
    if problem is not None:
        raise ValueError(problem)


def _has_paging_of_guests(study: Study) -> bool:
    return any(platform.translates_twice for platform in study.platforms)


def levels_are_single_values(study: Study) -> None:
    """A cell differs from others in its levels, in tables and sentences too."""
    for path, levels in study.all_factors.items():
        strange = next((one for one in levels if isinstance(one, dict | list | tuple)), None)
        if isinstance(strange, dict):
            key = next(iter(strange), "KEY")
            raise ValueError(
                f'factors."{path}": a level is one value, and this one is a table: vary its keys instead, '
                f'factors."{path}.{key}" = [...]'
            )
        if strange is not None:
            raise ValueError(
                f'factors."{path}": a level is one value (a text, a number, true, false) or a list of '
                "CPUs, and this one is another list: make a study of each"
            )


def factors_of_a_workload_are_its_own(study: Study) -> None:
    """What is varied for one workload alone needs no other bench."""
    for name, workload in study.workloads.items():
        for path in workload.factors:
            if not is_easy(path, name) or path == f"workloads.{name}.factors":
                raise ValueError(
                    f"workloads.{name}.factors: '{path}' cannot be varied for '{name}' alone; "
                    f"that can its own keys (workloads.{name}....), knobs (knobs....) and "
                    f"{GUESTS}"
                )


def responses_of_a_name_are_alike(study: Study) -> None:
    """What two workloads print under one name is one column, of one unit."""
    known: dict[str, Response] = {}
    for name, workload in study.workloads.items():
        for one in workload.responses:
            other = known.setdefault(one.name, one)
            if (one.unit, one.better) != (other.unit, other.better):
                raise ValueError(
                    f"workloads.{name}.value: '{one.name}' is another workload's response, with another "
                    "unit or direction: give it another name (value.name)"
                )


def plots_show_what_is_there(study: Study) -> None:
    """Axes are responses and factors of their workload."""
    responses, factors = _responses(study), _factors(study)
    for plot in study.plots:
        problem = plot.problem(responses, factors)
        if problem is not None:
            raise ValueError(f"plots: '{plot.title}': {problem}")


def unknown(study: Study) -> dict[tuple[str, str], str]:
    """Returns the problems of claims and plots that name something which the study lacks.

    The keys are the table and the claim's text or the plot's title. This is no rule, because `--quick` may
    leave levels out.
    """
    factors = _factors(study)
    problems = {
        **{("claims", claim.text): _unknown(claim, study) for claim in study.claims},
        **{("plots", plot.title): plot.unknown(factors) for plot in study.plots},
    }
    return {where: problem for where, problem in problems.items() if problem is not None}


def _unknown(claim: Claim, study: Study) -> str | None:
    responses, factors = _responses(study), _factors(study)
    if study.search is not None and claim.response == LOSS_FREE_RATE:
        name = study.search.workload
        over = {path: study.all_factors.get(path, ()) for path in study.search.over}
        responses = {name: [LOSS_FREE_RATE]}
        factors = {name: {**over, GOAL: study.search.loss}}
    problem = claim.problem(responses, factors, study.sut.platforms, study.bench_guests)
    if problem is None and claim.factor is not None:
        return _no_share(claim, study)
    return problem


def _no_share(claim: Claim, study: Study) -> str | None:
    """Why the report's effects will not give a factor's share."""
    settings = study.effects or EffectsSettings()
    covered = [
        name
        for name, known in _responses(study).items()
        if claim.workload in (None, name)
        and name in (settings.workloads or (name,))
        and claim.response in known
        and claim.response in (settings.responses or (study.workloads[name].headline,))
    ]
    if not covered:
        return f"[effects] does not cover {claim.response}: name it in effects.responses"
    for key, wanted in (("platforms", claim.platform), ("factors", claim.factor)):
        given = getattr(settings, key)
        if given and wanted not in given:
            return f"[effects] does not cover {wanted}: name it in effects.{key}"
    if settings.of == "efficiency" and claim.platform == BASELINE:
        return f"[effects] gives efficiencies against {BASELINE}, which has none itself"
    factors = _factors(study)
    varied = [[path for path, of in factors[name].items() if len(of) > 1] for name in covered]
    if any(claim.factor in paths and len(paths) >= LEAST_FACTORS for paths in varied):
        return None
    known = ", ".join(dict.fromkeys(path for paths in varied for path in paths)) or "none"
    return (
        f"'{claim.factor}' is none of {LEAST_FACTORS} or more factors with two levels each; those "
        f"with two: {known}"
    )


def no_effects(study: Study) -> str | None:
    """Why what `[effects]` asks for cannot be had. No rule: overrides may leave one level of a factor."""
    if study.effects is None:
        return None
    asked = _responses(study), _factors(study), study.sut.platforms, BASELINE
    return study.effects.problem(*asked)


def no_analysis(name: str, study: Study) -> str | None:
    """Why what the table of an analysis asks for cannot be had. No rule, as `no_effects`."""
    settings = getattr(study, name)
    return None if settings is None else ANALYSES[name].problem(settings, study.workloads)


def no_bill(study: Study) -> str | None:
    """Why what `[bill]` asks for cannot be had. No rule: a tuning has no factors."""
    asked = _responses(study), _factors(study), _why_no_instructions(study)
    return next((said for bill in study.bill if (said := bill.problem(*asked))), None)


def _why_no_instructions(study: Study) -> str | None:
    """Why a time is no number of instructions."""
    if study.clock != "virtual":
        return f"the clock is {study.clock}'s"
    if study.emulated.walks_take_time:
        return f"with emulated.walks = '{study.emulated.walks}' page walks take some of it"
    varied = {path for path in study.factors if path.startswith("emulated.")}
    return f"{varied.pop()} is a factor" if varied else None


def _responses(study: Study) -> dict[str, list[str]]:
    """Returns the names of responses, by workload."""
    walked = study.walked
    return {
        name: [one.name for one in of_workload(workload, walked=name in walked)]
        for name, workload in study.workloads.items()
    }


def _factors(study: Study) -> dict[str, dict[str, Any]]:
    """Returns, by workload, the factors of its cells with their levels."""
    bench = {path: v for path, v in study.factors.items() if not path.startswith("workloads.")}
    modelled = study.walk.factors if study.walk else {}
    return {
        name: {**bench, **study.factors_of(name), **(modelled if name in study.walked else {})}
        for name in study.workloads
    }


RULES: tuple[Callable[[Study], None], ...] = (
    can_be_carried_out,
    fits_the_machine,
    line_can_be_had,
    rings_are_of_a_line,
    frames_fit_the_line,
    frames_fit_the_nics,
    segments_fit_the_frames,
    remote_machines_fit,
    given_machines_fit,
    programs_are_of_an_image,
    devices_are_of_this_host,
    images_can_be_run,
    network_of_host_can_be_had,
    walks_can_take_time,
    walks_that_cost_more_take_time,
    walks_can_be_joined,
    routing_can_be_had,
    cpus_are_shared_out,
    counter_is_read_by_guests,
    workloads_fit_the_nodes,
    interrupts_fit_the_cpus,
    guests_fit,
    measured_guest_is_there,
    classes_are_of_a_driver_domain,
    driver_domain_is_a_bridge,
    settings_fit_the_guests,
    factors_of_a_workload_are_its_own,
    disks_in_memory_fit,
    levels_are_single_values,
    responses_of_a_name_are_alike,
    plots_show_what_is_there,
)
