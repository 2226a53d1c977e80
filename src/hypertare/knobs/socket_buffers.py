"""`knobs.socket_buffers`: bytes of the kernel's buffers of a socket, by default and at most."""

from __future__ import annotations

from collections.abc import Iterator

from hypertare.knobs.knob import KnobKind, Target
from hypertare.platforms.commands import Entry, KnobChange, in_bytes, sysctls
from hypertare.protocol import plan

_TCP_LEAST = 4096
_CORE_SIZES = ("rmem_default", "rmem_max", "wmem_default", "wmem_max")
_SIZES = (*(f"net.core.{name}" for name in _CORE_SIZES), "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")


def _size_of(name: str, text: str) -> str:
    """TCP's have three: least, default, most."""
    return f"{min(_TCP_LEAST, int(text))} {text} {text}" if name.startswith("net.ipv4") else text


def _typed(change: KnobChange) -> Entry:
    return sysctls(_SIZES, _size_of)(change.shown(in_bytes))


class SocketBuffers(KnobKind[int]):
    name = "socket_buffers"
    place = "link"
    commands = {"": _typed}

    def for_agent(self, level: int, target: Target) -> Iterator[plan.Knob]:
        yield plan.SocketBuffers(bytes=level)


SOCKET_BUFFERS = SocketBuffers()
