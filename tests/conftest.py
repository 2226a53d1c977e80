"""For every test."""

# While it loads it looks at every module that is loaded: a second longer where tests are.
import MLRsearch  # noqa: F401
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
    "integration/test_remote",
    "integration/test_given",
    "integration/test_xen",
    "integration/test_datapath",
    "integration/test_emulated",
    "integration/test_walks",
    "integration/test_cpus",
    "integration/test_napi_budget",
    "integration/test_xen_routers",
    "integration/test_disks",
    "integration/test_tune",
    "integration/test_net_parameters",
    "integration/test_xen_host",
    "integration/test_power_cut",
    "integration/test_programs",
)
"""Files that take minutes. Each has one worker for itself: begun last, it would end alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first; with `--no-loadscope-reorder` workers take them in this order."""
    names = [f"tests/{name}.py" for name in LONGEST]

    def place(item: pytest.Item) -> int:
        file = item.nodeid.partition("::")[0]
        return names.index(file) if file in names else len(names)

    items.sort(key=place)
