"""What several verbs have: their base class, arguments and options, and files for results."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from hypertare.base.errors import InputError, MachineError


def complete_study(incomplete: str) -> list[str]:
    from hypertare.study import builtin_names

    return [name for name in builtin_names() if name.startswith(incomplete)]


AskedStudy = Annotated[
    str | None,
    typer.Argument(
        metavar="STUDY",
        help="A built-in study's name (see `hypertare studies`), or a TOML file.",
        autocompletion=complete_study,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="A.B=VALUE",
        help="Change a setting, for example sut.cpus=2. May be repeated.",
    ),
]
ModuleReload = Annotated[
    bool,
    typer.Option(
        "--allow-module-reload",
        help="For sut.paging, as root: load this host's KVM module anew while no guest runs; it is "
        "put back at the end.",
    ),
]
HugePages = Annotated[
    bool,
    typer.Option(
        "--allow-huge-pages",
        help='For sut.pages = "2M", as root: set pages of 2 MB aside on this host; they are given '
        "back at the end.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Machines that run at the same time in virtual time; by default one a CPU.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="In virtual time, boot the machines on the workers of a Dask scheduler: tcp://HOST:8786.",
    ),
]
RunDirectory = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The run directory (default: a new one in hypertare-runs)."),
]
Fresh = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="In virtual time, run also what is known already; exit status 5 if it differs.",
    ),
]
Given = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]'ssh HOST'",
        help="A machine of yours that ssh reaches, by the platform given: any virtual machine, any "
        "hypervisor. May be repeated, with names: a='ssh a' b='ssh b'.",
    ),
]
Input = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Each run reads it as its standard input, from the beginning; `< FILE` says the same.",
    ),
]
Peer = Annotated[
    str | None,
    typer.Option(
        metavar="CMD",
        help="Shell command of a server, started for each run on a peer across the bench's network. "
        "The command finds its address in HYPERTARE_PEER, the server its own in HYPERTARE_ADDRESS.",
    ),
]
Value = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX",
        help="Weigh a figure that the command prints, the group of this regular expression: "
        "'events per second: +([0-9.]+)'. Of several matches the last.",
    ),
]
ValueJson = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="The same, of a command that prints JSON: end.sum_received.bits_per_second.",
    ),
]
HigherIsBetter = Annotated[
    bool,
    typer.Option("--higher-is-better", help="Of that figure; else less is better."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show the design and the expected time; run nothing."),
]
Prepare = Annotated[
    str | None,
    typer.Option(metavar="CMD", help="Shell command before each run, not measured."),
]


def between_commas(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def given_machines(words: Sequence[str]) -> dict[str, dict[str, str]]:
    """The study's tables of machines, by name; the only one needs none.

    Raises:
        InputError: two have one name, or one that is taken.
    """
    from hypertare.study.machines import PEER

    found: dict[str, dict[str, str]] = {}
    for word in words:
        name, equals, reach = word.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
            name, reach = "machine", word
        if name in found:
            raise InputError(
                f"--given names two machines '{name}'.",
                "Give each a name of its own: --given a='ssh bob@a' --given b='ssh bob@b'",
            )
        if name == PEER:
            raise InputError(
                f"--given: in a study '{PEER}' is whom the others speak with, and no machine to weigh.",
                "Give it another name.",
            )
        found[name] = {"reach": reach}
    return found


AS_IT_IS = "hypertare.as_it_is"
"""In a context's `meta`: whether what is to be run stands behind `--`."""


class Verb(TyperCommand):
    """A command that refuses empty options and arguments.

    Otherwise an empty path would mean this directory, and an empty list of words would mean the default.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[AS_IT_IS] = "--" in args
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in self.params:
            # Of a command's own words some may be empty; they come as a list.
            if given.get(parameter.name) == "":
                is_option = parameter.param_type_name == "option"
                name = parameter.opts[0] if is_option else parameter.metavar
                raise InputError(
                    f"{name} is empty.",
                    f"Give it a value{', or leave it out' if is_option else ''}.",
                )
        return super().parse_args(ctx, args)


STDOUT = Path("-")


def is_stdout(target: Path | None) -> bool:
    return target == STDOUT


def check_outputs(**targets: Path | None) -> None:
    """Checks, before hours of work, that the targets can be written. Their keywords are the options' names.

    Raises:
        InputError: one of them cannot, or several are to be the standard output.
    """
    here = [f"--{name}" for name, target in targets.items() if is_stdout(target)]
    if len(here) > 1:
        raise InputError(
            f"{' and '.join(here)} are both {STDOUT}: the standard output can hold one of them.",
            "Give the other one a file.",
        )
    for target in targets.values():
        if target is None or is_stdout(target):
            continue
        folder = target.absolute().parent
        if not folder.is_dir():
            raise InputError(f"{target}: the folder {folder} is not there.", "Make it first.")
        if target.is_dir():
            raise InputError(f"{target} is a folder.", "Name a file.")
        if not os.access(target if target.exists() else folder, os.W_OK):
            raise InputError(f"{target} may not be written.", "Name a file elsewhere.")


def write_result(text: str, target: Path) -> None:
    """Writes a result of which no other copy exists; if its file cannot be written, prints it instead.

    Raises:
        MachineError: the file could not be written, and the result is on the standard output.
    """
    if is_stdout(target):
        print(text)
        return
    try:
        target.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        print(text, flush=True)
        raise MachineError(
            f"{target} cannot be written: {error.strerror or error}.",
            "The result stands on the standard output instead.",
        ) from error
