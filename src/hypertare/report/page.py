"""A page as one HTML file that needs no network and trusts nothing that a guest has said.

- Text goes in through Jinja's escaping; data for scripts as JSON without `<`, `>` and `&`.
- The page's Content-Security-Policy allows its own two scripts by their hashes and nothing else:
  no request, no frame, no form, no evaluated text (Vega's expressions run in its own interpreter).
- Each chart is also a table, which needs no scripts.
- Templates are compiled and scripts bundled once, and kept in the cache. Importing this loads the templates
  of a run's page: beside a warm-up, if it can be.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2.bccache import Bucket

from hypertare.base.errors import MachineError
from hypertare.base.paths import cache_dir
from hypertare.base.units import human_duration
from hypertare.report import vega
from hypertare.report.vega import Chart
from hypertare.runs.summary import Summary

if TYPE_CHECKING:
    from hypertare.findings.tuning import Tuning


def cached_file(name: str) -> Path:
    """Returns the path of a file in the cache, which need not exist."""
    return cache_dir() / "scripts" / name


def keep(file: Path, data: bytes) -> None:
    """Gives the file its name once it is whole: until then it has none that could be left behind.

    A cache that cannot be written costs the time again next time, no more.
    """
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file.parent, os.O_TMPFILE | os.O_WRONLY, 0o644)
        with os.fdopen(handle, "wb") as made:
            made.write(data)
            made.flush()
            # With a directory's descriptor, which an absolute path does not need, links are followed.
            os.link(f"/proc/self/fd/{handle}", file, src_dir_fd=handle)


def charting_library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script.

    To bundle them takes seconds of CPU time, and a run that is interrupted shall end within a few. The
    library that does it brings an engine for JavaScript with it: it is loaded for that alone.
    """
    file = cached_file(f"charts-{version('vl-convert-python')}.js")
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        import vl_convert

        made = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # the stub lacks its default
        keep(file, made.encode())
        return made


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


_FOLDER = Path(__file__).parent
_LIGHT = vega.config("#1c2430", "#dfe4ea", "transparent")
_DARK = vega.config("#e6eaf0", "#39424f", "transparent")


def where(found: Summary | Tuning) -> list[tuple[str, str]]:
    """Returns the machine, clock, accelerator and kernel, which stand beside every figure of a page."""
    return [
        ("machine", f"{found.machine.kind}, {found.machine.hostname}"),
        ("clock", found.clock),
        ("accelerator", found.accelerator or "none"),
        ("kernel", found.machine.kernel),
    ]


def when(found: Summary | Tuning) -> list[tuple[str, str]]:
    """Returns the start, the length and the seed of a run."""
    lasted = (found.ended - found.started).total_seconds() if found.ended else None
    return [
        ("started", found.started.strftime("%Y-%m-%d %H:%M UTC")),
        ("took", human_duration(lasted) if lasted is not None else "not ended"),
        ("seed", str(found.seed)),
    ]


def render(
    template: str, every: Iterable[Chart], trials: Mapping[str, Any] | None = None, **values: Any
) -> str:
    """The page of a template.

    Args:
        template: its file in this folder.
        every: all charts of the page.
        trials: what charts of trials take their points from, by the names that they know it by.
        values: what else the template shows.
    """
    specifications = {chart.id: chart.specification for chart in every}
    library = _script(charting_library())
    program = _script((_FOLDER / "report.js").read_text(encoding="utf-8"))
    return load_template(template).render(
        **values,
        style=(_FOLDER / "report.css").read_text(encoding="utf-8"),
        data=_json(
            {"charts": specifications, "trials": trials or {}, "light": _LIGHT, "dark": _DARK}
        ),
        library=library,
        program=program,
        policy=_policy(library, program),
    )


def write(text: str, path: Path) -> None:
    """Writes a page's file, whole or not at all.

    Raises:
        MachineError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise MachineError(
            f"The report {path} cannot be written: {error.strerror}.",
            "Make room, or give another place with `--html FILE`.",
        ) from error


# --- text into scripts


def _json(data: object) -> str:
    """JSON that can stand in a script element: nothing in it ends the element or begins another."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _script(text: str) -> str:
    """A script of ours that stands in a script element: `</script` inside it would end it."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _policy(*scripts: str) -> str:
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
