"""By which ways frames can come to a program."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.study import StudyFile
from hypertare.study.study import Study
from hypertare.workloads.capture import SHARED_MEMORY

STUDY = """
name = "x"
question = "?"
machine = "{machine}"
{before}
[workloads.w]
type = "{type}"
{settings}
"""


def study(machine: str, settings: str, type: str = "capture", before: str = "") -> Study:
    text = STUDY.format(machine=machine, settings=settings, type=type, before=before)
    return StudyFile(text, "x.toml").study()


def test_xdp_is_for_the_root_of_a_machine() -> None:
    study("emulated", 'via = "xdp"')
    study("emulated", 'protocol = "frame"\nvia = "xdp"', "ping")
    for settings, type in (('via = "xdp"', "capture"), ('protocol = "frame"\nvia = "xdp"', "ping")):
        with pytest.raises(InputError, match="or run `hypertare-agent capture"):
            study("local", settings, type)


def test_a_frame_by_xdp_is_in_one_page() -> None:
    study("emulated", 'via = "xdp"', before="[bench]\nmtu = 3822")
    with pytest.raises(InputError, match="the MTU is at most 3822 bytes"):
        study("emulated", 'via = "xdp"', before="[bench]\nmtu = 3823")
    with pytest.raises(InputError, match="a 'ring' of at least 32K"):
        study("emulated", 'via = "xdp"\nring = "16K"')


def test_memory_is_shared_with_guests_of_qemu_only() -> None:
    study("local", 'via = "shared"')
    with pytest.raises(InputError, match="take the platform 'guest'"):
        study("local", 'via = "shared"', before='[sut]\nplatforms = ["native", "container"]')
    ping = 'protocol = "frame"\nvia = "shared"'
    study("local", ping, "ping")
    for platforms in ('["native"]', '["native", "container"]'):
        with pytest.raises(InputError, match="take the platform 'guest'"):
            study("local", ping, "ping", before=f"[sut]\nplatforms = {platforms}")
    with pytest.raises(InputError, match="'via' is of protocol = 'frame'"):
        study("local", 'via = "shared"', "ping")


def test_a_factor_is_refused_too() -> None:
    with pytest.raises(InputError, match="take machine = 'emulated'"):
        study("local", "", before='factors."workloads.w.via" = ["packet", "xdp"]')


def test_a_way_that_there_is_not_is_named() -> None:
    with pytest.raises(InputError, match="xdp"):
        study("emulated", 'via = "xpd"')


@pytest.mark.parametrize(
    "factors",
    [
        'via = "packet"\n[workloads.w.factors]\n"workloads.w.via" = ["packet", "shared"]',
        'via = "packet"\n[factors]\n"workloads.w.via" = ["socket", "shared"]',
    ],
)
def test_a_bench_has_the_memory_that_a_level_asks_for(factors: str) -> None:
    guest = '[sut]\nplatforms = ["native", "guest"]\nmemory = "128M"'
    assert study("emulated", factors, before=guest).shared_memory == SHARED_MEMORY
    other = factors.replace("shared", "xdp")
    assert study("emulated", other, before=guest).shared_memory is None
