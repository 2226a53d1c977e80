"""`knobs.socket_buffers`: bytes of the kernel's buffers of a socket, by default and at most."""

from __future__ import annotations

from hypertare.knobs.knob import KnobKind
from hypertare.platforms.commands import in_bytes, sysctls
from hypertare.protocol import plan

_TCP_LEAST = 4096
_CORE_SIZES = ("rmem_default", "rmem_max", "wmem_default", "wmem_max")
_SIZES = (*(f"net.core.{name}" for name in _CORE_SIZES), "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")


def _size_of(name: str, text: str) -> str:
    """TCP's have three: least, default, most."""
    return f"{min(_TCP_LEAST, int(text))} {text} {text}" if name.startswith("net.ipv4") else text


SOCKET_BUFFERS = KnobKind[int](
    name="socket_buffers",
    place="link",
    commands={"": lambda change: sysctls(_SIZES, _size_of)(change.shown(in_bytes))},
    for_agent=lambda level, _: [plan.SocketBuffers(bytes=level)],
)
