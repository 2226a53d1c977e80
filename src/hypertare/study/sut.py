"""`[sut]`: the system under test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator

from hypertare.base.figures import did_you_mean, listing
from hypertare.base.quantities import Duration, Limit, Memory
from hypertare.base.units import human_size
from hypertare.machine_kinds.registry import KINDS as MACHINES
from hypertare.machine_kinds.registry import USUAL
from hypertare.platforms.guest_settings import OF_HYPERVISOR, GuestFacts, GuestSettings
from hypertare.platforms.platform import Platform
from hypertare.platforms.registry import BASELINE, PlatformName, names_of
from hypertare.platforms.registry import KINDS as PLATFORMS
from hypertare.protocol.plan import NicModel, Scheduler, TscMode
from hypertare.workloads.life import LifeSettings

if TYPE_CHECKING:
    from hypertare.study.study import Study


PROGRAM_SETS = ("build", "compress")
"""What comes from the distribution: see `hypertare.machines.image.programs`."""


def is_own_program(name: str) -> bool:
    """Whether a path of this host is meant, and not a set of programs."""
    return "/" in name


Network = Literal["none", "host"]
"""What commands see of a network: nothing, or this host's."""

MOST_GUESTS = 64
OF_GUESTS = frozenset(
    f"sut.{key}"
    for key in (*OF_HYPERVISOR, "guest_cpus", "driver_cpus", "pinning", "datapath_apart", "tsc")
)
"""What a guest's host is booted with, or gives it, and the baseline's machine knows nothing of."""


class Sut(GuestSettings):
    """The system under test, on every platform."""

    platforms: tuple[PlatformName, ...] = MACHINES[USUAL].usual_platforms
    """`native`, the baseline, and of `container`, `guest` (emulated [one of
    KVM](virtual-time.md#a-kvm-host-in-virtual-time)), `xen`, `driver` ([Xen's driver domain](xen.md)),
    `given` ([a machine that you have](given.md)). Default: the first three; emulated `native`.
    """
    cpus: Annotated[int, Field(ge=1)] = 1
    """CPUs of [every platform](weigh.md#the-same-on-every-platform)."""
    memory: Memory = 512 << 20
    """Memory of each guest, and the limit of the container."""
    nic: NicModel = "virtio-net"
    """The model of a guest's NIC, and of every NIC of an emulated machine; or `e1000`, `e1000e`,
    `vmxnet3`, `rtl8139`, `pcnet`.
    """
    kernel: str = "debian"
    """The kernel of a guest; or `debian:PACKAGE`, `host`, a path."""
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"
    """`auto`: KVM where a guest boots with it, else TCG; or `kvm`, `tcg`."""
    boot_limit: Limit = 60.0
    """The longest time that a guest may take to boot; it is extended where several boot at once."""
    workdir: Path | None = None
    """The directory that is copied for every trial of a command, without runs that lie in it; relative to
    the study file. Default: its folder.
    """
    given: str | None = None
    """The machine in `[given]` that the platform `given` is; as a factor, several. Default: the only one.
    """
    guests: Annotated[int, Field(ge=1, le=MOST_GUESTS)] = 1
    """Guests that work at once, each with a peer; natively one node does all their work. As a factor:
    [some wait](xen.md#guests-that-wait).
    """
    scheduler: Scheduler = "credit"
    """Xen's scheduler; or `credit2`. A host of your own must run it."""
    driver_memory: Memory = 448 << 20
    """Memory of Xen's driver domain."""
    driver_cpus: Annotated[int, Field(ge=1)] | None = None
    """Virtual CPUs of the driver domain. Default: `cpus`; with `pinning = "apart"` 1."""
    guest_cpus: Annotated[int, Field(ge=1)] | None = None
    """Virtual CPUs of each emulated `guest` or `xen`. Default: `cpus`; with `pinning = "apart"` what the
    driver domain leaves.
    """
    pinning: Literal["none", "apart"] = "none"
    """How virtual CPUs of Xen's domains are bound to CPUs; or `apart` ([who has which
    CPU](xen.md#who-has-which-cpu)).
    """
    datapath_apart: bool = False
    """On an emulated machine, what moves a KVM guest's packets has [a CPU of its
    own](kvm-drivers.md#who-has-which-cpu), whatever moves them.
    """
    tsc: TscMode = "native"
    """How a guest of `xen` reads the time-stamp counter. `native`: the machine's; `emulate`: each reading
    traps; `default`: Xen chooses ([what it costs](xen.md#the-time-stamp-counter)).
    """
    programs: tuple[str, ...] = ()
    """What an emulated machine's image has: `build`, `compress`, programs and directories [by
    path](programs.md).
    """
    devices: tuple[Path, ...] = ()
    """Devices that commands see too: `["/dev/fuse"]`. What is done to them
    [stays](isolation.md#what-is-not).
    """
    disk_directory: Path | None = None
    """The directory in which [a workload's disk](disks.md) has its blocks, in a file without a name.
    Default: they are in memory.
    """
    disk_latency: Annotated[Duration, Field(ge=0, le=1)] = 0.0
    """How long [the medium](disks.md#a-medium-that-takes-time) of an emulated machine takes for an
    operation, beside what the processor does for it.
    """
    network: Network = "none"
    """The network that commands see; or `host`, [this host's own](weigh.md#what-did-it-do)."""
    image: str | None = None
    """An image of [your own engine](containers.md): `container` is a container of it, and native has its
    files.
    """
    engine: Literal["auto", "podman", "docker"] = "auto"
    """The engine that has that image; or `podman`, `docker`."""

    @field_validator("programs")
    @classmethod
    def _known_programs(cls, programs: tuple[str, ...]) -> tuple[str, ...]:
        for name in programs:
            if name not in PROGRAM_SETS and not is_own_program(name):
                hint = did_you_mean(name, PROGRAM_SETS)
                raise ValueError(
                    f"there is no set of programs '{name}'.{hint} "
                    f"There are: {', '.join(PROGRAM_SETS)}. A program of this host is named by its "
                    f"path, for example './{name}'"
                )
        return programs

    @field_validator("devices")
    @classmethod
    def _below_dev(cls, devices: tuple[Path, ...]) -> tuple[Path, ...]:
        for device in devices:
            if device.parts[:2] != ("/", "dev") or len(device.parts) < 3 or ".." in device.parts:
                raise ValueError(
                    f"'{device}' names no device: write /dev/NAME, for example /dev/fuse"
                )
        return devices

    @field_validator("disk_directory")
    @classmethod
    def _from_the_root(cls, directory: Path | None) -> Path | None:
        if directory is not None and not directory.is_absolute():
            raise ValueError(f"'{directory}' is no path from the root: write it with a / in front")
        return directory

    @field_validator("platforms")
    @classmethod
    def _baseline_first(cls, platforms: tuple[PlatformName, ...]) -> tuple[PlatformName, ...]:
        if len(set(platforms)) != len(platforms):
            raise ValueError("a platform stands twice in the list")
        if BASELINE not in platforms:
            raise ValueError(f"'{BASELINE}' must be among the platforms: it is the baseline")
        return platforms

    @property
    def virtual_cpus_of_driver(self) -> int:
        """Xen gives its driver domain one for each of the machine's CPUs."""
        if self.driver_cpus is not None:
            return self.driver_cpus
        return 1 if self.pinning == "apart" else self.cpus

    def virtual_cpus(self, *, has_driver: bool) -> int:
        """Of a guest: as many as the baseline has CPUs, or as the driver domain leaves it."""
        if self.guest_cpus is not None:
            return self.guest_cpus
        apart = has_driver and self.pinning == "apart"
        return len(self.cpus_beside_driver) if apart else self.cpus

    @property
    def cpus_beside_driver(self) -> tuple[int, ...]:
        """Where guests run of a driver domain that has the first CPUs for itself."""
        return tuple(range(self.virtual_cpus_of_driver, self.cpus))


