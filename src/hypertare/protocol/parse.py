"""Lines that agents write, made records."""

from __future__ import annotations

from pydantic import TypeAdapter

from hypertare.protocol.records import Record

_ADAPTER: TypeAdapter[Record] = TypeAdapter(Record)


def parse(line: bytes | str) -> Record:
    """One line to one record.

    Raises:
        pydantic.ValidationError: the line is no record.
    """
    return _ADAPTER.validate_json(line)
