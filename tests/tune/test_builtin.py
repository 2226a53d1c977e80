"""Whatever a built-in study says of its own cells, it can be tuned."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.study import StudyFile, builtin_names, find
from hypertare.tune import session

TUNED = [name for name in builtin_names() if "tune" in find(name).raw]


def test_some_studies_can_be_tuned() -> None:
    assert {"napi-budget", "scheduler-weights"} <= set(TUNED)


@pytest.mark.parametrize("quick", [False, True], ids=["whole", "quick"])
@pytest.mark.parametrize("name", TUNED)
def test_a_built_in_study_can_be_tuned(name: str, quick: bool) -> None:
    file = find(name)
    file.override([], quick)
    prepared = session.prepare(file, 1)
    assert prepared.space.knobs
    assert prepared.run.study.plots == ()


def test_a_factor_that_is_set_is_not_tuned() -> None:
    text = (
        'name = "s"\nquestion = "?"\n[workloads.tcp]\ntype = "stream"\n[factors]\n'
        '"knobs.mtu" = [1500, 9000]\n"knobs.busy_poll" = [0, 50]\n'
    )
    file = StudyFile(text, "s.toml")
    file.override(["knobs.mtu=9000"], quick=False)
    prepared = session.prepare(file, 1)
    assert [knob.path for knob in prepared.space.knobs] == ["knobs.busy_poll"]
    assert prepared.run.study.knobs.mtu == 9000


def test_what_is_tuned_is_a_platform_of_the_study() -> None:
    file = find("tcp-knobs")
    file.override(["tune.platform=xen"], quick=False)
    with pytest.raises(InputError, match="xen is none of the study's platforms"):
        session.prepare(file, 1)


def test_levels_that_exclude_each_other_are_refused_before_anything_begins() -> None:
    devices = '"sut.disk_device" = ["virtio-blk", "virtio-scsi"]'
    file = find("disk-look")
    assert devices in file.text
    file = StudyFile(
        file.text.replace(devices, '"sut.disk_device" = ["virtio-blk", "nvme"]'), "s.toml"
    )
    said = "sut.disk_iothread = True and sut.disk_device = nvme do not go together"
    with pytest.raises(InputError, match=said):
        session.prepare(file, 1)
