"""Ten episodes of a campaign; `make torture` has as many as are asked for."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.lab import Lab
from tests.torture import campaign
from tests.torture.episode import Draw, Outcome, carry_out
from tests.torture.faults import FAULTS
from tests.torture.room import V1, V2, Room, memory_cgroup
from tests.torture.traces import Traces

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for mounts and cgroups"),
    pytest.mark.skipif(memory_cgroup() is None, reason="needs a cgroup that limits memory"),
]

EPISODES = [
    ("kill controller", "container", "creation"),
    ("kill inner agent", "container", "bench"),
    ("kill both agents", "container", "trial"),
    ("kill node's agent", "container", "trial"),
    ("SIGINT twice", "container", "trial"),
    ("stop outer agent, kill controller", "container", "trial"),
    ("full disk", "container", "trial"),
    ("clock jumps", "container", "trial"),
    ("kill everything", "guest", "boot"),
    ("OOM killer takes QEMU", "guest", "trial"),
]


def _marked(fault: str, kind: str, moment: str) -> object:
    mark = pytest.mark.guest if kind == "guest" else pytest.mark.runs
    return pytest.param(Draw(1, 0, fault, kind, moment, (0.4, 0.5)), marks=mark, id=fault)


@pytest.mark.parametrize("draw", [_marked(*episode) for episode in EPISODES])
def test_nothing_is_left_and_it_goes_on(draw: Draw, tmp_path: Path) -> None:
    library = campaign.build_clock(tmp_path)
    # Other tests change settings at the same time.
    outcome = carry_out(draw, tmp_path / "episode", {}, library, shared=True)
    assert outcome.wrong == []
    assert outcome.struck and outcome.resumed


LEAVES = """
cd /
env -i setsid sleep 60 &
mount -t tmpfs left /mnt
touch /run/left /tmp/left /var/tmp/left /dev/shm/left "$HOME/left" "$HYPERTARE_CACHE/left"
mkdir "$1/inner"
"""


def test_what_is_left_is_seen(tmp_path: Path) -> None:
    """Or all of the above would prove nothing."""
    with Room(Lab(tmp_path), shared=True) as room:
        before = Traces.now(room)
        argv = [*room.wrap, "sh", "-c", LEAVES, "sh", str(room.cgroup)]
        assert subprocess.run(argv, env=room.lab.env, check=False).returncode == 0
        left = "\n".join(Traces.now(room).since(before))
    for word in (
        r"process \d+ \((env -i )?(setsid )?sleep 60\)",
        r"mount /mnt \(tmpfs\)",
        r"cgroup \S+/inner",
    ):
        assert re.search(word, left), left
    for place in ("/run", "/tmp", "/var/tmp", "/dev/shm", f"{tmp_path}/home", f"{tmp_path}/cache"):
        assert f"file {place}/left is left" in left
    assert not room.cgroup.exists()


def test_memory_is_limited_in_the_nearest_cgroup_that_can(tmp_path: Path) -> None:
    def files(at: str, **texts: str) -> Path:
        (tmp_path / at).mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (tmp_path / at / name.replace("__", ".")).write_text(text)
        return tmp_path / at

    mixed = "4:memory:/job\n0::/\n"
    assert memory_cgroup(tmp_path, mixed) is None
    assert memory_cgroup(files("memory/job", memory__limit_in_bytes=""), "0::/") is None
    assert memory_cgroup(tmp_path, mixed) == (tmp_path / "memory/job", V1)
    above = files("user", cgroup__subtree_control="cpu memory")
    files("user/session", cgroup__subtree_control="")
    assert memory_cgroup(tmp_path, "0::/user/session\n") == (above, V2)


def test_an_episode_can_be_had_again() -> None:
    first = [Draw.of(3, number) for number in range(3 * len(FAULTS))]
    assert first == [Draw.of(3, number) for number in range(3 * len(FAULTS))]
    assert first != [Draw.of(4, number) for number in range(3 * len(FAULTS))]
    assert {draw.fault for draw in first[: len(FAULTS)]} == set(FAULTS)
    assert 0.15 < sum(draw.other == "guest" for draw in first) / len(first) < 0.5


def test_a_fault_that_never_meets_its_victim_is_reported() -> None:
    """A process that is called otherwise by now would make a fault that proves nothing."""
    outcomes = [Outcome(Draw.with_fault(1, number, "kill task")) for number in range(3)]
    assert list(campaign.never_struck(outcomes)) == ["kill task"]
    outcomes[1].struck = True
    assert list(campaign.never_struck(outcomes)) == []
    assert list(campaign.never_struck(outcomes[:2])) == []
