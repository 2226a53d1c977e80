"""`[workloads.NAME]`: what is measured."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from hypertare.base.quantities import Duration, Limit, OfferedRate, Share, Size, Waiting, Working
from hypertare.protocol.plan import Pages
from hypertare.study.settings import Settings


class NeighbourSettings(Settings):
    """What the other guests do while the first one is measured: burn a share of a CPU, stream to or
    from their peers, or both.
    """

    share: Share | None = None
    stream: Literal["transmit", "receive"] | None = None

    @field_validator("share")
    @classmethod
    def _in_range(cls, share: float | None) -> float | None:
        return None if share is None else _a_share(share)

    @model_validator(mode="after")
    def _something(self) -> NeighbourSettings:
        if self.share is None and self.stream is None:
            raise ValueError("the neighbours do nothing: give them a 'share', a 'stream' or both")
        return self


def _a_share(share: float) -> float:
    if not 0 < share <= 1:
        raise ValueError("a share lies above 0 and at most at 1 (100 %)")
    return share


class Work(Settings):
    """What every workload may have: factors that are varied for it alone.

    A factor that the study has too takes these levels here.
    """

    factors: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = {}


class CommandSettings(Work):
    type: Literal["command"]
    command: str | tuple[str, ...]
    prepare: str | None = None
    limit: Limit = 600.0
    expected: Waiting | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """A text goes to the shell, a list is taken as it is."""
        if isinstance(self.command, str):
            return ("/bin/sh", "-c", self.command)
        return self.command

    @field_validator("command")
    @classmethod
    def _not_empty(cls, command: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not command or not command[0].strip():
            raise ValueError("the command is empty")
        return command


class StreamSettings(Work):
    type: Literal["stream"]
    protocol: Literal["tcp", "udp"] = "tcp"
    direction: Literal["transmit", "receive", "both", "forward"] = "transmit"
    duration: Working = 2.0
    omit: Waiting = 0.2
    flows: Annotated[int, Field(ge=1, le=256)] = 1
    message: Size | None = None
    rate: OfferedRate = None
    socket_buffer: Size | None = None
    batch: Annotated[int, Field(ge=1)] | None = None
    segmentation: bool = False
    interval: Working = 0.25
    sender_cpus: tuple[int, ...] = ()
    receiver_cpus: tuple[int, ...] = ()
    neighbours: NeighbourSettings | None = None

    @property
    def message_bytes(self) -> int:
        """128 KiB writes for TCP; for UDP what fills a packet of the usual MTU."""
        return self.message or (131072 if self.protocol == "tcp" else 1472)

    @model_validator(mode="after")
    def _fits(self) -> StreamSettings:
        if self.protocol == "udp" and not 32 <= self.message_bytes <= 65507:
            raise ValueError("a UDP message must have 32 to 65507 bytes")
        if self.omit >= self.duration:
            raise ValueError("'omit' must be shorter than 'duration'")
        return self


class PingSettings(Work):
    type: Literal["ping"]
    protocol: Literal["udp", "tcp", "icmp"] = "udp"
    direction: Literal["transmit", "receive"] = "transmit"
    duration: Working = 1.0
    message: Annotated[Size, Field(ge=16, le=65507)] = 64
    interval: Waiting = 0.0
    timeout: Working = 1.0
    omit: Annotated[int, Field(ge=0, le=1_000_000_000)] = 20
    neighbours: NeighbourSettings | None = None


class BurnSettings(Work):
    type: Literal["burn"]
    share: Share = 1.0
    threads: Annotated[int, Field(ge=1)] = 1
    duration: Working = 2.0

    @field_validator("share")
    @classmethod
    def _in_range(cls, share: float) -> float:
        return _a_share(share)


class ForkSettings(Work):
    type: Literal["fork"]
    count: Annotated[int, Field(ge=1, le=1_000_000_000)] = 300
    touch: Annotated[Size, Field(ge=0, le=1 << 40)] = 1 << 20
    limit: Limit = 600.0


class TouchSettings(Work):
    type: Literal["touch"]
    memory: Annotated[Size, Field(ge=4096, le=1 << 46)] = 64 << 20
    pages: Pages | None = None
    count: Annotated[int, Field(ge=1, lt=1 << 63)] | None = None
    duration: Annotated[Duration, Field(gt=0, le=86_400)] | None = None
    limit: Limit = 600.0

    @property
    def duration_s(self) -> float | None:
        """None where a count ends it."""
        return (self.duration or 2.0) if self.count is None else None

    @model_validator(mode="after")
    def _fits(self) -> TouchSettings:
        if self.count is not None and self.duration is not None:
            raise ValueError("'count' and 'duration' both say when to end: give one of them")
        page = 2 << 20 if self.pages == "2M" else 4096
        if self.memory % page:
            raise ValueError(f"'memory' is {self.memory} bytes, which is no multiple of {page}")
        return self


WorkloadSettings = Annotated[
    CommandSettings | StreamSettings | PingSettings | BurnSettings | ForkSettings | TouchSettings,
    Field(discriminator="type"),
]
