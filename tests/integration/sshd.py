"""A machine of the user's own: this one, behind an sshd on loopback with throw-away keys."""

from __future__ import annotations

import getpass
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.lab import MARK, Lab, until

SSHD = "/usr/sbin/sshd"

_CONFIG = """
ListenAddress 127.0.0.1
Port {port}
HostKey {place}/host
AuthorizedKeysFile {place}/user.pub
StrictModes no
UsePAM {pam}
PasswordAuthentication no
PermitRootLogin prohibit-password
PidFile none
ForceCommand {home}/bin/login
"""
_LOGIN = """#!/bin/sh
echo 'Welcome, as a shell of somebody greets even those who do not look'
exec {inside} env HOME={home} PATH={home}/bin:$PATH {mark} /bin/sh -c "$SSH_ORIGINAL_COMMAND"
"""
_APART = """
mount -t tmpfs run /run && ip link set lo up && echo ready && exec sleep infinity
"""
"""A network whose settings are its own, and a /run; the rest is this host's."""
_CLIENT = """
Host *
  UserKnownHostsFile {place}/known
  IdentityFile {place}/user
  IdentitiesOnly yes
"""


@dataclass
class Machine:
    """Where the sshd keeps its keys, the home that its user finds, and its process."""

    place: Path
    home: Path
    port: int
    process: subprocess.Popen[bytes]
    inside: tuple[str, ...] = ()

    def sysctl(self, name: str) -> str:
        """A setting of its network."""
        argv = (*self.inside, "cat", f"/proc/sys/{name}")
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    def noted(self) -> list[str]:
        """What is noted there of settings that were changed."""
        argv = (*self.inside, "/bin/sh", "-c", "cat /run/hypertare-settings/* 2>/dev/null")
        return subprocess.run(argv, capture_output=True, text=True).stdout.splitlines()

    @property
    def reach(self) -> str:
        return f"ssh -p {self.port} {getpass.getuser()}@127.0.0.1"

    @property
    def env(self) -> dict[str, str]:
        """With which a user's ssh has these keys."""
        return {"HYPERTARE_SSH": f"ssh -F {self.place}/client"}

    def sessions(self) -> list[int]:
        """Its processes that serve somebody."""
        found, parents = [], [self.process.pid]
        while parents:
            parent = parents.pop()
            children = Path(f"/proc/{parent}/task/{parent}/children")
            below = (
                [int(word) for word in children.read_text().split()] if children.exists() else []
            )
            mine = [pid for pid in below if _is_sshd(pid)]
            found += mine
            parents += mine
        return found

    def agents(self) -> list[Path]:
        return sorted((self.home / ".cache" / "hypertare").glob("agent-*"))

    def program(self, name: str, text: str) -> None:
        """Has the machine find another program of this name."""
        file = self.home / "bin" / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def places(self) -> list[Path]:
        """What there is of runs whose shells are gone."""
        bases = (Path("/dev/shm"), self.home / ".cache" / "hypertare")
        found = [one for base in bases if base.is_dir() for one in base.glob("hypertare-given-*")]
        return [one for one in found if not Path(f"/proc/{one.name.split('-')[2]}").exists()]


@contextmanager
def machine_apart(lab: Lab) -> Iterator[Machine]:
    """One whose settings of the network are not this host's; of root alone."""
    holder = subprocess.Popen(
        ("unshare", "--net", "--mount", "/bin/sh", "-c", _APART), stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"ready\n"
        with machine(lab, ("nsenter", "--target", str(holder.pid), "--net", "--mount")) as one:
            yield one
    finally:
        holder.kill()
        holder.wait()


@contextmanager
def machine_without_exec(lab: Lab) -> Iterator[Machine]:
    """One in whose `~/.cache` no program may be run; of root alone."""
    place = lab.home / "there" / ".cache"
    place.mkdir(parents=True)
    script = 'mount -t tmpfs -o noexec none "$0" && echo ready && exec sleep infinity'
    holder = subprocess.Popen(
        ("unshare", "--mount", "/bin/sh", "-c", script, place), stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"ready\n"
        with machine(lab, ("nsenter", "--target", str(holder.pid), "--mount")) as one:
            yield one
    finally:
        holder.kill()
        holder.wait()


@contextmanager
def machine(
    lab: Lab, inside: tuple[str, ...] = (), beside: Machine | None = None
) -> Iterator[Machine]:
    """One `beside` another has its keys, and a home of its own."""
    if beside is None:
        place, home, name = lab.home / "sshd", lab.home / "there", "first"
        _make_keys(place)
    else:
        place, home, name = beside.place, lab.home / "there-too", "second"
    (home / "bin").mkdir(parents=True)
    (home / "greeting").write_text(
        "Welcome, as a shell of somebody's greets even those who do not look\n"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mark = f"{MARK}={lab.mark}"
    pam = "yes" if os.geteuid() == 0 else "no"
    config, log = place / f"{name}-config", place / f"{name}-log"
    config.write_text(_CONFIG.format(place=place, home=home, port=port, pam=pam))
    login = home / "bin" / "login"
    login.write_text(_LOGIN.format(home=home, mark=mark, inside=" ".join(inside)))
    login.chmod(0o755)
    (place / "client").write_text(_CLIENT.format(place=place))
    public = (place / "host.pub").read_text().split()
    with (place / "known").open("a") as known:
        known.write(f"[127.0.0.1]:{port} {public[0]} {public[1]}\n")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    process = subprocess.Popen((SSHD, "-D", "-f", config, "-E", log))
    try:
        until(lambda: log.exists() and "listening" in log.read_text(), "sshd to listen", 20)
        yield Machine(place, home, port, process, inside)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _make_keys(place: Path) -> None:
    place.mkdir()
    for name in ("host", "user"):
        key = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name))
        subprocess.run(key, check=True)


def _is_sshd(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("sshd")
    except OSError:
        return False
