"""How fast `hypertare walk` is: accesses a second through QEMU and the whole model, and what ten
processors in one pass cost against one.

Real programs on real input, by their CPU time, QEMU's start and the translation of their code
included. The peer of the first figure is the same program under the same QEMU without plugin: more
than that no plugin can reach.
"""

from __future__ import annotations

import resource
import statistics
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import common
from common import Row

from hypertare.base.arch import ARCH
from hypertare.walk import processors, run
from hypertare.walk.processors import Options

AT_LEAST = 100e6
AT_MOST = 4.0
TEN = 10
OPTIONS = Options(cycles_per_instruction=1.0, cache_share=0.25)


def main(argv: Sequence[str]) -> list[Row]:
    quick = common.options(__doc__, argv).quick
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        text = real_text(site, (4 if quick else 16) << 20)
        programs = {"bzip2": ["bzip2", "-kf", text], "sort": ["sort", "-o", f"{text}.sorted", text]}
        many = ten_processors(site)
        return [
            row
            for name, program in programs.items()
            for row in measured(name, program, many, 3 if quick else 7)
        ]


def measured(name: str, program: list[str], many: list[str], rounds: int) -> list[Row]:
    rates: list[float] = []
    counted = 0

    def one_s() -> float:
        nonlocal counted
        seconds, counted = walk_s(program, [processors.DEFAULT])
        rates.append(counted / seconds)
        return seconds

    pairs = common.alternate(rounds, lambda: walk_s(program, many)[0], one_s)
    bare = statistics.median(bare_s(program) for _ in range(3))
    low, high = common.median_interval(rates)
    middle = statistics.median(rates)
    met = middle >= AT_LEAST
    bound = low if met else high
    sure = bound is not None and (bound >= AT_LEAST) == met
    return [
        Row(
            f"walk: accesses a CPU second, {name}", "/s", middle, f">= {AT_LEAST:g}", met,
            counted / bare, None, None, low, high, sure,
            note=f"{counted / 1e6:.0f} M accesses; peer: QEMU without plugin",
        ),
        common.against_peer(
            f"walk: {TEN} processors in one pass, against one, {name}", "s", pairs, at_most=AT_MOST
        ),
    ]  # fmt: skip


def real_text(folder: Path, size: int) -> str:
    """The start of Python's own library, as one file."""
    sources = sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))
    file = folder / "text"
    file.write_bytes(b"".join(source.read_bytes() for source in sources)[:size])
    return str(file)


def ten_processors(folder: Path) -> list[str]:
    """Files of ten: those that come with hypertare, and each once more under another name."""
    files = []
    for copy in range(TEN // len(processors.names())):
        for name in processors.names():
            source = Path(processors.__file__).with_name("processors") / f"{name}.toml"
            file = folder / f"{name}-{copy}.toml"
            file.write_text(
                source.read_text().replace(f'name = "{name}"', f'name = "{name}-{copy}"')
            )
            files.append(str(file))
    return files


def walk_s(program: list[str], names: list[str]) -> tuple[float, int]:
    """CPU seconds and accesses of a walk with these processors."""
    with children() as spent:
        summary = run.walk(program, processors.chosen(names), OPTIONS, lambda *_: None)
    return spent[0], summary.accesses


@contextmanager
def children() -> Iterator[list[float]]:
    """Yields a list that, at the end, has the CPU seconds of what was started meanwhile."""
    before, spent = resource.getrusage(resource.RUSAGE_CHILDREN), []
    yield spent
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def bare_s(program: list[str]) -> float:
    """CPU seconds under QEMU alone."""
    with children() as spent:
        common.run([ARCH.qemu_user, found(program[0]), *program[1:]], 600)
    return spent[0]


def found(program: str) -> str:
    return common.run(["sh", "-c", f"command -v {program}"]).strip()


if __name__ == "__main__":
    common.run_alone(main)
