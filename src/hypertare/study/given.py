"""`[given.NAME]`: a machine that was there before, how it is reached, and where traffic to it goes."""

from __future__ import annotations

import ipaddress
import re
import shlex
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from hypertare.base.settings import Settings

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
