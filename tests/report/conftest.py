from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hypertare.findings.summarise import summarise
from hypertare.report.model import Report, gather
from hypertare.runs.store import Store
from tests import factory
from tests.report.browser import Page, browser


def read(run: Path) -> Report:
    with Store.open(run) as store:
        return gather(store, summarise(store))


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return read(factory.write(tmp_path_factory.mktemp("run"), factory.Script()))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("chromium")) as page:
        yield page
