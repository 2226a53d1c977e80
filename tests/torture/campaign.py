"""Many episodes, some at once, and a table of them: `make torture`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Condition

from hypertare.base.units import human_duration
from tests.integration.lab import Lab
from tests.torture.episode import Draw, Outcome, carry_out, start, write_study
from tests.torture.faults import FAULTS
from tests.torture.room import Room

KINDS = ("container", "guest", "settings")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("-n", type=int, default=100, help="episodes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", type=int, default=0, dest="first", help="number of the first")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="at once")
    parser.add_argument("--fault", choices=FAULTS, help="of this kind only")
    parser.add_argument(
        "--shared",
        action="store_true",
        help="others change settings of this host meanwhile: look only at what a run may change",
    )
    parser.add_argument("--json", type=Path, help="every episode, into this file")
    asked = parser.parse_args(argv)
    if os.geteuid() != 0:
        parser.error("it is for root: it makes mounts and cgroups of its own")
    place = Path(tempfile.mkdtemp(prefix="torture-"))
    draws = _draws(asked.seed, range(asked.first, asked.first + asked.n), asked.fault)
    outcomes = _carry_out(draws, place, asked.jobs, asked.shared)
    print(table(outcomes))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in outcomes], indent=1) + "\n")
    failed = [one for one in outcomes if one.wrong]
    never = list(never_struck(outcomes))
    for fault in never:
        print(f"\n{fault}: never met its victim. Is that called otherwise by now?")
    for one in failed:
        print(f"\n{_again(one.draw)}: {one.draw}\n  {one.evidence}")
        print("\n".join(f"  - {wrong}" for wrong in one.wrong))
    if not failed:
        place.rmdir()
    return 1 if failed or never else 0


def _draws(seed: int, numbers: range, fault: str | None) -> list[Draw]:
    if fault is None:
        return [Draw.of(seed, number) for number in numbers]
    return [Draw.with_fault(seed, number, fault) for number in numbers]


def _again(draw: Draw) -> str:
    same = Draw.of(draw.seed, draw.number) == draw
    only = "" if same else f' FAULT="{draw.fault}"'
    return f"make torture N=1 SEED={draw.seed} FROM={draw.number}{only}"


def _carry_out(draws: list[Draw], place: Path, jobs: int, shared: bool) -> list[Outcome]:
    library = build_clock(place)
    kinds = {draw.kind for draw in draws if draw.moment == "any"}
    typical = {kind: measure(place / f"typical-{kind}", kind) for kind in KINDS if kind in kinds}
    gate = Gate()
    done: list[Outcome] = []
    began = time.monotonic()

    def one(draw: Draw) -> Outcome:
        with gate.alone() if draw.kind == "settings" else gate.beside_others():
            return carry_out(draw, place / f"{draw.number}", typical, library, shared)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one, draw) for draw in draws]
        try:
            for future in as_completed(futures):
                done.append(future.result())
                left_s = (time.monotonic() - began) / len(done) * (len(draws) - len(done))
                _tell(done[-1], f"{len(done)}/{len(draws)}", left_s)
        except KeyboardInterrupt:
            print("interrupted: episodes under way come to their end", flush=True)
            pool.shutdown(cancel_futures=True)
            done = [one.result() for one in futures if not one.cancelled()]
    library.unlink()
    return sorted(done, key=lambda outcome: outcome.draw.number)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _tell(outcome: Outcome, count: str, left_s: float) -> None:
    verdict = "; ".join(outcome.wrong).splitlines()[0][:200] if outcome.wrong else "ok"
    if not outcome.struck:
        verdict += " (it had ended before)"
    left = f"about {human_duration(left_s)} left" if left_s else ""
    print(f"[{count}] {outcome.draw.number}: {outcome.draw}: {verdict}  {left}", flush=True)


class Gate:
    """Settings of this host are one for all: an episode that borrows some is alone on it."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside = 0
        self._waiting = 0

    @contextmanager
    def beside_others(self) -> Iterator[None]:
        yield from self._pass(lambda: self._inside >= 0 and not self._waiting, 1)

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._waiting += 1
        try:
            yield from self._pass(lambda: self._inside == 0, -1)
        finally:
            with self._changed:
                self._waiting -= 1
                self._changed.notify_all()

    def _pass(self, free: Callable[[], bool], weight: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(free)
            self._inside += weight
        try:
            yield
        finally:
            with self._changed:
                self._inside -= weight
                self._changed.notify_all()


def build_clock(place: Path) -> Path:
    library = place / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
    return library


def measure(home: Path, kind: str) -> float:
    """Seconds of a run to which nothing is done."""
    draw = Draw(0, 0, "kill controller", kind, "any", (0, 0))
    lab = Lab(home)
    write_study(lab, draw)
    with Room(lab) as room:
        ran = start(lab, room, draw, "study.toml", Path("run")).end()
    assert ran.status == 0, ran
    subprocess.run(["rm", "-rf", home], check=True)
    return ran.seconds


def never_struck(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Faults that found nobody, again and again: what they were to show they did not."""
    for fault in dict.fromkeys(one.draw.fault for one in outcomes):
        of = [one for one in outcomes if one.draw.fault == fault]
        if len(of) >= _OFTEN and not any(one.struck for one in of):
            yield fault


_OFTEN = 3


def table(outcomes: Sequence[Outcome]) -> str:
    """By fault, in the order in which they stand in the list of all."""
    heads = (
        "fault",
        "episodes",
        "struck",
        "finished before",
        "in flight",
        "lost",
        "resumed",
        "left",
    )
    lines = [heads]
    for fault in FAULTS:
        found = [one for one in outcomes if one.draw.fault == fault]
        if found:
            lines.append((fault, *_counts(found)))
    lines.append(("all", *_counts(outcomes)))
    marked = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([marked[0], "|---|" + "--:|" * (len(heads) - 1), *marked[1:]])


def _counts(found: Sequence[Outcome]) -> tuple[str, ...]:
    counts = (
        len(found),
        sum(one.struck for one in found),
        sum(one.finished for one in found),
        sum(one.flying for one in found),
        sum(one.lost for one in found),
        sum(one.resumed for one in found),
        sum(bool(one.left) for one in found),
    )
    return tuple(f"{count:,}" for count in counts)
