"""Real programs on an emulated machine: a parallel build and a compression.

What they work on is small, so that the test is short; the compiler, make and pbzip2 are whole.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from hypertare.protocol.records import TaskResult
from hypertare.runs.store import Store
from tests.integration.lab import Lab, own_cache

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]

FETCHING_S = 240.0
"""For a run that fetches its programs first."""

TEXT = """
name = "real"
question = "What does a build cost in a container?"
machine = "emulated"
[sut]
platforms = {platforms}
programs = ["build", "compress"{sets}]
[workloads.build]
type = "command"
prepare = "rm -rf musl-1.2.3/obj musl-1.2.3/lib"
command = '''
make -s -C musl-1.2.3 -j2 ARCH=x86_64 SRC_DIRS=./src/select CFLAGS_AUTO=-O0 lib/libc.a &&
echo 'int main(void) { return 0; }' > /tmp/t.c && gcc -o /tmp/t /tmp/t.c && /tmp/t &&
stat -c %Y musl-1.2.3/lib/libc.a && sha256sum < musl-1.2.3/obj/src/select/poll.o'''
[workloads.compress]
type = "command"
command = '''
head -c 200000 bzip2-1.0.8.tar > /tmp/t && pbzip2 -f -k -p2 -b1 /tmp/t && pbzip2 -t /tmp/t.bz2 &&
bzip2 -dc /tmp/t.bz2 | sha256sum'''
{own}
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""
OWN = """
[workloads.mine]
type = "command"
command = ["mine", "project/text"]
"""
IN_CONTAINER = (
    TEXT.replace("{platforms}", '["native", "container"]')
    .replace("{sets}", ', "./mine", "./project"')
    .replace("{own}", OWN)
)
ASKING = """
[workloads.ask]
type = "command"
command = "hypertare-agent ping --tcp --count 20 --interval 0 $HYPERTARE_PEER"
peer = ["hypertare-agent", "ping", "--listen"]
"""
OF_PACKAGES = (
    TEXT.replace("{platforms}", '["native", "guest"]')
    .replace("{sets}", "")
    .replace("{own}", ASKING)
)


def outputs(folder: Path) -> dict[str, set[str]]:
    """What each workload printed, in all of its trials."""
    found: dict[str, set[str]] = {}
    with Store.open(folder) as store:
        for trial in store.trials():
            for one in store.records(trial.planned.id):
                if isinstance(one, TaskResult) and one.task == "command":
                    found.setdefault(trial.planned.workload, set()).add(one.text["stdout"])
    return found


def test_a_build_and_a_compression_are_right(lab: Lab) -> None:
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "cache")
    cat = shutil.which("cat")
    assert cat is not None
    shutil.copy(cat, lab.work / "mine")
    (lab.work / "project").mkdir()
    (lab.work / "project/text").write_text("of this host\n")
    ran = lab.run(
        *("run", lab.study(IN_CONTAINER), "--json", "--out", "run"),
        patience_s=FETCHING_S,
    )
    assert ran.status == 0, ran.said
    assert ran.json["failed"] == []
    seen = outputs(lab.work / "run")
    assert seen["mine"] == {"of this host\n"}
    plain = lab.run("image", "programs", "--work", "plain")
    assert plain.status == 0, plain.said
    tar = (lab.work / "plain/bzip2-1.0.8.tar").read_bytes()[:200000]
    assert seen["compress"] == {f"{hashlib.sha256(tar).hexdigest()}  -\n"}
    _the_object_is_a_compilers(lab, seen["build"])
    with Store.open(lab.work / "run") as store:
        assert "gcc 4:" in store.meta.versions["programs"]


def test_in_a_guest_the_same_programs_do_the_same_work_and_one_asks_its_peer(lab: Lab) -> None:
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "cache")
    ran = lab.run("run", lab.study(OF_PACKAGES), "--json", "--out", "run")
    assert ran.status == 0, ran.said
    assert ran.json["failed"] == []
    seen = outputs(lab.work / "run")
    assert len(seen["compress"]) == 1
    assert len({text.split()[1] for text in seen["build"]}) == 1
    elapsed = {
        (one["cell"]["workload"], one["platform"]): one["estimate"]
        for one in ran.json["estimates"]
        if one["response"] == "elapsed"
    }
    names = ("build", "compress", "ask")
    assert elapsed.keys() == {(w, p) for w in names for p in ("native", "guest")}
    assert elapsed["ask", "native"] < elapsed["ask", "guest"]


def _the_object_is_a_compilers(lab: Lab, printed: set[str]) -> None:
    """All trials made the same one, at the machine's own time; where this host has the same compiler,
    it makes it, too."""
    lines = [text.splitlines() for text in printed]
    assert len({digest for _, digest in lines}) == 1
    # 2026-01-01, when every emulated machine's clock begins.
    assert all(0 <= int(seconds) - 1767225600 < 3600 for seconds, _ in lines)
    ours = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=False).stdout
    if "(Debian 12.2.0-14+deb12u1)" in ours:
        place, made_of = lab.work / "plain/musl-1.2.3", "obj/src/select/poll.o"
        argv = ["make", "-s", "-C", str(place), "ARCH=x86_64", "CFLAGS_AUTO=-O0", made_of]
        subprocess.run(argv, check=True, capture_output=True)
        made = hashlib.sha256((place / made_of).read_bytes()).hexdigest()
        assert lines[0][1].split()[0] == made


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"./mine", ', '"./absent", '), "absent: No such file"),
        (('command = ["mine"', 'command = ["lua"'), "has no program 'lua'"),
        (("[sut]", "[sut]\nmemory = '200M'"), "an emulated machine needs 3"),
    ],
    ids=["absent", "command", "memory"],
)
def test_what_cannot_be_is_said_before_anything_boots(
    lab: Lab, change: tuple[str, str], said: str
) -> None:
    shutil.copy("/usr/bin/true", lab.work / "mine")
    (lab.work / "project").mkdir()
    assert change[0] in IN_CONTAINER
    ran = lab.run("run", lab.study(IN_CONTAINER.replace(*change)), "--out", "run")
    assert ran.status == 2, ran.said
    assert said in ran.said
    assert not (lab.work / "run/run.sqlite").exists()
