"""`hypertare report` and `hypertare compare` as commands."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars
import pytest

from hypertare.protocol.constants import RUN_FILE
from hypertare.report.page import charting_library
from hypertare.runs.summary import Summary
from tests import commands, factory

SCRIPT = replace(factory.Script(), fail=frozenset())


def hypertare(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    return commands.run_for_bytes(*arguments)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return factory.write(tmp_path_factory.mktemp("a"), SCRIPT)


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Path:
    slower = replace(SCRIPT, seed=8, slower={"guest e1000": 1.2})
    return factory.write(tmp_path_factory.mktemp("b"), slower)


@pytest.mark.parametrize("name", ["", RUN_FILE])
def test_report_takes_the_directory_or_the_file(before: Path, name: str) -> None:
    done = hypertare("report", before / name)
    assert done.returncode == 0
    assert "guest (kvm) costs in " in done.stdout.decode()
    assert done.stderr == b""


def test_report_in_every_format(before: Path) -> None:
    out = {
        name: hypertare("report", before, "--format", name).stdout
        for name in ("json", "csv", "markdown", "parquet")
    }
    assert Summary.model_validate_json(out["json"]).study == "first-look"
    csv = polars.read_csv(io.BytesIO(out["csv"]))
    parquet = polars.read_parquet(io.BytesIO(out["parquet"]))
    assert csv.shape == parquet.shape
    assert csv["value"].to_list() == parquet["value"].to_list()
    assert out["markdown"].startswith(b"# first-look\n")


def test_report_writes_html(before: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    done = hypertare("report", before, "--html", target)
    assert done.returncode == 0
    assert target.read_text().startswith("<!doctype html>")
    assert str(target) in done.stderr.decode()


@pytest.mark.parametrize("content", [None, b"", b"hello" * 100, b"SQLite format 3\x00junk"])
def test_report_of_no_run_is_bad_input(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / RUN_FILE).write_bytes(content)
    done = hypertare("report", tmp_path)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert str(tmp_path) in done.stderr.decode()


def test_compare_finds_what_got_worse(before: Path, after: Path) -> None:
    done = hypertare("compare", before, after)
    text = done.stdout.decode()
    assert done.returncode == 4
    assert "worse: guest e1000 elapsed in build +" in text
    assert "worse: guest e1000 goodput in tcp receive −" in text
    assert "worse: guest virtio-net" not in text
    assert "got worse by more than 1 %" in done.stderr.decode()
    assert max(map(len, text.splitlines())) <= 80


def test_compare_with_a_wide_threshold_or_the_other_way_is_no_failure(
    before: Path, after: Path
) -> None:
    assert hypertare("compare", before, after, "--threshold", "60%").returncode == 0
    other = hypertare("compare", after, before)
    assert other.returncode == 0
    assert "better: guest e1000" in other.stdout.decode()


def test_a_run_is_like_itself(before: Path) -> None:
    done = hypertare("compare", before, before, "--threshold", "0")
    assert done.returncode == 0
    assert "no difference shown in " in done.stdout.decode()


def test_compare_as_json(before: Path, after: Path) -> None:
    done = hypertare("compare", before, after, "--json")
    assert done.returncode == 4
    found = json.loads(done.stdout)
    worse = {
        (c["platform"], c["cell"].get("sut.nic"))
        for c in found["changes"]
        if c["direction"] == "worse"
    }
    assert worse == {("guest", "e1000")}


@pytest.mark.parametrize("threshold", ["lots", "-1%", "200%", ""])
def test_a_wrong_threshold_is_bad_input(before: Path, threshold: str) -> None:
    done = hypertare("compare", before, before, f"--threshold={threshold}")
    assert done.returncode == 2
    assert b"threshold" in done.stderr
    assert b"Traceback" not in done.stderr


def test_nothing_in_common(before: Path, tmp_path: Path) -> None:
    other = factory.write(tmp_path / "run", factory.Script(2, cells=({"workload": "rtt", "x": 1},)))
    only = factory.write(tmp_path / "only", factory.Script(2, cells=({"workload": "build"},)))
    done = hypertare("compare", only, other)
    assert done.returncode == 2
    assert b"no measured cell in common" in done.stderr


def test_json_is_asked_for_as_of_every_other_command(before: Path) -> None:
    short, long = (
        hypertare("report", before, "--json"),
        hypertare("report", before, "--format", "json"),
    )
    assert short.returncode == long.returncode == 0
    assert json.loads(short.stdout) == json.loads(long.stdout)
    both = hypertare("report", before, "--json", "--format", "csv")
    assert both.returncode == 2 and b"--json and --format csv contradict each other" in both.stderr


@pytest.mark.parametrize("format", ["table", "json", "csv", "markdown", "html"])
def test_no_chart_engine_is_loaded(before: Path, tmp_path: Path, format: str) -> None:
    """What bundles the scripts of a page has one: they are bundled once, and then kept."""
    charting_library()
    html = tmp_path / "report.html"
    words = ["--html", html] if format == "html" else ["--format", format]
    program = (
        "import atexit, sys, hypertare.cli\n"
        "atexit.register(lambda: print('loaded:', *sys.modules, file=sys.stderr))\n"
        "hypertare.cli.main()"
    )
    command = [sys.executable, "-c", program, "report", str(before), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and html.exists() == (format == "html")
    loaded = set(done.stderr.rpartition("loaded:")[2].split())
    assert "hypertare.report.model" in loaded
    assert not loaded & {"altair", "vl_convert", "hypertare.findings.tuning"}
    assert ("jinja2" in loaded) == (format == "html")


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys, hypertare.cli.report, hypertare.cli.compare\n"
        "print([m for m in ('polars', 'altair', 'numpy', 'scipy', 'jinja2', 'vl_convert',"
        " 'pydantic', 'rich.table', 'sqlite3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
