"""The pages' templates. Importing this loads those of a run's page: beside a warm-up, if it can be."""

from __future__ import annotations

import hashlib
import io
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import jinja2
from jinja2.bccache import Bucket

from hypertare.report.cached import cached_file, keep


class _Compiled(jinja2.BytecodeCache):
    """Templates as they were compiled, each in a file of its own for all that has a part in that."""

    def load_bytecode(self, bucket: Bucket) -> None:
        file = self._file(bucket)
        # Damage shows itself in many ways.
        with suppress(Exception):
            bucket.load_bytecode(io.BytesIO(file.read_bytes()))
        if bucket.code is None:
            with suppress(OSError):
                file.unlink()

    def dump_bytecode(self, bucket: Bucket) -> None:
        made = io.BytesIO()
        bucket.write_bytecode(made)
        keep(self._file(bucket), made.getvalue())

    @staticmethod
    def _file(bucket: Bucket) -> Path:
        made_of = "\0".join((bucket.key, bucket.checksum, *_COMPILER))
        return cached_file(f"page-{hashlib.sha256(made_of.encode()).hexdigest()[:24]}.jinja")


_OPTIONS: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
_COMPILER = (jinja2.__version__, sys.version, repr(_OPTIONS))
_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    undefined=jinja2.StrictUndefined,
    bytecode_cache=_Compiled(),
    **_OPTIONS,
)
_OF_RUNS = ("report.html.j2", "page.html.j2", "figure.html.j2")


def load_template(name: str) -> jinja2.Template:
    """By its file in this folder."""
    return _ENVIRONMENT.get_template(name)


for _name in _OF_RUNS:
    load_template(_name)
