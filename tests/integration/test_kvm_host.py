"""Guests' memory on a user's own KVM host: real QEMU and real pages; KVM's module is made up."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from hypertare.base.host_files import Host
from hypertare.machines.host import settings
from hypertare.machines.host.kvm import _FILE, Choice, _key, _remember
from hypertare.machines.image.build import build
from hypertare.machines.image.cache import Cache
from tests import small_pages
from tests.integration.lab import NEW_PYTHON, Lab, Started, cache, summary, trials, until
from tests.machines.host.made_up import INTEL, MadeUp

pytestmark = pytest.mark.guest

STUDY = """
name = "memory"
question = "How is a guest's memory mapped?"
[sut]
memory = "{memory}"
platforms = ["native", "guest"]
accelerator = "{accelerator}"
{sut}
[workloads.burn]
type = "burn"
duration = "{duration}"
[factors]
{factors}
[design]
warmup = 0
min_trials = 2
max_trials = {trials}
blocks_per_boot = {blocks}
min_boots = {boots}
precision = "0.001%"
"""
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
ROOT = os.geteuid() == 0


def study(lab: Lab, sut: str = "", factors: str = "", trials: int = 2, **others: object) -> None:
    fill = {
        "memory": "192M",
        "accelerator": "tcg",
        # In less a guest of a busy host may get no CPU at all, and a rate of nought has no cost.
        "duration": "300ms",
        "boots": 1,
        "blocks": trials,
    }
    lab.study(STUDY.format(sut=sut, factors=factors, trials=trials, **{**fill, **others}))


def begin(lab: Lab, *options: str) -> Started:
    return lab.start("run", "study.toml", "--out", "run", *options)


def guest_of(started: Started) -> int:
    """The guest's process, once it carries out a trial."""
    started.until_trials(started.lab.work / "run", 2)
    return started.until_guest()


def mapped(pid: int) -> Counter[str]:
    """By kind, the kB of all that the process has mapped."""
    found: Counter[str] = Counter()
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            found[name] += int(value.split()[0])
    return found


def cpus_of_threads(pid: int) -> dict[str, str]:
    """By the thread's name, the CPUs that it may use."""
    found = {}
    for folder in Path(f"/proc/{pid}/task").iterdir():
        status = (folder / "status").read_text()
        allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
        assert allowed is not None
        found[(folder / "comm").read_text().strip()] = allowed[1]
    return found


def test_4k_pages_and_cpus_bound_one_to_one(lab: Lab) -> None:
    """Whatever the host's transparent huge pages, QEMU has none; each virtual CPU has one CPU."""
    study(lab, 'pages = "4K"\ncpus = 2', trials=200, duration="300ms")
    started = begin(lab)
    guest = guest_of(started)
    found = mapped(guest)
    threads = cpus_of_threads(guest)
    started.stop(signal.SIGINT)
    assert found["AnonHugePages"] == 0
    assert found["Rss"] > 50 << 10
    [state] = [one for one in summary(lab.work / "run")["platforms"] if one["node"] == "guest1"]
    assert (state["pages"], state["cpus"]) == ("4K", 2)
    bound = [cpus for name, cpus in threads.items() if re.match(r"CPU \d/", name)]
    usable = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))]
    assert sorted(bound) == usable[-2:]
    assert threads["qemu-system-x86"] not in bound, "other threads of the VMM are free"


def test_transparent_pages_and_the_number_of_cpus_as_a_factor(lab: Lab) -> None:
    study(lab, 'pages = "thp"', factors='"sut.cpus" = [1, 2]')
    with small_pages.lifted():
        ran = lab.run("run", "study.toml", "--out", "run", wrap=NEW_PYTHON)
    if "[never]" in THP.read_text():
        assert ran.status == 1
        assert "transparent huge pages are switched off" in ran.said
        return
    assert ran.status == 0, ran.said
    guests = [one for one in summary(lab.work / "run")["platforms"] if one["node"] == "guest1"]
    assert {(one["cpus"], one["pages"]) for one in guests} == {(1, "thp"), (2, "thp")}


# --- pages set aside


def total_pages() -> int:
    return int((POOL / "nr_hugepages").read_text())


def test_huge_pages_that_are_not_there_are_missed_before_anything_starts(lab: Lab) -> None:
    before = total_pages()
    study(lab, 'pages = "2M"', memory="2G")
    ran = begin(lab).end()
    assert ran.status == 3
    assert "needs 1024 free pages of 2 MB" in ran.said
    assert "--allow-huge-pages" in ran.said
    if ROOT:
        study(lab, 'pages = "2M"', memory="1T")
    ran = begin(lab, "--allow-huge-pages").end()
    assert ran.status == (2 if ROOT else 3)
    assert ("of memory available: 0 fit" if ROOT else "only root may do") in ran.said
    assert total_pages() == before
    assert not (lab.work / "run").exists()


