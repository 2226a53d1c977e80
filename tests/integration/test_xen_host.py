"""A study on a user's own Xen host, and that nothing is left there: the controller's real code against
the agent in the driver domain of real Xen.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hypertare.design.planner import MachineResources
from hypertare.design.profiles import DOMAIN, GUEST_INITRAMFS, GUEST_KERNEL
from hypertare.engine.prepare import prepare
from hypertare.engine.session import carry_out
from hypertare.engine.trial_recorder import Observer
from hypertare.machines import steps
from hypertare.machines.image.build import Image, build
from hypertare.machines.local import LocalMachine
from hypertare.machines.steps import AgentError
from hypertare.protocol import plan
from hypertare.protocol.records import BenchReady, KnobOutcome
from hypertare.study import StudyFile
from tests.integration.lab import rows, summary, until
from tests.integration.xen_host import XenHost

pytestmark = [pytest.mark.guest, pytest.mark.timeout(900)]

USERS_OWN = 'name = "mail"\\ntype = "pv"\\nkernel = "/guest/kernel"\\nmemory = 112\\n'

STUDY = """
name = "own-host"
question = "What does a guest of Xen lose?"
machine = "local"
[sut]
platforms = ["native", "xen"]
guests = 2
memory = "112M"
boot_limit = "6m"
[workloads.transmit]
type = "stream"
# Both streams must run at once on a machine that may get a fraction of a CPU here.
duration = 3
omit = 0.1
[knobs]
driver_weight = 512
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are for machines that are not emulated on a host that has other things to do."""
    for limit in ("_TEARDOWN_LIMIT_S", "_ANSWER_MARGIN_S", "_END_LIMIT_S"):
        monkeypatch.setattr(steps, limit, 60.0)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[XenHost]:
    with XenHost(tmp_path_factory.mktemp("xen"), build(profile="xen")) as made:
        # A guest that is somebody else's. It does not run, so it takes nothing but memory.
        made.shell(f"printf '{USERS_OWN}' > /mail.cfg; xl create -p -q /mail.cfg")
        assert made.domains() == {"Domain-0", "mail"}
        yield made


def image() -> Image:
    """As it is on this host, under the paths that the driver domain has it."""
    made = build(profile=DOMAIN.name)
    places = (Path("/") / GUEST_KERNEL, Path("/") / GUEST_INITRAMFS)
    return dataclasses.replace(made, kernel=places[0], initramfs=places[1])


def assert_as_before(host: XenHost) -> None:
    until(lambda: host.domains() == {"Domain-0", "mail"}, f"guests to go: {host.domains()}", 60)
    until(lambda: host.driver_weight() == 256, "the driver domain's weight to be put back", 10)
    assert host.links() == {"lo"}
    # What the weight was is forgotten once it is put back, a moment later.
    left = "xenstore-ls /tool; xenstore-ls /local/domain/0/backend"
    until(lambda: "hypertare" not in host.shell(left), "nothing of it in xenstore", 10)


class Watcher(Observer):
    """Looks at the host when the first trial has ended."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._looked = False

    def notify(self, text: str) -> None: ...
    def bench(self, boot: int, plot: object) -> None: ...
    def begin(self, planned: object) -> None: ...
    def warn(self, text: str) -> None: ...

    def end(self, finished: object, remaining_s: float) -> None:
        if not self._looked:
            self._looked = True
            self._look()


