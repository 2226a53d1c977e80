"""Plans of fork and touch, of the probes of memory and of its knobs."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from hypertare.base.errors import InputError
from hypertare.design import planner
from hypertare.design.design import make
from hypertare.protocol import plan
from hypertare.study import StudyFile

STUDIES = Path(__file__).parents[2] / "studies"

TEXT = """
name = "memory"
question = "?"
machine = "emulated"
probes = ["kvm", "kvm_exits", "memory", "hardware"]
[sut]
platforms = ["native", "guest"]
[workloads.fork]
type = "fork"
count = 7
touch = "8K"
[workloads.touch]
type = "touch"
memory = "2M"
pages = "2M"
count = 1000
[workloads.timed]
type = "touch"
[knobs]
thp = "always"
host_thp = { enabled = "madvise", scan_sleep_ms = 5 }
ksm = true
"""


def on(accelerator: plan.Accelerator = "tcg") -> planner.MachineResources:
    image = SimpleNamespace(kernel=Path("/k"), initramfs=Path("/i"))
    return planner.MachineResources(
        cpus=(0,),
        accelerator=accelerator,
        images={("debian", "guest"): image, ("debian", "kvm"): image},
        environment={},
        chance=planner.Chance(1),
    )


def trial(
    workload: str, platform: str, text: str = TEXT, there: planner.MachineResources | None = None
) -> plan.Trial:
    study = StudyFile(text, "memory.toml").study()
    plot = make(study, 1).plots[0]
    variant = next(v for v in plot.variants if v.platform == platform)
    return planner.make_trial(1, study, workload, variant, plot, there or on())


def work(made: plan.Trial) -> plan.Task:
    (task,) = made.phases[-1].tasks
    return task


def probes(made: plan.Trial) -> set[tuple[str, str]]:
    return {(request.node, request.probe) for request in made.phases[-1].probes}


def test_the_work_is_the_same_on_both_platforms() -> None:
    for name, expected in [
        ("fork", plan.Fork(count=7, touch=8192)),
        ("touch", plan.Touch(memory=2 << 20, pages="2M", count=1000)),
        ("timed", plan.Touch(memory=64 << 20, duration_s=2.0)),
    ]:
        native, guest = work(trial(name, "native")), work(trial(name, "guest"))
        assert native.workload == guest.workload == expected
        assert native.node == "host" and guest.node != "host"
        assert trial(name, "guest").phases[-1].limit_s == 600


def test_memory_is_read_on_both_sides_and_kvm_from_outside() -> None:
    native, guest = trial("fork", "native"), trial("fork", "guest")
    node = work(guest).node
    of_memory = {"memory", "hardware", "kvm", "kvm_exits"}
    assert {found for found in probes(native) if found[1] in of_memory} == {
        ("host", "memory"),
        ("host", "hardware"),
    }
    assert {found for found in probes(guest) if found[1] in of_memory} == {
        ("host", "memory"),
        ("host", "hardware"),
        (node, "memory"),
        (node, "kvm"),
        (node, "kvm_exits"),
    }


def test_a_workload_has_probes_of_its_own_beside_the_study_s() -> None:
    """One that takes time is in no other trial."""
    text = TEXT.replace('"kvm_exits", "memory", "hardware"]', '"memory"]')
    text = text.replace('type = "fork"\n', 'type = "fork"\nprobes = ["hardware", "memory"]\n')
    of_study, of_both = {("host", "memory")}, {("host", "memory"), ("host", "hardware")}
    for workload, expected in (("fork", of_both), ("touch", of_study), ("timed", of_study)):
        made = trial(workload, "native", text)
        found = [(one.node, one.probe) for one in made.phases[-1].probes]
        assert {one for one in found if one[1] in ("memory", "hardware")} == expected
        assert len(found) == len(set(found))
    wrong = text.replace('"hardware", "memory"]', '"no-such"]')
    with pytest.raises(InputError, match=r"workloads\.fork\.probes"):
        StudyFile(wrong, "memory.toml").study()


def test_only_guests_of_kvm_are_asked_for_its_counters() -> None:
    local = 'name = "x"\nquestion = "?"\n[sut]\nplatforms = ["native", "guest"]\n'
    text = local + '[workloads.fork]\ntype = "fork"\n'
    for accelerator, asked in (("tcg", False), ("kvm", True)):
        made = trial("fork", "guest", text, on(accelerator))  # type: ignore[arg-type]
        assert ((work(made).node, "kvm") in probes(made)) == asked


def test_each_kernel_has_its_own_knob() -> None:
    def knobs(platform: str) -> list[tuple[str, plan.Knob]]:
        return [(setting.node, setting.knob) for setting in trial("fork", platform).knobs]

    always = plan.Thp(enabled="always")
    assert knobs("native") == [("host", always)]
    node = work(trial("fork", "guest")).node
    assert knobs("guest") == [
        (node, always),
        ("host", plan.Thp(enabled="madvise", scan_sleep_ms=5)),
        ("host", plan.Ksm(run=True)),
    ]


@pytest.mark.parametrize("knob", ["host_thp = 'never'", "ksm = true", "halt_poll_ns = 0"])
def test_this_host_is_left_alone(knob: str) -> None:
    text = f'name = "x"\nquestion = "?"\n[workloads.f]\ntype = "fork"\n[knobs]\n{knob}\n'
    with pytest.raises(InputError, match="of this host, which is left alone"):
        StudyFile(text, "x").study()


def test_natively_this_host_keeps_its_huge_pages() -> None:
    text = 'name = "x"\nquestion = "?"\n[workloads.f]\ntype = "fork"\n[knobs]\nthp = "never"\n'
    study = StudyFile(text, "x").study()
    assert any("knobs.thp is for guests" in warning for warning in planner.warnings(study, on()))
    assert trial("f", "native", text, on()).knobs == ()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('type = "touch"\ncount = 5\nduration = "1s"', "give one of them"),
        ('type = "touch"\nmemory = "5000"', "no multiple of 4096"),
        ('type = "touch"\nmemory = "3M"\npages = "2M"', "no multiple of 2097152"),
        ('type = "touch"\npages = "1G"', "not allowed here"),
        ('type = "fork"\ncount = 0', "at least 1"),
        ('type = "fork"\ntouch = "-1"', "not a size"),
        ('type = "fork"\n[knobs]\nthp = "sometimes"', "not allowed here"),
        ('type = "fork"\n[knobs]\nhalt_poll_ns = 10_000_001', "at most 10000000"),
        ('type = "fork"\n[knobs]\nhalt_poll_ns = -1', "at least 0"),
        ('type = "fork"\n[knobs]\nthp = { defrag = "never" }', "this key is missing"),
    ],
)
def test_nonsense_is_refused(wrong: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        StudyFile(f'name = "x"\nquestion = "?"\n[workloads.w]\n{wrong}\n', "x").study()
    assert said in str(refused.value)


def test_the_built_in_study_of_merged_pages_plans_every_cell() -> None:
    text = (STUDIES / "paging-thp-ksm.toml").read_text()
    file = StudyFile(text, "paging-thp-ksm.toml")
    merging: dict[tuple[str, str], set[bool]] = {}
    for plot in make(file.study(), 1).plots:
        for name in file.study().workloads:
            factors = file.study().factors_of(name)
            assert len(factors) == 1
            ((path, levels),) = factors.items()
            for level, variant in itertools.product(levels, plot.variants):
                study = file.cell({**plot.levels, path: level})
                made = planner.make_trial(1, study, name, variant, plot, on())
                ksm = [s.knob.run for s in made.knobs if isinstance(s.knob, plan.Ksm)]
                merging.setdefault((name, variant.platform), set()).update(ksm)
    # The host below a guest merges; natively there is nothing that was offered for it.
    for name, runs in (("idle", {False, True}), ("copies", {False, True}), ("fork", {False, True})):
        assert merging[name, "guest"] == runs
        assert merging[name, "native"] == set()
