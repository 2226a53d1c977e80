"""How fast `hypertare walk` is: accesses a second through QEMU and the whole model, and what ten
processors in one pass cost against one.

Real programs on real input, by their CPU time, QEMU's start and the translation of their code
included. The peer of the first figure is the same program under the same QEMU without plugin: more
than that no plugin can reach.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

import common
from common import Row

from hypertare.walk import processors
from hypertare.walk.run import QEMU

AT_LEAST = 100e6
AT_MOST = 4.0
TEN = 10


def main(argv: Sequence[str]) -> list[Row]:
    quick = common.options(__doc__, argv).quick
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        text = real_text(site, 1 << 20 if quick else 4 << 20)
        programs = {"bzip2": ["bzip2", "-kc", text], "sort": ["sort", text]}
        many = ten_processors(site)
        rows = []
        for name, program in programs.items():
            rows += measured(name, program, many, site / "walk.json", 3 if quick else 7)
        return rows


def measured(
    name: str, program: list[str], many: list[str], result: Path, rounds: int
) -> list[Row]:
    ones: list[float] = []

    def one_s() -> float:
        ones.append(walk_s(program, ["--processor", "zen4"], result))
        return ones[-1]

    pairs = common.alternate(rounds, lambda: walk_s(program, many, result), one_s)
    walk_s(program, [], result)
    accesses = json.loads(result.read_text())["accesses"]
    bare = statistics.median(cpu_s([QEMU, found(program[0]), *program[1:]]) for _ in range(3))
    rates = sorted(accesses / seconds for seconds in ones)
    low, high = common.median_interval(rates)
    middle = statistics.median(rates)
    met = middle >= AT_LEAST
    bound = low if met else high
    sure = bound is not None and (bound >= AT_LEAST) == met
    return [
        Row(
            f"walk: accesses a CPU second, {name}", "/s", middle, f">= {AT_LEAST:g}", met,
            accesses / bare, None, None, low, high, sure,
            note=f"{accesses / 1e6:.0f} M accesses; peer: QEMU without plugin",
        ),
        common.against_peer(
            f"walk: {TEN} processors in one pass, against one, {name}", "s", pairs, at_most=AT_MOST
        ),
    ]  # fmt: skip


def real_text(folder: Path, size: int) -> str:
    """The start of Python's own library, as one file."""
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    file = folder / "text"
    file.write_bytes(b"".join(source.read_bytes() for source in sources)[:size])
    return str(file)


def ten_processors(folder: Path) -> list[str]:
    """Options for ten: those that come with hypertare, and each once more under another name."""
    options = []
    for copy in range(TEN // len(processors.names())):
        for name in processors.names():
            source = Path(processors.__file__).with_name("processors") / f"{name}.toml"
            file = folder / f"{name}-{copy}.toml"
            file.write_text(
                source.read_text().replace(f'name = "{name}"', f'name = "{name}-{copy}"')
            )
            options += ["--processor", str(file)]
    return options


def walk_s(program: list[str], options: list[str], result: Path) -> float:
    here = [sys.executable, "-m", "hypertare", "walk", "--json", str(result), *options, "--"]
    return cpu_s([*here, *program])


def cpu_s(argv: list[str]) -> float:
    """CPU seconds of a program and all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    quiet = subprocess.DEVNULL
    done = subprocess.run(argv, stdin=quiet, stdout=quiet, stderr=subprocess.PIPE, timeout=600)
    if done.returncode:
        raise common.NotMeasured(f"{' '.join(argv)}: {done.stderr.decode(errors='replace')[-300:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def found(program: str) -> str:
    return common.run(["sh", "-c", f"command -v {program}"]).strip()


if __name__ == "__main__":
    common.print_rows(main(sys.argv[1:]))
