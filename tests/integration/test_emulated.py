"""The emulated machine as a user has it: it repeats, whatever else the host does, and it ends.

Records are compared with those of other runs of the same test, not with records kept in the tree:
these would hold for one build of kernel, QEMU and agent only. What holds for any stands in `STORY`.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from hypertare.base import paths
from hypertare.machines.batch import Batch, Pc
from hypertare.machines.emulated import EmulatedMachine
from hypertare.machines.executor import Threads
from hypertare.machines.image import cpio, emulator
from hypertare.machines.image.build import build
from hypertare.machines.image.cache import Cache
from hypertare.protocol import plan
from hypertare.protocol.records import KnobOutcome, TaskResult
from hypertare.runs.store import Store
from tests.integration.lab import NEW_PYTHON, Lab, Traces, falsify, own_cache, reported, until
from tests.integration.stops import busy

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]

TINY = """
name = "tiny"
question = "Does it repeat?"
machine = "emulated"
[sut]
memory = "192M"
[workloads.udp]
type = "stream"
protocol = "udp"
direction = "both"
rate = "20M"
duration = "100ms"
omit = "20ms"
interval = "50ms"
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 1
"""

ONE_BOOT = ("blocks_per_boot = 1", "blocks_per_boot = 2")

NICS = """
[knobs]
napi_weight = 8
[factors]
"sut.nic" = ["e1000", "e1000e", "vmxnet3", "virtio-net", "pcnet", "rtl8139"]
"""

ENDLESS = """
name = "endless"
question = "Who ends it?"
machine = "emulated"
[sut]
memory = "192M"
[workloads.work]
type = "command"
limit = "1h"
command = ["hypertare-agent", "burn", "--time", "3000"]
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
[emulated]
"""


QEMU = r"^qemu-system.* -append "

STORY = [
    ("reach", "reach", "peer"),
    ("offset", "offset", "host"),
    ("measure", "receive-0", "peer"),
    ("measure", "receive-1", "host"),
    ("measure", "send-0", "host"),
    ("measure", "send-1", "peer"),
]
"""What is done in each trial of `TINY`: phase, task, node."""


def stories(folder: Path) -> list[list[tuple[str, str, str]]]:
    """What was done in each trial, phase by phase; what was done at the same time is sorted."""
    with Store.open(folder) as store:
        reported = [store.records(trial.planned.id) for trial in store.trials()]
    results = [[one for one in records if isinstance(one, TaskResult)] for records in reported]
    phases = [phase for phase, _, _ in STORY]
    return [
        sorted(
            ((one.phase, one.task, one.node) for one in trial),
            key=lambda step: (phases.index(step[0]), step),
        )
        for trial in results
    ]


def test_a_busy_host_other_jobs_and_an_interruption_change_nothing(lab: Lab) -> None:
    """Byte for byte, and what is known is not run again unless asked for."""
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "cache")
    study = lab.study(TINY)
    first = lab.run("run", study, "--jobs", "4", "--out", "first")
    assert first.status == 0, first.said
    with busy():
        asked = ("--jobs", "1", "--fresh", "--out", "again")
        again = lab.run("run", study, *asked, wrap=NEW_PYTHON)
        lab.env["HYPERTARE_CACHE"] = own_cache(lab, "other")
        _interrupt(lab, study)
    assert again.status == 0, again.said
    resumed = lab.run("run", "--resume", "--jobs", "2", "--out", "halved")
    assert resumed.status == 0, resumed.said
    reused = lab.run("run", study, "--out", "reused")
    assert reused.status == 0, reused.said
    runs = [reported(lab.work / name) for name in ("first", "again", "halved", "reused")]
    assert runs[0] == runs[1] == runs[2] == runs[3]
    assert stories(lab.work / "first") == [STORY] * 2
    with Store.open(lab.work / "first") as store:
        rates = {trial.values["packet_rate"] for trial in store.trials()}
        prints = {trial.fingerprint for trial in store.trials()}
    # Replicates are of two seeds, and neither is a copy of the other.
    assert len(rates) > 1 and len(prints) == 2
    # What is kept is not run again, whatever it says.
    falsify(min((lab.home / "other" / "virtual").iterdir()))
    believed = lab.run("run", study, "--out", "believed")
    assert believed.status == 0 and reported(lab.work / "believed") != runs[0], believed.said


def _interrupt(lab: Lab, study: Path) -> None:
    """Ctrl-C after the first trial: it ends at once, and nothing is left."""
    before = Traces.now()
    started = lab.start("run", study, "--jobs", "1", "--out", "halved")
    started.until_trials(lab.work / "halved", 1)
    until(lambda: lab.find(QEMU), "the next machine to start")
    assert started.stop(signal.SIGINT) < 10
    assert started.end().status == 130
    lab.assert_nothing_left(before)
    with Store.open(lab.work / "halved") as store:
        assert len(store.trials()) == 1


def with_cat(place: Path) -> SimpleNamespace:
    """The emulated machine's image with this host's `cat`, which shows where it lies in memory."""
    image = build("debian", "emulated")
    program = shutil.which("cat")
    assert program is not None
    libraries = re.findall(r"(/\S+) \(0x", subprocess.check_output(["ldd", program], text=True))
    files = [("bin/cat", program), *((name[1:], name) for name in libraries)]
    folders = dict.fromkeys(
        str(parent) for name, _ in files for parent in reversed(Path(name).parents[:-1])
    )
    members = [cpio.directory(folder) for folder in folders]
    members += [cpio.file(name, Path(at).read_bytes(), executable=True) for name, at in files]
    initramfs = place / "initramfs"
    initramfs.write_bytes(image.initramfs.read_bytes() + cpio.archive(members))
    return SimpleNamespace(kernel=image.kernel, initramfs=initramfs, further=(), hypervisor=None)


def test_a_seed_moves_address_spaces_and_random_numbers_and_repeats_them(tmp_path: Path) -> None:
    """Of a program in user space; the kernel itself lies where it always does (PVH boot)."""
    show = plan.Command(argv=("/bin/cat", "/proc/self/maps", "/proc/sys/kernel/random/boot_id"))
    task = plan.Task(id="show", node="host", workload=show)
    trial = plan.Trial(id=0, phases=(plan.Phase(name="measure", tasks=(task,), limit_s=30),))
    bench = plan.Bench(name="b", nodes=(plan.Node(name="host", kind=plan.Host()),))

    def batch(seed: int) -> Batch:
        pc = Pc("virtual", 3, seed, 192 << 20, 1, "debian", 60, 120.0)
        return Batch(0, pc, bench, (), (trial,))

    images: dict[tuple[str, str], Any] = {("debian", "emulated"): with_cat(tmp_path)}
    machine = EmulatedMachine(
        paths.agent_binary(),
        images,
        executor=Threads(3),
        cache=Cache(tmp_path / "cache"),
        emulator=emulator.build(),
    )
    with machine:
        outputs = [*machine.run([batch(1), batch(2)])]
        machine.fresh = True
        outputs += machine.run([batch(1)])
    assert [output.error for output in outputs] == [None] * 3
    shown = [
        next(one.text["stdout"] for one in output.records if isinstance(one, TaskResult))
        for output in outputs
    ]
    one, other, again = ([*_bases(text), text.splitlines()[-1]] for text in shown)
    assert len(one) == 4 and shown[0] == shown[2] and one == again
    assert all(a != b for a, b in zip(one, other, strict=True)), (one, other)


def _bases(maps: str) -> list[str]:
    """Where the program, its C library and its stack begin."""
    return [
        next(line.partition("-")[0] for line in maps.splitlines() if line.endswith(name))
        for name in ("/bin/cat", "libc.so.6", "[stack]")
    ]


def test_every_nic_model_moves_packets_both_ways_from_the_first(lab: Lab) -> None:
    """Not one is lost, though some cards take no frames for a second after they were set up."""
    study = lab.study(TINY.replace(*ONE_BOOT) + NICS)
    ran = lab.run("run", study, "--fresh", "--json", "--out", "nics")
    assert ran.status == 0, ran.said
    assert ran.json["clock"] == "virtual" and ran.json["failed"] == []
    assert weights(lab.work / "nics") == {
        "e1000": ("64", "8"),
        "e1000e": ("64", "8"),
        "vmxnet3": ("64", "8"),
        "virtio-net": ("64 64", "8 8"),
        "pcnet": ("16", "8"),
        "rtl8139": ("16", "8"),
    }
    found = {
        (one["cell"]["sut.nic"], one["response"]): one
        for one in ran.json["estimates"]
        if one["response"] in ("goodput", "loss")
    }
    assert len(found) == 12
    for (nic, response), one in found.items():
        if response == "loss":
            assert one["estimate"] == 0 and one["exact"], nic
        else:
            assert one["estimate"] == pytest.approx(40e6, rel=0.1), nic
            assert one["unit"] == "b/s (virtual)"


def weights(run: Path) -> dict[str, tuple[str, str]]:
    """By NIC model: NAPI weights before a trial and in it, as read back. All were put back."""
    found = {}
    with Store.open(run) as store:
        for trial in store.trials():
            outcomes = [r for r in store.records(trial.planned.id) if isinstance(r, KnobOutcome)]
            applied, ended = outcomes
            assert (applied.before, applied.after) == (ended.after, ended.before)
            assert applied.before and applied.after
            nic = str(trial.planned.cell["sut.nic"])
            found[nic] = (applied.before.split(" by ")[0], applied.after.split(" by ")[0])
    return found


RINGS = """
name = "rings"
question = "Does a longer ring lose less of a burst?"
machine = "emulated"
[sut]
memory = "192M"
cpus = 2
[workloads.burst]
type = "stream"
protocol = "udp"
direction = "receive"
message = 64
segmentation = true
duration = "50ms"
omit = "10ms"
sender_cpus = [0]
receiver_cpus = [1]
[factors]
"sut.nic" = ["vmxnet3", "virtio-net", "rtl8139"]
"knobs.ring_sizes.rx" = [32, 256]
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


