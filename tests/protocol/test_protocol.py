"""The protocol between Python and the agent: both sides and the committed schemas are in step.

The schemas are the agent's own. After a change of `crates/plan`, renew them and what is made of them:
`cargo build --release && python -m tests.protocol`
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel, TypeAdapter
from pytest import MonkeyPatch

from hypertare.design import planner
from hypertare.design.design import make
from hypertare.machines.batch import TrialSlot, parts
from hypertare.machines.batch import make as make_batch
from hypertare.platforms.registry import KINDS as PLATFORMS
from hypertare.probes.registry import ChosenProbe
from hypertare.protocol import plan, records
from hypertare.protocol.phase import PHASE, Phase, parse
from hypertare.report import model
from hypertare.study import StudyFile, builtin_names, find
from hypertare.workloads import packets, responses
from hypertare.workloads.registry import KINDS
from hypertare.workloads.workload import Workload
from tests import factory
from tests.protocol.generator import ROOT, SCHEMAS, asked, kept, modules, of_type, said
from tests.workloads.test_registry import INPUTS, LIKE, NEEDED, PAIR, settings_of


@cache
def validator(type_of_line: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(of_type(type_of_line))


RENEW = "it is old; renew it with `python -m tests.protocol`"


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_committed_schema_is_the_agents(name: str) -> None:
    """In the same order, too, which is that of a plan's fields."""
    assert json.dumps(kept(name)) == json.dumps(said(name)), RENEW


def test_pythons_types_are_made_from_the_schemas() -> None:
    for file, text in modules().items():
        assert file.read_text() == text, f"{file.name}: {RENEW}"


# --- the types of Python's side

UNIONS = {
    "plan": (plan.Step, plan.Workload, plan.NodeKind, plan.Knob),
    "record": (records.Record,),
}


def members(union: Any) -> tuple[type[BaseModel], ...]:
    """The classes of `Annotated[A | B, ...]`."""
    inner = typing.get_args(union)[0]
    return typing.get_args(inner) if isinstance(inner, types.UnionType) else (inner,)


def models(side: str) -> list[type[BaseModel]]:
    """All classes that cross: those of the unions, and those inside them."""
    found: dict[str, type[BaseModel]] = {}
    waiting = [member for union in UNIONS[side] for member in members(union)]
    while waiting:
        model = waiting.pop()
        if model.__name__ not in found:
            found[model.__name__] = model
            waiting += [c for f in model.model_fields.values() for c in classes(f.annotation)]
    return list(found.values())


