"""One episode: a run, a fault at some moment, what is left then, going on, what is left at the end.

Seed and number say all of it, so that each can be had again alone.
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.integration.lab import IN_GUEST, Lab, Started, pause_after, summary, trials
from tests.torture import faults
from tests.torture.faults import FAULTS, Scene, TooLateError
from tests.torture.room import Room
from tests.torture.traces import HUGE_PAGES, Traces, namespaces, older_than

WANTED = 2
PATIENCE_S = 180.0
SETTLED_S = 30.0
"""For all to end that was asked to: the host agent takes up to 4 s, the keeper 15 s."""

_GUESTS = 0.05
"""Share of episodes with a guest, of those whose fault leaves the choice; most of a campaign's time."""

STUDY = """
name = "torture"
question = "What is left of it?"
[sut]
memory = "128M"
accelerator = "tcg"
platforms = ["native", "{other}"]
{pages}
[workloads.work]
type = "command"
command = "{die}sleep 0.1; touch made"
limit = "6s"
[workloads.burn]
type = "burn"
duration = "{burn}"
[design]
warmup = 0
min_trials = {trials}
max_trials = {trials}
blocks_per_boot = {blocks}
precision = "0.001%"
"""

_LAST = "SELECT what FROM milestone ORDER BY id DESC LIMIT 1"
DIE = "if {in_guest} && [ -e {sign} ]; then echo c > /proc/sysrq-trigger; sleep 5; fi; "


@dataclass(frozen=True)
class Draw:
    """What an episode is to be. `moment` has a name and numbers between 0 and 1."""

    seed: int
    number: int
    fault: str
    kind: str
    moment: str
    when: tuple[float, float]

    @classmethod
    def of(cls, seed: int, number: int) -> Draw:
        """Faults come in rounds, each once in every round, so that few episodes have many of them."""
        round_, place = divmod(number, len(FAULTS))
        deck = list(FAULTS)
        random.Random(f"{seed} round {round_}").shuffle(deck)
        return cls.with_fault(seed, number, deck[place])

    @classmethod
    def with_fault(cls, seed: int, number: int, name: str) -> Draw:
        fault, chance = FAULTS[name], random.Random(f"{seed} episode {number}")
        kind = "guest" if chance.random() < _GUESTS else "container"
        moment = chance.choice(fault.moments)
        when = chance.random(), chance.random()
        return cls(seed, number, name, fault.needs or kind, moment, when)

    @property
    def other(self) -> str:
        return "container" if self.kind == "container" else "guest"

    def __str__(self) -> str:
        moments = {"any": f"after {self.when[0]:.0%} of a run", "trial": "in a trial"}
        return f"{self.fault}, {self.other}, {moments.get(self.moment, f'at {self.moment}')}"


@dataclass
class Outcome:
    """`finished` trials were in the file when it struck, `lost` of them were not there later; `flying`
    was a trial then; `status` and `said` are how the run ended. `left` is what was there after the
    fault and ought not, `wrong` all that failed.
    """

    draw: Draw
    struck: bool = False
    flying: bool = False
    status: int | None = None
    said: str = ""
    finished: int = 0
    lost: int = 0
    resumed: bool = False
    left: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    evidence: str | None = None


def carry_out(
    draw: Draw, home: Path, typical: dict[str, float], library: Path, shared: bool = False
) -> Outcome:
    """What is wrong stands in the outcome, and then everything that was written is kept."""
    began = time.monotonic()
    outcome = Outcome(draw)
    lab = Lab(home)
    with Room(lab, shared) as room, _lent_given_back(draw):
        try:
            _Episode(draw, room, outcome, typical, library).carry_out()
        except Exception:
            outcome.wrong.append(traceback.format_exc())
    outcome.wrong += [f"after the fault {one}" for one in outcome.left]
    outcome.seconds = time.monotonic() - began
    if outcome.wrong:
        outcome.evidence = str(home)
        (home / "wrong.txt").write_text("\n".join([str(draw), *outcome.wrong, ""]))
    else:
        shutil.rmtree(home)
    return outcome


@contextmanager
def _lent_given_back(draw: Draw) -> Iterator[None]:
    """Also of an episode that fails: what it has left of memory's is every other's trouble."""
    pools = [path for path in Path(HUGE_PAGES).glob("*/nr_hugepages") if draw.kind == "settings"]
    before = {path: path.read_text() for path in pools}
    yield
    for path, text in before.items():
        if path.read_text() != text:
            path.write_text(text)


