"""A host that ssh reaches: what runs there, and the files that are brought to it, by their digests.

OpenSSH authenticates both sides; no port of ours listens. Whatever comes from there is untrusted.
"""

from __future__ import annotations

import hashlib
import os
import selectors
import shlex
import socket
import subprocess
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Literal

from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError
from hypertare.runs.store import is_run

SSH = "HYPERTARE_SSH"
"""In the environment: the program that is run for `ssh`, with further options of the user's own."""

_OPTIONS = (
    *("-T", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"),
    *("-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3"),
)
LOOK_S = 30.0
BRING_S = 600.0
_AT_ONCE = 1 << 16
_MOST_SAID = 1 << 16
_MOST_SHOWN = 4096
READY = "hypertare-ready"
"""A line before what an agent says there: what a user's own shell prints before it is no record."""
FOLDER = ".cache/hypertare"
"""Below the home of the user there."""

_LOOK = r"""
umask 077
echo arch "$(uname -m)"
echo system "$(uname -s)"
echo cpus "$(nproc)"
echo home "$HOME"
echo path "$PATH"
echo language "${LC_ALL:-$LANG}"
echo user "$(id -un)"
echo addresses $(grep -B1 'host LOCAL' /proc/net/fib_trie | grep -o '[0-9][0-9.]*$') \
    $(cut -d' ' -f1 /proc/net/if_inet6 2>/dev/null)
missing=
for name in NAMES; do
    file="$HOME/FOLDER/$name"
    if [ -f "$file" ] && [ "$(sha256sum < "$file" | cut -c1-64)" = "${name#*-}" ] &&
        { [ "${name#file}" != "$name" ] || "$file" --version > /dev/null 2>&1; }
    then touch -c "$file"; echo there "$name"; else missing=yes; fi
done
[ ! -d "$HOME/FOLDER" ] || find "$HOME/FOLDER" -name 'file-*' -mtime +30 -exec rm -f {} +
"""
"""What it is, and which of our files it has; those that nobody has used for a month are removed."""

_KEEP = r"""
umask 077
set -e
cd "$HOME"
mkdir -p FOLDER
new="FOLDER/NAME.$$"
cat > "$new"
trap 'rm -f "$new"' EXIT
[ "$(sha256sum < "$new" | cut -c1-64)" = DIGEST ]
chmod 700 "$new"
[ KIND = file ] || "$new" --version > /dev/null 2>&1 || {
    echo "no program may be run from its ~/FOLDER (a file system without exec?)" >&2; exit 1
}
mv "$new" "FOLDER/NAME"
"""


@dataclass(frozen=True)
class Sent:
    """A file that a host is to have: the agent, which is run there, or another."""

    path: Path
    kind: Literal["agent", "file"] = "file"

    @cached_property
    def digest(self) -> str:
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.digest}"

    @property
    def place(self) -> str:
        """The file's path on the host, quoted for a shell."""
        return f'"$HOME/{FOLDER}/{self.name}"'


def look(reach: Sequence[str], files: Sequence[Sent], cpus: int, more: str) -> dict[str, str]:
    """Looks at a host, sends it the files that it lacks, and then runs the script `more` on it.

    Returns:
        The lines that the scripts printed: the rest of each, by its first word.

    Raises:
        MachineError: it cannot be reached, is no Linux on x86-64, has fewer CPUs, or cannot have the files.
    """
    names = " ".join(file.name for file in files)
    script = _LOOK.replace("NAMES", names).replace("FOLDER", FOLDER)
    script += f'[ -n "$missing" ] || {{\n{more}\n}}\n'
    lines = asked(reach, script, b"", LOOK_S).splitlines()
    found = dict(line.partition(" ")[::2] for line in lines)
    kind = f"{found.get('system', '?')} {found.get('arch', '?')}"
    if kind != f"Linux {ARCH.machine}":
        raise MachineError(
            f"{' '.join(reach)}: it is {kind[:100]}, and the agent is a program for Linux "
            f"{ARCH.machine}.",
            "Other systems cannot be weighed.",
        )
    has = found.get("cpus", "")
    if not has.isdecimal() or int(has) < cpus:
        raise MachineError(
            f"{' '.join(reach)}: {cpus} CPUs are asked for (sut.cpus, --cpus), and it has {has[:20]}.",
            "Ask for as many as every platform has.",
        )
    missing = [file for file in files if f"there {file.name}" not in lines]
    for file in missing:
        script = _KEEP.replace("NAME", file.name).replace("DIGEST", file.digest)
        script = script.replace("KIND", file.kind).replace("FOLDER", FOLDER)
        asked(reach, script, file.path.read_bytes(), BRING_S)
    if missing:
        lines = asked(reach, more, b"", LOOK_S).splitlines()
        found |= dict(line.partition(" ")[::2] for line in lines)
    return found


def argv(reach: Sequence[str], script: str) -> list[str]:
    """Returns the ssh command that runs a script by /bin/sh, whatever shell the user has there."""
    ssh = shlex.split(os.environ.get(SSH) or reach[0])
    return [*ssh, *_OPTIONS, *reach[1:], f"exec /bin/sh -c {shlex.quote(script)}"]


