"""The command's environment reaches the command, and no file and no output of its run."""

from __future__ import annotations

import base64
import gzip
import io
import re
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard

from hypertare.cli.report import Format
from tests.integration.lab import Lab, Ran, statuses

pytestmark = pytest.mark.runs

NAME, SECRET = "HYPERTARE_TEST_TOKEN", "s3cr3t-Zq8vXw2LkR5tYb7N"
LIMITS = ("--warmup", "0", "--min-trials", "2", "--max-trials", "2")
SIGNATURES = {b"\x1f\x8b\x08": 31, b"\x78\x01": 15, b"\x78\x9c": 15, b"\x78\xda": 15}
"""Of gzip and zlib, with what zlib's decompressor wants to be reported."""

ZSTD = b"\x28\xb5\x2f\xfd"
BASE64 = re.compile(rb"[A-Za-z0-9+/]{40,}={0,2}")


@dataclass(frozen=True)
class Weighed:
    lab: Lab
    run: Path
    outputs: dict[str, bytes]


@pytest.fixture(scope="module")
def weighed(shared: Lab) -> Weighed:
    """A command that needs the secret, and every form of what came of it."""
    run = shared.home / "run"
    # No guest is booted: nothing of the shared cache is needed, and what is cached is looked at too.
    shared.env["HYPERTARE_CACHE"] = str(shared.home / "cache")
    argv = ("sh", "-c", f'test "${NAME}" = "$(cat expected)"')
    (shared.work / "expected").write_text(SECRET)
    outputs = {}
    ran = shared.run(
        *("weigh", "--on", "native,container", *LIMITS, "--out", run, "--", *argv), **{NAME: SECRET}
    )
    outputs["weigh"] = _said(ran)
    (shared.work / "expected").unlink()
    assert ran.status == 0, ran
    for form in Format:
        started = shared.start("report", run, "--format", form, **{NAME: SECRET})
        assert started.end().status == 0
        outputs[f"report --format {form}"] = started.output
    html = shared.start("report", run, "--html", "-", **{NAME: SECRET})
    assert html.end().status == 0
    outputs["report --html -"] = html.output
    compared = shared.run("compare", run, run, "--json", **{NAME: SECRET})
    outputs["compare"] = _said(compared)
    return Weighed(shared, run, outputs)


def _said(ran: Ran) -> bytes:
    return f"{ran.out}\n{ran.err}".encode()


def test_the_command_had_the_secret(weighed: Weighed) -> None:
    """Else nothing below would mean anything."""
    for platform in ("native", "container"):
        assert statuses(weighed.run, platform, "command") == {"ok"}


def test_no_output_holds_it(weighed: Weighed) -> None:
    for name, output in weighed.outputs.items():
        assert output, name
        assert not _is_in(output), name


def test_no_file_of_the_run_and_of_its_user_holds_it(weighed: Weighed) -> None:
    """Run directory, home, cache, work directory, what is temporary: all are below this one."""
    files = [path for path in weighed.lab.home.rglob("*") if path.is_file()]
    assert {"run.sqlite", "report.html", "summary.json"} <= {path.name for path in files}
    for path in files:
        assert not _is_in(path.read_bytes()), path


def test_no_row_of_the_run_holds_it(weighed: Weighed) -> None:
    """A page of SQLite may break a text in two; a row does not."""
    with sqlite3.connect(weighed.run / "run.sqlite") as db:
        for table in [
            name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        ]:
            for row in db.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    content = value if isinstance(value, bytes) else str(value).encode()
                    assert not _is_in(content), (table, row)


@pytest.mark.parametrize(
    "hide",
    [
        lambda text: text,
        lambda text: text.decode().encode("utf-16-le"),
        base64.b64encode,
        lambda text: base64.b64encode(b"x" + text + b"y"),
        gzip.compress,
        zlib.compress,
        zstandard.compress,
        lambda text: base64.b64encode(gzip.compress(b"before " + text)),
    ],
    ids=["plain", "utf-16", "base64", "shifted", "gzip", "zlib", "zstd", "both"],
)
def test_it_would_be_found(hide: object) -> None:
    assert _is_in(b"before\0 " + hide(SECRET.encode()) + b" after")  # type: ignore[operator]
    assert not _is_in(b"before\0 " + hide(b"something of the same kind, and harmless") + b" after")  # type: ignore[operator]


def _is_in(content: bytes, depth: int = 0) -> bool:
    """Whether it is there: plain, as base64 at any offset, or in what is compressed or encoded."""
    if any(form in content for form in _forms()):
        return True
    return depth < 3 and any(_is_in(inner, depth + 1) for inner in _inside(content))


def _forms() -> Iterator[bytes]:
    secret = SECRET.encode()
    yield secret
    yield secret[::-1]
    yield secret.hex().encode()
    yield SECRET.encode("utf-16-le")
    # As part of a longer text that is encoded: without the signs that its neighbours decide.
    for offset in range(3):
        yield base64.b64encode(b"." * offset + secret)[4:-4]


def _inside(content: bytes) -> Iterator[bytes]:
    for signature, kind in SIGNATURES.items():
        for found in re.finditer(re.escape(signature), content):
            try:
                yield zlib.decompressobj(kind).decompress(content[found.start() :], 1 << 26)
            except zlib.error:
                continue
    for found in re.finditer(re.escape(ZSTD), content):
        try:
            reader = zstandard.ZstdDecompressor().stream_reader(
                io.BytesIO(content[found.start() :])
            )
            yield reader.read(1 << 26)
        except zstandard.ZstdError:
            continue
    for found in BASE64.finditer(content):
        text = found[0].rstrip(b"=")
        yield base64.b64decode(text[: len(text) // 4 * 4])
