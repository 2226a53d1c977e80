"""The user's own container engine, podman or docker: its images, and containers of them as nodes.

All else of a bench is made by the agent in a sandbox, which no engine can be started from. So the
controller starts these containers, with the agent of the node as their command and named pipes in place
of its input and output. They are called after the run, `hypertare-PID-START.N`: a guard of their own (this
module as a program) removes them when the run is gone, and the next run what was left with it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hypertare.base.errors import MachineError
from hypertare.base.host_files import Host
from hypertare.protocol import plan

if TYPE_CHECKING:
    from hypertare.machines.image.cache import Entry


EngineName = Literal["podman", "docker"]
PROGRAMS: tuple[EngineName, ...] = ("podman", "docker")

PREFIX = "hypertare-"
_LOOK_S = 30.0
_EXPORT_S = 600.0
_PIPES = ("orders", "records", "messages")
_WITHIN = "/.hypertare"
"""Where a container finds what is put into it: the agent, and the work directory to copy from."""

_TEMPORARY = "/.hypertare-tmp"
"""As the agent has it (`node/files.rs`)."""

_STARTS_WITH = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
}
"""What engines set where an image does not."""


@dataclass(frozen=True)
class EngineImage:
    """An image that an engine has: its environment, and its files in a directory of this host.

    `described` is the engine with its version; `files` is held, so that nobody removes them meanwhile.
    """

    program: str
    described: str
    id: str
    environment: dict[str, str]
    files: Entry

    @property
    def root(self) -> Path:
        return self.files.path / "root"


def find(
    asked: Literal["auto"] | EngineName, image: str, notify: Callable[[str], None]
) -> EngineImage:
    """An image, with its files at hand. It is never pulled.

    Raises:
        MachineError: there is no engine that works, or it has no such image.
    """
    from hypertare.machines.image.cache import Cache

    program, version = _engine(asked)
    said = Host().run((program, "image", "inspect", image), _LOOK_S)
    if not said.ok:
        raise MachineError(
            f"{program} has no image {image}: {said.said}",
            f"Get it with `{program} pull {image}`, or see `{program} images`; hypertare pulls none.",
        )
    (found,) = json.loads(said.out)
    variables = (word.partition("=") for word in found.get("Config", {}).get("Env") or ())
    environment = _STARTS_WITH | {name: value for name, _, value in variables}
    number = str(found["Id"]).removeprefix("sha256:")
    cache, key = Cache(), f"{program}-{number[:24]}"
    files = cache.find("roots", key)
    if files is None:
        notify(f"exporting the files of {image}")
        fill = functools.partial(_export, program, number)
        files = cache.make("roots", key, f"files of the image {image}", fill, notify)
    return EngineImage(program, f"{program} {version}", number, environment, files)


def _engine(asked: Literal["auto"] | EngineName) -> tuple[str, str]:
    """The first that works, and its version."""
    why = []
    for program in PROGRAMS if asked == "auto" else (asked,):
        # Of docker the client alone is no engine.
        field = "{{.Server.Version}}" if program == "docker" else "{{.Client.Version}}"
        said = Host().run((program, "version", "--format", field), _LOOK_S)
        if said.ok:
            return program, said.out.strip()
        why.append(said.said)
    raise MachineError(
        f"No container engine works here: {'; '.join(why)}.",
        "Install one (Debian, root: apt-get install podman) or start it; without --image the container "
        "is hypertare's own.",
    )


def _export(program: str, number: str, place: Path) -> dict[str, str]:
    """Puts the files of an image under `root`."""
    root = place / "root"
    root.mkdir()
    with contextlib.closing(_Guard(program)) as guard:
        name = f"{guard.scope}.0"
        create = (program, "create", "--pull=never", "--name", name, number, "/none")
        said = Host().run(create, _LOOK_S)
        if not said.ok:
            raise MachineError(f"{program} create failed: {said.said}", f"Try it: {program} create")
        with subprocess.Popen((program, "export", name), stdout=subprocess.PIPE) as export:
            # Devices are of whoever makes the container.
            tar = ("tar", "-x", "-C", str(root), "--exclude=dev/*", "--exclude=./dev/*")
            done = subprocess.run(tar, stdin=export.stdout, capture_output=True, timeout=_EXPORT_S)
        if export.returncode != 0 or done.returncode != 0:
            raise MachineError(
                f"The files of the image {number[:12]} cannot be exported: "
                f"{done.stderr.decode(errors='replace').strip() or program}",
                f"Is there room in {place.parent}? Try `{program} create --name x {number[:12]} /x` and "
                f"`{program} export x`.",
            )
    return {}


class Engine:
    """Containers of one image for the benches of a machine."""

    def __init__(self, image: EngineImage, agent: Path) -> None:
        self.image = image
        self.agent = agent
        self.pids: dict[str, int] = {}
        self._count = 0
        self._clients: dict[str, subprocess.Popen[bytes]] = {}
        sweep(image.program)
        self._guard = _Guard(image.program)
        self._pipes = Path(self._guard.place)

    def start(self, bench: plan.Bench, limit_s: float) -> plan.Bench:
        """The bench with its containers running; their agents have not been heard yet.

        Raises:
            MachineError: one could not be started; it says what the engine said.
        """
        nodes = []
        for node in bench.nodes:
            if isinstance(node.kind, plan.Container):
                kind = node.kind.model_copy(update={"engine": self._started(node, limit_s)})
                node = node.model_copy(update={"kind": kind})
            nodes.append(node)
        return bench.model_copy(update={"nodes": tuple(nodes)})

    def remove(self) -> None:
        """Removes the containers that are there."""
        for name, client in self._clients.items():
            _remove(self.image.program, [name])
            with contextlib.suppress(subprocess.TimeoutExpired):
                client.wait(_LOOK_S)
        self._clients.clear()
        self.pids.clear()

    def close(self) -> None:
        self.remove()
        self._guard.close()

    def _started(self, node: plan.Node, limit_s: float) -> plan.RunningAgent:
        self._count += 1
        name = f"{self._guard.scope}.{self._count}"
        pipes = self._pipes / str(self._count)
        pipes.mkdir()
        ends = []
        for one in _PIPES:
            os.mkfifo(pipes / one, 0o600)
            # Both ways, so that nobody waits for the other one.
            ends.append(os.open(pipes / one, os.O_RDWR | os.O_CLOEXEC))
        try:
            client = subprocess.Popen(
                self._argv(name, node), stdin=ends[0], stdout=ends[1], stderr=ends[2],
                start_new_session=True,
            )  # fmt: skip
            self._clients[name] = client
            pid = self._await(name, client, ends[2], limit_s)
        finally:
            for end in ends:
                os.close(end)
        self.pids[name] = pid
        return plan.RunningAgent(described=self.image.described, pipes=pipes, pid=pid)

    def _argv(self, name: str, node: plan.Node) -> list[str]:
        assert isinstance(node.kind, plan.Container)
        argv = [self.image.program, "run", "--rm", "-i", "--pull=never", "--name", name]
        if node.cpus:
            argv += ["--cpuset-cpus", ",".join(map(str, node.cpus))]
        if node.kind.memory is not None:
            argv += ["--memory", str(node.kind.memory)]
        argv += ["--volume", f"{self.agent}:{_WITHIN}/agent:ro"]
        if node.files is not None:
            argv += ["--volume", f"{node.files.workdir}:{_WITHIN}/work:ro"]
            for place, mode in ((node.files.workdir, "0755"), (_TEMPORARY, "1777")):
                size = node.files.memory
                argv += [
                    "--mount",
                    f"type=tmpfs,destination={place},tmpfs-size={size},tmpfs-mode={mode}",
                ]
            argv += [word for device in node.files.devices for word in ("--device", str(device))]
        argv += ["--entrypoint", f"{_WITHIN}/agent", self.image.id]
        return [*argv, "node", "--place", _WITHIN, "--in-engine", f"{_WITHIN}/work"]

    def _await(
        self, name: str, client: subprocess.Popen[bytes], messages: int, limit_s: float
    ) -> int:
        """The first process of a container that runs."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline and client.poll() is None:
            said = Host().run(
                (self.image.program, "inspect", "--format", "{{.State.Pid}}", name), _LOOK_S
            )
            if said.ok and said.out.strip() not in ("", "0"):
                return int(said.out)
            time.sleep(0.05)
        os.set_blocking(messages, False)
        try:
            why = os.read(messages, 4096).decode(errors="replace").strip()
        except BlockingIOError:
            why = f"it was not up within {limit_s:g} s"
        raise MachineError(
            f"{self.image.described} did not start a container: {why}",
            f"Does `{self.image.program} run --rm {self.image.id[:12]} true` work?",
        )