def test_rings_are_as_long_as_reported_and_as_they_were_again(lab: Lab) -> None:
    ran = lab.run("run", lab.study(RINGS), "--json", "--out", "rings")
    assert ran.status == 0, ran.said
    # Its driver says how long they are, and takes no other length.
    assert {one["cell"]["sut.nic"] for one in ran.json["failed"]} == {"rtl8139"}
    assert "the ring rx of sut0 has at most 64 descriptors, not 256" in ran.out
    assert resized(lab.work / "rings") == {
        ("vmxnet3", 32): ("1024", "32"),
        ("vmxnet3", 256): ("1024", "256"),
        ("virtio-net", 32): ("256", "32"),
        ("virtio-net", 256): ("256", "256"),
    }
    loss = {
        (one["cell"]["sut.nic"], one["cell"]["knobs.ring_sizes.rx"]): one["estimate"]
        for one in ran.json["estimates"]
        if one["response"] == "loss"
    }
    # The other card's frames wait on their way until there is room.
    assert loss["vmxnet3", 32] > 0 == loss["vmxnet3", 256] == loss["virtio-net", 32]


def resized(run: Path) -> dict[tuple[Any, Any], tuple[str | None, str | None]]:
    """By NIC model: how long its ring was before a trial and in it. All were put back."""
    found = {}
    with Store.open(run) as store:
        for trial in (one for one in store.trials() if one.status == "ok"):
            outcomes = [r for r in store.records(trial.planned.id) if isinstance(r, KnobOutcome)]
            applied, ended = outcomes
            assert (applied.before, applied.after) == (ended.after, ended.before)
            cell = trial.planned.cell
            key = (cell["sut.nic"], cell["knobs.ring_sizes.rx"])
            found[key] = (applied.before, applied.after)
    return found


