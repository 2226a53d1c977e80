from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.study import StudyFile, builtin_names, find
from hypertare.study.claims import Plot

STUDY = """
name = "t"
question = "?"
[workloads.load]
type = "stream"
factors = {{ "workloads.load.rate" = ["1M", "2M"] }}
[workloads.build]
type = "command"
command = "true"
[factors]
"sut.cpus" = [1, 2]
[[plots]]
title = "p"
workload = "{workload}"
x = "{x}"
y = "{y}"
{more}
"""


def study(workload="load", x="workloads.load.rate", y="goodput", more=""):
    return StudyFile(STUDY.format(workload=workload, x=x, y=y, more=more), "study").study()


def test_a_plot_of_what_is_there() -> None:
    made = study(more='lines = "sut.cpus"')
    assert made.plots == (
        Plot(title="p", workload="load", x="workloads.load.rate", y="goodput", lines="sut.cpus"),
    )
    assert study("build", "sut.cpus", "elapsed").plots[0].factors == ("sut.cpus",)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"workload": "lod"}, "there is no workload 'lod'; there are: load, build"),
        ({"y": "elapsed"}, "load has no response 'elapsed'; it has: goodput"),
        ({"x": "sut.nic"}, "'sut.nic' is no factor of load; its factors: sut.cpus, workloads.load"),
        ({"workload": "build", "y": "elapsed"}, "'workloads.load.rate' is no factor of build"),
        ({"more": 'facet = "workloads.load.rate"'}, "three different factors"),
    ],
)
def test_what_is_not_there_is_named(wrong: dict[str, str], said: str) -> None:
    with pytest.raises(InputError) as error:
        study(**wrong)
    assert said in str(error.value)


@pytest.mark.parametrize("name", builtin_names())
@pytest.mark.parametrize("quick", [False, True])
def test_plots_of_the_built_in_studies_fit_them(name: str, quick: bool) -> None:
    file = find(name)
    file.override([], quick)
    file.study()


PING = {"latency": ["rtt_p50"], "tcp": ["goodput"]}
GUESTS = {"latency": ["sut.guests"], "tcp": ["sut.guests"]}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"shape": "stacked", "lines": "sut.guests", "x": "knobs.mtu"}, "no 'lines'"),
        ({"shape": "distribution"}, "x = 'rtt' and y = 'share'"),
        ({"shape": "distribution", "x": "rtt", "y": "share"}, "tcp has none"),
        (
            {
                "shape": "distribution",
                "workload": "latency",
                "x": "rtt",
                "y": "share",
                "lines": "sut.nic",
            },
            "is no factor",
        ),
    ],
)
def test_other_shapes_ask_for_what_there_is(fields: dict[str, str], said: str) -> None:
    plot = Plot.model_validate(
        {"title": "t", "workload": "tcp", "x": "sut.guests", "y": "goodput", **fields}
    )
    problem = plot.problem(PING, GUESTS)
    assert problem is not None and said in problem


def test_other_shapes_that_can_be_drawn() -> None:
    stacked = Plot(title="t", workload="tcp", shape="stacked", x="sut.guests", y="goodput")
    assert stacked.problem(PING, GUESTS) is None
    trips = Plot(
        title="t", workload="latency", shape="distribution", x="rtt", y="share", lines="sut.guests"
    )
    assert trips.problem(PING, GUESTS) is None and trips.factors == ("sut.guests",)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('shape = "surface"', "shape 'surface' has its second factor in 'lines'"),
        ('shape = "interaction"', "shape 'interaction' has its second factor in 'lines'"),
        ('of = "efficiency"', "of = 'efficiency' is for the shapes 'surface' and 'interaction'"),
    ],
)
def test_means_are_over_two_factors(more: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(more=more)
    whole = study(more='shape = "surface"\nof = "efficiency"\nlines = "sut.cpus"')
    assert whole.plots[0].is_of_means


ONE_OF_TWO = 'where = { "sut.cpus" = 2 }'


def test_a_plot_of_some_cells() -> None:
    plot = study(more=ONE_OF_TWO).plots[0]
    cell = {"workload": "load", "workloads.load.rate": "1M", "sut.cpus": 2}
    assert plot.shows(cell)
    assert not plot.shows({**cell, "sut.cpus": 1})
    assert not plot.shows({**cell, "workload": "build"})
    assert not plot.shows({"workload": "load", "sut.cpus": 2})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (ONE_OF_TWO.replace("2", "3"), "plots: 'p': sut.cpus: there is no level '3'"),
        (ONE_OF_TWO.replace("sut.cpus", "sut.nic"), "plots: 'p': there is no factor 'sut.nic'"),
        (f'{ONE_OF_TWO}\nlines = "sut.cpus"', "'where' leaves one level of 'sut.cpus'"),
    ],
)
def test_cells_that_a_plot_names_exist(more: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        study(more=more)
    assert said in str(error.value)


def test_a_plot_of_cells_that_were_left_out_is_no_error() -> None:
    file = StudyFile(
        STUDY.format(workload="load", x="workloads.load.rate", y="goodput", more=ONE_OF_TWO),
        "study",
    )
    file.override(["sut.cpus=1"], quick=False)
    assert file.study().plots[0].where == {"sut.cpus": 2}