def test_a_study_on_a_xen_host(
    host: XenHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = MachineResources((0,), "tcg", {("debian", DOMAIN.name): image()}, {})
    monkeypatch.setenv("HYPERTARE_AGENT", str(host.agent))
    prepared = prepare(StudyFile(STUDY, "own-host.toml"), 1)
    seen: dict[str, set[str]] = {}

    def look() -> None:
        seen.update(domains=host.domains(), links=host.links())

    folder = tmp_path / "run"
    folder.mkdir()
    carry_out(prepared, on, folder, Watcher(look))
    query = "SELECT platform, status, error FROM trial ORDER BY platform"
    assert rows(folder, query) == [(p, "ok", None) for p in ("native", "xen") for _ in range(2)]
    # Guests carry the run's name, and their interfaces are not among the host's.
    names = {name.rpartition(".")[2] for name in seen["domains"] - {"Domain-0", "mail"}}
    assert names == {"xen1-1", "xen1-2"} and seen["links"] == {"lo"}
    found = summary(folder)
    goodput = {
        e["platform"]: e["estimate"]
        for e in found["estimates"]
        if (e["response"], e["guest"]) == ("goodput", None)
    }
    assert goodput["native"] > goodput["xen"] > 1e6
    cpu = {e["platform"] for e in found["estimates"] if e["response"] == "driver_cpu"}
    assert cpu == {"xen"}
    assert any("driver domain, which runs under Xen itself" in w for w in found["warnings"])
    assert_as_before(host)


def test_the_driver_domain_is_weighed_beside_native_which_it_is(
    host: XenHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No guest is made for it, so none of Xen's memory is asked for."""
    text = STUDY.replace('"xen"]', '"driver"]').replace("guests = 2", "").replace("[knobs]", MTU)
    on = MachineResources((0,), "tcg", {}, {})
    monkeypatch.setenv("HYPERTARE_AGENT", str(host.agent))
    folder = tmp_path / "run"
    folder.mkdir()
    seen: list[set[str]] = []
    prepared = prepare(StudyFile(text.replace("driver_weight = 512", ""), "own-host.toml"), 1)
    carry_out(prepared, on, folder, Watcher(lambda: seen.append(host.domains())))
    query = "SELECT platform, status, error FROM trial ORDER BY platform"
    assert rows(folder, query) == [(p, "ok", None) for p in ("driver", "native") for _ in range(2)]
    assert seen == [{"Domain-0", "mail"}]
    found = summary(folder)
    reported = {e["platform"] for e in found["estimates"] if e["response"] == "driver_cpu"}
    assert reported == {"driver"}
    interfaces = {one["platform"]: set(one["interfaces"]) for one in found["platforms"]}
    assert interfaces == {"native": {"lan"}, "driver": {"lan"}}
    assert any("native is the same one" in w for w in found["warnings"])
    assert_as_before(host)


MTU = """
[knobs]
mtu = 1400
offloads = { gro = false }
"""


def node(number: int) -> plan.Node:
    kind = plan.Domain(
        cpus=1,
        memory=112 << 20,
        kernel=Path("/") / GUEST_KERNEL,
        initramfs=(Path("/") / GUEST_INITRAMFS,),
        kernel_args=("quiet", "rodata=off", "panic=-1", "hypertare.modules=xen_netfront"),
        boot_limit_s=300,
    )
    interface = plan.Interface(name="eth0", link="lan", address=f"10.77.0.{number + 1}/24")
    return plan.Node(name=f"guest{number}", kind=kind, interfaces=(interface,))


def bench() -> plan.Bench:
    own = plan.Interface(name="lan", link="lan", address="10.77.0.1/24")
    nodes = (plan.Node(name="host", kind=plan.Host(), interfaces=(own,)), node(1))
    return plan.Bench(name="ends", nodes=nodes, links=(plan.Link(name="lan"),))


def loaded() -> plan.Trial:
    task = plan.Task(id="burn", node="guest1", workload=plan.Burn(share=0.5, duration_s=100))
    knob = plan.KnobSetting(node="host", knob=plan.SchedulerWeight(weight=777))
    phase = plan.Phase(name="measure", tasks=(task,), limit_s=120)
    return plan.Trial(id=1, knobs=(knob,), phases=(phase,))


def kill(machine: LocalMachine) -> None:
    os.kill(machine._process.pid, signal.SIGKILL)


def test_a_killed_controller_leaves_nothing(host: XenHost) -> None:
    machine = LocalMachine(host.agent)
    with machine:
        ready = machine.make_bench(bench(), 400)[-1]
        assert isinstance(ready, BenchReady) and ready.error is None
        heard: list[Any] = []

        def work() -> None:
            try:
                heard.extend(machine.run(loaded()))
            except AgentError as error:
                heard.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        until(lambda: host.driver_weight() == 777 or heard, "the weight to be changed", 60)
        assert not heard, heard
        kill(machine)
        thread.join(60)
        assert isinstance(heard[-1], AgentError)
        assert not any(isinstance(one, KnobOutcome) for one in heard)
    assert_as_before(host)


def test_the_next_run_removes_what_one_has_left_that_was_killed_with_its_keeper(
    host: XenHost,
) -> None:
    machine = LocalMachine(host.agent)
    with machine:
        threading.Thread(target=swallow, args=(machine,), daemon=True).start()
        until(lambda: any("guest1" in name for name in host.domains()), "a guest", 60)
        pid = host.agent_pid
        host.shell(f"kill -9 {pid} $(cat /proc/{pid}/task/{pid}/children)")
        kill(machine)
    assert any(f"hypertare-{pid}-" in name for name in host.domains())
    with LocalMachine(host.agent):
        assert host.domains() == {"Domain-0", "mail"}
    assert_as_before(host)


def swallow(machine: LocalMachine) -> None:
    with contextlib.suppress(AgentError):
        machine.make_bench(bench(), 400)
