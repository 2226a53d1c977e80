"""Settings of guests: the plan's, what does not go together, and their words."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.platforms.commands import OLD, KnobChange, System
from hypertare.platforms.guest_settings import COMMANDS, GuestSettings
from hypertare.platforms.registry import find
from hypertare.protocol import plan
from hypertare.study import StudyFile

TEXT = """
name = "boards"
question = "?"
machine = "{machine}"
[sut]
platforms = ["native", "{platform}"]
machine_type = "microvm"
{sut}
[workloads.work]
{workload}
"""
PING = 'type = "ping"'


def test_names_and_defaults_are_the_plans() -> None:
    ours, theirs = GuestSettings.model_fields, plan.GuestSettings.model_fields
    assert set(ours) == set(theirs) and set(COMMANDS) <= set(ours)
    assert GuestSettings().in_plan("qemu") == plan.GuestSettings()


@pytest.mark.parametrize(
    ("machine", "platform", "sut", "workload", "said"),
    [
        ("local", "guest", 'nic = "e1000"', PING, "'e1000' is a card for PCI"),
        ("emulated", "guest", "", PING, "no firmware for it. Take 'q35' or 'pc'"),
        ("emulated", "xen", "", PING, "machine_type is of the platform guest"),
        ("local", "container", "", PING, "machine_type is of the platform guest"),
    ],
)
def test_a_microvm_is_refused_where_it_cannot_be(
    machine: str, platform: str, sut: str, workload: str, said: str
) -> None:
    text = TEXT.format(machine=machine, platform=platform, sut=sut, workload=workload)
    with pytest.raises(InputError, match=said):
        StudyFile(text, "boards.toml").study()


def test_a_microvm_shares_no_memory_and_needs_no_card_without_a_network() -> None:
    def study(sut: str, workload: str) -> None:
        text = TEXT.format(machine="local", platform="guest", sut=sut, workload=workload)
        StudyFile(text, "boards.toml").study()

    study('nic = "e1000"', 'type = "sleep"')
    with pytest.raises(InputError, match="shares with its peer is a card of"):
        study("", 'type = "capture"\nvia = "shared"')


def test_libvirt_has_a_word_for_each_board_but_the_microvm() -> None:
    system = System(find("guest"))
    pc = COMMANDS["machine_type"](KnobChange("sut.machine_type", "pc", "q35", system))
    assert pc.xml == '<os> <type machine="pc">hvm</type> </os>' and "-machine pc" in str(pc.note)
    assert 'machine="q35"' in pc.undo[0]
    micro = COMMANDS["machine_type"](KnobChange("sut.machine_type", "microvm", OLD, system))
    assert micro.xml is None and "-machine microvm" in str(micro.note)
