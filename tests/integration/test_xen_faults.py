"""Guests of real Xen on the emulated machine, made by the agent in its driver domain: several work at once;
and what goes wrong, who hears of it, in which words, and what goes on.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
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

NONE: Mapping[str | None, int] = {}


def trial(id: int, *tasks: plan.Task, weights: Mapping[str | None, int] = NONE) -> plan.TrialStep:
    """With these weights of the driver domain (None) and of guests."""
    probed = {"host", *(task.node for task in tasks)} if weights else ()
    probes = tuple(plan.ProbeRequest(node=node, probe="outside") for node in sorted(probed))
    phase = plan.Phase(name="measure", tasks=tasks, probes=probes, limit_s=60)
    knobs = tuple(
        plan.KnobSetting(node="host", knob=plan.SchedulerWeight(weight=weight, guest=guest))
        for guest, weight in weights.items()
    )
    return plan.TrialStep(trial=plan.Trial(id=id, knobs=knobs, phases=(phase,)))


def stream(number: int, duration_s: float) -> list[plan.Task]:
    receive = plan.StreamReceive(
        protocol="tcp", on=f"0.0.0.0:{5000 + number}", message=131072, interval_s=0.05
    )
    send = plan.StreamSend(
        protocol="tcp",
        to=f"10.77.0.1:{5000 + number}",
        duration_s=duration_s,
        message=131072,
        interval_s=0.05,
    )
    return [
        plan.Task(id=f"receive.{number}", node="host", background=True, workload=receive),
        plan.Task(id=f"send.{number}", node=f"guest{number}", workload=send),
    ]


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
    # More than Xen's interfaces can carry, so that the script that joins them fails.
    "no such MTU": bench(guest(1), mtu=65535),
    "another scheduler": bench(guest(1), scheduler="credit2"),
    "right": bench(guest(1), scheduler="credit"),
    "two": bench(guest(1), guest(2, tsc="emulate")),
}
AT_ONCE, CRASH, NEIGHBOUR, GONE = 8, 9, 10, 11


@pytest.fixture(scope="module")
def image() -> Image:
    return build(profile="xen")


@pytest.fixture(scope="module")
def reported(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Boot:
    """One boot, in which each fault comes after the other; then two guests, of which one crashes."""
    *one, two = BENCHES.values()
    crash = plan.Task(
        id="crash", node="host", workload=plan.Command(argv=(XL, "sysrq", "guest1", "c"))
    )
    eat = plan.Task(id="eat", node="host", workload=plan.Touch(memory=MUCH, duration_s=0.1))
    steps = [
        plan.HelloStep(),
        *one,
        trial(1, burn(), weights={"guest1": 70_000}),
        trial(2, burn(), weights={"guest1": 300}),
        trial(3, eat),
        trial(4, burn()),
        trial(5, command(XL, "network-detach", "guest1", "0")),
        trial(6, burn()),
        trial(7, burn("host")),
        plan.TeardownStep(),
        two,
        trial(AT_ONCE, *stream(1, 0.5), *stream(2, 0.5), weights={None: 512, "guest2": 100}),
        # Long enough that only the crash ends it: to take a guest down takes over a second.
        trial(CRASH, *stream(1, 20), *stream(2, 20), crash),
        trial(NEIGHBOUR, *stream(2, 0.2)),
        trial(GONE, *stream(1, 0.2)),
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
        ("no such MTU", ("setting the MTU of vif", "the script /xen/vif")),
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
    errors = dict(zip(BENCHES, (one["error"] for one in reported.of("bench")), strict=True))
    assert errors["right"] is None and errors["two"] is None
    first, *_ = (one for one in reported.of("node") if one["node"] == "guest1")
    assert (first["joined"], first["scheduler"]) == ("bridge", "credit")


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


def test_guests_work_at_once_and_are_accounted_for(reported: Boot) -> None:
    assert reported.error(AT_ONCE) is None
    sent = [r for r in reported.of("result", AT_ONCE) if r["task"].startswith("send")]
    assert len(sent) == 2 and all(one["values"]["sent_bytes"] > 1e6 for one in sent)
    outside = {r["node"]: r for r in reported.of("probe", AT_ONCE)}
    assert set(outside) == {"host", "guest1", "guest2"}
    assert all(0 < one["values"]["cpu_s"] < one["elapsed_s"] for one in outside.values())
    # One CPU is shared by all three.
    assert sum(one["values"]["cpu_s"] for one in outside.values()) < 1.01 * max(
        one["elapsed_s"] for one in outside.values()
    )
    # While they sent, the driver domain had to wait; of guests Xen does not say it.
    assert 0 < outside["host"]["values"]["wait_s"] < outside["host"]["elapsed_s"]
    assert all("wait_s" not in outside[guest]["values"] for guest in ("guest1", "guest2"))
    # Of each the last: guest1 has been there before.
    tsc = {one["node"]: one["tsc"] for one in reported.of("node")}
    assert tsc == {"host": None, "guest1": "native", "guest2": "emulate"}


def test_weights_are_set_for_a_trial_and_put_back(reported: Boot) -> None:
    knobs = reported.of("knob", AT_ONCE)
    assert [(k["knob"]["guest"], k["action"], k["before"], k["after"]) for k in knobs] == [
        (None, "applied", "256", "512"),
        ("guest2", "applied", "256", "100"),
        ("guest2", "put_back", "100", "256"),
        (None, "put_back", "512", "256"),
    ]


def test_a_guest_that_crashes_fails_the_trial_and_leaves_its_neighbour_s_records(
    reported: Boot,
) -> None:
    (end,) = reported.of("trial_end", CRASH)
    assert end["lost"] == "guest1"
    assert end["error"] == (
        "node guest1 failed: it has ended: its kernel has crashed: sysrq triggered crash"
    )
    # It is seen at once, and not at the phase's limit.
    assert end["elapsed_s"] < 10
    neighbour = [r for r in reported.of("interval", CRASH) if r["task"] in ("send.2", "receive.2")]
    assert sum(r["values"].get("received_bytes", 0) for r in neighbour) > 0
    results = {r["task"]: r["error"] for r in reported.of("result", CRASH) if r["node"] != "guest1"}
    assert "guest1" in results["send.2"]
    console = [line for r in reported.of("console") for line in r["lines"]]
    assert any("sysrq" in line.lower() or "crash" in line.lower() for line in console), console


def test_the_others_go_on_without_it(reported: Boot) -> None:
    assert reported.error(NEIGHBOUR) is None
    assert "node guest1 is gone" in str(reported.error(GONE))
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
