"""What the parts of the bench share: where things are, one measurement's row, taking turns, links."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from hypertare.base import paths

HERE = Path(__file__).resolve().parent
NEAR, FAR = "10.78.0.1", "10.78.0.2"
CONFIDENCE = 0.95

Pairs = list[tuple[float, float]]
"""What was measured of ours and of the peer, one right after the other."""

_SANDBOX = (
    # Killed with this program, and with it everything inside.
    "setpriv --pdeathsig KILL unshare --user --map-root-user --net --mount"
    " --pid --fork --kill-child --mount-proc"
)

_USERS = ("--user", "--map-root-user")


class NotMeasured(Exception):
    """A figure was not taken; the text says why."""


@dataclass(frozen=True)
class Row:
    """A measurement against its target.

    `compared` is the median ratio ours/peer, or the median difference ours - peer where `by` says
    so, over neighbouring runs, with its interval. `met` is decided by the figure; `sure` says that
    the whole interval is on the same side of the target.
    """

    name: str
    unit: str
    ours: float
    target: str
    met: bool
    peer: float | None = None
    by: Literal["ratio", "difference"] | None = None
    compared: float | None = None
    low: float | None = None
    high: float | None = None
    sure: bool = True
    note: str = ""


def agent() -> Path:
    return paths.agent_binary()


def options(doc: str | None, argv: Sequence[str]) -> argparse.Namespace:
    """The command line of a part."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def print_rows(rows: Sequence[Row]) -> None:
    for row in rows:
        print(json.dumps(asdict(row)), flush=True)


def run_alone(main: Callable[[Sequence[str]], list[Row]]) -> None:
    """One bench as a program of its own."""
    try:
        print_rows(main(sys.argv[1:]))
    except NotMeasured as reason:
        sys.exit(f"{sys.argv[0]}: nothing was measured: {reason}")


# --- figures


def alternate(rounds: int, ours: Callable[[], float], peer: Callable[[], float]) -> Pairs:
    """Takes turns, and turns in who is first: a change of the machine's load meets both alike."""
    pairs = []
    for number in range(rounds):
        try:
            if number % 2:
                theirs, own = peer(), ours()
            else:
                own, theirs = ours(), peer()
        except (NotMeasured, subprocess.SubprocessError) as error:
            print(f"  left out: {error}", file=sys.stderr)
            continue
        pairs.append((own, theirs))
    if not pairs:
        raise NotMeasured("no round brought a figure")
    return pairs


def against_peer(
    name: str,
    unit: str,
    pairs: Pairs,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    by: Literal["ratio", "difference"] = "ratio",
    offset: float = 0.0,
) -> Row:
    """Judges what was taken by turns; `offset` is taken off what is shown of either side."""
    compared = [own / theirs if by == "ratio" else own - theirs for own, theirs in pairs]
    middle = statistics.median(compared)
    low, high = median_interval(compared)
    limit, sign = (at_least, 1) if at_least is not None else (at_most, -1)
    assert limit is not None
    met = sign * (middle - limit) >= 0
    worst = low if sign * (1 if met else -1) > 0 else high
    sure = worst is not None and (sign * (worst - limit) >= 0) == met
    target = f"{'>=' if sign > 0 else '<='} {limit:g}"
    own, theirs = (statistics.median(side) - offset for side in zip(*pairs, strict=True))
    return Row(name, unit, own, target, met, theirs, by, middle, low, high, sure)


def at_most(
    name: str, unit: str, ours: float, limit: float, *, peer: float | None = None, note: str = ""
) -> Row:
    """Judges a figure by itself; the peer's, if there is one, only stands beside it."""
    return Row(name, unit, ours, f"<= {limit:g} {unit}", ours <= limit, peer, note=note)


def median_interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """An interval of the median that supposes nothing of the distribution: two values of the sorted
    ones, so far out that the binomial distribution with p = 1/2 leaves at most 5 % beyond them. Fewer
    than six values have none.

    Source: Thompson (1936), Annals of Mathematical Statistics 7, 122-128.
    """
    ordered, count = sorted(values), len(values)
    beyond, place = 0.0, -1
    while True:
        beyond += math.comb(count, place + 1) / 2**count
        if 2 * beyond > 1 - CONFIDENCE or place + 1 > count // 2:
            break
        place += 1
    return (None, None) if place < 0 else (ordered[place], ordered[-1 - place])


# --- programs and links


def run(argv: Sequence[str], limit_s: float = 60) -> str:
    """What a program prints.

    Raises:
        NotMeasured: it failed.
    """
    done = subprocess.run(argv, capture_output=True, text=True, timeout=limit_s)
    if done.returncode:
        reason = done.stderr.strip() or done.stdout.strip()[-300:]
        raise NotMeasured(f"{' '.join(argv)}: {reason}")
    return done.stdout


def in_sandbox(
    part: str,
    argv: Sequence[str],
    doc: str | None,
    measure: Callable[[bool], list[Row]],
    *,
    has_users: bool = True,
) -> list[Row]:
    """Measures in namespaces of their own, whose first process is this program started again: when
    it ends, however it ends, the kernel removes the processes, the interfaces and the mounts. Only root
    does without a namespace of users.
    """
    chosen = options(doc, argv)
    if chosen.inside:
        return measure(chosen.quick)
    walls = [wall for wall in _SANDBOX.split() if has_users or wall not in _USERS]
    again = [*walls, sys.executable, part, *argv, "--inside"]
    done = subprocess.run(again, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise NotMeasured(f"{Path(part).name} ended with status {done.returncode}")
    return [Row(**json.loads(line)) for line in done.stdout.splitlines()]


@contextmanager
def kept(argv: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A program in the background."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def veth() -> Iterator[tuple[str, ...]]:
    """A pair of interfaces between this network namespace (`NEAR`) and another (`FAR`).

    Yields what to put before a command so that it runs at the far end.
    """
    with kept(["unshare", "--net", "sleep", "infinity"]) as holder:
        _wait_until_apart(holder.pid)
        far = ("nsenter", "--target", str(holder.pid), "--net")
        peer = ["peer", "far", "netns", str(holder.pid)]
        run(["ip", "link", "add", "name", "near", "type", "veth", *peer])
        for place, name, address in (((), "near", NEAR), (far, "far", FAR)):
            run([*place, "ip", "address", "add", f"{address}/24", "dev", name])
            run([*place, "ip", "link", "set", name, "up"])
        try:
            yield far
        finally:
            run(["ip", "link", "delete", "near"])


def _wait_until_apart(pid: int) -> None:
    here = os.readlink("/proc/self/ns/net")
    for _ in range(300):
        if os.readlink(f"/proc/{pid}/ns/net") != here:
            return
        time.sleep(0.01)
    raise NotMeasured("no second network namespace came about")
