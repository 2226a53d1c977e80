"""TLB misses and page walks that take virtual time: counted by hand, against the model of programs, and
the same in every run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hypertare.base import paths
from hypertare.design.design import make
from hypertare.design.planner import Chance, MachineResources
from hypertare.machines.batch import TrialSlot
from hypertare.machines.batch import make as make_batch
from hypertare.machines.image.build import build
from hypertare.study import StudyFile
from hypertare.walk import processors, run
from hypertare.walk.processors import Options
from tests.integration import emulate
from tests.integration.lab import Lab, summary
from tests.integration.stops import KICKED_OFTEN

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]

BARE = json.dumps(
    {
        "name": "bare",
        "title": "A processor that remembers nothing of a walk",
        "nested": True,
        "memory_cycles": 1,
        "first_tlb": {size: {"entries": 64, "ways": 64} for size in ("4K", "2M")}
        | {"unified": True},
        "second_tlb": {"cycles": 1},
    }
)
ONE_STAGE = {"4x0": 4, "3x0": 3}
NESTED_4K, NESTED_2M = {"4x4": 24, "3x4": 19}, {"4x3": 19, "3x3": 15}
"""By levels of the guest's tables and the host's, entries that a walk reads: mn + m + n."""

GUEST = """
name = "by-hand"
question = "How many entries does a walk read?"
machine = "emulated"
[sut]
platforms = ["native", "guest"]
memory = "128M"
paging = "nested"
pages = "{pages}"
[workloads.touch]
type = "touch"
memory = "16M"
count = 20000
[emulated]
walks = "bare"
[design]
warmup = 0
min_trials = 2
max_trials = 2
"""
COUNTED = re.compile(r"walks of cpu \d+: (\S+) walks (\d+) references (\d+) ")


def boot(text: str, folder: Path, processor: str, **environment: str) -> emulate.Boot:
    """Of the PC with the guest; `processor` is the one that the study names, as JSON."""
    study = StudyFile(text, "study.toml")
    design = make(study.study(), 1)
    (plot,) = design.plots
    guest = next(one for one in plot.variants if one.platform == "guest")
    places = [
        TrialSlot(guest, design.trial(plot, guest, cell, 0, 0), plot.levels)
        for cell in design.cells
    ]
    on = MachineResources(
        tuple(range(study.study().sut.cpus)), "tcg", {}, {},
        chance=Chance(1), processors={study.study().emulated.walks: processor},
    )  # fmt: skip
    batch = make_batch(study, plot, 0, 1, places, on)
    folder.mkdir(exist_ok=True)
    return emulate.boot(
        build(profile=batch.pc.profile),
        batch.steps,
        folder,
        *(option for option in batch.pc.options if not option.startswith("--limit=")),
        environment=environment,
    )


@pytest.mark.parametrize(("pages", "nested"), [("4K", NESTED_4K), ("2M", NESTED_2M)])
def test_walks_read_as_many_entries_as_by_hand(
    tmp_path: Path, pages: str, nested: dict[str, int]
) -> None:
    """Of all that a host and its guest do from their first page on."""
    booted = boot(GUEST.format(pages=pages), tmp_path, BARE, QEMU_ICOUNT_WALKS="1")
    assert booted.error(0) is None
    (backing,) = (one["backing"] for one in booted.of("node") if one["backing"])
    # All that the guest has touched is in pages as asked for.
    assert backing["huge"] == (backing["resident"] if pages == "2M" else 0)
    assert backing["resident"] > 0
    # The last counts hold those before them.
    counted = {levels: (int(n), int(read)) for levels, n, read in COUNTED.findall(booted.said)}
    for levels, entries in (ONE_STAGE | nested).items():
        walks, references = counted[levels]
        assert walks > 1000 and references == entries * walks, (levels, counted)


AS_A_PROGRAM = """
name = "reads"
question = "What does a read at random take?"
machine = "emulated"
[sut]
memory = "192M"
[workloads.few]
type = "touch"
memory = "16M"
count = 100000
[workloads.many]
type = "touch"
memory = "16M"
count = 300000
[knobs]
thp = "never"
[factors]
"emulated.walks" = ["none", "phenom2"]
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
"""


def test_reads_at_random_cost_what_the_model_of_programs_says(lab: Lab) -> None:
    """Two codes, one fed by every access, one by what a filter lets by. The page tables of 16 MB fit into
    their share of L2 wherever they lie; those of 64 MB would just so, and then where they lie matters.
    """
    lab.study(AS_A_PROGRAM)
    done = lab.run("run", "study.toml", "--out", "run")
    assert done.status == 0, done.said
    elapsed = {
        (one["cell"]["emulated.walks"], one["cell"]["workload"]): one["estimate"]
        for one in summary(lab.work / "run")["estimates"]
        if one["response"] == "elapsed"
    }
    # 8 ns an instruction, and a cycle is one.
    cycles = {
        walks: (elapsed[walks, "many"] - elapsed[walks, "few"]) / 200_000 / 8e-9
        for walks in ("none", "phenom2")
    }
    few, many = (modelled(count) for count in (100_000, 300_000))
    assert cycles["phenom2"] - cycles["none"] == pytest.approx((many - few) / 200_000, rel=0.1)


def modelled(count: int) -> int:
    """Cycles of translation natively, in pages of 4 KB."""
    settings = ("--memory", "16M", "--pages", "4K", "--count", str(count), "--quiet")
    argv = [str(paths.agent_binary()), "touch", *settings]
    done = run.walk(argv, processors.chosen(["phenom2"]), Options(1, 0.25), lambda *_: None)
    assert done.status == 0
    return done.processors[0].layouts[0].cycles


REPEATED = """
name = "repeats"
question = "Does it repeat?"
machine = "emulated"
[sut]
platforms = ["native", "guest"]
memory = "128M"
cpus = 2
paging = "shadow"
[workloads.fork]
type = "fork"
count = 10
touch = "256K"
[workloads.two]
type = "burn"
threads = 2
duration = "40ms"
[emulated]
walks = "zen4"
[design]
warmup = 0
min_trials = 2
max_trials = 2
"""


@pytest.mark.release
def test_a_kvm_host_of_two_cpus_repeats_however_often_it_is_interrupted(tmp_path: Path) -> None:
    """A charge beyond a turn, in a block that an access to a device ends, was once lost to a turn that was
    taken up again. (Records alone, with nested tables: `test_cpus.py`.)
    """
    zen4 = processors.find("zen4").hardware
    first = boot(REPEATED, tmp_path / "first", zen4, QEMU_ICOUNT_DIGEST="1")
    again = boot(REPEATED, tmp_path / "again", zen4, QEMU_ICOUNT_DIGEST="1", **KICKED_OFTEN)
    assert [first.error(trial) for trial in (0, 1)] == [None, None]
    assert first.records == again.records
    # After its last word a machine is stopped by another thread, at no time of its own.
    assert first.course[:-1] == again.course[:-1] and len(first.course) > 50


def test_what_no_processor_is_like_is_refused_before_anything_starts(lab: Lab) -> None:
    lab.study(REPEATED)
    wrong = lab.run("run", "study.toml", "--out", "run", "--set", "emulated.walks=pentium")
    assert wrong.status == 2 and "There are athlon2, core2" in wrong.said
    text = processors._FOLDER.joinpath("phenom2.toml").read_text()
    lab.study(text.replace("ways = 4 }", "ways = 5 }"), "mine.toml")
    wrong = lab.run("run", "study.toml", "--out", "run", "--set", "emulated.walks=mine.toml")
    assert wrong.status == 2, wrong.said
    assert "emulated.walks: phenom2: second_tlb, 4K: 512 entries cannot be divided" in wrong.said
    cheap = ("--set", "emulated.walks=core2", "--set", "emulated.walk_cost=0.1")
    wrong = lab.run("run", "study.toml", "--out", "run", *cheap)
    assert wrong.status == 2 and "core2: cache L1 takes 1 cycles and L2 behind it 1" in wrong.said
    assert not (lab.work / "run").exists()
