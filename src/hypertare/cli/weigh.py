"""`hypertare weigh`: what does virtualisation cost a command?"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hypertare.base.errors import InputError, MachineError
from hypertare.base.figures import did_you_mean
from hypertare.cli.commands import Command, input_of, study_file, value_of
from hypertare.cli.options import (
    AS_IT_IS,
    DryRun,
    Given,
    HigherIsBetter,
    HugePages,
    Input,
    ModuleReload,
    Peer,
    Prepare,
    Value,
    ValueJson,
    between_commas,
    check_outputs,
    given_machines,
    is_stdout,
)
from hypertare.stats.practical import THRESHOLD

DISK_SIZE = "256M"
"""Of a command's disk, where none is asked for."""


def weigh(
    context: typer.Context,
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND",
            help="One command with its arguments, after --; or without -- several, each in quotes, which "
            "are compared. Those go to a shell.",
        ),
    ],
    on: Annotated[
        str | None,
        typer.Option(
            metavar="PLATFORMS",
            help="Of native, container, guest and given (default: the first three, with --image two, with "
            "--given it); native is always in, it is the baseline.",
        ),
    ] = None,
    cpus: Annotated[
        str,
        typer.Option(
            metavar="N[,N...]", help="CPUs on every platform; several counts are all weighed."
        ),
    ] = "1",
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory of container and guest, for example 2G.")
    ] = "512M",
    warmup: Annotated[int, typer.Option(metavar="N", help="Uncounted runs after each boot.")] = 1,
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Stop when the cost is known to within this, for example 5% (default: 2%, or a fifth of "
            "the cost itself, or this machine's noise).",
        ),
    ] = None,
    min_trials: Annotated[int, typer.Option(metavar="N", help="Least runs on every platform.")] = 5,
    max_trials: Annotated[int, typer.Option(metavar="N", help="Most runs on every platform.")] = 30,
    time_limit: Annotated[
        str,
        typer.Option(metavar="TIME", help="Begin nothing new after this: 90s, 5m, 1h."),
    ] = "5m",
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="An answer in half a minute: three runs at least, of one boot."
        ),
    ] = False,
    prepare: Prepare = None,
    setup: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="As --prepare, and before it: each run begins with a fresh copy of the directory.",
        ),
    ] = None,
    cleanup: Annotated[str | None, typer.Option(metavar="CMD", hidden=True)] = None,
    parameter_list: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=V[,V...]",
            help="Compare the command with each value for {NAME}. May be repeated.",
        ),
    ] = None,
    workdir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The command starts in a copy of it, in memory (default: this directory).",
        ),
    ] = None,
    input: Input = None,
    tty: Annotated[
        bool,
        typer.Option("--tty", help="Give the command a terminal of its own."),
    ] = False,
    value: Value = None,
    value_json: ValueJson = None,
    value_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Its name (default: as the command has it)."),
    ] = None,
    value_unit: Annotated[str, typer.Option(metavar="UNIT", help="Its unit.")] = "",
    higher_is_better: HigherIsBetter = False,
    device: Annotated[
        list[str] | None,
        typer.Option(
            metavar="/dev/NAME",
            help="Show the command this device, too: it sees no other than /dev/null and its like. "
            "What it does to it stays. May be repeated.",
        ),
    ] = None,
    network: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="none, or host: the command has this host's network, natively and in a container. What it "
            "does there stays.",
        ),
    ] = "none",
    peer: Peer = None,
    given: Given = None,
    disk: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|memory",
            help="Give the command a disk of its own: at $HYPERTARE_DISK, in a file without a name in DIR "
            "or in memory, forgotten in the end.",
        ),
    ] = None,
    disk_size: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help=f"Of that disk (default: {DISK_SIZE})."),
    ] = None,
    datapath: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME...]",
            help="What moves the guest's packets to the peer: qemu, vhost, vhost-user, sidecore, auto; "
            "several are all weighed, each by a guest of its own.",
        ),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="Weigh a container of your own engine: the command runs in a container of this image, and "
            "natively in the same files. It must be there: nothing is pulled.",
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="NAME", help="podman, docker, or auto: the first that works.")
    ] = "auto",
    kernel: Annotated[
        str,
        typer.Option(
            metavar="KERNEL", help="The guest's kernel: debian, debian:PACKAGE, host, or a path."
        ),
    ] = "debian",
    accelerator: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="kvm, tcg (emulated), or auto: kvm where a guest boots with it."
        ),
    ] = "auto",
    paging: Annotated[
        str | None,
        typer.Option(
            metavar="KIND[,KIND]",
            help="Page tables that KVM gives the guest: nested, shadow (default: the host's).",
        ),
    ] = None,
    pages: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE[,SIZE...]",
            help="Pages of the guest's memory: 4K, 2M, thp (default: the host's way).",
        ),
    ] = None,
    threshold: Annotated[
        str, typer.Option(metavar="SHARE", help="The least cost that matters.")
    ] = f"{100 * THRESHOLD:g}%",
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the random order of trials.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the run directory here."),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the summary here; - prints it instead."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the report here; - prints it instead."),
    ] = None,
    log: Annotated[
        bool,
        typer.Option("--log", help="Keep each run's output in the run directory."),
    ] = False,
    allow_module_reload: ModuleReload = False,
    allow_huge_pages: HugePages = False,
    dry_run: DryRun = False,
) -> None:
    """Weigh a command: natively, in a container, in a guest, in one run.

    It runs the same files of this host everywhere; what it writes goes to memory and is forgotten.

    Examples:

    hypertare weigh -- make

    hypertare weigh --cpus 1,2 --time-limit 10m -- bash -c 'make -j$(nproc)'

    hypertare weigh --on native,container --prepare 'make clean' -- make

    hypertare weigh --quick 'gzip -kc data' 'pigz -kc data'

    hypertare weigh --image debian:12 -- gzip -k data

    hypertare weigh --value 'events per second: +([0-9.]+)' --higher-is-better -- sysbench cpu run

    hypertare weigh --parameter-list threads=1,2,4 'pigz -p {threads} -kc data'

    hypertare weigh --given 'ssh bob@vm' -- make

    hypertare weigh --disk . 'fio --name=r --rw=randread --size=64M --filename=$HYPERTARE_DISK'

    hypertare weigh --peer 'iperf3 -s' --datapath qemu,vhost 'iperf3 -n 100M -c $HYPERTARE_PEER'
    """
    from hypertare.machines.asked import Asked

    # Before all else is imported, which takes as long as their answers.
    asked = None if dry_run else Asked()

    from hypertare.base import loading, paths
    from hypertare.cli.progress import Watch
    from hypertare.cli.run import FINISHED_WITH, finish, show_design
    from hypertare.engine.prepare import RunOptions
    from hypertare.engine.prepare import prepare as prepared_of
    from hypertare.engine.run_directory import new_folder
    from hypertare.engine.runners.runner import resources as resources_of
    from hypertare.engine.session import carry_out
    from hypertare.machines.host.settings import Permissions
    from hypertare.runs.store import Store

    if cleanup is not None:
        raise InputError(
            "--cleanup has nothing to do: what a command writes is in memory and forgotten.",
            "Leave it out.",
        )
    if tty and input is not None:
        raise InputError(
            "--tty gives the command a terminal as its standard input, and --input a file.",
            "Leave one of them out.",
        )
    if disk_size is not None and disk is None:
        raise InputError(
            f"--disk-size {disk_size} is of a disk that the command has not.",
            "Add where it is to be: --disk memory, or --disk DIR. Or leave --disk-size out.",
        )
    if disk not in (None, IN_MEMORY) and not Path(disk).is_dir():
        raise InputError(
            f"--disk: {disk} is no directory of this host.",
            "Name one, where a file without a name is made: a device is never written to. Or take "
            f"--disk {IN_MEMORY}.",
        )
    if datapath is not None and peer is None:
        raise InputError(
            "--datapath says what moves a guest's packets, and this command has none to move: without a "
            "peer there is no network.",
            "Give it a server to speak with: --peer 'iperf3 -s' --datapath "
            f"{datapath} 'iperf3 -n 100M -c $HYPERTARE_PEER'",
        )
    machines = given_machines(given or [])
    commands = commands_of(command, context.meta[AS_IT_IS], parameter_list or [])
    file = study_file(
        commands,
        platforms=_platforms(on, image, network, bool(machines)),
        varied={
            "cpus": _counts(cpus),
            "paging": between_commas(paging or ""),
            "pages": between_commas(pages or ""),
            "datapath": _datapaths(datapath),
            "given": list(machines),
        },
        sut={
            "memory": memory,
            "kernel": kernel,
            "accelerator": accelerator,
            "workdir": str((workdir or Path.cwd()).absolute()),
            "devices": device or [],
            "network": network,
            **({"image": image} if image is not None else {}),
            "engine": engine,
            **({} if disk in (None, IN_MEMORY) else {"disk_directory": str(Path(disk).absolute())}),
        },
        design={
            "warmup": warmup,
            **(_USUAL_PRECISION if precision is None else {"precision": precision}),
            "min_trials": min_trials,
            "max_trials": max_trials,
            "time_limit": time_limit,
            "threshold": threshold,
            **(_quick(context) if quick else {}),
        },
        prepare=" && ".join(filter(None, (setup, prepare))) or None,
        input=None if tty and input is None else input_of(input),
        tty=tty,
        value=value_of(value, value_json, value_name, value_unit, higher_is_better),
        peer=peer,
        disk=None if disk is None else disk_size or DISK_SIZE,
        given=machines,
    )
    try:
        prepared = prepared_of(file, seed)
        allow = Permissions(allow_module_reload, allow_huge_pages)
        run_options = RunOptions(allow=allow).checked(prepared)
    except InputError as error:
        raise InputError(_as_options(error.what), error.do and _as_options(error.do)) from None
    check_outputs(json=json, html=html)
    if out is not None:
        Store.check_vacant(out)
    if dry_run:
        show_design(prepared, is_stdout(json), run_options)
        return
    with Watch(prepared.study) as watch:
        on_machine = resources_of(prepared, watch.notify, allow)
        folder = out or new_folder("weigh", paths.kept_runs_dir())
        loading.later(*FINISHED_WITH)
        ended = carry_out(prepared, on_machine, folder, watch, run_options=run_options, asked=asked)
    if log:
        from hypertare.runs.kept import write_outputs

        with Store.open(folder) as store:
            write_outputs(store, folder)
    finish(folder, ended, json=json, html=html)


