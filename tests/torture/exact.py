"""Whether virtual time repeats with several CPUs: each study is run with four jobs on a host that is left
alone; with one job beside busy programs while its machines are stopped and continued every few
milliseconds and interrupted every few microseconds; and once more, ended after its first trial and
resumed with two jobs. All three run files must be equal, but for the time of day.

    .venv/bin/python -m tests.torture.exact             all, about an hour on two cores
    .venv/bin/python -m tests.torture.exact linux kvm   only these
    ... --cpus 4 --boots 1                              only so many CPUs; both trials in one boot
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.integration import (
    test_capture,
    test_cpus,
    test_datapath,
    test_layers,
    test_life,
    test_paging,
    test_programs,
    test_via,
    test_xen,
)
from tests.integration.lab import NEW_PYTHON, Lab, own_cache, reported, trials
from tests.integration.stops import KICKED_OFTEN, busy, stopping

STUDY = """
name = "exact"
question = "Does it repeat?"
machine = "emulated"
[sut]
memory = "192M"
cpus = {most}
{sut}
[workloads.burn]
type = "burn"
threads = 4
duration = "50ms"
[workloads.tcp]
type = "stream"
direction = "both"
duration = "300ms"
omit = "50ms"
interval = "50ms"
[workloads.udp]
type = "stream"
protocol = "udp"
direction = "receive"
rate = "50M"
duration = "50ms"
omit = "10ms"
[workloads.fork]
type = "fork"
count = 10
[factors]
{factors}
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = {per_boot}
min_boots = {boots}
time_limit = "4h"
"""
CPUS = (1, 2, 4)
SYSTEMS = {
    "linux": ("", ""),
    "kvm": (
        'platforms = ["native", "guest"]\npages = "2M"',
        '"sut.paging" = ["nested", "shadow"]',
    ),
    "xen": ('platforms = ["native", "xen"]\nguests = 2', ""),
    "apart": ('platforms = ["native", "xen"]\nguests = 2\npinning = "apart"', ""),
}
"""What of `[sut]` and `[factors]` makes each."""
LEAST_CPUS = {"apart": 2}
WORKLOADS = {
    "paging": test_paging.STUDY,
    "datapaths": test_datapath.VIRTUAL,
    "capture": test_capture.VIRTUAL,
    "via": test_via.EVERY_WAY,
    "disk": test_layers.STUDY,
    "life": test_life.VIRTUAL,
    "programs": test_programs.OF_PACKAGES,
    "two-guests": test_xen.STUDY,
    "walks": test_cpus.GUESTS.replace(
        "[workloads.one]", 'paging = "shadow"\n[emulated]\nwalks = "zen4"\n[workloads.one]'
    ),
}
"""Whole studies, which the tests of these run once."""
PATIENCE_S = 3600.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="exact", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "studies", nargs="*", metavar="STUDY", help=", ".join([*SYSTEMS, *WORKLOADS])
    )
    parser.add_argument("--cpus", type=int, nargs="+", default=CPUS)
    parser.add_argument(
        "--boots", type=int, choices=(1, 2), default=2, help="that its trials take (%(default)s)"
    )
    asked = parser.parse_args(argv)
    # What ignores Ctrl-C, as a background job of a script does, has children that ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    known = {name: of_system(name, asked.cpus, asked.boots) for name in SYSTEMS} | WORKLOADS
    studies = asked.studies or list(known)
    if unknown := set(studies) - set(known):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")
    found = [repeats(name, known[name]) for name in studies]
    return int(not all(found))


def of_system(name: str, cpus: Sequence[int], boots: int) -> str:
    """The study of a system with so many CPUs each."""
    sut, factors = SYSTEMS[name]
    levels = [one for one in cpus if one >= LEAST_CPUS.get(name, 1)]
    if len(levels) > 1:
        factors = f'"sut.cpus" = {levels}\n{factors}'
    per_boot = 2 // boots
    return STUDY.format(most=max(levels), sut=sut, factors=factors, boots=boots, per_boot=per_boot)


def repeats(name: str, text: str) -> bool:
    """Whether the three runs of a study are equal; what was seen is printed."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hypertare-exact-") as place:
        lab = Lab(Path(place))
        study = lab.study(text)
        often = _alone_and_disturbed(lab, study)
        _interrupted_and_resumed(lab, study)
        runs = [reported(lab.work / name) for name in ("alone", "disturbed", "resumed")]
        failed = {one for name in ("alone", "disturbed") for one in _failures(lab.work / name)}
    equal = runs[0] == runs[1] == runs[2]
    took = time.monotonic() - began
    said = "equal" if equal else "NOT EQUAL"
    print(
        f"{name}: {said}, {len(runs[0])} records and trials in "
        f"each of 3 runs, machines stopped {often} times, {len(failed)} trials failed, {took:.0f} s",
        flush=True,
    )
    for line in sorted(failed)[:3]:
        print(f"  {line}", flush=True)
    return equal and not failed


def _alone_and_disturbed(lab: Lab, study: Path) -> int:
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "one")
    first = lab.run("run", study, "--jobs", "4", "--out", "alone", patience_s=PATIENCE_S)
    assert first.status == 0, first.said
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "two")
    with busy(), stopping(lab) as often:
        disturbed = ("--jobs", "1", "--out", "disturbed")
        second = lab.run(
            *("run", study, *disturbed), wrap=NEW_PYTHON, patience_s=PATIENCE_S, **KICKED_OFTEN
        )
    assert second.status == 0, second.said
    assert often[0] > 100, "no machine was stopped"
    return often[0]


def _interrupted_and_resumed(lab: Lab, study: Path) -> None:
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "three")
    started = lab.start("run", study, "--jobs", "2", "--out", "resumed")
    started.until_trials(lab.work / "resumed", 1)
    started.stop(signal.SIGINT)
    assert started.end(PATIENCE_S).status == 130
    again = lab.run("run", "--resume", "--jobs", "2", "--out", "resumed", patience_s=PATIENCE_S)
    assert again.status == 0, again.said


def _failures(run: Path) -> list[str]:
    return [f"{one[2]} {one[3]}: {one[6]}" for one in trials(run) if one[5] != "ok"]


if __name__ == "__main__":
    sys.exit(main())
