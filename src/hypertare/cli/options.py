"""Arguments and options that several verbs have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hypertare.base.errors import InputError


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
    from hypertare.study.given import PEER

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
