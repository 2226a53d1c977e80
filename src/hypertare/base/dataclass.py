"""Dataclasses as in the standard library, of which a start can afford many.

The library compiles six methods for each frozen one, half a millisecond, and a start makes 150. Here
three of them, which only go through the fields, are the same function for all classes.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, *, frozen: bool = False) -> Any:
        """`dataclasses.dataclass`: equal, hashed and shown by its fields."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen)
        if not frozen:
            return dataclasses.dataclass(cls)
        # Else the library writes one from the signature, which takes as long as a method.
        cls.__doc__ = cls.__doc__ or cls.__name__
        made = dataclasses.dataclass(cls, frozen=True, eq=False, repr=False)
        made.__values__ = staticmethod(
            _values([one.name for one in dataclasses.fields(made) if one.compare])
        )
        made.__eq__, made.__hash__, made.__repr__ = _equal, _hash, _shown
        return made


def _values(names: list[str]) -> Any:
    """Reads these of an object, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self.__values__(self) == self.__values__(other)


def _hash(self: Any) -> int:
    return hash(self.__values__(self))


@recursive_repr()
def _shown(self: Any) -> str:
    fields = (one.name for one in dataclasses.fields(self) if one.repr)
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in fields)
    return f"{self.__class__.__qualname__}({values})"
