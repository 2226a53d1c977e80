"""A command with a peer: a server beside it, and both know where."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from hypertare.protocol import plan
from hypertare.workloads.command import CommandSettings
from hypertare.workloads.workload import NodeFacts
from tests.workloads.test_registry import INPUTS, PAIR


def settings(**given: Any) -> CommandSettings:
    raw = {"type": "command", "command": "ask", **given}
    return TypeAdapter(CommandSettings).validate_python(raw)


def test_a_command_alone_has_one_task_and_no_network() -> None:
    alone = settings()
    (task,) = alone.tasks(PAIR, INPUTS)
    assert isinstance(task.workload, plan.Command) and task.workload.env == {}
    assert not alone.needs_network and not alone.peer_needs_files


def test_a_server_stands_on_the_peer_and_both_are_reported_its_address() -> None:
    served = settings(peer="serve -p 1")
    server, client = served.tasks(PAIR, INPUTS)
    assert (server.node, server.background) == ("peer", True)
    assert isinstance(server.workload, plan.Serve)
    assert server.workload.argv == ("/bin/sh", "-c", "serve -p 1")
    assert server.workload.env == {"HYPERTARE_ADDRESS": "10.0.0.1"}
    assert (client.node, client.background) == ("guest1", False)
    assert isinstance(client.workload, plan.Command)
    assert client.workload.env == {"HYPERTARE_PEER": "10.0.0.1"}
    assert served.needs_network and served.peer_needs_files


def test_a_list_is_a_program_and_is_looked_for() -> None:
    served = settings(command=["ask"], peer=["serve", "-p", "1"])
    assert served.tasks(PAIR, INPUTS)[0].workload.argv == ("serve", "-p", "1")
    assert served.programs == ("ask", "serve")


@pytest.mark.parametrize("empty", ["", "  ", [], [""]])
def test_an_empty_server_is_refused(empty: Any) -> None:
    with pytest.raises(ValidationError, match="server is empty"):
        settings(peer=empty)


def test_routers_have_no_peer() -> None:
    routers = NodeFacts(routed=True, cpus=1, mtu=1500)
    assert settings().misfit(routers) is None
    assert "bench.topology" in (settings(peer="serve").misfit(routers) or "")


def test_the_host_of_emulated_guests_has_the_agent_and_no_other_program() -> None:
    host = NodeFacts(routed=False, cpus=1, mtu=1500, peers_have_programs=False)
    assert "no program but hypertare-agent" in (settings(peer=["serve"]).misfit(host) or "")
    assert settings(peer=["hypertare-agent", "ping", "--listen"]).misfit(host) is None