def _datapaths(text: str | None) -> list[str]:
    """Returns the datapaths that `text` names. Drops `vhost` from several, with a message, if this host
    lacks it.
    """
    words = between_commas(text or "")
    if len(words) < 2 or "vhost" not in words:
        return words
    from hypertare.base.host_files import Host
    from hypertare.machines.host.settings import check_vhost

    try:
        check_vhost(Host())
    except MachineError as lacking:
        others = [word for word in words if word != "vhost"]
        do = f" {lacking.do}" if lacking.do else ""
        print(
            f"hypertare: {lacking.what.replace('sut.datapath', '--datapath')} Only {', '.join(others)} "
            f"of it is weighed.{do.replace('sut.datapath', '--datapath')}",
            file=sys.stderr,
        )
        return others
    return words


def commands_of(words: list[str], as_it_is: bool, parameters: Sequence[str]) -> list[Command]:
    """One command as it stands, or several that a shell reads, each with every value of every parameter.

    Raises:
        InputError: a parameter is not given as NAME=VALUES, or no command names it.
    """
    if as_it_is and not parameters:
        return [words]
    import shlex

    if not as_it_is:
        _refuse_arguments(words)

    made = [words] if as_it_is else [[word] for word in words]
    for parameter in parameters:
        made = _with_values(made, parameter)
    names = [shlex.join(command) if as_it_is else command[0] for command in made]
    twice = next((one for place, one in enumerate(names) if one in names[:place]), None)
    if twice is not None:
        raise InputError(
            f"The command `{twice}` is given twice: what is compared must differ in something.",
            f"How much it differs from itself: '{twice}' '{twice} # again'.",
        )
    return list(names)