def test_a_container_and_a_command_of_the_image_and_a_record_that_differs(lab: Lab) -> None:
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "cache")
    text = TINY.replace(*ONE_BOOT)
    text = text.replace("[design]", "[design]\nwarmup = 0")
    text = text.replace("[sut]", "[sut]\nplatforms = ['native', 'container']")
    command = '["hypertare-agent", "burn", "--time", "0.05"]'
    study = lab.study(text + f'[workloads.own]\ntype = "command"\ncommand = {command}\n')
    ran = lab.run("run", study, "--json")
    assert ran.status == 0, ran.said
    assert ran.json["failed"] == []
    found = {
        (one["cell"]["workload"], one["platform"], one["response"]) for one in ran.json["estimates"]
    }
    for platform in ("native", "container"):
        assert {("udp", platform, "goodput"), ("own", platform, "elapsed")} <= found
    assert ("own", "container", "outside_cpu") in found
    (known,) = (lab.home / "cache" / "virtual").iterdir()
    falsify(known)
    differs = lab.run("run", study, "--fresh")
    assert differs.status == 5, differs.said
    assert "differ from those of an earlier run, first in record 1" in differs.said


def test_the_emulator_has_its_libraries_from_the_system() -> None:
    """And not from where it was built, which is there no more."""
    with emulator.build().program.open("rb") as file:
        dynamic = ELFFile(file).get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        tags = {tag.entry.d_tag for tag in dynamic.iter_tags()}
    assert "DT_NEEDED" in tags and not tags & {"DT_RPATH", "DT_RUNPATH"}


