"""Guests that do not fit into memory are refused before anything boots, with the number that would."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.design import pc
from hypertare.engine.prepare import check_memory
from hypertare.study import Study, StudyFile

GIB = 1 << 30


def study(machine: str, platform: str, guests: int, peers: str = "driver") -> Study:
    text = f"""
name = "x"
question = "?"
machine = "{machine}"
[sut]
platforms = ["native", "{platform}"]
memory = "512M"
guests = {guests}
[bench]
peers = "{peers}"
[workloads.tcp]
type = "stream"
"""
    return StudyFile(text, "x.toml").study()


def test_guests_of_xen_share_a_machine_with_their_driver_domain() -> None:
    many = study("emulated", "xen", 8)
    check_memory(many, pc.memory(many))
    with pytest.raises(InputError, match=r"8 guests of 512 MiB need .*: 7 fit"):
        check_memory(many, pc.memory(many) - 1)
    with pytest.raises(InputError, match=": 0 fit"):
        check_memory(many, 256 << 20)


def test_peers_that_are_guests_need_as_much() -> None:
    many = study("emulated", "xen", 8, "guest")
    with pytest.raises(InputError, match=": 4 fit"):
        check_memory(many, 5 * GIB)


def test_guests_of_this_host_have_it_for_themselves() -> None:
    check_memory(study("local", "guest", 8), 4 * GIB)
    with pytest.raises(InputError, match=": 7 fit"):
        check_memory(study("local", "guest", 8), 4 * GIB - 1)
    check_memory(study("local", "container", 8), GIB)
