"""`[given.NAME]` and `[remote]`: machines that were there before, and how ssh reaches them."""

from __future__ import annotations

import ipaddress
import math
import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hypertare.base.closed import Settings
from hypertare.knobs.knob import OF_GIVEN, KnobKind
from hypertare.knobs.registry import KINDS as KNOBS
from hypertare.platforms.registry import names_of

if TYPE_CHECKING:
    from hypertare.study.study import Study


_WITH_VALUE = ("-p", "-l", "-i", "-J")
_ALONE = ("-4", "-6", "-C")
_DESTINATION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]*")
_EXAMPLE = "write for example 'ssh bob@192.0.2.10' or 'ssh -p 2222 vm'"


def _reached_by_ssh(text: str) -> str:
    reach_words(text)
    return text


def reach_words(text: str) -> tuple[str, ...]:
    """The words of a way to reach a machine.

    A study may be somebody else's: an option by which ssh runs a program here (ProxyCommand) is not taken
    from it.

    Raises:
        ValueError: it is no ssh, or has another option or a command.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not to be read ({error}): {_EXAMPLE}") from None
    if not words or words[0] != "ssh":
        raise ValueError(f"{text!r} is no ssh: {_EXAMPLE}")
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in _WITH_VALUE and rest and not rest[0].startswith("-"):
            rest.pop(0)
        elif option not in _ALONE:
            raise ValueError(
                f"{text!r}: of ssh's options {', '.join((*_WITH_VALUE, *_ALONE))} can be given here, and "
                f"not {option}: put it into your ~/.ssh/config, under a Host of its own"
            )
    if len(rest) != 1 or not _DESTINATION.fullmatch(rest[0]):
        raise ValueError(f"{text!r}: after its options ssh has one word, the machine: {_EXAMPLE}")
    return tuple(words)


def _one_host(text: str) -> str:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f"{text!r} is no address: write for example '192.0.2.10'") from None
    if found.is_multicast or found.is_unspecified or "%" in text:
        raise ValueError(f"{text} is the address of no single machine: take one that is")
    if found.version == 6 and found.is_link_local:
        raise ValueError(
            f"{text} is another machine on each link, and no link can be named here: take an address that "
            "is of one machine"
        )
    return str(found)


_CONNECT = re.compile(
    r"(qemu|xen|vbox|vmwareplayer|vmwarews|esx|vpx|hyperv|lxc|test)(\+(ssh|tls))?"
    r"://([A-Za-z0-9][A-Za-z0-9_.@:-]*)?/[A-Za-z0-9_./-]*"
)


def _is_of_libvirt(text: str) -> str:
    """A study may be somebody else's: what follows a `?` may name a program that libvirt runs here."""
    if not _CONNECT.fullmatch(text):
        raise ValueError(
            f"{text!r} is no address of libvirt that can be given here: write for example "
            "'qemu:///system', 'qemu+ssh://HOST/system' or 'vbox:///session'"
        )
    return text


_PID = re.compile(r"pid:([1-9][0-9]{0,8})")


def pid_of(outside: str) -> int | None:
    """The number that `outside` is; none where it is words of a command line."""
    found = _PID.fullmatch(outside)
    return int(found[1]) if found else None


def _is_of_a_process(text: str) -> str:
    if not text.isprintable() or not text.strip():
        raise ValueError(f"{text!a} is in no command line: write for example 'pid:4711'")
    if text.startswith("pid:") and pid_of(text) is None:
        raise ValueError(f"{text!r} is the number of no process: write for example 'pid:4711'")
    return text


PEER = "peer"
"""The name in `[given]` of the machine that others speak with."""
UNDER_TEST = "sut.given"
"""The setting that says which machine is under test, a factor of several."""
Reach = Annotated[str, Field(max_length=500), AfterValidator(_reached_by_ssh)]


class GivenMachine(Settings):
    reach: Reach
    """The command that reaches it, `"ssh bob@192.0.2.10"`, with the options [that may be
    given](given.md#what-it-needs).
    """
    what: Annotated[str, Field(max_length=200)] = ""
    """A description of the machine, in your words."""
    domain: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+ -]{0,99}$")] | None = None
    """The domain's name in libvirt."""
    connect: Annotated[str, Field(max_length=200), AfterValidator(_is_of_libvirt)] = (
        "qemu:///system"
    )
    """The URI of [libvirt](given.md#what-it-needs)."""
    start: bool = False
    """A domain that is off is started, and shut down in the end."""
    settings: bool = False
    """`knobs` may [change its settings](given.md#settings-of-that-machine) for a trial."""
    address: Annotated[str, Field(max_length=45), AfterValidator(_one_host)] | None = None
    """An address of that machine, to which [packets are sent](given.md#across-a-network)."""

    outside: Annotated[str, Field(max_length=200), AfterValidator(_is_of_a_process)] | None = None
    """The process of this host that the machine is in, `"pid:4711"` or words of its command line, of a
    machine that runs here: its CPU time is [`outside_cpu`](given.md#cpu-time-as-this-host-sees-it).
    """

    @model_validator(mode="after")
    def _is_known(self) -> GivenMachine:
        if self.start and self.domain is None:
            raise ValueError("start = true is of a domain of libvirt: say which, domain = 'NAME'")
        return self

    @property
    def words(self) -> tuple[str, ...]:
        return reach_words(self.reach)


# --- rules


def given_machines_fit(study: Study) -> None:
    """A machine that was there before is reached, has no network of a bench, and is left as it is."""
    given = [one for one in study.platforms if not one.is_made]
    if not given:
        if study.given:
            names = names_of(lambda one: not one.is_made)
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


def _differ(reaches: tuple[str, ...]) -> tuple[str, ...]:
    words = [reach_words(one) for one in reaches]
    twice = next((one for one in reaches if words.count(reach_words(one)) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice!r} is there twice: name each host once")
    return reaches


class Remote(Settings):
    reach: Annotated[
        tuple[Reach, ...],
        BeforeValidator(lambda given: (given,) if isinstance(given, str) else given),
        Field(min_length=1),
        AfterValidator(_differ),
    ]
    """The command that reaches the host of [`machine = "remote"`](remote.md): `"ssh lab2"`. Or of [several
    hosts](remote.md#several-hosts), which have boots by turns: `["ssh lab1", "ssh lab2"]`.
    """

    @property
    def hosts(self) -> tuple[tuple[str, ...], ...]:
        """The words that reach each."""
        return tuple(map(reach_words, self.reach))


# --- rules


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
    hosts = len(study.remote.reach)
    boots = math.ceil(study.design.max_trials / study.design.blocks_of_a_boot)
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
