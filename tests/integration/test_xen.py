"""Real Xen in virtual time: a driver domain whose agent makes PV guests and has them work; what goes
wrong with one of them; and a study of several beside the same machine without Xen.
"""

from __future__ import annotations

import pytest

from hypertare.machines.image.build import Image, build
from hypertare.machines.image.vmm import quick_to_boot
from hypertare.protocol import plan
from hypertare.protocol.wire_type import WireType
from tests.integration.domains import XL, bench, boot, guest
from tests.integration.emulate import Boot
from tests.integration.lab import Lab, rows, summary, trials

pytestmark = pytest.mark.guest

GUESTS = 2


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


def trial(number: int, *tasks: plan.Task) -> plan.TrialStep:
    probed = sorted({"host", *(task.node for task in tasks)})
    probes = tuple(plan.ProbeRequest(node=node, probe="outside") for node in probed)
    phase = plan.Phase(name="measure", tasks=tasks, probes=probes, limit_s=30)
    weights = [
        plan.SchedulerWeight(weight=512),
        plan.SchedulerWeight(weight=100, guest="guest2"),
    ]
    knobs = tuple(plan.KnobSetting(node="host", knob=weight) for weight in weights)
    return plan.TrialStep(trial=plan.Trial(id=number, knobs=knobs, phases=(phase,)))


def steps() -> list[WireType]:
    """Guests that cannot be made; two that work at once; one that crashes beside the other."""
    crash = plan.Command(argv=(XL, "sysrq", "guest1", "c"))
    return [
        plan.HelloStep(),
        # More memory than the machine has.
        bench(guest(1, memory=64 << 30)),
        # More than Xen's interfaces can carry, so that the script that joins them fails.
        bench(guest(1), mtu=65535),
        bench(guest(1), guest(2, tsc="emulate")),
        trial(1, *stream(1, 0.5), *stream(2, 0.5)),
        # Long enough that only the crash ends it: to take a guest down takes over a second.
        trial(
            2, *stream(1, 20), *stream(2, 20), plan.Task(id="crash", node="host", workload=crash)
        ),
        trial(3, *stream(2, 0.2)),
        trial(4, *stream(1, 0.2)),
        plan.TeardownStep(),
    ]


@pytest.fixture(scope="module")
def image() -> Image:
    return build(profile="xen")


