"""Designs: complete, blocked, random, and the same for the same seed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.base.errors import InputError
from hypertare.design.design import MAX_GUESTS, Design, make
from hypertare.study import StudyFile

TEXT = """
name = "probe"
question = "?"
[workloads.tcp]
type = "stream"
[workloads.rtt]
type = "ping"
[factors]
"sut.nic" = ["virtio-net", "e1000"]
"sut.cpus" = [1, 2]
"workloads.tcp.flows" = [1, 4]
"knobs.mtu" = [1500, 900]
"""


def design(text: str = TEXT, seed: int = 1) -> Design:
    return make(StudyFile(text, "probe.toml").study(), seed)


def test_hard_levels_make_plots_and_guest_levels_make_guests() -> None:
    made = design()
    assert [plot.levels for plot in made.plots] == [{"sut.cpus": 1}, {"sut.cpus": 2}]
    variants = [(v.platform, v.levels, v.node) for v in made.plots[0].variants]
    assert variants == [
        ("native", {}, "host"),
        ("container", {}, "container1"),
        ("guest", {"sut.nic": "virtio-net"}, "guest2"),
        ("guest", {"sut.nic": "e1000"}, "guest3"),
    ]


def test_easy_levels_make_cells_of_the_workloads_they_concern() -> None:
    cells = [cell.levels for cell in design().cells]
    assert len([c for c in cells if c["workload"] == "tcp"]) == 4
    assert len([c for c in cells if c["workload"] == "rtt"]) == 2
    assert all("workloads.tcp.flows" not in c for c in cells if c["workload"] == "rtt")


def test_more_guests_than_fit_make_more_plots() -> None:
    models = '["virtio-net", "e1000", "e1000e", "vmxnet3", "rtl8139"]'
    made = design(TEXT.replace('["virtio-net", "e1000"]', models).replace("[1, 2]", "[1]"))
    guests = [sum(v.platform == "guest" for v in plot.variants) for plot in made.plots]
    assert guests == [MAX_GUESTS, 1]
    assert all(plot.variants[0].platform == "native" for plot in made.plots)


def test_a_factor_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be a factor"):
        design(TEXT.replace('"sut.cpus" = [1, 2]', '"design.warmup" = [1, 2]'))


@given(seed=st.integers(), block=st.integers(0, 1000), boot=st.integers(0, 100))
def test_a_block_holds_every_variant_once(seed: int, block: int, boot: int) -> None:
    made = design(seed=seed)
    plot, cell = made.plots[1], made.cells[0]
    trials = list(made.block(plot, cell, block, boot))
    assert sorted(map(repr, (t.cell for t in trials))) == sorted(
        repr({**cell.levels, **plot.levels, **v.levels}) for v in plot.variants
    )
    assert {(t.block, t.boot) for t in trials} == {(block, boot)}


def test_the_same_seed_gives_the_same_order_and_another_one_another() -> None:
    def orders(seed: int) -> list[list[str]]:
        made = design(seed=seed)
        return [
            [repr(t.cell) for t in made.block(made.plots[0], made.cells[0], block, 0)]
            for block in range(20)
        ]

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)


def test_every_place_in_a_block_falls_to_every_variant_about_as_often() -> None:
    made = design()
    plot, cell = made.plots[0], made.cells[0]
    first = Counter(next(made.block(plot, cell, block, 0)).platform for block in range(2000))
    assert first["native"] == pytest.approx(500, abs=80)
    assert first["guest"] == pytest.approx(1000, abs=100)


def test_several_guests_are_nodes_of_one_variant() -> None:
    text = TEXT.replace('"sut.cpus" = [1, 2]', '"sut.guests" = [1, 3]')
    made = design(text.replace('["virtio-net", "e1000"]', '["e1000"]'))
    (plot,) = made.plots
    assert [v.nodes for v in plot.variants] == [
        ("host",),
        ("container1-1", "container1-2", "container1-3"),
        ("guest2-1", "guest2-2", "guest2-3"),
    ]
    # Who works is chosen for each trial, of those that stand there: no level needs another bench.
    assert {cell.levels["sut.guests"] for cell in made.cells} == {1, 3}


def test_how_many_work_may_be_varied_for_one_workload() -> None:
    text = """
name = "x"
question = "?"
[workloads.tcp]
type = "stream"
[workloads.rtt]
type = "ping"
factors = { "sut.guests" = [2, 4] }
"""
    made = design(text)
    assert [cell.levels.get("sut.guests") for cell in made.cells] == [None, 2, 4]
    assert made.plots[0].variants[1].guests == 4
