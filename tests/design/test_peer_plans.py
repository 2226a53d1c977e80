"""A command with a peer has the bench that a stream has, and its peer sees the files."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.design import planner
from hypertare.design.design import make
from hypertare.protocol import plan
from hypertare.study import StudyFile
from tests.design.test_planner import ON

COMMAND = """
name = "served"
question = "?"
[sut]
{sut}
[workloads.ask]
type = "command"
command = "ask"
{rest}
"""
SERVED = 'peer = "serve"'


def study_file(rest: str = SERVED, sut: str = "") -> StudyFile:
    return StudyFile(COMMAND.format(rest=rest, sut=sut), "served.toml")


def bench(file: StudyFile) -> plan.Bench:
    plot = make(file.study(), 1).plots[0]
    cells = {v.node: file.cell({**plot.levels, **v.levels}) for v in plot.variants}
    return planner.make_bench(file.cell(plot.levels), plot, cells, ON)


def trial(file: StudyFile, platform: str) -> plan.Trial:
    study = file.study()
    plot = make(study, 1).plots[0]
    variant = next(v for v in plot.variants if v.platform == platform)
    return planner.make_trial(1, study, "ask", variant, plot, ON)


def test_without_a_peer_nodes_stand_alone() -> None:
    made = bench(study_file(""))
    assert made.links == () and all(not node.interfaces for node in made.nodes)
    assert "peer" not in {node.name for node in made.nodes}


def test_every_platform_has_an_interface_and_the_peer_has_the_files() -> None:
    made = bench(study_file(sut='devices = ["/dev/fuse"]'))
    assert [node.name for node in made.nodes] == ["host", "container1", "guest2", "peer"]
    assert all(len(node.interfaces) == 1 for node in made.nodes)
    *tested, peer = made.nodes
    assert peer.files is not None and tested[0].files is not None
    # A device is named for what is measured.
    assert peer.files.devices == () != tested[0].files.devices
    assert peer.files.model_copy(update={"devices": tested[0].files.devices}) == tested[0].files


def test_a_stream_beside_a_command_leaves_its_peer_without_files() -> None:
    made = bench(study_file('[workloads.tcp]\ntype = "stream"'))
    assert next(node for node in made.nodes if node.name == "peer").files is None


def test_a_factor_may_be_the_server() -> None:
    """The bench is made for all levels."""
    made = bench(study_file('factors."workloads.ask.peer" = ["one", "two"]'))
    assert next(node for node in made.nodes if node.name == "peer").files is not None


@pytest.mark.parametrize("platform", ["native", "container", "guest"])
def test_the_server_is_on_the_peer_whatever_is_measured(platform: str) -> None:
    made = trial(study_file(), platform)
    server, client = made.phases[-1].tasks
    assert (server.node, server.background) == ("peer", True)
    assert isinstance(server.workload, plan.Serve) and isinstance(client.workload, plan.Command)
    assert client.workload.env["HYPERTARE_PEER"] == server.workload.env["HYPERTARE_ADDRESS"]
    # A guest's first frames are none of its command's.
    assert ("reach" in {phase.name for phase in made.phases}) == (platform == "guest")


def test_guests_that_work_at_once_have_a_server_each() -> None:
    made = trial(study_file(sut="guests = 2"), "guest")
    servers = [task for task in made.phases[-1].tasks if isinstance(task.workload, plan.Serve)]
    assert [task.node for task in servers] == ["peer-1", "peer-2"]
    assert len({task.workload.env["HYPERTARE_ADDRESS"] for task in servers}) == 2


@pytest.mark.parametrize(
    ("rest", "sut", "said"),
    [
        (SERVED + '\n[bench]\ntopology = "routers"', "", 'bench.topology = "hosts"'),
        (SERVED, 'network = "host"\nplatforms = ["native"]', "the peer of ask would work in"),
        (SERVED, 'image = "i"\nplatforms = ["native"]', "only commands without a peer"),
    ],
)
def test_where_there_is_no_peer_it_is_refused(rest: str, sut: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        study_file(rest, sut).study()


def test_walks_are_modelled_of_what_needs_nobody_else() -> None:
    text = 'machine = "emulated"\n' + COMMAND.format(rest=SERVED + "\n[walk]", sut="")
    with pytest.raises(InputError, match="'ask' speaks with a peer"):
        StudyFile(text, "served.toml").study()
