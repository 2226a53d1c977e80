"""The simulation of large clusters, held against cases that are reckoned by hand."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[2] / "bench" / "cluster_scale.py"


@pytest.fixture(scope="module")
def scale() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cluster_scale", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cluster_scale"] = module
    spec.loader.exec_module(module)
    return module


def test_where_nothing_else_costs_anything_boots_do(scale: ModuleType) -> None:
    free = scale.Costs(0, 0, 0, 1)
    # Of 50 boots the first runs twice: 51 of 2 s on 3 workers.
    found = scale.simulate([2.0] * 50, 3, free, cold=True)
    assert found.elapsed_s == found.ideal_s == 34 and found.limit == "nothing"


def test_a_controller_that_is_slower_than_its_workers_is_the_limit(scale: ModuleType) -> None:
    found = scale.simulate([1.0] * 50, 10, scale.Costs(1.0, 0, 0, 1), cold=False)
    # The last of 51 is asked for after 51 s.
    assert found.elapsed_s == 52 and found.limit == "controller"


def test_files_go_to_eight_workers_at_a_time(scale: ModuleType) -> None:
    costs = scale.Costs(0, 0, 100, 100)
    found = scale.simulate([1.0] * 50, 10, costs, cold=True)
    # Eight share the scheduler until 8 s, two more until 10 s: by 13 s 40 and 6 of the 51 boots have ended.
    assert found.files_s == 10 and found.elapsed_s == 14 and found.limit == "files"


def test_no_boot_is_shorter_than_the_longest(scale: ModuleType) -> None:
    found = scale.simulate([10.0, 1.0, 1.0], 100, scale.Costs(0, 0, 0, 1), cold=False)
    assert found.elapsed_s == found.ideal_s == 10