@pytest.fixture(scope="module")
def reported(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Boot:
    """What one boot of the machine reports of all that."""
    return boot(image, steps(), tmp_path_factory.mktemp("xen"))


@pytest.mark.timeout(900)
def test_guests_work_at_once_and_are_accounted_for(reported: Boot) -> None:
    assert reported.of("trial_end", 1)[0]["error"] is None
    sent = [r for r in reported.of("result", 1) if r["task"].startswith("send")]
    assert len(sent) == GUESTS and all(one["values"]["sent_bytes"] > 1e6 for one in sent)
    outside = {r["node"]: r for r in reported.of("probe", 1)}
    assert set(outside) == {"host", "guest1", "guest2"}
    assert all(0 < one["values"]["cpu_s"] < one["elapsed_s"] for one in outside.values())
    # One CPU is shared by all three.
    assert sum(one["values"]["cpu_s"] for one in outside.values()) < 1.01 * max(
        one["elapsed_s"] for one in outside.values()
    )
    # While they sent, the driver domain had to wait; of guests Xen does not say it.
    assert 0 < outside["host"]["values"]["wait_s"] < outside["host"]["elapsed_s"]
    assert all("wait_s" not in outside[guest]["values"] for guest in ("guest1", "guest2"))
    ready = {record["node"]: record["tsc"] for record in reported.of("node")}
    assert ready == {"host": None, "guest1": "native", "guest2": "emulate"}
    assert reported.records[-1]["record"] == "teardown"


def test_weights_are_set_for_a_trial_and_put_back(reported: Boot) -> None:
    knobs = reported.of("knob", 1)
    assert [(k["knob"]["guest"], k["action"], k["before"], k["after"]) for k in knobs] == [
        (None, "applied", "256", "512"),
        ("guest2", "applied", "256", "100"),
        ("guest2", "put_back", "100", "256"),
        (None, "put_back", "512", "256"),
    ]


def test_a_guest_that_cannot_be_made_says_why(reported: Boot) -> None:
    much, script, good = reported.of("bench")
    assert much["node"] == script["node"] == "guest1"
    assert "node guest1 cannot be started" in much["error"] and "memory" in much["error"]
    assert "setting the MTU of vif" in script["error"], script["error"]
    assert "the script /xen/vif" in script["error"], script["error"]
    assert good["error"] is None


def test_a_guest_that_crashes_fails_the_trial_and_leaves_its_neighbour_s_records(
    reported: Boot,
) -> None:
    (end,) = reported.of("trial_end", 2)
    assert end["lost"] == "guest1"
    assert end["error"] == (
        "node guest1 failed: it has ended: its kernel has crashed: sysrq triggered crash"
    )
    # It is seen at once, and not at the phase's limit.
    assert end["elapsed_s"] < 10
    neighbour = [r for r in reported.of("interval", 2) if r["task"] in ("send.2", "receive.2")]
    assert sum(r["values"].get("received_bytes", 0) for r in neighbour) > 0
    results = {r["task"]: r["error"] for r in reported.of("result", 2) if r["node"] != "guest1"}
    assert "guest1" in results["send.2"]
    console = [line for r in reported.of("console") for line in r["lines"]]
    assert any("sysrq" in line.lower() or "crash" in line.lower() for line in console), console


def test_the_others_go_on_without_it(reported: Boot) -> None:
    (alone,) = reported.of("trial_end", 3)
    assert alone["error"] is None
    (gone,) = reported.of("trial_end", 4)
    assert "node guest1 is gone" in gone["error"]


def test_the_distribution_s_kernel_is_one_that_boots_quickly() -> None:
    kernel = build(profile="emulated").kernel.read_bytes()
    assert quick_to_boot(kernel) != kernel


# --- a study

STUDY = """
name = "two-guests"
question = "What do two guests of Xen lose?"
machine = "emulated"
[sut]
platforms = ["native", "xen"]
guests = 2
memory = "112M"
nic = "e1000"
[emulated]
shift = 2
[workloads.transmit]
type = "stream"
duration = 0.5
omit = 0.05
[workloads.beside]
type = "ping"
duration = 0.05
interval = "5ms"
neighbours = { share = "90 %" }
factors = { "sut.guests" = [1, 2] }
[knobs]
driver_weight = 512
[factors]
"bench.driver" = ["bridge", "route"]
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


@pytest.mark.timeout(900)
def test_two_guests_are_weighed_beside_native(lab: Lab) -> None:
    ran = lab.run("run", lab.study(STUDY), "--out", "run", patience_s=400)
    assert ran.status == 0, ran.err
    done = trials(lab.work / "run")
    assert {row[5] for row in done} == {"ok"} and {row[2] for row in done} == {"native", "xen"}
    found = summary(lab.work / "run")
    assert {state["node"] for state in found["platforms"]} == {"host", "xen1-1", "xen1-2"}
    states = [state for state in found["platforms"] if state["platform"] == "xen"]
    seen = {(state["joined"], state["scheduler"]) for state in states}
    assert seen == {("bridge", "credit"), ("route", "credit")}
    # Each cell has its own baseline, which does not know of it.
    cells = [
        one["cell"]["bench.driver"]
        for one in found["estimates"]
        if (one["cell"]["workload"], one["response"], one["platform"])
        == ("transmit", "goodput", "xen")
        and one["cost"] is not None
    ]
    assert sorted(cells) == ["bridge", "route"]
    (native,) = [state for state in found["platforms"] if state["platform"] == "native"]
    assert native["vmm"] is None
    goodput = next(
        one
        for one in found["estimates"]
        if (one["cell"]["workload"], one["response"], one["platform"])
        == ("transmit", "goodput", "xen")
    )
    assert goodput["n"] == 2


SCHEDULERS = """
name = "schedulers"
question = "Do two guests of Xen get what their weights say?"
machine = "emulated"
[sut]
platforms = ["native", "xen"]
guests = 2
memory = "112M"
nic = "e1000"
[workloads.burn]
type = "burn"
duration = 3
[workloads.stream]
type = "stream"
duration = 0.5
omit = 0.05
[knobs]
guest_weights = [256, 512]
[factors]
"sut.scheduler" = ["credit", "credit2"]
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


@pytest.mark.timeout(900)
def test_a_guest_gets_the_cpu_that_its_weight_says(lab: Lab) -> None:
    run = lab.home / "run"
    ran = lab.run("run", lab.study(SCHEDULERS), "--out", run, patience_s=400)
    assert ran.status == 0, ran.err
    assert {row[5] for row in trials(run)} == {"ok"}, trials(run)
    found = summary(run)
    states = [state for state in found["platforms"] if state["platform"] == "xen"]
    assert {state["scheduler"] for state in states} == {"credit", "credit2"}
    query = """
        SELECT trial, cell ->> '$."sut.scheduler"', guest, response, guest_value.value
        FROM trial JOIN guest_value ON guest_value.trial = trial.id
        WHERE platform = 'xen' AND cell ->> '$.workload' = 'burn'
    """
    values: dict[tuple[int, str], dict[tuple[str, int], float]] = {}
    for trial, scheduler, number, response, value in rows(run, query):
        values.setdefault((trial, scheduler), {})[response, number] = value
    assert sorted(scheduler for _, scheduler in values) == ["credit"] * 2 + ["credit2"] * 2
    for one in values.values():
        # Both want all of the one CPU, and the second weighs twice as much. Each is alone for some 0.1 s,
        # until the other has begun and after it has ended.
        cpu = one["outside_cpu", 2] / one["outside_cpu", 1]
        assert cpu == pytest.approx(2, rel=0.1), values
        due = [one["entitlement", number] for number in (1, 2)]
        assert due == pytest.approx([1, 1], rel=0.1), values


WALL = """
name = "wall"
question = "Does Xen run by the wall clock?"
machine = "emulated"
clock = "wall"
[sut]
platforms = ["native", "xen"]
guests = 2
memory = "112M"
nic = "e1000"
[workloads.transmit]
type = "stream"
duration = 1
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


@pytest.mark.release
@pytest.mark.timeout(900)
def test_by_the_wall_clock_too(lab: Lab) -> None:
    ran = lab.run("run", lab.study(WALL), "--out", lab.home / "run", patience_s=400)
    assert ran.status == 0, ran.err
    done = trials(lab.home / "run")
    assert [row[5] for row in done] == ["ok"] * 4 and {row[2] for row in done} == {"native", "xen"}
    found = summary(lab.home / "run")
    assert found["clock"] == "wall"
    goodput = {one["platform"]: one for one in found["estimates"] if one["response"] == "goodput"}
    assert goodput["xen"]["n"] == 2 and goodput["xen"]["estimate"] > 0
    assert "virtual" not in goodput["xen"]["unit"]
