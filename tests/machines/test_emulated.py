"""The emulated machine with an agent that is made up: what is kept, reused, compared, stopped."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from hypertare.base.errors import DiffersError
from hypertare.machines.batch import Batch, Pc
from hypertare.machines.emulated import EmulatedMachine, _digest_of, first_difference
from hypertare.machines.executor import Threads
from hypertare.machines.image.cache import Cache
from hypertare.protocol import plan

AGENT = """#!{python}
import os, sys, time
if "--show" in sys.argv:
    print("[]")
    sys.exit()
with open("{place}/runs", "a") as runs:
    runs.write("x")
reported = next(w for w in sys.argv if w.startswith("--records=")).partition("=")[2]
{body}
"""
REPORT = """
seed = next(word for word in sys.argv if word.startswith("--seed"))
with open(reported, "w") as records:
    records.write('{"record":"log","node":"host","level":"info","text":"%s"}\\n' % seed)
    records.write('{"record":"teardown","seconds_s":0.5}\\n')
"""


def panics(why: str) -> str:
    """What an agent does whose machine's kernel gives up."""
    console = 'next(w for w in sys.argv if w.startswith("--console=")).partition("=")[2]'
    line = f"[    6.17] Kernel panic - not syncing: {why}"
    return f"open({console}, 'w').write({line!r} + chr(10))"


class Made:
    """A machine with a cache of its own, on an agent that can be written anew."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.agent = place / "agent"
        for name in ("kernel", "initramfs"):
            (place / name).write_bytes(name.encode())
        self.image = SimpleNamespace(
            kernel=place / "kernel", initramfs=place / "initramfs", further=(), hypervisor=None
        )
        self.write(REPORT)

    def write(self, body: str) -> None:
        text = AGENT.replace("{python}", sys.executable).replace("{place}", str(self.place))
        self.agent.write_text(text.replace("{body}", body))
        self.agent.chmod(0o755)

    def machine(self, **options: object) -> EmulatedMachine:
        options = {"cache": Cache(self.place / "cache"), **options}
        images = {("debian", "emulated"): self.image}
        return EmulatedMachine(self.agent, images, **options)  # type: ignore[arg-type]

    def run(self, *batches: Batch, **options: object) -> list:
        with self.machine(**options) as machine:
            return list(machine.run(batches))

    @property
    def runs(self) -> int:
        return len((self.place / "runs").read_text())


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    yield Made(tmp_path)


def batch(seed: int = 1, clock: str = "virtual", host_limit_s: float = 60.0) -> Batch:
    pc = Pc(clock, 3, seed, 1 << 28, 1, "debian", 60, host_limit_s)
    return Batch(0, pc, plan.Bench(name="b", nodes=()), (), ())


def test_what_is_known_is_not_run_again(made: Made) -> None:
    first, second = made.run(batch())[0], made.run(batch())[0]
    assert made.runs == 1
    assert first.records == second.records
    assert first.fingerprint == second.fingerprint
    assert (first.reused, second.reused) == (False, True)


def test_the_wall_clock_repeats_nothing(made: Made) -> None:
    made.run(batch(clock="wall"))
    assert made.run(batch(clock="wall"))[0].fingerprint is None
    assert made.runs == 2


def test_equal_machines_are_booted_once(made: Made) -> None:
    made.write("time.sleep(0.2)" + REPORT)
    outputs = made.run(batch(1), batch(2), batch(1), batch(1), executor=Threads(4))
    assert made.runs == 2
    assert [one.reused for one in outputs] == [False, False, True, True]
    assert [one.records[0].text for one in outputs] == [f"--seed={n}" for n in (1, 2, 1, 1)]
    assert {one.fingerprint for one in outputs[2:]} == {outputs[0].fingerprint}


def test_by_the_wall_clock_equal_machines_are_two(made: Made) -> None:
    made.run(batch(clock="wall"), batch(clock="wall"), executor=Threads(2))
    assert made.runs == 2


def test_outputs_come_in_the_order_of_the_batches(made: Made) -> None:
    made.write("time.sleep(0.3 if '--seed=0' in sys.argv else 0)" + REPORT)
    outputs = made.run(*[batch(seed) for seed in range(6)], executor=Threads(4))
    assert [one.records[0].text for one in outputs] == [f"--seed={n}" for n in range(6)]


@pytest.mark.parametrize("change", ["agent", "kernel", "initramfs", "seed", "plan"])
def test_whatever_decides_the_records_is_in_the_fingerprint(made: Made, change: str) -> None:
    with made.machine() as machine:
        before = machine.parts(batch())
        assert machine.parts(batch()) == before
    other = batch()
    if change == "agent":
        made.write(REPORT + "\n# another agent")
    elif change == "seed":
        other = batch(seed=2)
    elif change == "plan":
        other = Batch(0, other.pc, plan.Bench(name="c", nodes=()), (), ())
    else:
        (made.place / change).write_bytes(b"another")
    with made.machine() as machine:
        assert machine.parts(other) != before


def qemu(place: Path, version: str, firmware: str) -> str:
    """A PATH with a QEMU that only prints its version and where its firmware lies."""
    place.mkdir()
    (place / "pvh.bin").write_text(firmware)
    program = place / "qemu-system-x86_64"
    says = f'case $1 in -L) echo "{place}";; *) echo "QEMU emulator version {version}";; esac'
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    return f"{place}:{os.environ['PATH']}"


def test_qemu_and_its_firmware_are_in_the_fingerprint(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for number, reported in enumerate([("8.0", "a"), ("8.0", "b"), ("8.1", "a")]):
        monkeypatch.setenv("PATH", qemu(made.place / f"qemu{number}", *reported))
        with made.machine() as machine:
            found.append(_digest_of(machine.parts(batch())))
    assert len(set(found)) == 3


def test_the_command_line_is_in_the_fingerprint(made: Made) -> None:
    with made.machine() as machine:
        before = machine.parts(batch())
        made.agent.write_text(made.agent.read_text().replace('print("[]")', """print('["-x"]')"""))
        after = machine.parts(batch())
    # The agent was looked at already; only what it makes of the options differs.
    assert {name for name in before if before[name] != after[name]} == {"command line"}


def test_what_a_fingerprint_is_made_of_is_kept_with_the_records(made: Made) -> None:
    output = made.run(batch(seed=9))[0]
    entry = Cache(made.place / "cache").find("virtual", str(output.fingerprint))
    assert entry is not None and _digest_of(entry.facts) == output.fingerprint
    assert entry.facts["seed"] == "9"


@pytest.mark.parametrize("content", ["", "{", "null"])
def test_a_damaged_entry_is_noticed_and_made_again(made: Made, content: str) -> None:
    fingerprint = made.run(batch())[0].fingerprint
    (made.place / "cache" / "virtual" / str(fingerprint) / "entry.json").write_text(content)
    assert not made.run(batch())[0].reused
    assert made.run(batch())[0].reused


def test_a_damaged_record_is_noticed_and_made_again(made: Made) -> None:
    fingerprint = made.run(batch())[0].fingerprint
    kept = made.place / "cache" / "virtual" / str(fingerprint) / "records.jsonl"
    kept.write_bytes(kept.read_bytes().replace(b"seed", b"sead"))
    assert not made.run(batch())[0].reused
    assert made.runs == 2
    assert made.run(batch())[0].reused


def test_fresh_runs_again_and_is_content_with_the_same(made: Made) -> None:
    made.run(batch())
    assert not made.run(batch(), fresh=True)[0].reused
    assert made.runs == 2


def test_fresh_fails_loudly_on_another_record(made: Made) -> None:
    """The first record that differs is named; an agent that is not its file's content is a lie."""
    made.write(REPORT.replace("seed)", "open('/proc/sys/kernel/random/uuid').read().strip())"))
    made.run(batch())
    with pytest.raises(DiffersError, match="record 1") as caught:
        made.run(batch(), fresh=True)
    assert caught.value.status == 5


