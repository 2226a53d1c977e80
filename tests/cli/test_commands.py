"""What `weigh` is asked to run: one command as it stands, or several to compare."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.cli.options import given_machines
from hypertare.cli.weigh import commands_of, study_file


def test_one_command_stands_behind_the_dashes() -> None:
    assert commands_of(["gzip", "-kc", "a b"], True, []) == [["gzip", "-kc", "a b"]]


def test_without_the_dashes_each_word_is_a_command() -> None:
    with pytest.raises(InputError, match="`gzip -kc f` is given twice"):
        commands_of(["gzip -kc f", "pigz -kc f", "gzip -kc f"], False, [])
    assert commands_of(["gzip -kc f", "pigz -kc f"], False, []) == [
        "gzip -kc f",
        "pigz -kc f",
    ]


def test_parameters_make_commands_of_one() -> None:
    asked = ["threads=1,2", "level=-1, -9"]
    assert commands_of(["pigz -p {threads} {level} f"], False, asked) == [
        "pigz -p 1 -1 f",
        "pigz -p 1 -9 f",
        "pigz -p 2 -1 f",
        "pigz -p 2 -9 f",
    ]
    assert commands_of(["pigz", "-p", "{n}", "a b"], True, ["n=1,2"]) == [
        "pigz -p 1 'a b'",
        "pigz -p 2 'a b'",
    ]


@pytest.mark.parametrize("wrong", ["threads", "threads=", "=1,2", "other=1,2"])
def test_a_wrong_parameter_says_what_is_right(wrong: str) -> None:
    with pytest.raises(InputError, match="parameter-list"):
        commands_of(["pigz -p {threads}"], False, [wrong])


def test_several_commands_are_levels_of_a_factor() -> None:
    file = study_file(
        ["gzip f", "pigz f"], platforms=["native"], varied={}, sut={}, design={}, prepare=None
    )
    study = file.study()
    assert study.factors == {"workloads.command.command": ("gzip f", "pigz f")}
    assert "`gzip f` or `pigz f`" in study.question


def test_arguments_are_not_taken_for_commands() -> None:
    with pytest.raises(InputError, match="no program 'clean-it'") as caught:
        commands_of(["make", "clean-it"], False, [])
    assert caught.value.do is not None and "weigh -- make clean-it" in caught.value.do
    assert commands_of(["true", "false"], False, []) == ["true", "false"]


def test_a_guest_s_least_memory_is_known_before_anything_starts() -> None:
    def weigh(platform: str, memory: str) -> None:
        study_file(
            [["true"]],
            platforms=[platform],
            varied={},
            sut={"memory": memory},
            design={},
            prepare=None,
        ).study()

    with pytest.raises(InputError, match="64 MiB, but a guest needs 80 MiB"):
        weigh("guest", "64M")
    weigh("guest", "80M")
    weigh("container", "64M")


def test_machines_have_names_of_their_own() -> None:
    assert given_machines(["ssh vm"]) == {"machine": {"reach": "ssh vm"}}
    assert list(given_machines(["a=ssh a", "b=ssh -p 2222 b"])) == ["a", "b"]
    with pytest.raises(InputError, match="two machines 'a'"):
        given_machines(["a=ssh a", "a=ssh b"])
    with pytest.raises(InputError, match="whom the others speak with"):
        given_machines(["peer=ssh a"])
