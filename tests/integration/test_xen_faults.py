"""What goes wrong under real Xen, on the emulated machine: who hears of it, in which words, and what goes
on.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from hypertare.machines.image import cpio
from hypertare.machines.image.build import Image, build
from hypertare.protocol import plan
from tests.integration.domains import XL, bench, boot, guest
from tests.integration.emulate import Boot

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("xen")]

MUCH = 350 << 20
"""Bytes: less than the driver domain's kernel has, so that it promises them, and more than is free."""

TEXT = Path("/xen/vif")
"""A file of the driver domain that is neither a kernel nor an initramfs."""

INFLATED = Path("/inflated")
"""A compressed kernel: `xl` takes as much memory as it says to be."""


def trial(id: int, *tasks: plan.Task, weight: int | None = None) -> plan.TrialStep:
    phase = plan.Phase(name="measure", tasks=tasks, limit_s=60)
    knobs = [plan.SchedulerWeight(weight=weight, guest="guest1")] if weight is not None else []
    settings = tuple(plan.KnobSetting(node="host", knob=knob) for knob in knobs)
    return plan.TrialStep(trial=plan.Trial(id=id, knobs=settings, phases=(phase,)))


def burn(node: str = "guest1") -> plan.Task:
    return plan.Task(id="burn", node=node, workload=plan.Burn(share=1.0, duration_s=0.05))


def command(*argv: str) -> plan.Task:
    return plan.Task(id="command", node="host", workload=plan.Command(argv=argv))


BENCHES = {
    "no kernel": bench(guest(1, kernel=Path("/no/kernel"))),
    "no such kernel": bench(guest(1, kernel=TEXT)),
    "no memory to make it": bench(guest(1, kernel=INFLATED)),
    "no memory for it": bench(guest(1, memory=64 << 30)),
    "no initramfs": bench(guest(1, initramfs=(TEXT,))),
    "another scheduler": bench(guest(1), scheduler="credit2"),
    "right": bench(guest(1), scheduler="credit"),
}


@pytest.fixture(scope="module")
def image() -> Image:
    return build(profile="xen")


@pytest.fixture(scope="module")
def reported(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Boot:
    """One boot, in which each fault comes after the other."""
    eat = plan.Task(id="eat", node="host", workload=plan.Touch(memory=MUCH, duration_s=0.1))
    steps = [
        plan.HelloStep(),
        *BENCHES.values(),
        trial(1, burn(), weight=70_000),
        trial(2, burn(), weight=300),
        trial(3, eat),
        trial(4, burn()),
        trial(5, command(XL, "network-detach", "guest1", "0")),
        trial(6, burn()),
        trial(7, burn("host")),
        plan.TeardownStep(),
    ]
    inflated = cpio.file(str(INFLATED)[1:], gzip.compress(bytes(MUCH)))
    folder = tmp_path_factory.mktemp("xen-faults")
    return boot(image, steps, folder, files=[inflated])


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no kernel", ("/no/kernel cannot be read",)),
        ("no such kernel", (f"Xen can make no PV guest of its kernel {TEXT}", "no loader found")),
        ("no memory to make it", ("Xen's driver domain ran out of memory", "sut.driver_memory")),
        ("no memory for it", ("less than the 65536 MB of memory left", "sut.guests, sut.memory")),
        ("no initramfs", ("its kernel has crashed", "Unable to mount root")),
        ("another scheduler", ("Xen runs the scheduler credit, not credit2",)),
    ],
)
def test_a_guest_that_cannot_be_made_says_why(
    reported: Boot, name: str, words: tuple[str, ...]
) -> None:
    found = reported.of("bench")[list(BENCHES).index(name)]
    for word in words:
        assert word in found["error"], found["error"]
    assert found["node"] == (None if name == "another scheduler" else "guest1")


def test_what_could_not_be_made_is_in_nobody_s_way(reported: Boot) -> None:
    assert reported.of("bench")[-1]["error"] is None
    (ready,) = (one for one in reported.of("node") if one["node"] == "guest1")
    assert (ready["joined"], ready["scheduler"]) == ("bridge", "credit")


def test_an_impossible_weight_fails_its_trial_alone(reported: Boot) -> None:
    assert "a weight of 70000 cannot be: it lies between 1 and 65535" in str(reported.error(1))
    assert reported.error(2) is None


def test_a_driver_domain_out_of_memory_fails_its_trial_alone(reported: Boot) -> None:
    reason = str(reported.error(3))
    assert "Xen's driver domain ran out of memory" in reason and "sut.driver_memory" in reason
    assert "killed by SIGKILL" in reason, reason
    # Neither the agents nor Xen's daemons were killed for it.
    assert reported.error(4) is None


def test_a_guest_that_is_not_joined_as_it_should_be_fails_its_trials(reported: Boot) -> None:
    assert reported.error(5) is None
    reason = str(reported.error(6))
    assert "node guest1 cannot be used: the driver domain does not join it" in reason, reason
    assert "there is no interface vif" in reason, reason
    assert reported.error(7) is None
    assert reported.records[-1]["record"] == "teardown"


@pytest.mark.timeout(900)
def test_a_script_that_fails_is_named_with_what_it_said(image: Image, tmp_path: Path) -> None:
    broken = cpio.file("xen/vif", b"#!/init no-such-verb\n", executable=True)
    reported = boot(
        image, [plan.HelloStep(), bench(guest(1)), plan.TeardownStep()], tmp_path, files=[broken]
    )
    (found,) = reported.of("bench")
    assert found["node"] == "guest1"
    assert "the script /xen/vif, which joins its interface to its link, failed" in found["error"]
    assert "no-such-verb" in found["error"] and "exited with error status 2" in found["error"]
