"""What a line carries at most of a workload, and where the line is."""

from typing import Any

import pytest

from hypertare.base.errors import InputError
from hypertare.base.quantities import parse_line_rate
from hypertare.design import pc, planner
from hypertare.design.design import make
from hypertare.machines import batch
from hypertare.protocol import plan
from hypertare.study import StudyFile
from hypertare.workloads.sending import of_trial
from tests.design.test_planner import ON

CHANCE = planner.MachineResources(
    cpus=(0,), accelerator="tcg", images={}, environment={}, chance=planner.Chance(7)
)


def file(bench: str = "", stream: str = "", more: str = "") -> StudyFile:
    return StudyFile(
        f"""
name = "line"
question = "?"
{more}
[bench]
line_rate = "1G"
{bench}
[workloads.tcp]
type = "stream"
{stream}
""",
        "line.toml",
    )


def carried(*given: str, **more: str) -> float | None:
    return file(*given, **more).study().theoretical_goodput("tcp")


def test_gigabit_ethernet_carries_941_mbps_of_tcp() -> None:
    assert carried() == pytest.approx(941.49e6, rel=1e-5)
    assert carried("", 'direction = "both"') == pytest.approx(2 * 941.49e6, rel=1e-5)
    assert carried("mtu = 9000") == pytest.approx(1e9 * 8948 / 9038)


def test_headers_are_those_of_family_and_protocol() -> None:
    routed = 'topology = "routers"\nfamily = "ipv6"'
    assert carried(routed, 'direction = "forward"') == pytest.approx(1e9 * 1428 / 1538)
    udp = 'protocol = "udp"'
    assert carried("", udp) == pytest.approx(1e9 * 1472 / 1538)
    assert carried(routed, f'{udp}\ndirection = "forward"') == pytest.approx(1e9 * 1452 / 1538)
    assert carried("", f"{udp}\nmessage = 100") == pytest.approx(1e9 * 100 / 166)
    assert carried("", f"{udp}\nmessage = 4000") is None, "fragments are not reckoned with"


def test_on_an_emulated_machine_every_frame_takes_the_time_of_a_full_one() -> None:
    emulated = 'machine = "emulated"'
    assert carried(more=emulated) == pytest.approx(941.49e6, rel=1e-5)
    small = 'protocol = "udp"\nmessage = 100'
    assert carried("", small, more=emulated) == pytest.approx(1e9 * 100 / 1538)
    line = pc.make(pc.PC, file(more=emulated).study(), 1, ()).line
    assert line is not None and line.frames == 8
    assert 8 * 1538 * line.frames / line.every_ns == pytest.approx(1, rel=1e-3), "b/ns"
    assert 8 * 1538 * line.frames / line.every_ns <= 1


def test_without_a_line_there_is_nothing_to_compare_with() -> None:
    study = StudyFile(file().text.replace('"1G"', '"none"'), "line.toml").study()
    assert study.theoretical_goodput("tcp") is None and not study.has_line
    assert pc.make(pc.PC, study, 1, ()).line is None
    assert of_trial(None, {"goodput": 1.0}) == {}
    assert of_trial(2.0, {"rtt_p50": 1.0}) == {}
    assert of_trial(2.0, {"goodput": 1.5}) == {"theoretical_goodput": 2.0, "line_share": 0.75}
    with pytest.raises(ValueError, match=r"a goodput of 1 Gb/s on a line that carries 22\.6 Mb/s"):
        of_trial(22.6e6, {"goodput": 1e9})


@pytest.mark.parametrize("wrong", ["fast", "0", "10K", "1000G"])
def test_what_is_no_rate_of_a_line(wrong: str) -> None:
    with pytest.raises(ValueError):
        parse_line_rate(wrong)
    assert parse_line_rate("none") is None and parse_line_rate("60 Mb/s") == 60e6


@pytest.mark.parametrize(
    ("more", "knobs", "said"),
    [
        ('machine = "emulated"\n[sut]\nnic = "e1000"', "", "virtio-net"),
        ("", "[knobs]\nmtu = 9000", "bench.mtu"),
    ],
)
def test_lines_that_cannot_be_had(more: str, knobs: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        file("", knobs and f"[knobs]\n{knobs.splitlines()[1]}", more).study()


def bench(
    on: planner.MachineResources, platforms: str, more: str = "", topology: str = ""
) -> plan.Bench:
    direction = 'direction = "forward"' if topology else ""
    text = f"{more}\n[sut]\nplatforms = [{platforms}]\nguests = 3"
    given = file(topology, direction, text)
    study = given.study()
    plot = make(study, 1).plots[0]
    wanted = [v for v in plot.variants if (v.platform == "xen") == ("xen" in platforms)]
    plot = plot.__class__(**{**vars(plot), "variants": tuple(wanted)})
    cells = {v.node: given.cell(v.levels) for v in wanted}
    return planner.make_bench(study, plot, cells, on)


ROUTERS = 'topology = "routers"'


@pytest.mark.parametrize(("topology", "lines"), [("", 1), (ROUTERS, 2)])
@pytest.mark.parametrize("platforms", ['"native"', '"native", "xen"'])
def test_all_guests_have_one_line_to_all_peers(platforms: str, topology: str, lines: int) -> None:
    """On an emulated machine two NICs a line; all peers are behind the far one."""
    made = bench(CHANCE, platforms, 'machine = "emulated"', topology)
    nics = batch.nics_of(made)
    assert len(nics) == 2 * lines and len({nic.mac for nic in nics}) == len(nics)
    assert sorted(nic.hub for nic in nics) == sorted(2 * list(range(lines)))
    peers = [n for n in made.nodes if n.name.startswith(("peer", "a-", "b-"))]
    assert len(peers) == 3 * lines
    by_name = {link.name: link for link in made.links}
    for peer in peers:
        (interface,) = peer.interfaces
        assert interface.nic is None and by_name[interface.link].uplink is not None
    addresses = [i.address for n in made.nodes for i in n.interfaces]
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize(("topology", "lines"), [("", 1), (ROUTERS, 2)])
def test_on_this_host_a_line_joins_two_bridges(topology: str, lines: int) -> None:
    made = bench(ON, '"native", "container"', "", topology)
    trunks = [(link.name, link.trunk) for link in made.links if link.trunk is not None]
    assert len(trunks) == lines and len(made.links) == 2 * lines
    for near, trunk in trunks:
        assert trunk.rate_bps == 10**9
        (near_nodes, far_nodes) = (
            {n.name for n in made.nodes for i in n.interfaces if i.link == link}
            for link in (near, trunk.to)
        )
        assert "host" in near_nodes and not near_nodes & far_nodes and len(far_nodes) == 3


def test_a_router_s_networks_stay_its_own_on_a_shared_line() -> None:
    made = bench(CHANCE, '"native"', 'machine = "emulated"', ROUTERS)
    (host,) = (node for node in made.nodes if node.name == "host")
    a, b = host.interfaces
    assert (a.link, b.link) == ("lan-a", "lan-b") and (a.name, b.name) == ("sut0", "sut1")
    given: list[Any] = [a.address, *a.more_addresses]
    assert sum("." in one for one in given) == 3, "one of each router"