# --- rules


LEAST_GUEST = 80 << 20
"""Least bytes of a guest's memory. With less, Debian's kernel prints nothing. From here on it reports a
panic for lack of memory if its work needs more.
"""


LEAST_DRIVER_DOMAIN = 384 << 20
"""Bytes with which Xen's driver domain unpacks its image, what its guests boot from in it."""


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
    if "tsc" in study.sut.model_fields_set or "sut.tsc" in study.factors:
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


def _some_platform_has(study: Study, key: str) -> None:
    """A setting that a hypervisor gives its guests, or its host, is of a platform that it has."""
    if any(key in platform.hypervisor_settings for platform in study.platforms):
        return
    names = names_of(lambda platform: key in platform.hypervisor_settings)
    which = "one" if " or " in names else "it"
    raise ValueError(f"sut.{key} is of the platform {names}: add {which} to sut.platforms")


def guests_fit(study: Study) -> None:
    """Several guests have what each needs."""
    guests, weights = study.sut.guests, study.knobs.guest_weights
    if weights is not None and len(weights) < guests:
        raise ValueError(
            f"knobs.guest_weights has {len(weights)} of them for sut.guests = {guests}: "
            "give one a guest"
        )
    unpacks_image = any(platform.image is not None for platform in study.platforms)
    if not study.machine_kind.boots_whole_pcs and unpacks_image and study.sut.memory < LEAST_GUEST:
        raise ValueError(
            f"sut.memory is {human_size(study.sut.memory)}, but a guest needs "
            f"{human_size(LEAST_GUEST)} to boot, and more for its work"
        )
    for platform in study.platforms:
        if study.sut.memory < platform.least_memory:
            raise ValueError(
                f"sut.memory is {human_size(study.sut.memory)}, but {platform.least_memory_of} needs "
                f"{human_size(platform.least_memory)} to boot"
            )
    if not study.under_hypervisor:
        return
    if not study.machine_kind.boots_whole_pcs:
        for platform in filter(lambda one: one.under_hypervisor, study.platforms):
            _fits_a_users_hypervisor(study, platform)
    elif study.sut.driver_memory < LEAST_DRIVER_DOMAIN:
        raise ValueError(
            f"sut.driver_memory is {human_size(study.sut.driver_memory)}, but Xen's driver domain "
            f"needs {human_size(LEAST_DRIVER_DOMAIN)} for its image"
        )


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