class _Guard:
    """A process that removes the run's containers and pipes when this one is gone."""

    def __init__(self, program: str) -> None:
        # As the agent calls cgroups: by process and its beginning, which no other one has both of.
        self.scope = f"{PREFIX}{os.getpid()}-{_began(os.getpid())}"
        self.place = tempfile.mkdtemp(prefix=PREFIX)
        self._process = subprocess.Popen(
            (
                sys.executable,
                "-m",
                "hypertare.machines.host.engine",
                program,
                self.scope,
                self.place,
            ),
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LOOK_S)


def clean_up(program: str, scope: str, place: str) -> None:
    """Removes what is called after a run, and its pipes."""
    for _ in range(3):
        # One that is being made when the run is killed appears a little later.
        _remove(program, [name for name in _names(program) if name.startswith(f"{scope}.")])
        time.sleep(0.2)
    if Path(place).name.startswith(PREFIX):
        shutil.rmtree(place, ignore_errors=True)


def sweep(program: str) -> None:
    """Removes what runs left that were killed together with their guards."""
    _remove(program, [name for name in _names(program) if not _is_alive(name)])


def _names(program: str) -> list[str]:
    argv = (program, "ps", "--all", "--filter", f"name={PREFIX}", "--format", "{{.Names}}")
    return Host().run(argv, _LOOK_S).out.split()


def _remove(program: str, names: Sequence[str]) -> None:
    if names:
        Host().run((program, "rm", "--force", *names), _LOOK_S)


def _is_alive(name: str) -> bool:
    pid, _, start = name.partition(".")[0].removeprefix(PREFIX).partition("-")
    if not (pid.isdigit() and start.isdigit()):
        # Somebody else's, by chance of such a name.
        return True
    return _began(int(pid)) == int(start)


def _began(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])


def main(program: str, scope: str, place: str) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    clean_up(program, scope, place)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
