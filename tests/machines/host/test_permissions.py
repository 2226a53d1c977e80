"""What a run is asked to be allowed must have something to do, and somebody who may do it."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError, MachineError
from hypertare.engine.prepare import Prepared, RunOptions, prepare
from hypertare.machines.host.settings import Permissions
from hypertare.study import StudyFile

RELOAD, PAGES = Permissions(module_reload=True), Permissions(huge_pages=True)


def prepared(sut: str = "", top: str = "", factors: str = "") -> Prepared:
    text = f'name = "p"\nquestion = "?"\n{top}\n[sut]\n{sut}\n[factors]\n{factors}\n'
    text += '[workloads.b]\ntype = "burn"\n'
    return prepare(StudyFile(text, "p.toml"), 1)


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)


@pytest.mark.parametrize(
    ("allow", "sut", "factors"),
    [
        (RELOAD, 'paging = "shadow"', ""),
        (RELOAD, "", '"sut.paging" = ["nested", "shadow"]'),
        (PAGES, 'pages = "2M"', ""),
        (PAGES, "", '"sut.pages" = ["4K", "2M"]'),
    ],
)
def test_what_the_study_needs_may_be_allowed_by_root(
    allow: Permissions, sut: str, factors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = prepared(sut, factors=factors)
    assert RunOptions(allow=allow).checked(study).allow == allow
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MachineError, match="only root may do; nothing was changed"):
        RunOptions(allow=allow).checked(study)


@pytest.mark.parametrize(
    ("allow", "sut", "says"),
    [
        (RELOAD, 'pages = "2M"', "no guest with sut.paging"),
        (PAGES, 'paging = "nested"', 'no guest with sut.pages = "2M"'),
        (PAGES, 'pages = "thp"', 'no guest with sut.pages = "2M"'),
    ],
)
def test_what_has_nothing_to_do_is_refused(allow: Permissions, sut: str, says: str) -> None:
    with pytest.raises(InputError, match="has nothing to do") as raised:
        RunOptions(allow=allow).checked(prepared(sut))
    assert says in str(raised.value)


@pytest.mark.parametrize("allow", [RELOAD, PAGES])
def test_an_emulated_machine_needs_none(allow: Permissions) -> None:
    with pytest.raises(InputError, match="for this host's own KVM"):
        RunOptions(allow=allow).checked(prepared(top='machine = "emulated"'))
