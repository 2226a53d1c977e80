"""For every test."""

import pytest
from hypothesis import settings

# How long an example takes says something about the machine's load, nothing about the code.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")

LONGEST = (
    "torture/test_torture",
    "report/test_html",
    "test_results",
    "tune/test_tuner",
    *(
        f"integration/test_{name}"
        for name in (
            *("remote", "given", "xen", "datapath", "emulated", "walks", "cpus", "napi_budget"),
            *(
                "xen_routers",
                "disks",
                "tune",
                "net_parameters",
                "xen_host",
                "power_cut",
                "programs",
            ),
        )
    ),
)
"""Files that take minutes. Each has one worker for itself: begun last, it would end alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first; with `--no-loadscope-reorder` workers take them in this order."""
    names = [f"tests/{name}.py" for name in LONGEST]

    def place(item: pytest.Item) -> int:
        file = item.nodeid.partition("::")[0]
        return names.index(file) if file in names else len(names)

    items.sort(key=place)
