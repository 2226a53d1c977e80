"""A study of commands: `weigh` and `tune -- COMMAND` are nothing but studies made on the spot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypertare.base.errors import InputError

if TYPE_CHECKING:
    from hypertare.study import StudyFile

Command = str | list[str]


def study_file(
    commands: Sequence[Command],
    *,
    name: str = "weigh",
    platforms: list[str],
    varied: Mapping[str, Sequence[object]],
    sut: Mapping[str, object],
    design: dict[str, object],
    prepare: str | None,
    input: str | None = None,
    tty: bool = False,
    value: Mapping[str, object] | None = None,
    peer: str | None = None,
    disk: str | None = None,
    given: Mapping[str, object] | None = None,
    question: str | None = None,
) -> StudyFile:
    """The study that runs commands.

    Args:
        commands: one, or several that are compared: then they are the levels of a factor.
        input: the file that each run has as standard input.
        tty: they have a terminal of their own.
        value: how the figure that leads is found in what they print; without one elapsed time leads.
        disk: the size of a disk that each of them finds in HYPERTARE_DISK.
        peer: a server that each of them speaks with, for a shell.
        given: machines of the user's own, by name.
        question: what it asks; without, what virtualisation costs them.
        varied: settings of `sut`, each a factor where it has several levels; none is left as it is.
    """
    from hypertare.study import BASELINE, StudyFile

    if BASELINE not in platforms:
        platforms = [BASELINE, *platforms]
    asked = {
        "prepare": prepare,
        "input": input,
        "tty": tty or None,
        "value": value,
        "peer": peer,
        "disk": disk,
    }
    workload = {key: setting for key, setting in asked.items() if setting is not None}
    raw: dict[str, object] = {
        "name": name,
        "question": question or _question(commands, peer, "faster" if value is None else "better"),
        "sut": {
            "platforms": platforms,
            **{name: levels[0] for name, levels in varied.items() if levels},
            **sut,
        },
        **({"given": given} if given else {}),
        "workloads": {"command": {"type": "command", "command": commands[0], **workload}},
        "design": design,
    }
    factors: dict[str, list[Any]] = {
        f"sut.{name}": list(levels) for name, levels in varied.items() if len(levels) > 1
    }
    if len(commands) > 1:
        factors["workloads.command.command"] = list(commands)
    raw["factors"] = factors
    return StudyFile.of(raw, name)


def input_of(asked: Path | None) -> str | None:
    """Returns the file that each run reads: `asked`, or the file behind standard input, or None.

    A pipe can be read only once, so it is no input; if data waits in it, a message reports that. The data
    stays in the pipe, for it may be the list that a shell's loop reads.
    """
    import fcntl
    import os
    import stat
    import struct
    import sys
    import termios

    if asked is not None:
        return str(asked.absolute())
    try:
        mode = os.fstat(0).st_mode
        if stat.S_ISREG(mode):
            return str(Path("/proc/self/fd/0").readlink())
        is_pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        if is_pipe and any(fcntl.ioctl(0, termios.FIONREAD, struct.pack("i", 0))):
            print(
                "hypertare: what comes by the pipe at standard input is not read: each run would need it "
                "anew. Put it into a file: --input FILE",
                file=sys.stderr,
            )
    except OSError:
        # There is none.
        pass
    return None


def value_of(
    find: str | None, path: str | None, name: str | None, unit: str, higher_is_better: bool
) -> dict[str, object] | None:
    """Returns the `value` table of the study for the figure that the command prints; None without one."""
    if find is None and path is None:
        if name is not None or unit or higher_is_better:
            raise InputError(
                "--value-name, --value-unit and --higher-is-better say more of a figure that the command "
                "prints, and none is named.",
                "Name it: --value 'events per second: +([0-9.]+)', or --value-json PATH.",
            )
        return None
    if find is not None and path is not None:
        raise InputError(
            "--value and --value-json are two figures, and one leads.", "Leave one out."
        )
    return {
        **({"find": find} if path is None else {"path": path}),
        "name": name or "",
        "unit": unit,
        "better": "higher" if higher_is_better else "lower",
    }


def _question(commands: Sequence[Command], peer: str | None, better: str) -> str:
    named = [f"`{shown(command)}`" for command in commands]
    served = "" if peer is None else f", served by `{peer}`"
    if len(named) == 1:
        return f"What does virtualisation cost {named[0]}{served}?"
    return f"Which is {better}, on every platform{served}: {' or '.join(named)}?"


def shown(command: Command) -> str:
    import shlex

    return command if isinstance(command, str) else shlex.join(command)