def classes(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from classes(argument)


# --- what Python makes, the agent understands


@dataclass(frozen=True)
class Bootable:
    kernel: Path = Path("/vmlinux")
    initramfs: Path = Path("/initramfs")


@dataclass(frozen=True)
class Daemon:
    here: tuple[str, ...] = ("/ld.so", "/bird")
    in_guest: tuple[str, ...] = ("/bird",)
    archive: Path = Path("/bird.cpio")


def started(bench: plan.Bench) -> plan.Bench:
    """As it is when agents run that are not in the sandbox."""
    agent = plan.RunningAgent(described="podman 4.3.1", pipes=Path("/tmp/pipes"), pid=77)
    made = plan.Container(memory=1 << 29, engine=agent)
    kinds = [
        made
        if isinstance(node.kind, plan.Container)
        else node.kind.model_copy(update={"agent": agent, "outside": 4711})
        if isinstance(node.kind, plan.Given)
        else node.kind
        for node in bench.nodes
    ]
    nodes = [
        node.model_copy(update={"kind": kind})
        for node, kind in zip(bench.nodes, kinds, strict=True)
    ]
    return bench.model_copy(update={"nodes": tuple(nodes)})


def steps_of(study: StudyFile) -> Iterator[plan.Step]:
    """Everything that a run of the study would send."""
    if study.study().machine == "emulated":
        yield from emulated_steps_of(study)
        return
    design = make(study.study(), seed=1)
    on = planner.MachineResources(
        cpus=(0, 1, 2, 3),
        accelerator="tcg",
        images={("debian", "guest"): Bootable()},
        environment={"PATH": "/bin"},
        workdir=Path("/work"),
        daemon=Daemon(),
        capacities=tuple(
            planner.Capacity(workload, {}, 1e8) for workload in study.study().workloads
        ),
        likeness=planner.Likeness(
            "host-1", (plan.ResourceLimit(resource="open_files", soft=1024, hard=4096),)
        ),
    )
    yield plan.HelloStep()
    for plot in design.plots:
        whole = study.cell(plot.levels)
        cells = {v.node: study.cell({**plot.levels, **v.levels}) for v in plot.variants}
        bench = planner.make_bench(whole, plot, cells, on)
        yield plan.BenchStep(bench=started(bench) if whole.sut.image or whole.given else bench)
        for number, cell in enumerate(design.cells):
            levels = {key: level for key, level in cell.levels.items() if key != "workload"}
            for variant in plot.variants:
                trial = planner.make_trial(
                    number, study.cell(levels), cell.workload, variant, plot, on
                )
                yield plan.TrialStep(trial=trial)
    yield plan.TeardownStep()


def emulated_steps_of(study: StudyFile) -> Iterator[plan.Step]:
    """The same, as each class of PC finds it."""
    design = make(study.study(), seed=1)
    known = tuple(planner.Capacity(name, {}, 1e8) for name in study.study().workloads)
    on = planner.MachineResources((0,), "tcg", {}, {}, capacities=known)
    for plot in design.plots:
        places = [
            TrialSlot(variant, next(design.block(plot, cell, 0, 0)), levels)
            for cell in design.cells
            for variant in plot.variants
            for levels in [{k: v for k, v in cell.levels.items() if k != "workload"}]
        ]
        for part in parts(places):
            steps = make_batch(study, plot, 0, 1, part, on).steps
            yield from (STEP.validate_json(line) for line in steps.splitlines())


STEP: TypeAdapter[plan.Step] = TypeAdapter(plan.Step)

XEN = """
name = "xen"
question = "Several guests at once?"
machine = "emulated"
[sut]
platforms = ["native", "driver", "xen"]
memory = "128M"
guests = 2
[workloads.tcp]
type = "stream"
neighbours = { share = "90%", stream = "receive", rate = "1M", measured = 2 }
dscp = [46, 0]
[knobs]
traffic_classes = { rate = "8 Mb/s" }
driver_weight = 512
guest_weights = [256, 128]
"""

ROUTERS = """
name = "routers"
question = "Several routers at once?"
machine = "emulated"
[sut]
platforms = ["native", "xen"]
memory = "128M"
guests = 2
[bench]
topology = "routers"
queue = "pfifo"
queue_length = 100
[workloads.tcp]
type = "stream"
direction = "forward"
"""

MERGED = f"""
name = "merged"
question = "Everything that a plan for a host of KVM can hold?"
machine = "emulated"
probes = {json.dumps(typing.get_args(ChosenProbe))}
[sut]
platforms = ["native", "guest"]
[workloads.fork]
type = "fork"
[knobs]
host_thp = {{ enabled = "always", defrag = "defer+madvise", scan_sleep_ms = 10 }}
ksm = {{ run = true, pages_to_scan = 1000, sleep_ms = 0 }}
halt_poll_ns = 0
"""

IMAGE = """
name = "image"
question = "What does an engine cost?"
[sut]
platforms = ["native", "container"]
image = "debian:12"
[workloads.make]
type = "command"
command = ["true"]
"""

GIVEN = """
name = "given"
question = "What does a machine of mine cost?"
[sut]
platforms = ["native", "given"]
[given.vm]
reach = "ssh vm"
[workloads.make]
type = "command"
command = ["true"]
"""

OSPF = """
name = "ospf"
question = "Routers that learn?"
[sut]
guests = 2
[bench]
topology = "routers"
routing = ["ospf", "static"]
[workloads.tcp]
type = "stream"
direction = "forward"
"""

WIDE = """
name = "wide"
question = "Everything that a plan can hold?"
[sut]
memory = "1G"
kernel_args = ["quiet"]
cpu_model = "max"
[bench]
line_rate = "1G"
[workloads.make]
type = "command"
command = ["true"]
prepare = "true"
[workloads.served]
type = "command"
command = ["true"]
peer = "serve"
[workloads.burn]
type = "burn"
share = "50%"
[workloads.fork]
type = "fork"
[workloads.touch]
type = "touch"
pages = "thp"
[workloads.tcp]
type = "stream"
direction = "both"
socket_buffer = "1M"
[workloads.udp]
type = "stream"
protocol = "udp"
rate = "10M"
batch = 8
segmentation = true
[workloads.icmp]
type = "ping"
protocol = "icmp"
[workloads.rtt]
type = "ping"
[workloads.raw]
type = "ping"
protocol = "frame"
via = "socket"
[workloads.frames]
type = "capture"
rate = "10M"
[workloads.past-card]
type = "capture"
via = "shared"
[workloads.past-card-rtt]
type = "ping"
protocol = "frame"
via = "shared"
[knobs]
mtu = 1400
sysctls = {"net/ipv4/tcp_notsent_lowat" = 16384}
offloads = { tso = false }
socket_buffers = "1M"
interrupt_cpus = [0]
receive_steering = [0]
napi_weight = 8
napi_budget = { packets = 300 }
dev_weight = 64
ring_sizes = { rx = 1024 }
interrupt_coalescing = { rx_usecs = 50 }
busy_poll = 50
defer_hard_irqs = { polls = 2, flush_timeout_ns = 20000 }
thp = "madvise"
[factors]
"sut.nic" = ["virtio-net", "e1000"]
"""
WIDE += "".join(
    f'[workloads.plain-{name}]\ntype = "{name}"\n'
    for name in KINDS
    if name not in {*NEEDED, "power-cut"}
)

POWER_CUT = """
name = "power-cut"
question = "?"
machine = "emulated"
[sut]
platforms = ["native", "guest"]
memory = "192M"
[workloads.cut]
type = "power-cut"
"""
"""An emulated machine alone has disks whose power can be cut."""

OF_HOST_AGENT = frozenset({"IoVerify"})
"""Work that the host agent asks for by itself."""


def test_plans_fit_the_agents_schema() -> None:
    studies = [find(name) for name in builtin_names()] + [
        StudyFile(WIDE, "wide"),
        StudyFile(POWER_CUT, "power-cut"),
        StudyFile(XEN, "xen"),
        StudyFile(ROUTERS, "routers"),
        StudyFile(MERGED, "merged"),
        StudyFile(OSPF, "ospf"),
        StudyFile(IMAGE, "image"),
        StudyFile(GIVEN, "given"),
    ]
    seen: set[str] = set()
    validated: set[str] = set()
    for study in studies:
        for step in steps_of(study):
            line = json.loads(step.model_dump_json(exclude_none=False))
            # Thousands of trials differ by their numbers alone.
            if (alike := json.dumps(without_numbers(line))) not in validated:
                validator("Step").validate(line)
                validated.add(alike)
                seen |= names_of(step)
    assert seen | OF_HOST_AGENT >= {model.__name__ for model in models("plan")}


def without_numbers(value: Any) -> Any:
    """The same JSON with the kind and sign of each number in its place."""
    if isinstance(value, dict):
        return {key: without_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_numbers(one) for one in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [type(value).__name__, value < 0]
    return value


PLANS = ROOT / "crates" / "agent" / "tests" / "plans.jsonl"
"""Steps with every type and every workload among them: what the agent's tests make wrong plans from."""


def every_kind_of_step() -> Iterator[str]:
    seen: set[str] = set()
    studies = {
        "wide": WIDE,
        "power-cut": POWER_CUT,
        "xen": XEN,
        "routers": ROUTERS,
        "merged": MERGED,
    }
    for name, text in studies.items():
        for step in steps_of(StudyFile(text, name)):
            names = names_of(step)
            if not names <= seen:
                seen |= names
                yield step.model_dump_json(exclude_none=False)


def test_the_steps_that_the_agents_tests_begin_with_are_those_of_python() -> None:
    assert PLANS.read_text().splitlines() == list(every_kind_of_step()), RENEW


def names_of(value: Any) -> set[str]:
    if isinstance(value, BaseModel):
        inner = (getattr(value, name) for name in type(value).model_fields)
        return {type(value).__name__}.union(*map(names_of, inner))
    if isinstance(value, tuple | list):
        return set().union(*map(names_of, value))
    if isinstance(value, dict):
        return set().union(*map(names_of, value.values()))
    return set()


def made_records() -> Iterable[records.Record]:
    script = factory.Script(blocks=2)
    yield from factory.bench_records(script)
    for planned in factory.planned(script):
        yield from factory.records(factory.finish(planned, script), script)
    yield records.Done(node="host", number=1, clock_s=2.5)
    yield records.Done(node="host", number=2, error="why", clock_s=0.5)
    yield records.BenchReady(bench="b", seconds_s=0.5, error="why", node="guest1")
    yield records.Teardown(seconds_s=0.5)
    yield records.Log(node="", level="warning", text="text")
    yield records.Survey(
        host_name="lab2", processor="Some CPU", kernel="6.1.0", architecture="x86_64",
        distribution="Some Linux", cpus=(0, 1), online=4, memory=8 << 30, available=4 << 30, load=0.5,
        qemu="7.2.22", absent={"kvm": "there is no /dev/kvm"},
    )  # fmt: skip
    mtu = plan.Mtu(interface="eth0", bytes=1400)
    yield records.KnobOutcome(node="host", trial=1, knob=mtu, action="put_back", before="1500")


def test_records_fit_the_agents_schema_and_come_back_the_same() -> None:
    seen: set[str] = set()
    for record in made_records():
        line = record.model_dump_json()
        validator("Record").validate(json.loads(line))
        assert parse(line) == record
        seen.add(type(record).__name__)
    assert seen == {model.__name__ for model in members(records.Record)}


def test_unknown_keys_are_refused_on_pythons_side() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(records.Record)
    with pytest.raises(ValueError, match="extra"):
        adapter.validate_json('{"record": "teardown", "seconds_s": 1, "more": 1}')


# --- values


OTHER_WAYS: dict[str, tuple[dict[str, str], ...]] = {
    "capture": ({"via": "shared"},),
    "ping": ({"protocol": "frame", "via": "shared"},),
    "command": ({"peer": "serve"},),
}
"""Settings with which a kind has tasks more."""


def roles(kind: Workload) -> dict[str, str]:
    """What the plan asks for of this kind, by the task's role."""
    settings, pair = settings_of(kind), replace(PAIR, machine="host")
    ways = [settings.model_copy(update=way) for way in ({}, *OTHER_WAYS.get(kind.name, ()))]
    tasks = [task for way in ways for task in way.tasks(pair, INPUTS)]
    lives = [life for way in ways for life in way.lives(pair, LIKE, 0.5)]
    found = {life.purpose.role: "life" for life in lives if life.purpose is not None}
    return found | {task.purpose.role: task.workload.type for task in tasks}


ROLES = {name: roles(kind) for name, kind in KINDS.items()}


class Curious(Phase):
    """TrialRecorder which values are read, and has them all."""

    def __init__(self) -> None:
        tasks = {
            role: records.TaskResult(
                node="host", trial=1, phase=PHASE, task=role, purpose=plan.Purpose(role=role)
            )
            for role in set().union(*ROLES.values())
        }
        super().__init__(tasks, {})
        object.__setattr__(self, "read", set())
        object.__setattr__(self, "probed", set())

    def total(self, role: str, value: str) -> float | None:
        self.read.add((role, value))  # type: ignore[attr-defined]
        return 1.0

    def value(self, task: str | None, value: str) -> float | None:
        return self.total(task or "", value)

    def task_rate(self, role: str, value: str) -> float | None:
        self.total(role, "elapsed_s")
        return self.total(role, value)

    def probe(self, node: str, probe: str, value: str) -> float | None:
        self.probed.add((probe, value))  # type: ignore[attr-defined]
        return 1.0

    def sum_over_interfaces(self, node: str, probe: str, value: str) -> float | None:
        return self.probe(node, probe, f"*.{value}")

    def sum_over_links(
        self, node: str, probe: str, begins: str, values: Collection[str]
    ) -> float | None:
        return sum(self.probe(node, probe, f"*.{value}") or 0.0 for value in values)

    def has_counters_of(self, node: str) -> bool:
        return True


@pytest.mark.parametrize("workload", responses.RESPONSES)
def test_every_value_that_responses_read_is_one_that_the_agent_reports(
    workload: str, monkeypatch: MonkeyPatch
) -> None:
    reported = asked("values", "--json")
    reported = {
        kind: {definition["name"] for definition in definitions}
        for kind, definitions in (*reported["tasks"].items(), ("life", reported["life"]))
    }
    phase = Curious()
    monkeypatch.setattr(Phase, "of", lambda _: phase)
    values = responses.measure(workload, "guest", ("guest1",), ())
    assert responses.HEADLINE[workload] in values
    for role, value in phase.read:  # type: ignore[attr-defined]
        task = ROLES[workload][role]
        assert value in reported[task], f"{value} of {task}"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_value_that_is_read_of_a_probe_is_one_that_it_has(
    platform: str, monkeypatch: MonkeyPatch
) -> None:
    """By its own name: a pattern that stands for all others would take a misspelt one as well."""
    known = {
        (probe, definition["name"])
        for probe, definitions in asked("values", "--json")["probes"].items()
        for definition in definitions
    }
    phase = Curious()
    monkeypatch.setattr(Phase, "of", lambda _: phase)
    for workload in responses.RESPONSES:
        responses.measure(workload, platform, ("guest1",), ())
    packets.account((), "guest1")
    modes = {("stat", value) for values in model._MODES.values() for value in values}
    probed = phase.probed | modes  # type: ignore[attr-defined]
    assert len(probed) > (40 if PLATFORMS[platform].is_counted_by_kvm else 5)
    # What a kernel has for each CPU as well is one definition for both.
    unknown = {(p, v) for p, v in probed if not {(p, v), (p, f"*{v}")} & known}
    assert not unknown


def test_every_response_is_declared() -> None:
    """What is measured has a unit and a direction."""
    for planned in factory.planned(factory.Script(blocks=1)):
        finished = factory.finish(planned, factory.Script())
        kind = factory.WORKLOADS[planned.workload]
        assert set(finished.values) <= {response.name for response in responses.RESPONSES[kind]}
