"""Machines that were there before: how they may be reached, and what of a study fits them."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.design import planner
from hypertare.design.design import make
from hypertare.protocol import plan
from hypertare.study import StudyFile
from hypertare.study.machines import reach_words

TEXT = """
name = "given"
question = "?"
{before}
[sut]
platforms = ["native", "given"]
{sut}
{given}
[workloads.work]
{workload}
{after}
"""
AT = 'address = "192.0.2.10"\n'
A, B = '[given.a]\nreach = "ssh a"\n', '[given.b]\nreach = "ssh -p 2222 b"\n'


SET = "settings = true\n"
BOTH = 'factors."sut.given" = ["a", "b"]'

SENT = {"given": A + AT, "workload": 'type = "stream"'}


def study(
    given: str = A,
    sut: str = "",
    workload: str = 'type = "burn"',
    before: str = "",
    after: str = "",
) -> StudyFile:
    text = TEXT.format(given=given, sut=sut, workload=workload, before=before, after=after)
    return StudyFile(text, "given.toml")


@pytest.mark.parametrize(
    "words",
    [
        "ssh vm",
        "ssh bob@192.0.2.10",
        "ssh -p 2222 -l bob -i '/home/a b/key' -J gate vm.example",
        "ssh -6 -C 2001:db8::1",
    ],
)
def test_a_way_by_ssh_is_taken_word_by_word(words: str) -> None:
    assert reach_words(words)[0] == "ssh"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "is no ssh"),
        ("rsh vm", "is no ssh"),
        ("/tmp/ssh vm", "is no ssh"),
        ("ssh", "one word, the machine"),
        ("ssh vm true", "one word, the machine"),
        ("ssh vm;reboot", "one word, the machine"),
        ("ssh -oProxyCommand=x vm", "not -oProxyCommand=x"),
        ("ssh -o ProxyCommand=x vm", "not -o"),
        ("ssh -F evil vm", "not -F"),
        ("ssh -p -oProxyCommand=x vm", "not -p"),
        ("ssh 'vm", "is not to be read"),
    ],
)
def test_what_would_run_another_program_here_is_no_way(words: str, said: str) -> None:
    with pytest.raises(ValueError, match="ssh") as refused:
        reach_words(words)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"given": ""}, r"say how it is reached, \[given.NAME\]"),
        ({"given": A + B}, "name the one in sut.given, or compare them"),
        ({"sut": 'given = "c"'}, r"there is no \[given.c\]; there are: a"),
        ({"workload": 'type = "ping"'}, "given.a is sent packets: say where they go"),
        ({"workload": 'type = "ping"\nprotocol = "frame"'}, "needs a bench's own network"),
        ({"workload": 'type = "capture"'}, "needs a bench's own network"),
        (
            {"workload": 'type = "command"\ncommand = ["true"]\npeer = ["cat"]'},
            "needs a bench's own network",
        ),
        (SENT | {"after": '[bench]\ntopology = "routers"'}, "is no router"),
        (SENT | {"after": '[bench]\nline_rate = "10 Mb/s"'}, "is of a bench's link"),
        (SENT | {"given": A + AT + '[given.peer]\nreach = "ssh p"'}, "given.peer is sent packets"),
        (
            SENT | {"given": A + AT + '[given.peer]\nreach = "ssh p"\n' + AT},
            "two machines in .given. have the address 192.0.2.10",
        ),
        (
            SENT | {"given": A + AT + '[given.peer]\nreach = "ssh p"\naddress = "2001:db8::1"'},
            "of another family",
        ),
        ({"given": A + '[given.peer]\nreach = "ssh p"'}, "no workload needs a network"),
        ({"given": A + 'address = "vm.example"'}, "is no address"),
        ({"given": A + "start = true"}, "is of a domain of libvirt: say which"),
        ({"given": A + 'domain = "-x"'}, "domain"),
        ({"given": A + 'outside = "pid:x"'}, "the number of no process"),
        ({"given": A + 'outside = " "'}, "is in no command line"),
        (
            {"given": A + 'outside = "vm"\n' + B + 'outside = "vm"', "before": BOTH},
            "two machines in .given. have outside = 'vm'",
        ),
        (
            SENT
            | {
                "given": A
                + AT
                + '[given.peer]\nreach = "ssh p"\noutside = "vm"\naddress = "192.0.2.11"'
            },
            "of machines under test alone",
        ),
        (
            {"given": A + 'connect = "qemu+ext:///system?command=/tmp/evil"'},
            "no address of libvirt that can be given here",
        ),
        ({"given": A + 'connect = "qemu+ssh://-oX=y/system"'}, "no address of libvirt"),
        ({"given": A + 'address = "224.0.0.1"'}, "of no single machine"),
        ({"given": '[given.peer]\nreach = "ssh p"'}, r"say how it is reached, \[given.NAME\]"),
        ({"sut": "guests = 2"}, "works alone"),
        (
            {"after": "[knobs]\ndev_weight = 8"},
            r"knobs.dev_weight would change a setting .* given.a.settings = true",
        ),
        ({"before": 'factors."knobs.dev_weight" = [1, 2]'}, "given.a.settings = true"),
        (
            {"given": A + SET + B, "before": BOTH, "after": "[knobs]\ndev_weight = 8"},
            "given.b.settings = true",
        ),
        ({"given": A + SET, "after": "[knobs]\ndriver_weight = 100"}, "known from inside"),
        (
            {"given": A + SET, "after": "[knobs]\nnapi_weight = 8"},
            "is known by its address: given.a.address",
        ),
        ({"before": 'machine = "emulated"'}, "take machine = 'local'"),
        ({"given": '[given.a]\nreach = "rsh a"'}, "is no ssh"),
        ({"given": '[given."a b"]\nreach = "ssh a"'}, "given"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_do(changed: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(**changed).study()


def test_a_table_without_its_platform_is_refused() -> None:
    text = study().text.replace('"native", "given"', '"native"')
    with pytest.raises(InputError, match="add 'given' to sut"):
        StudyFile(text, "given.toml").study()


def test_several_machines_stand_on_one_bench_and_share_a_baseline() -> None:
    file = study(A + B, before='factors."sut.given" = ["a", "b"]', sut="cpus = 2")
    (plot,) = make(file.study(), 1).plots
    cells = {v.node: file.cell({**plot.levels, **v.levels}) for v in plot.variants}
    on = planner.MachineResources((0, 1), "tcg", {}, {})
    bench = planner.make_bench(file.cell(plot.levels), plot, cells, on)
    found = [node.kind for node in bench.nodes if isinstance(node.kind, plan.Given)]
    assert [one.reach for one in found] == [("ssh", "a"), ("ssh", "-p", "2222", "b")]
    assert [one.cpus for one in found] == [2, 2]
    # Which of this host's CPUs a machine elsewhere uses is no matter of a bench.
    assert [node.cpus for node in bench.nodes if isinstance(node.kind, plan.Given)] == [(), ()]


def test_only_of_a_machine_whose_process_is_known_is_anything_counted_from_outside() -> None:
    file = study(A + 'outside = "VBoxHeadless"\n' + B, before=BOTH)
    (plot,) = make(file.study(), 1).plots
    cells = {v.node: file.cell({**plot.levels, **v.levels}) for v in plot.variants}
    on = planner.MachineResources((0, 1), "tcg", {}, {}, processes_of_given={"VBoxHeadless": 4711})
    bench = planner.make_bench(file.cell(plot.levels), plot, cells, on)
    found = [node.kind for node in bench.nodes if isinstance(node.kind, plan.Given)]
    assert [one.outside for one in found] == [4711, None]
    given = [variant for variant in plot.variants if not variant.kind.is_made]
    trials = [planner.make_trial(1, cells[one.node], "work", one, plot, on) for one in given]
    asked = [
        any(one.probe == "outside" for phase in trial.phases for one in phase.probes)
        for trial in trials
    ]
    assert asked == [True, False]


@pytest.mark.parametrize("peer", ["", '[given.peer]\nreach = "ssh p"\naddress = "192.0.2.99"\n'])
def test_packets_go_to_the_address_that_a_machine_has(peer: str) -> None:
    file = study(A + AT + peer, workload='type = "stream"', sut="cpus = 1")
    (plot,) = make(file.study(), 1).plots
    (variant,) = [one for one in plot.variants if not one.kind.is_made]
    cells = {v.node: file.cell({**plot.levels, **v.levels}) for v in plot.variants}
    towards = "192.0.2.99" if peer else "192.0.2.1"
    ways = {"192.0.2.10": towards}
    on = planner.MachineResources((0, 1), "tcg", {}, {}, peers_of_given=ways)
    bench = planner.make_bench(file.cell(plot.levels), plot, cells, on)
    found = {node.name: node for node in bench.nodes if isinstance(node.kind, plan.Given)}
    assert list(found) == [variant.node, f"peer-{variant.node}"]
    assert all(node.interfaces == () for node in found.values())
    other = found[f"peer-{variant.node}"]
    # This host is reached without ssh, and bound to the CPUs of other peers.
    assert isinstance(other.kind, plan.Given)
    assert (other.kind.reach, other.cpus) == ((("ssh", "p"), ()) if peer else ((), (0,)))
    trial = planner.make_trial(1, cells[variant.node], "work", variant, plot, on)
    sends = [
        task.workload
        for phase in trial.phases
        for task in phase.tasks
        if isinstance(task.workload, plan.StreamSend)
    ]
    assert [one.to.rpartition(":")[0] for one in sends] == [towards]
    # Before it both ends are asked whether they reach each other.
    assert len(trial.phases) == 2


KNOBS = """
[knobs]
napi_weight = 8
dev_weight = 16
offloads = { gro = false }
sysctls = { "net/ipv4/tcp_notsent_lowat" = 1 }
"""


@pytest.mark.parametrize("peer", ["", "\n", SET])
def test_settings_are_changed_on_machines_that_allow_it_and_on_no_other(peer: str) -> None:
    other = '[given.peer]\nreach = "ssh p"\naddress = "192.0.2.99"\n' if peer else ""
    given = A + AT + SET + other + peer
    file = study(given, workload='type = "stream"', sut="cpus = 1", after=KNOBS)
    (plot,) = make(file.study(), 1).plots
    (variant,) = [one for one in plot.variants if not one.kind.is_made]
    cell = file.cell({**plot.levels, **variant.levels})
    on = planner.MachineResources(
        (0, 1), "tcg", {}, {}, peers_of_given={"192.0.2.10": "192.0.2.99"}
    )
    trial = planner.make_trial(1, cell, "work", variant, plot, on)
    far = f"peer-{variant.node}"
    assert {one.node for one in trial.knobs} == {variant.node} | ({far} if peer == SET else set())
    # An interface is known by the address that packets go to.
    near = [one.knob for one in trial.knobs if one.node == variant.node]
    assert plan.NapiWeight(interface="192.0.2.10", weight=8) in near
    assert plan.DevWeight(packets=16) in near
    assert any(isinstance(one, plan.Offload) and not one.ports for one in near)
    warned = [text for text in planner.warnings(cell, on) if "set on the machine alone" in text]
    assert bool(warned) == (peer != SET), warned


CLAIM = """
[[claims]]
text = "it is quick"
each = "sut.given"
workload = "work"
response = "elapsed"
platform = "given"
measure = "value"
op = "below"
value = 1
"""


def test_a_claim_of_each_machine_is_as_many() -> None:
    file = study(A + B, before=BOTH, after=CLAIM, workload='type = "fork"')
    found = file.study().claims
    assert [one.text for one in found] == ["a: it is quick", "b: it is quick"]
    assert [one.where for one in found] == [{"sut.given": "a"}, {"sut.given": "b"}]
    with pytest.raises(InputError, match=r"each = 'sut.given' is no factor in \[factors\]"):
        study(after=CLAIM, workload='type = "fork"').study()


def test_machines_are_put_in_place_of_those_of_a_study() -> None:
    peer = '[given.peer]\nreach = "ssh p"\n' + AT.replace("10", "99")
    file = study(B + AT.replace("10", "12") + SET + peer, workload='type = "stream"')
    file.use_machines({"x": {"reach": "ssh x", "address": "192.0.2.10"}})
    found = file.study()
    assert list(found.given) == ["peer", "x"] and found.factors == {"sut.given": ("x",)}
    # That settings were to be changed was said of another machine.
    assert not found.given["x"].settings
    file.raw["factors"] = 3
    file.use_machines({"x": {"reach": "ssh x"}})
    with pytest.raises(InputError, match="factors"):
        file.study()