def test_a_machine_that_never_ends_is_stopped_in_host_time(made: Made) -> None:
    made.write("time.sleep(60)")
    began = time.monotonic()
    output = made.run(batch(host_limit_s=0.5))[0]
    assert time.monotonic() - began < 20
    assert output.error is not None and "longer than 0.5 s" in output.error
    assert not made.run(batch(host_limit_s=0.5))[0].reused


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit('QEMU was killed by SIGKILL')", "run: QEMU was killed by SIGKILL"),
        ("sys.exit('XMM0=00\\nhypertare-agent: QEMU died\\nXMM1=00')", "run: QEMU died"),
        ("", "before its plan did"),
        (panics("VFS: Unable to mount root fs"), "its kernel panicked: VFS: Unable to mount"),
        (panics("System is deadlocked on memory"), "give it more (sut.driver_memory under Xen"),
        ("open(reported, 'w').write('{')", "not whole"),
        ("open(reported, 'w').write('{}\\n')", "no record"),
    ],
)
def test_a_failed_machine_says_why_and_is_not_kept(made: Made, body: str, said: str) -> None:
    made.write(body)
    output = made.run(batch())[0]
    assert output.error is not None and said in output.error
    made.run(batch())
    assert made.runs == 2


def test_a_caller_that_has_enough_ends_what_runs(made: Made) -> None:
    made.write("time.sleep(0 if '--seed=0' in sys.argv else 60)" + REPORT)
    began = time.monotonic()
    with made.machine(executor=Threads(3)) as machine:
        outputs = machine.run([batch(seed) for seed in range(8)])
        next(outputs)
        outputs.close()
        made.write(REPORT)
        assert [one.error for one in machine.run([batch(0)])] == [None]
    assert time.monotonic() - began < 30


def test_differences_are_named() -> None:
    assert first_difference(b"a\nb\n", b"a\nb\n") is None
    assert first_difference(b"a\nb\n", b"a\nc\n") == "record 2: b then, c now"
    assert first_difference(b"a\nb\n", b"a\n") == "record 2: 2 then, 1 now"