def _refuse_arguments(words: Sequence[str]) -> None:
    """`weigh make clean` means one command: its words are no commands."""
    import shutil

    if len(words) < 2 or any(any(c.isspace() for c in word) for word in words):
        return
    strange = next((word for word in words if shutil.which(word) is None), None)
    if strange is not None:
        raise InputError(
            f"Without -- each word is a command, and there is no program '{strange}'.",
            f"One command: hypertare weigh -- {' '.join(words)}; several: each with its arguments in "
            "quotes.",
        )


def _with_values(commands: Sequence[list[str]], parameter: str) -> list[list[str]]:
    name, equals, values = parameter.partition("=")
    place = f"{{{name}}}"
    if not name or not equals or not between_commas(values):
        raise InputError(
            f"--parameter-list {parameter}: write a name and its values.",
            "For example: --parameter-list threads=1,2,4 'pigz -p {threads} -kc data'",
        )
    if not any(place in word for command in commands for word in command):
        raise InputError(f"--parameter-list {parameter}: no command holds {place}.")
    return [
        [word.replace(place, value) for word in command]
        for command in commands
        for value in between_commas(values)
    ]


_USUAL_PRECISION: dict[str, object] = {"precision": "2%", "of_cost": "20%", "of_noise": "100%"}
"""`of_cost`: a guest that takes 25 times as long and one that takes 22 or 28 times give the same answer.
`of_noise`: more trials would only average this machine's noise away; who wants that gives a precision.
"""

