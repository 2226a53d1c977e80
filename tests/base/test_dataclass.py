"""Held against the standard library's own, which they stand in for."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hypertare.base.dataclass import dataclass


def _pair(decorate: Any) -> Any:
    @decorate(frozen=True)
    class Pair:
        left: int
        right: list[int] | tuple[int, ...] = ()
        note: str = dataclasses.field(default="", repr=False, compare=False)

    return Pair


OURS, THEIRS = _pair(dataclass), _pair(dataclasses.dataclass)


@dataclass(frozen=True)
class One:
    value: float


@dataclass(frozen=True)
class Further(One):
    more: int = 0


@dataclass(frozen=True)
class Nothing:
    pass


@dataclass(frozen=True)
class Ring:
    inside: list[Any]


def test_equal_by_the_fields_that_are_compared() -> None:
    for pair in (OURS, THEIRS):
        assert pair(1, (2,)) == pair(1, (2,), "another")
        assert pair(1, (2,)) != pair(1, (3,))
        assert len({pair(1), pair(1, (), "x"), pair(2)}) == 2
    assert OURS(1) != THEIRS(1)
    assert One(1.0) != Further(1.0)
    assert Nothing() == Nothing()
    # As in a tuple: one and the same object equals itself.
    nan = float("nan")
    assert One(nan) == One(nan)


def test_hashed_as_a_tuple_is() -> None:
    assert hash(OURS(1, (2,))) == hash(THEIRS(1, (2,)))
    with pytest.raises(TypeError, match="unhashable"):
        hash(OURS(1, [2]))


def test_shown_by_the_fields_that_are_shown() -> None:
    assert repr(OURS(1, (2,), "x")) == repr(THEIRS(1, (2,), "x"))
    assert repr(Further(1.5, 2)) == "Further(value=1.5, more=2)"
    ring = Ring([])
    ring.inside.append(ring)
    assert repr(ring) == "Ring(inside=[...])"


def test_frozen_and_replaced() -> None:
    one = Further(1.0, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.more = 3  # type: ignore[misc]  # which is what is tested
    assert dataclasses.replace(one, more=3) == Further(1.0, 3)
    assert [field.name for field in dataclasses.fields(one)] == ["value", "more"]
    assert dataclasses.asdict(one) == {"value": 1.0, "more": 2}