def test_while_another_run_has_settings_of_this_host_none_begins(lab: Lab) -> None:
    before = total_pages()
    study(lab, 'pages = "2M"')
    if not ROOT:
        assert begin(lab, "--allow-huge-pages").end().status == 3
        return
    with settings.held(Host()):
        ran = begin(lab, "--allow-huge-pages").end()
    assert ran.status == 3
    assert "another run has changed settings of this host" in ran.said
    assert total_pages() == before
    assert not (lab.work / "run").exists()


@pytest.mark.parametrize("end", ["in order", "killed"])
def test_huge_pages_are_set_aside_for_the_run(lab: Lab, end: str) -> None:
    """Who is not root is refused; that nothing has changed holds for everyone."""
    before = total_pages()
    study(lab, 'pages = "2M"', trials=2 if end == "in order" else 200, duration="300ms")
    started = begin(lab, "--allow-huge-pages")
    if not ROOT:
        assert started.end().status == 3
        assert total_pages() == before
        return
    found = mapped(guest_of(started))
    controller = lab.find("hypertare run")
    assert total_pages() >= before
    if end == "killed":
        assert controller is not None
        lab.kill(controller)
    else:
        assert started.end().status == 0
        [state] = [one for one in summary(lab.work / "run")["platforms"] if one["node"] == "guest1"]
        assert state["pages"] == "2M"
    until(lambda: total_pages() == before, "pages to be given back")
    until(lambda: not Path("/run/hypertare").exists(), "the journal to go")
    assert found["Shared_Hugetlb"] + found["Private_Hugetlb"] > 30 << 10


# --- KVM's module

_QEMU = """#!/bin/sh
# Without KVM, what asks for it is emulated.
for word; do
    shift
    case "$word" in
        kvm) word=tcg,thread=multi;;
        host) word=max,-erms,-fsrm,-la57;;
        console=*) word="$word tsc=reliable no_timer_check";;
    esac
    set -- "$@" "$word"
done
exec {qemu} "$@"
"""

_HOST = """
set -e
cd {root}
mount -t tmpfs run /run
mount --bind sys/module /sys/module
mount -t tmpfs -o mode=755 devices dev
mkdir dev/net dev/shm dev/pts
for name in null zero full random urandom tty net/tun; do
    : > dev/$name; mount --bind /dev/$name dev/$name
done
ln -s /proc/self/fd dev/fd
: > dev/kvm
mount --rbind dev /dev
cd - > /dev/null
status=0
"$@" || status=$?
# The end of the first process would be everybody's.
while [ -e /run/hypertare ]; do sleep 0.05; done
exit $status
"""


@pytest.fixture
def kvm(lab: Lab) -> MadeUp:
    """A host whose KVM module and device are made up, and whose QEMU works without them."""
    made = MadeUp(lab.home / "host")
    qemu = shutil.which("qemu-system-x86_64")
    wrapper = made.programs / "qemu-system-x86_64"
    wrapper.write_text(_QEMU.format(qemu=qemu))
    wrapper.chmod(0o755)
    mine = lab.home / "cache"
    mine.mkdir()
    for path in cache().iterdir():
        if path.name != _FILE:
            (mine / path.name).symlink_to(path)
    lab.env["HYPERTARE_CACHE"] = str(mine)
    lab.env["PATH"] = made.search_path()
    know_that_kvm_boots(mine)
    return made


def know_that_kvm_boots(mine: Path) -> None:
    """It does, but an emulated guest on a busy host may take longer than is waited for one."""
    image = build("debian", cache=Cache(mine))
    host = Host(cache=mine)
    _remember(host, _key(host, image), Choice("kvm", "a guest booted with KVM"))


def on(made: MadeUp, *options: str) -> tuple[str, ...]:
    """In namespaces in which the made-up host is this one."""
    mine = ("--user", "--map-root-user") if not ROOT else ()
    script = _HOST.format(root=made.root)
    return (
        "unshare",
        *mine,
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "sh",
        "-c",
        script,
        "sh",
    )


def paging_study(lab: Lab, levels: str, trials: int = 2, **others: object) -> None:
    factors = f'"sut.paging" = {levels}'
    study(lab, "", factors, trials, accelerator="auto", **others)


