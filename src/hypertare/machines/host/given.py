"""Machines of the user's own, which ssh reaches: their agents, and the files that are brought to them.

OpenSSH authenticates both sides; no port of ours listens. What is brought is the agent, once, by its
digest, into `~/.cache/hypertare`; and for each bench the work directory, into a directory that a shell
there removes when the agent is gone, whatever ended it. What an earlier run left the next one removes. The
process in which a machine of this host runs is found here, too: its CPU time is counted as the machine's,
seen from outside.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import select
import shlex
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from hypertare.base.errors import MachineError
from hypertare.machines.reach import BRING_S, READY, Sent, argv, look, pack, refused
from hypertare.machines.steps import end_process
from hypertare.protocol import plan
from hypertare.study.machines import pid_of

_END_S = 6.0
_DIGITS_OF_IPV6 = 32
_AT_ONCE = 1 << 16
_PIPES = ("orders", "records", "messages")
_MOST_SAID = 4096

_SWEEP = r"""
for base in /dev/shm "${TMPDIR:-/tmp}" "$HOME/.cache/hypertare"; do
    [ -d "$base" ] && [ -w "$base" ] || continue
    for old in "$base"/hypertare-given-*; do
        [ -O "$old" ] || continue
        pid=${old##*/hypertare-given-}
        kill -0 "${pid%%-*}" 2>/dev/null || rm -rf "$old"
    done
done
"""
"""A shell script that removes the directories of earlier runs whose shells have ended."""

_SERVE = r"""
mask=$(umask)
umask 077
agent=AGENT
place=
for base in /dev/shm "${TMPDIR:-/tmp}" "$HOME/.cache/hypertare"; do
    [ -d "$base" ] && [ -w "$base" ] || continue
    made=$(mktemp -d "$base/hypertare-given-$$-XXXXXX") || continue
    if printf '#!/bin/sh\n' > "$made/try" && chmod 700 "$made/try" && "$made/try" 2>/dev/null; then
        place=$made; rm -f "$made/try"; break
    fi
    rm -rf "$made"
done
[ -n "$place" ] || { echo "there is no directory in which a program may be run" >&2; exit 1; }
keeper=
trap 'exec 7>&- 8>&-; [ -z "$keeper" ] || wait $keeper
    for n in 1 2 3 4 5; do rm -rf "$place" && break; sleep 0.2; done' EXIT
trap 'exit 143' HUP INT TERM PIPE
mkdir "$place/pristine"
umask "$mask"
if [ SIZE -gt 0 ]; then
    head -c SIZE | tar -xpf - -C "$place/pristine" || exit 1
fi
echo READY
SETTINGS
"$agent" node --place "$place" --given CPUS "$@" 7>&- 8>&-
"""
"""The shell script that runs the agent and removes its directory afterwards.

It reads the files of the work directory, then prints READY and passes the orders on to the agent. Lines
before READY come from the user's own shell.
"""
_AS_ROOT = 'as_root=; [ "$(id -u)" = 0 ] || as_root="sudo -n"\n'
_KEEP_SETTINGS = (
    _AS_ROOT
    + r"""
mkfifo "$place/ask" "$place/answer" || exit 1
exec 7<>"$place/ask" 8<>"$place/answer"
$as_root "$agent" keep-settings < "$place/ask" > "$place/answer" 2>/dev/null 7>&- 8>&- &
keeper=$!
set -- --settings
"""
)
"""The part of the script that starts a keeper of settings. The keeper outlives the agent and its shell and
puts the settings back when its input ends.
"""

_LOOK_AT_SETTINGS = r"""
agent=AGENT
echo settings-left $("$agent" keep-settings --look)
"""
_TAKE_SETTINGS = (
    _AS_ROOT
    + r"""
agent=AGENT
if ! $as_root true 2>/dev/null; then
    echo settings-refused yes
elif back=$($as_root "$agent" keep-settings --put-back 2>&1); then
    echo settings-back $back
else
    echo settings-wrong $back
fi
"""
)
"""A shell script that puts back settings which a run left changed because its keeper was killed with it."""
_MOST_BEFORE = 1 << 16


_MOST_SHOWN = 500


@dataclass(frozen=True)
class _Look:
    """What a machine was looked at for: our agent, an address, whether its settings can be changed."""

    agent: Path
    reach: tuple[str, ...]
    address: str | None
    settings: bool


class GivenMachines:
    """The given machines of a run's benches.

    A connection takes as long as the rest of a start. So this process remembers each machine that it has
    checked, with the least number of CPUs that it has. It forgets a machine when a connection fails:
    another machine may answer at that address then.
    """

    _known: ClassVar[dict[_Look, int]] = {}

    def __init__(self, agent: Path) -> None:
        self._agent = Sent(agent, "agent")
        self._connections: list[_Connection] = []
        self._scratch: _Scratch | None = None

    def start(self, bench: plan.Bench, limit_s: float) -> plan.Bench:
        """The bench with the agents of its machines running; they have not been heard yet.

        Raises:
            MachineError: one cannot be reached, or has no use for our agent; it says what to do.
        """
        # Of a bench that could not be made.
        self.remove()
        nodes = [
            node.model_copy(update={"kind": self._started(node, node.kind, limit_s)})
            if isinstance(node.kind, plan.Given)
            else node
            for node in bench.nodes
        ]
        return bench.model_copy(update={"nodes": tuple(nodes)})

    def remove(self) -> None:
        """Ends the connections, and with them all that was brought but the agent."""
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None

    def _started(self, node: plan.Node, kind: plan.Given, limit_s: float) -> plan.Given:
        if kind.reach:
            self.look(kind.reach, kind.cpus, settings=kind.settings)
        self._scratch = self._scratch or _Scratch()
        pipes = self._scratch.place / node.name
        pipes.mkdir()
        files = self._scratch.place / "files.tar"
        if node.files is not None and not files.exists():
            # Once for all machines of the bench.
            with files.open("wb") as packed:
                pack(node.files.workdir, packed)
        size = files.stat().st_size if files.exists() else 0
        program = self._agent.place if kind.reach else shlex.quote(str(self._agent.path.resolve()))
        script = _SERVE.replace("AGENT", program).replace("SIZE", str(size))
        script = script.replace("SETTINGS", _KEEP_SETTINGS if kind.settings else "")
        script = script.replace("CPUS", str(kind.cpus))
        connection = _Connection(kind.reach, script.replace("READY", READY), pipes)
        self._connections.append(connection)
        if node.cpus:
            os.sched_setaffinity(connection.process.pid, node.cpus)
        deadline = time.monotonic() + limit_s + BRING_S
        try:
            if size:
                connection.send(files, deadline)
            connection.hand_over(deadline)
        except MachineError:
            for one in [one for one in self._known if one.reach == kind.reach]:
                del self._known[one]
            raise
        agent = plan.RunningAgent(
            described=" ".join(kind.reach) or "this host", pipes=pipes, pid=connection.process.pid
        )
        return kind.model_copy(update={"agent": agent})

    def look(
        self,
        reach: tuple[str, ...],
        cpus: int,
        address: str | None = None,
        *,
        settings: bool = False,
    ) -> str | None:
        """Checks that a machine fits, and sends it the agent if it lacks it.

        A machine fits if it can be reached, has `cpus` CPUs, has the address to which packets are sent, and
        lets its settings be changed if `settings` asks for that.

        Returns:
            A notice about settings of the machine that an earlier run has left changed, or None.

        Raises:
            MachineError: the machine does not fit; the message names the remedy.
        """
        wanted = _Look(self._agent.path, reach, address, settings)
        if self._known.get(wanted, 0) >= cpus:
            return None
        script = _TAKE_SETTINGS if settings else _LOOK_AT_SETTINGS
        more = _SWEEP + script.replace("AGENT", self._agent.place)
        found = look(reach, (self._agent,), cpus, more)
        if address is not None:
            _has_address(reach, address, found.get("addresses", ""))
        notice = _of_settings(reach, found)
        for one in (wanted, replace(wanted, address=None)):
            self._known[one] = max(cpus, self._known.get(one, 0))
        return notice


def _of_settings(reach: tuple[str, ...], found: Mapping[str, str]) -> str | None:
    """Returns a notice about settings that an earlier run has left changed, or None.

    Raises:
        MachineError: this run may not change settings there, or those of an earlier run cannot be put back.
    """
    words = " ".join(reach)
    if "settings-refused" in found:
        raise MachineError(
            f"{words}: settings = true, but its user is not root there, and sudo asks for a password.",
            "Reach it as root, or let that user use sudo without one (sudoers: NOPASSWD); else leave "
            "settings and knobs out.",
        )
    if wrong := _shown(found.get("settings-wrong", "")):
        raise MachineError(f"{words}: {wrong}", "See to that first.")
    if back := _shown(found.get("settings-back", "")):
        return f"{words}: an earlier run was killed there; its settings were put back: {back}"
    if left := _shown(found.get("settings-left", "")):
        return (
            f"{words}: an earlier run was killed there, and settings are not as they were ({left}): a run "
            "with settings = true puts them back"
        )
    return None


def _shown(said: str) -> str:
    return "".join(one for one in said.strip() if one.isprintable())[:_MOST_SHOWN]


def _has_address(reach: tuple[str, ...], address: str, words: str) -> None:
    """Checks that an address is one of the machine's own.

    Raises:
        MachineError: it is not, so packets to it would reach another machine.
    """
    own = list(dict.fromkeys(filter(None, map(_read_address, words.split()))))
    if address in own:
        return
    there = [one for one in own if not ipaddress.ip_address(one).is_loopback]
    raise MachineError(
        f"{' '.join(reach)}: {address} is none of its addresses, which are: {', '.join(there) or 'none'}.",
        "Give one of them. Through a port that is forwarded (NAT) no other traffic reaches it: give it a "
        "network that this host is on.",
    )


def _read_address(word: str) -> str | None:
    """Parses an address as /proc/net has it, IPv6 in 32 digits; returns None for any other word."""
    with contextlib.suppress(ValueError):
        if len(word) == _DIGITS_OF_IPV6:
            return str(ipaddress.IPv6Address(int(word, 16)))
        return str(ipaddress.ip_address(word))
    return None


def address_towards(address: str) -> str:
    """Returns the address by which this host sends to another address.

    Raises:
        MachineError: this host has no route to it.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            # Nothing is sent.
            asked.connect((address, 9))
            return str(asked.getsockname()[0])
    except OSError as error:
        raise MachineError(
            f"There is no way from this host to {address}: {error.strerror}.",
            "Is it the address of a network that this host is on?",
        ) from None


class _Connection:
    """ssh's process. The ends of its pipes here are the host agent's, once that has opened them; until then
    what comes waits in them.
    """

    def __init__(self, reach: tuple[str, ...], script: str, pipes: Path) -> None:
        self._reach = reach
        for name in _PIPES:
            os.mkfifo(pipes / name, 0o600)
        # ssh may hold no end by which orders are written, or it would never see that they end.
        orders = os.open(pipes / "orders", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._orders = os.open(pipes / "orders", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(orders, True)
        self._outputs = [os.open(pipes / name, os.O_RDWR | os.O_CLOEXEC) for name in _PIPES[1:]]
        try:
            self.process = subprocess.Popen(
                argv(reach, script) if reach else ("/bin/sh", "-c", script),
                stdin=orders,
                stdout=self._outputs[0],
                stderr=self._outputs[1],
                start_new_session=True,
            )
        except OSError:
            self._close_outputs()
            raise
        finally:
            os.close(orders)
        # Who has ended is gone from /proc only then.
        threading.Thread(target=self.process.wait, daemon=True).start()

    def send(self, files: Path, deadline: float) -> None:
        """Sends the files of the work directory, which the shell reads before it starts the agent.

        Raises:
            MachineError: they were not taken in time.
        """
        with files.open("rb") as source:
            while part := source.read(_AT_ONCE):
                left = memoryview(part)
                while left:
                    if self.process.poll() is not None or time.monotonic() > deadline:
                        raise MachineError(
                            f"{' '.join(self._reach)}: the work directory could not be brought there.",
                            "Is there room for it? A smaller one: --workdir DIR.",
                        )
                    _, ready, _ = select.select((), (self._orders,), (), 0.2)
                    if ready:
                        with contextlib.suppress(BlockingIOError):
                            left = left[os.write(self._orders, left) :]

    def hand_over(self, deadline: float) -> None:
        """Leaves the pipes to the host agent, with the agent's own words next in them.

        Raises:
            MachineError: the agent was not started; it says what was said there.
        """
        seen = bytearray()
        records, messages = self._outputs
        while not seen.endswith(READY.encode() + b"\n"):
            ready, _, _ = select.select((records,), (), (), 0.2)
            if ready and len(seen) < _MOST_BEFORE:
                # One by one: what follows the word is not for us.
                seen += os.read(records, 1)
            elif self.process.poll() is not None or time.monotonic() > deadline or ready:
                os.set_blocking(messages, False)
                with contextlib.suppress(BlockingIOError):
                    said = os.read(messages, _MOST_SAID).decode(errors="replace")
                    raise refused(self._reach, said)
                raise refused(self._reach, "its agent was not started")
        self._close_outputs()

    def _close_outputs(self) -> None:
        for end in self._outputs:
            os.close(end)
        self._outputs = []

    def close(self) -> None:
        """The end of its input ends the agent, whose shell clears up; a connection that hangs is cut."""
        self._close_outputs()
        os.close(self._orders)
        end_process(self.process, _END_S)


class _Scratch:
    """A directory for pipes, which a shell removes when this process is gone, whatever ended it."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="hypertare-given-"))
        self._guard = subprocess.Popen(
            ("/bin/sh", "-c", 'trap "" INT TERM HUP; cat; rm -rf "$1"', "sh", str(self.place)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def close(self) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(_END_S)


_MOST_BYTES = 1 << 16
_MOST_PROCESSES = 100_000
_MOST_NAMED = 5


def process_of(outside: str, proc: Path = Path("/proc"), own: int | None = None) -> int:
    """The process that `outside` of a machine means.

    Args:
        outside: `pid:4711`, or words of its command line.
        proc: where processes are looked for.
        own: this process, whose command line may have the words too, as have those above and below it.

    Raises:
        MachineError: there is none, or several of which none is above all others.
    """
    processes = _processes(proc)
    if (wanted := pid_of(outside)) is not None:
        if wanted not in processes:
            raise MachineError(
                f"outside = {outside!r}: this host has no process {wanted}.",
                "Is the machine on this host, and running? Or name words of its process's command line.",
            )
        return wanted
    own = os.getpid() if own is None else own
    ours = {own, *_above(processes, own)}
    ours |= {pid for pid in processes if own in _above(processes, pid)}
    found = [pid for pid, (_, words) in processes.items() if outside in words and pid not in ours]
    # What a process has started may have its words.
    roots = [pid for pid in found if not any(one in found for one in _above(processes, pid))]
    if len(roots) == 1:
        return roots[0]
    if not roots:
        raise MachineError(
            f"outside = {outside!r}: no process of this host has that in its command line.",
            "Is the machine on this host, and running? `ps -ef` shows them, as does pid:NUMBER.",
        )
    named = ", ".join(map(str, roots[:_MOST_NAMED]))
    raise MachineError(
        f"outside = {outside!r}: {len(roots)} processes of this host have that in their command lines "
        f"({named}).",
        "Give more of its words, or its number: outside = 'pid:NUMBER'.",
    )


def _processes(proc: Path) -> dict[int, tuple[int, str]]:
    """Returns parent and command line of all processes by number, in ascending order."""
    found = {}
    numbers = sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())
    for pid in numbers[:_MOST_PROCESSES]:
        # One that ends meanwhile is simply not there.
        with contextlib.suppress(OSError, ValueError, IndexError):
            # proc_pid_stat(5): the name may hold anything, so it ends at the last parenthesis.
            parent = int(_read(proc / str(pid) / "stat").rpartition(")")[2].split()[1])
            words = _read(proc / str(pid) / "cmdline").rstrip("\0").replace("\0", " ")
            found[pid] = parent, words
    return found


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode(errors="replace")


def _above(processes: Mapping[int, tuple[int, str]], pid: int) -> Iterator[int]:
    """Its parent, that one's, and so on."""
    seen = {pid}
    while pid in processes and processes[pid][0] not in seen:
        pid = processes[pid][0]
        seen.add(pid)
        yield pid