class _Episode:
    def __init__(
        self, draw: Draw, room: Room, outcome: Outcome, typical: dict[str, float], library: Path
    ) -> None:
        self.draw, self.room, self.outcome, self.typical = draw, room, outcome, typical
        self.fault = FAULTS[draw.fault]
        self.lab = room.lab
        self.library = library
        on_disk = draw.fault == "full disk"
        self.out = Path("disk/run" if on_disk else "run")
        self.run = room.disk / "run" if on_disk else self.lab.work / "run"

    def carry_out(self) -> None:
        write_study(self.lab, self.draw)
        before = Traces.now(self.room)
        scene = self._begin()
        self._strike(scene)
        self._await_end(scene)
        self.outcome.left = self._left(before, self.fault.until_next)
        self._check_records(self._kept)
        self._check_directory()
        self._go_on()
        self.outcome.wrong += [f"at the end {one}" for one in self._left(before, ())]

    # --- the run and its fault

    def _begin(self) -> Scene:
        env = {}
        if self.draw.fault == "clock jumps":
            faults.clock_file(self.room).write_bytes(bytes(8))
            env["LD_PRELOAD"] = str(self.library)
            env["TORTURE_CLOCK"] = str(faults.clock_file(self.room))
        chance = random.Random(f"{self.draw.seed} strike {self.draw.number}")
        self._began = time.monotonic()
        started = start(self.lab, self.room, self.draw, "study.toml", self.out, **env)
        scene = Scene(self.room, started, self.run, chance, self._note)
        if self.fault.prepare:
            self.fault.prepare(scene)
        return scene

    def _strike(self, scene: Scene) -> None:
        try:
            self._await_moment(scene)
            self._note()
            if not scene.going:
                raise TooLateError
            self.fault.strike(scene)
            self.outcome.struck = True
        except TooLateError:
            self._note()

    def _note(self) -> None:
        """What there is just before it strikes."""
        self._kept = self.room.trials(self.run)
        lines = self.room.processes()
        self._noted_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._spaces = namespaces(set(lines)) - namespaces(self.room.namespaces)
        self.outcome.finished = len(self._kept)
        self.outcome.flying = any("-agent task " in line for line in lines.values())

    def _await_moment(self, scene: Scene) -> None:
        share, further = self.draw.when
        total = 2 * 2 * WANTED
        guest = self.draw.other == "guest"
        if self.draw.moment == "any":
            scene.await_end(share * self.typical[self.draw.kind])
            return
        wait: dict[str, tuple[Callable[[], Any], float]] = {
            "creation": (lambda: self.run.exists(), 0.1),
            "bench": (lambda: self._is_there("inner agent"), 0.3),
            "boot": (lambda: self._is_there("QEMU" if guest else "task"), 3 if guest else 0.1),
            "trial": (lambda: len(self.room.trials(self.run)) > int(share * (total - 1)), 0.15),
            # In the last trial, or behind it.
            "teardown": (lambda: len(self.room.trials(self.run)) >= total - 1, 0.25),
            "report": (lambda: (self.run / "summary.json").exists(), 1.5),
        }
        holds, spread_s = wait[self.draw.moment]
        begun = time.monotonic()
        while scene.going and not holds():
            pause_after(begun)
            begun = time.monotonic()
        scene.await_end(further * spread_s)

    def _is_there(self, name: str) -> bool:
        return any(re.search(faults.VICTIMS[name], line) for line in self.room.processes().values())

    def _await_end(self, scene: Scene) -> None:
        with suppress(subprocess.TimeoutExpired):
            scene.started.process.wait(PATIENCE_S)
        hangs = scene.going
        for undo in scene.undone:
            undo()
        ran = scene.started.end(patience_s=1)
        self.outcome.status, self.outcome.said = ran.status, ran.err[-600:]
        self._check_words("the run", ran.out + ran.err)
        allowed = self.fault.statuses
        if hangs:
            self.outcome.wrong.append(f"the run went on for {PATIENCE_S:g} s and more")
        elif not self.outcome.struck and ran.status != 0:
            self.outcome.wrong.append(f"nothing was done to it, and it ended with {ran.status}")
        elif allowed and ran.status not in allowed | {0}:
            self.outcome.wrong.append(f"exit status {ran.status}: {ran.err[-600:]}")
        if ran.status > 0 and "hypertare: " not in ran.err:
            self.outcome.wrong.append(f"status {ran.status} without a sentence: {ran.err[-600:]}")

    def _check_words(self, what: str, said: str) -> None:
        for word in ("Traceback", "a defect of hypertare", "panicked at"):
            if word in said:
                self.outcome.wrong.append(
                    f"{what} said: {said[max(0, said.index(word) - 300) :][:1500]}"
                )

    # --- what is left

    def _left(self, before: Traces, allowed: tuple[str, ...]) -> list[str]:
        deadline = time.monotonic() + SETTLED_S
        while True:
            left = Traces.now(self.room).since(before)
            alike = self._spaces & namespaces(older_than(self._noted_s))
            left += [f"namespace {space} is left" for space in sorted(alike)]
            left = [one for one in left if not one.startswith(allowed or ("\0",))]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.1)

    def _check_records(self, kept: list[tuple[Any, ...]]) -> None:
        """In a copy, so that what going on finds is what the fault has left."""
        if not (self.run / "run.sqlite").exists():
            return
        copy = self.lab.home / "copy"
        shutil.copytree(self.run, copy)
        with suppress(sqlite3.DatabaseError):
            with sqlite3.connect(copy / "run.sqlite") as db:
                found = db.execute("PRAGMA integrity_check").fetchall()
            db.close()
            if found != [("ok",)]:
                self.outcome.wrong.append(f"integrity_check: {found}")
        there = trials(copy)
        self.outcome.lost = sum(row not in there for row in kept)
        if there[: len(kept)] != kept:
            self.outcome.wrong.append(f"trials were {kept} and are {there}")
        if [row[0] for row in there] != list(range(len(there))):
            self.outcome.wrong.append(f"trials are not numbered through: {there}")
        shutil.rmtree(copy)

    def _check_directory(self) -> None:
        beside = {f"run.sqlite-{what}" for what in ("wal", "shm", "journal")}
        known = {"run.sqlite", *beside, "summary.json", "report.html"}
        names = {path.name for path in self.run.iterdir()} if self.run.exists() else set()
        self.outcome.wrong += [f"{name} is in the run directory" for name in sorted(names - known)]

    # --- going on

    def _go_on(self) -> None:
        file = self.run / "run.sqlite"
        # Where nothing was begun there is nothing to go on with, and the same command begins.
        what = "--resume" if file.exists() and file.stat().st_size else "study.toml"
        ran = start(self.lab, self.room, self.draw, what, self.out).end(PATIENCE_S)
        self._check_words("the run that went on", ran.out + ran.err)
        if ran.status != 0:
            self.outcome.wrong.append(f"going on with {what} ended with {ran.status}: {ran.err}")
            return
        self.outcome.resumed = True
        self._check_complete()

    def _check_complete(self) -> None:
        names = sorted(path.name for path in self.run.iterdir())
        if names != ["report.html", "run.sqlite", "summary.json"]:
            self.outcome.wrong.append(f"the run directory holds {names}")
        if not summary(self.run)["complete"]:
            self.outcome.wrong.append("the run is not complete")
        if self.room.rows(self.run, "SELECT what FROM milestone ORDER BY id DESC LIMIT 1") != [
            ("completed",)
        ]:
            self.outcome.wrong.append("the file does not say that it is complete")
        done = self.room.trials(self.run)
        if [row[0] for row in done] != list(range(len(done))):
            self.outcome.wrong.append(f"trials are not numbered through: {done}")
        for workload in ("work", "burn"):
            whole = _whole_blocks(done, workload, ("native", self.draw.other))
            # A guest that gets no CPU in a trial has a rate of nought, and that block is repeated.
            if not WANTED <= whole <= WANTED + 3:
                self.outcome.wrong.append(f"{workload} has {whole} whole blocks: {done}")


def _whole_blocks(done: list[tuple[Any, ...]], workload: str, platforms: tuple[str, ...]) -> int:
    fine: dict[int, set[str]] = {}
    for _, block, platform, of, _, status, _ in done:
        if of == workload and status == "ok":
            fine.setdefault(block, set()).add(platform)
    return sum(found >= set(platforms) for found in fine.values())


def write_study(lab: Lab, draw: Draw) -> None:
    dies = draw.fault == "guest dies from inside"
    sign = lab.home / "signs" / "die"
    lab.study(
        STUDY.format(
            other=draw.other,
            pages='pages = "2M"' if draw.kind == "settings" else "",
            die=DIE.format(in_guest=IN_GUEST, sign=sign) if dies else "",
            burn="300ms" if draw.other == "guest" else "50ms",
            trials=WANTED,
            # One bench after the other where they are made quickly.
            blocks=WANTED if draw.other == "guest" else 1,
        )
    )


def start(lab: Lab, room: Room, draw: Draw, what: str, out: Path, **env: str) -> Started:
    allows = ["--allow-huge-pages"] * (draw.kind == "settings")
    return lab.start("run", what, "--out", out, *allows, wrap=room.wrap, **env)
