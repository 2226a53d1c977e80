"""`hypertare image`: guest kernels, initramfs archives, the emulator, and the cache that holds them."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hypertare.base.errors import InputError, writing
from hypertare.cli.options import Verb, between_commas

if TYPE_CHECKING:
    from hypertare.machines.image.cache import Listed

image_app = typer.Typer(
    no_args_is_help=True, help="Guest kernels and initramfs archives, cached by content."
)
What = Literal["image", "emulator"]


@image_app.command(cls=Verb)
def build(
    what: Annotated[
        What, typer.Argument(help="An image, or the emulator that virtual time is made with.")
    ] = "image",
    kernel: Annotated[
        str, typer.Option(help="debian, debian:PACKAGE, host, or a vmlinuz or vmlinux file.")
    ] = "debian",
    profile: Annotated[str, typer.Option(help="What the image is for.")] = "guest",
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Take the distribution's newest kernel.")
    ] = False,
    programs: Annotated[
        str, typer.Option(help="Sets of programs to put into it, by names with commas.")
    ] = "",
    shell: Annotated[
        bool, typer.Option("--shell", help="Print them as variables, for `eval` in a shell.")
    ] = False,
    sources: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Sources of the emulator that the distribution's archive no longer has.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Make a guest's kernel and initramfs, or the emulator; or find them in the cache."""
    if what == "emulator":
        _build_emulator(as_json, sources)
        return
    import shlex

    from rich.console import Console

    from hypertare.machines.image.build import build as build_image

    with Console(stderr=True).status("image") as status:
        image = build_image(
            kernel,
            profile,
            programs=between_commas(programs),
            progress=status.update,
            refresh=refresh,
        )
    if as_json:
        found = {
            "kernel": str(image.kernel),
            "kernel_name": image.kernel_name,
            "initramfs": str(image.initramfs),
            "digest": image.digest,
            "programs": image.programs,
            "programs_size": image.programs_size,
        }
        print(json.dumps(found, indent=2))
        return
    if shell:
        print(f"HYPERTARE_KERNEL={shlex.quote(str(image.kernel))}")
        print(f"HYPERTARE_INITRAMFS={shlex.quote(str(image.initramfs))}")
        return
    print(f"kernel     {image.kernel}  ({image.kernel_name})")
    print(f"initramfs  {image.initramfs}  ({image.initramfs.stat().st_size / 1e6:.1f} MB)")
    if image.programs:
        print(f"programs   {image.programs}")


def _build_emulator(as_json: bool, sources: Path | None) -> None:
    from rich.console import Console

    from hypertare.machines.image import emulator

    with Console(stderr=True).status("emulator") as status:
        built = emulator.build(status.update, again=True, sources=sources)
    if as_json:
        print(json.dumps({"emulator": str(built.program), "key": built.key}, indent=2))
        return
    print(f"emulator   {built.program}  ({built.program.stat().st_size / 1e6:.1f} MB)")


@image_app.command(cls=Verb)
def programs(
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    work: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write what the sets work on into this new directory."),
    ] = None,
) -> None:
    """Sets of real programs that an image can hold (sut.programs in a study)."""
    from hypertare.machines.image.programs import SETS

    if work is not None:
        _write_work(work)
        return
    if as_json:
        found = {
            one.name: {"what": one.what, "commands": one.commands, "packages": one.packages}
            for one in SETS.values()
        }
        print(json.dumps(found, indent=2))
        return
    for one in SETS.values():
        print(f"{one.name}: {one.what}")


def _write_work(place: Path) -> None:
    """Writes the files that the program sets work on, with the same bytes as on an emulated machine."""
    from rich.console import Console

    from hypertare.machines.image.cache import Cache
    from hypertare.machines.image.programs import SETS, WORK, fetch_sources, work

    if place.exists():
        raise InputError(f"{place} is there already.", "Name a directory that is not.")
    cache, sets = Cache(), tuple(SETS.values())
    with Console(stderr=True).status("sources") as status:
        members = list(work(sets, fetch_sources(sets, cache, status.update)))
    with writing(place):
        for member in members:
            path = place / PurePosixPath(member.path).relative_to(WORK)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(member.data)
            path.chmod(stat.S_IMODE(member.mode))
    print(f"{len(members)} files in {place}")


@image_app.command("list", cls=Verb)
def list_entries(
    as_json: Annotated[bool, typer.Option("--json", help="For programs: every entry.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Every entry, not their sums.")] = False,
) -> None:
    """What is cached: size, age, last use."""
    from hypertare.machines.image.cache import Cache

    cache = Cache()
    if as_json:
        print(json.dumps([asdict(listed) for listed in cache.listing()], default=str, indent=2))
        return
    if every:
        _print_table(f"cache {cache.root}", cache.listing())
    else:
        _print_sums(f"cache {cache.root}", cache.listing())


@image_app.command(cls=Verb)
def gc(
    keep_days: Annotated[float, typer.Option(min=0, help="Keep what was used since.")] = 30.0,
    everything: Annotated[bool, typer.Option("--all", help="Keep nothing.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Remove what was not used for long. What a run is using stays."""
    from hypertare.machines.image.cache import Cache

    gone = Cache().collect(0.0 if everything else keep_days, dry_run=dry_run)
    freed = sum(listed.size for listed in gone) / 1e6
    _print_table("would be removed" if dry_run else "removed", gone)
    print(f"{freed:.0f} MB {'would be ' if dry_run else ''}freed")


def _print_table(title: str, entries: Sequence[Listed]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in ("what", "MB", "made", "last used"):
        table.add_column(name, overflow="fold")
    for listed in entries:
        size = f"{listed.size / 1e6:.1f}"
        table.add_row(
            listed.what, size, _ago(time.time() - listed.made), _ago(time.time() - listed.used)
        )
    Console().print(table)


def _print_sums(title: str, entries: Sequence[Listed]) -> None:
    """A row for each kind of entry, the largest first, and their sum."""
    from rich.console import Console
    from rich.table import Table

    of_kind = attrgetter("kind")
    kinds = [(kind, list(some)) for kind, some in groupby(sorted(entries, key=of_kind), of_kind)]
    kinds.sort(key=lambda one: -sum(listed.size for listed in one[1]))
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("what", "entries", "MB", "last used"):
        table.add_column(name, justify="right" if name in ("entries", "MB") else "left")
    for kind, some in [*kinds, ("in all", list(entries))] if entries else ():
        used = max(listed.used for listed in some)
        size = sum(listed.size for listed in some) / 1e6
        table.add_row(
            _KINDS.get(kind, kind), f"{len(some):,}", f"{size:,.0f}", _ago(time.time() - used)
        )
    Console(highlight=False).print(table)
    print("each of them: --all; what was not used for long goes by `hypertare image gc`")


_KINDS = {
    "images": "guests' archives (initramfs)",
    "kernels": "guests' kernels",
    "modules": "kernel modules",
    "names": "names of packages",
    "packages": "packages of the distribution",
    "sources": "sources of programs",
    "emulators": "the emulator of virtual time",
    "roots": "files of container images",
    "virtual": "records of virtual time",
    "walks": "modelled page walks",
}


def _ago(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