def test_where_the_emulator_cannot_be_built_the_distributions_stands_in(lab: Lab) -> None:
    """With one CPU, which the run says; several are refused."""
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "cache")
    (lab.home / "cache" / "emulators").unlink()
    could_not(Cache(lab.home / "cache"))
    study = lab.study(TINY.replace(*ONE_BOOT))
    ran = lab.run("run", study, "--json", "--out", "run")
    assert ran.status == 0 and ran.json["failed"] == [], ran.said
    assert ran.json["machine"]["cpu"] == "QEMU TCG max"
    assert any("distribution's QEMU" in text for text in ran.json["warnings"]), ran.json["warnings"]
    refused = lab.run("run", study, "--set", "sut.cpus=2")
    assert refused.status == 3 and "no such thing" in refused.said, refused.said


def could_not(cache: Cache) -> None:
    """As a build leaves it that fails."""

    def fill(place: Path) -> dict[str, str]:
        (place / "build.log").write_text("cpu.c:7: error: no such thing")
        return {"reason": "cpu.c:7: error: no such thing"}

    cache.make("emulators", emulator.recipe().key, "emulator", fill)


@pytest.mark.parametrize(
    ("work", "limit", "said"),
    [
        ("", "limit = '1s'", "not carried out within 1 s of this machine"),
        # Nothing to do: the clock races ahead.
        (', "--share", "0.0001"', "limit = '100s'", "not carried out within 100 s of this machine"),
        ("", "host_limit = '1s'", "longer than 1 s of this host"),
    ],
    ids=["spins", "races", "takes too long"],
)
def test_a_machine_that_never_ends_is_stopped(lab: Lab, work: str, limit: str, said: str) -> None:
    before = Traces.now()
    study = lab.study(ENDLESS.replace('"3000"', f'"3000"{work}') + limit)
    ran = lab.run("run", study, "--out", "run", "--json")
    assert {failed["reason"] for failed in ran.json["failed"]}, ran.said
    assert all(said in failed["reason"] for failed in ran.json["failed"]), ran.json["failed"]
    lab.assert_nothing_left(before)


def test_a_killed_controller_leaves_nothing(lab: Lab) -> None:
    before = Traces.now()
    started = lab.start("run", lab.study(ENDLESS + "shift = 0"), "--out", "run")
    until(lambda: lab.find(QEMU), "the machine to start")
    started.process.kill()
    lab.assert_nothing_left(before)


def test_jobs_are_for_virtual_time(lab: Lab) -> None:
    ran = lab.run("run", lab.study(TINY), "--set", "clock=wall", "--jobs", "2")
    assert ran.status == 2
    assert "disturb each other" in ran.said


def test_by_the_wall_clock_it_runs_too(lab: Lab) -> None:
    study = lab.study(TINY.replace(*ONE_BOOT))
    ran = lab.run("run", study, "--set", "clock=wall", "--set", "sut.cpus=2", "--json")
    assert ran.status == 0, ran.said
    (goodput,) = [one for one in ran.json["estimates"] if one["response"] == "goodput"]
    # A trial that a busy host failed is made up for by another boot of two.
    assert goodput["unit"] == "b/s" and 2 <= goodput["n"] < 4


def test_programs_that_the_image_lacks_are_refused(lab: Lab) -> None:
    ran = lab.run("run", lab.study(ENDLESS.replace("hypertare-agent", "make")))
    assert ran.status == 2
    assert "has no program 'make'" in ran.said and "hypertare-agent" in ran.said