def asked(reach: Sequence[str], script: str, data: bytes, limit_s: float) -> str:
    """What a script prints there.

    Raises:
        MachineError: it could not be run, failed, or printed more than is read.
    """
    try:
        process = subprocess.Popen(
            argv(reach, script),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise MachineError(
            "There is no ssh here.", "Install it (Debian, root: apt-get install openssh-client)."
        ) from None
    with process:
        try:
            out, errors = _exchanged(process, data, time.monotonic() + limit_s)
        except TimeoutError:
            words = " ".join(reach)
            raise MachineError(
                f"{words}: it did not answer within {limit_s:g} s.", f"Does `{words}` work?"
            ) from None
        except OverflowError:
            raise MachineError(
                f"{' '.join(reach)}: it says more than the {_MOST_SAID} bytes that are read.",
                "Does something greet whoever comes? It should be silent for commands.",
            ) from None
        finally:
            process.kill()
    if process.returncode == 0:
        return out.decode(errors="replace")
    raise refused(reach, errors.decode(errors="replace"))


def _exchanged(
    process: subprocess.Popen[bytes], data: bytes, deadline: float
) -> tuple[bytes, bytes]:
    """Both outputs of a process that is given `data`, to its end; neither may be long.

    Raises:
        TimeoutError, OverflowError: it takes too long, or says too much.
    """
    assert process.stdin and process.stdout and process.stderr
    left, said = memoryview(data), {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as waits:
        os.set_blocking(process.stdin.fileno(), False)
        waits.register(process.stdin, selectors.EVENT_WRITE)
        for pipe in said:
            waits.register(pipe, selectors.EVENT_READ)
        while waits.get_map():
            ready = waits.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    try:
                        left = left[os.write(key.fd, left[:_AT_ONCE]) :]
                    except BlockingIOError:
                        continue
                    except BrokenPipeError:
                        left = left[len(left) :]
                    if not left:
                        waits.unregister(process.stdin)
                        process.stdin.close()
                    continue
                read = os.read(key.fd, _AT_ONCE)
                said[key.fileobj] += read  # type: ignore[index]
                if not read:
                    waits.unregister(key.fileobj)
                elif len(said[key.fileobj]) > _MOST_SAID:  # type: ignore[index]
                    raise OverflowError
    try:
        process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return bytes(said[process.stdout]), bytes(said[process.stderr])


_HINTS = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key is not the one that is known",
        "Is it another machine now, or is somebody between? When you know: ssh-keygen -R HOST",
    ),
    (
        "Host key verification failed",
        "its host key is not known here{keys}",
        "If that is its key, accept it: {reach} true",
    ),
    (
        "Permission denied (",
        "it lets nobody in without a password",
        "Bring your key there: ssh-copy-id; it must work without a question: {reach} true",
    ),
    (
        "No space left on device",
        "it has no room for what is brought there",
        "Make room in its /dev/shm, /tmp or ~/.cache, or bring less: --workdir DIR",
    ),
)


def refused(reach: Sequence[str], said: str) -> MachineError:
    """ssh's own words, with what to do."""
    words = " ".join(reach)
    for sign, what, do in _HINTS:
        if sign in said:
            keys = _fingerprints(reach) if "{keys}" in what else ""
            return MachineError(f"{words}: {what.format(keys=keys)}.", do.format(reach=words))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = "".join(
        character for character in (lines or ["no message"])[-1] if character.isprintable()
    )
    return MachineError(f"{words}: {last[:300]}", f"Does `{words} true` work?")


def address_of(reach: Sequence[str]) -> str | None:
    """Returns the IP address to which ssh connects; None for a proxy or a loopback address."""
    known = _configured(reach)
    if known.get("proxyjump", "none") != "none" or known.get("proxycommand", "none") != "none":
        return None
    try:
        found = socket.getaddrinfo(known.get("hostname", reach[-1]), None, proto=socket.IPPROTO_TCP)
    except OSError:
        return None
    # Most networks that a machine is on have IPv4.
    addresses = sorted((str(one[4][0]) for one in found), key=lambda one: ":" in one)
    usable = [one for one in addresses if "%" not in one and not ip_address(one).is_loopback]
    return next(iter(usable), None)


def _configured(reach: Sequence[str]) -> dict[str, str]:
    """Returns the settings that ssh's configuration gives this destination, by name (`ssh -G`)."""
    try:
        said = subprocess.run(
            [*shlex.split(os.environ.get(SSH) or reach[0]), "-G", *reach[1:]],
            capture_output=True,
            text=True,
        ).stdout
    except OSError:
        return {}
    return dict(line.partition(" ")[::2] for line in said.splitlines())


def _fingerprints(reach: Sequence[str]) -> str:
    """Of the keys that it shows, for a person to compare."""
    known = _configured(reach)
    host, port = known.get("hostname", reach[-1]), known.get("port", "22")
    keys = subprocess.run(
        ["ssh-keyscan", "-T", "5", "-p", port, "--", host], capture_output=True, timeout=LOOK_S
    ).stdout
    read = subprocess.run(["ssh-keygen", "-l", "-f", "-"], input=keys, capture_output=True).stdout
    prints = [
        line.split()[1] for line in read[:_MOST_SHOWN].decode(errors="replace").splitlines() if line
    ]
    shown = [one for one in prints if one.startswith("SHA256:") and one.isprintable()]
    return f" ({', '.join(shown)})" if shown else ""


def pack(workdir: Path, file: IO[bytes]) -> None:
    """The work directory as a tar, without runs in it and what is no file."""

    def wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        inside = workdir / entry.name
        if entry.isdir() and inside != workdir and is_run(inside):
            return None
        return entry if entry.isreg() or entry.isdir() or entry.issym() or entry.islnk() else None

    try:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as made:
            made.add(workdir, ".", filter=wanted)
    except OSError as error:
        raise MachineError(
            f"the work directory {workdir} cannot be packed: {error}",
            "Choose another: --workdir DIR.",
        ) from None