_QUICK: dict[str, object] = {
    "min_trials": 3,
    "time_limit": "30s",
    "min_boots": 1,
    "blocks_per_boot": 30,
}
"""Settings of `--quick`. No guest boots twice, so the report states that the spread of boots is unknown."""


def _quick(context: typer.Context) -> dict[str, object]:
    """Returns the settings of `--quick`, without those that the command line gives itself."""

    def is_said(name: str) -> bool:
        source = context.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    return {name: value for name, value in _QUICK.items() if not is_said(name)}


IN_MEMORY = "memory"
"""The word for `--disk` that stands for a disk in memory."""

_OPTIONS = {
    "disk_directory": "disk",
    "disk": "disk-size",
    "platforms": "on",
    "devices": "device",
    "value.find": "value",
    "value.path": "value-json",
    "value.name": "value-name",
    "value.unit": "value-unit",
}
"""The options, by setting, whose names differ from those of their settings."""


def _as_options(text: str) -> str:
    """An error of the study made on the spot, in words of the options that it was made of."""

    def option(found: re.Match[str]) -> str:
        name = found[1].partition(".")[0].replace("_", "-")
        return f"--{_OPTIONS.get(found[1], name)}:"

    text = re.sub(
        r"^(?:weigh: )?(?:sut|design|workloads\.command)\.(\w+(?:\.[a-z]\w*)?)(?:\.\d+)?:",
        option,
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(r"^(?:weigh: )?(?:the study: )?", "", text)
    text = re.sub(r"^(?:weigh: )?given\.[\w-]+(?:\.reach)?:", "--given:", text, flags=re.MULTILINE)
    text = text.replace("sut.platforms", "--on").replace("sut.disk_directory", "--disk")
    text = text.replace("a smaller 'span'", "a smaller --disk-size")
    text = re.sub(r"^sut\.(\w+) is", r"--\1 is", text)
    return re.sub(
        r'\b(?:factors\.)?sut\.(paging|pages|datapath|image|engine|network)(?: = "(\w+)")?',
        lambda found: f"--{found[1]} {found[2]}" if found[2] else f"--{found[1]}",
        text,
    )


def _platforms(text: str | None, image: str | None, network: str, given: bool) -> list[str]:
    """Returns the platforms that `--on` names, of those that may be weighed here.

    Without `--on` it returns all platforms that can have the image and the network asked for; with given
    machines, those alone.

    Raises:
        InputError: a platform is not allowed here.
    """
    from hypertare.platforms.registry import KINDS

    of_users = [kind.name for kind in KINDS.values() if not kind.is_made]
    allowed = [kind.name for kind in KINDS.values() if kind.sees_host_files or not kind.is_made]
    if text is None and given:
        return of_users
    if text is None:
        allowed = [name for name in allowed if name not in of_users]
        able = [name for name in allowed if image is None or KINDS[name].runs_images]
        return [name for name in able if network != "host" or not KINDS[name].has_own_kernel]
    words = between_commas(text)
    for word in words:
        if word not in allowed:
            raise InputError(
                f"--on: '{word}' is not allowed here.{did_you_mean(word, allowed)}",
                f"Allowed: {', '.join(allowed)}.",
            )
    return words


def _counts(text: str) -> list[int]:
    try:
        counts = [int(word) for word in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1 or len(set(counts)) != len(counts):
        raise InputError(f"--cpus {text}: write numbers of CPUs, for example --cpus 1,2")
    return counts
