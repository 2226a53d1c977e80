"""What the agent reports comes line by line, to whoever waits for it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from hypertare.base import paths
from hypertare.machines.local import LocalMachine
from hypertare.machines.steps import _Lines
from hypertare.protocol.constants import MAX_LINE


class Pipe:
    """An agent's output, and who reads it."""

    def __init__(self) -> None:
        read, self.write_end = os.pipe()
        self.read_end = os.fdopen(read, "rb")
        self.lines = _Lines(self.read_end)

    def say(self, text: bytes) -> None:
        os.write(self.write_end, text)

    def next(self, seconds: float = 10.0) -> bytes | None:
        return self.lines.next(time.monotonic() + seconds)

    def end(self) -> None:
        os.close(self.write_end)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.read_end.close()


def test_lines_come_whole_however_they_were_written(pipe: Pipe) -> None:
    pipe.say(b"one\ntwo\nth")
    assert [pipe.next(), pipe.next()] == [b"one", b"two"]
    with pytest.raises(TimeoutError):
        pipe.next(0.01)
    pipe.say(b"ree\n")
    assert pipe.next() == b"three"
    pipe.end()
    assert [pipe.next(), pipe.next()] == [None, None]


def test_what_is_there_is_read_after_the_deadline_too(pipe: Pipe) -> None:
    pipe.say(b"late\n")
    assert pipe.next(-1.0) == b"late"
    pipe.end()


def test_half_a_line_before_the_end_is_reported_and_then_the_end(pipe: Pipe) -> None:
    pipe.say(b"whole\nhal")
    pipe.end()
    assert [pipe.next(), pipe.next(), pipe.next()] == [b"whole", b"hal", None]


def test_a_line_that_never_ends_is_cut(pipe: Pipe) -> None:
    cut = None
    while cut is None:
        pipe.say(b"x" * 60_000)
        try:
            cut = pipe.next(0.0)
        except TimeoutError:
            cut = None
    assert MAX_LINE < len(cut) <= MAX_LINE + (1 << 16)
    pipe.say(b"after\n")
    assert pipe.next() == b"after"
    pipe.end()


def test_the_controller_goes_aside_while_a_bench_stands_and_back_where_it_was() -> None:
    allowed = os.sched_getaffinity(0)
    with LocalMachine(paths.agent_binary()) as machine:
        machine.stand_aside({max(allowed)})
        aside = os.sched_getaffinity(0)
        machine.stand_aside(allowed)
        assert os.sched_getaffinity(0) == allowed, "there are no others"
        machine.stand_aside({max(allowed)})
    assert aside == (allowed - {max(allowed)} or allowed)
    assert os.sched_getaffinity(0) == allowed