def test_page_tables_are_switched_between_plots_and_put_back(lab: Lab, kvm: MadeUp) -> None:
    paging_study(lab, '["nested", "shadow"]', duration="600ms")
    run = ("run", "study.toml", "--out", "run")
    refused = lab.run(*run, wrap=on(kvm))
    assert refused.status == 3
    assert "this host has kvm_intel with ept=Y" in refused.said
    assert "--allow-module-reload" in refused.said
    assert kvm.calls == [] and not (lab.work / "run").exists()

    ran = lab.run(*run, "--allow-module-reload", wrap=on(kvm))
    assert ran.status == 0, ran.said
    assert kvm.reloads == [
        "rmmod kvm_intel",
        "modprobe kvm_intel ept=0",
        "rmmod kvm_intel",
        "modprobe kvm_intel ept=Y",
    ]
    assert kvm.parameters == INTEL
    found = trials(lab.work / "run")
    assert [one[5] for one in found] == ["ok"] * 8, found


def test_put_back_after_the_run_was_killed(lab: Lab, kvm: MadeUp) -> None:
    paging_study(lab, '["shadow"]', trials=200)
    started = lab.start(
        *("run", "study.toml", "--out", "run", "--allow-module-reload"), wrap=on(kvm)
    )
    started.until_trials(lab.work / "run", 2)
    assert kvm.parameters["ept"] == "N"
    controller = lab.find(r"^\S*python\S* -m hypertare run")
    assert controller is not None
    lab.kill(controller)
    started.end()
    assert kvm.parameters == INTEL
    assert kvm.calls[-1] == "modprobe kvm_intel ept=Y"


def test_a_module_that_changes_under_the_run_fails_its_trials(lab: Lab, kvm: MadeUp) -> None:
    """Who has loaded it anew since: guests in the wrong mode are not measured."""
    paging_study(lab, '["nested"]', trials=3, boots=3, blocks=1)
    started = lab.start("run", "study.toml", "--out", "run", wrap=on(kvm))
    started.until_trials(lab.work / "run", 1)
    kvm.load({**INTEL, "ept": "N"})
    ran = started.end()
    errors = [one[6] for one in trials(lab.work / "run") if one[5] == "failed"]
    assert errors
    assert all("kvm_intel with ept=N: its guests have shadow ones" in error for error in errors)
    assert "shadow" in ran.said


# --- refused before anything is started


def test_the_emulated_machine_needs_no_permission(lab: Lab) -> None:
    lab.study(
        'name = "e"\nquestion = "?"\nmachine = "emulated"\n'
        '[workloads.burn]\ntype = "burn"\nduration = "100ms"\n'
    )
    ran = begin(lab, "--allow-module-reload").end()
    assert ran.status == 2
    assert "is for this host's own KVM" in ran.said


def test_where_kvm_cannot_be_used_it_says_why(lab: Lab, kvm: MadeUp) -> None:
    """Here it boots nothing: the emulator is asked to end at once."""
    (lab.home / "cache" / _FILE).unlink()
    (kvm.programs / "qemu-system-x86_64").write_text(
        '#!/bin/sh\n[ "$1" = --version ] || { echo "failed to initialize kvm" >&2; exit 1; }\n'
    )
    paging_study(lab, '["shadow"]')
    ran = lab.run("run", "study.toml", "--out", "run", "--allow-module-reload", wrap=on(kvm))
    assert ran.status == 3
    assert "sut.paging needs KVM, which cannot be used here" in ran.said
    assert "failed to initialize kvm" in ran.said
    assert kvm.calls == []


def test_leftovers_are_reported_and_put_back_by_the_doctor(lab: Lab, kvm: MadeUp) -> None:
    before = '{"module": {"name": "kvm_intel", "parameters": {"ept": "Y", "pml": "Y", "nested": "Y"'
    before += ', "ple_gap": "128"}, "device": null}, "huge_pages": null}'
    kvm.load({**INTEL, "ept": "N"})
    script = (
        "mkdir /run/hypertare; printf '%s' '" + before + "' > /run/hypertare/before.json;"
        ' "$0" -m hypertare doctor --json; "$0" -m hypertare doctor --put-back;'
        ' "$0" -m hypertare doctor --put-back'
    )
    ran = lab.run(wrap=(*on(kvm), "sh", "-c", script))
    assert "kvm_intel had ept=Y and now has kvm_intel with ept=N" in ran.out
    assert "put back what a killed run had left" in ran.out
    assert ran.out.rstrip().endswith("no run has left a setting of this host changed")
    assert kvm.parameters == INTEL
