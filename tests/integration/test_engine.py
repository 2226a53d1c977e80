"""`weigh --image`: the user's own engines, with an image made on the spot."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.lab import PATIENCE_S, Lab, Ran, statuses, summary, until

pytestmark = pytest.mark.runs

IMAGE = "localhost/hypertare-test:1"
LIMITS = ("--warmup", "0", "--min-trials", "2", "--max-trials", "2")

SHIM = """#!/bin/sh
# Where this host has both versions of cgroups, an engine is shown the second alone.
exec unshare --mount sh -c 'test -e /sys/fs/cgroup/cgroup.controllers || {{
    umount -R /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup
}}; exec {program} "$@"' sh "$@"
"""
# A place of its own for all that podman keeps, and no network of this host's making. What it may set of
# limits is not what root of this machine may.
STORAGE = """
[storage]
driver = "{driver}"
graphroot = "{place}/graph"
runroot = "{place}/run"
"""
CONTAINERS = """
[containers]
netns = "none"
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
"""
RUNTIME = """
pids_limit = 0
[engine]
runtime = "unlimited"
[engine.runtimes]
unlimited = ["{runtime}"]
"""

# Where version 1 holds the controllers those of version 2 limit nothing, and a filter of devices is a BPF
# program, for which crun raises a limit of its own.
UNLIMITED = """#!{python}
import json, os, sys
if "--bundle" in sys.argv:
    path = os.path.join(sys.argv[sys.argv.index("--bundle") + 1], "config.json")
    config = json.load(open(path))
    config["linux"]["resources"] = {{}}
    json.dump(config, open(path, "w"))
os.execvp("crun", ["crun", *sys.argv[1:]])
"""

COMMAND = """
set -e
test "$(cat /etc/of-the-image)" = image
test ! -e /usr/bin/python3
test "$(cat input)" = first
test ! -e left
echo changed > input
echo left > left
echo outside > /etc/of-the-image-2
test "$OF_THE_IMAGE" = set
test -z "$OF_THE_USER"
i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done
"""


@dataclass(frozen=True)
class Engine:
    """An engine that keeps all that it has in a place of its own."""

    name: str
    lab: Lab

    def say(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.name, *map(str, argv)],
            env=self.lab.env,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def weigh(self, *argv: str | Path, **env: str) -> Ran:
        return self.lab.run("weigh", "--engine", self.name, *argv, **env)

    def is_there(self) -> bool:
        return self.say("version").returncode == 0

    @property
    def containers(self) -> list[str]:
        return self.say("ps", "--all", "--format", "{{.Names}}").stdout.split()


@pytest.fixture(scope="module", params=["podman", "docker"])
def engine(request: pytest.FixtureRequest, shared: Lab) -> Iterator[Engine]:
    # What is made of the image is this test's.
    shared.env["HYPERTARE_CACHE"] = str(shared.home / "cache")
    with podman(shared) if request.param == "podman" else docker(shared):
        made = Engine(request.param, shared)
        archive = shared.home / "image.tar"
        pack(archive)
        imported = made.say("import", "--change", "ENV OF_THE_IMAGE=set", archive, IMAGE)
        assert imported.returncode == 0, imported.stderr
        works = made.say("run", "--rm", IMAGE, "sh", "-c", "true")
        if works.returncode != 0:
            pytest.skip(f"{made.name} runs no container here: {works.stderr.strip()}")
        (shared.work / "input").write_text("first\n")
        yield made


def one_version(directory: Path, program: str) -> Path:
    shim = directory / Path(program).name
    shim.write_text(SHIM.format(program=program))
    shim.chmod(0o755)
    return shim


@contextmanager
def podman(lab: Lab) -> Iterator[None]:
    program = shutil.which("podman")
    if program is None:
        pytest.skip("podman is not installed")
    place = lab.home / "podman"
    (place / "bin").mkdir(parents=True)
    shim = one_version(place / "bin", program)
    driver = "overlay" if os.geteuid() == 0 else "vfs"
    (place / "storage.conf").write_text(STORAGE.format(place=place, driver=driver))
    containers = CONTAINERS
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        runtime = place / "bin" / "unlimited"
        runtime.write_text(UNLIMITED.format(python=sys.executable))
        runtime.chmod(0o755)
        containers += RUNTIME.format(runtime=runtime)
    (place / "containers.conf").write_text(containers)
    lab.env["PATH"] = f"{shim.parent}:{lab.env['PATH']}"
    lab.env["CONTAINERS_STORAGE_CONF"] = str(place / "storage.conf")
    lab.env["CONTAINERS_CONF"] = str(place / "containers.conf")
    yield


@contextmanager
def docker(lab: Lab) -> Iterator[None]:
    """A daemon beside the user's own, which changes nothing of this host's network."""
    program = shutil.which("dockerd")
    if program is None or os.geteuid() != 0:
        pytest.skip("dockerd is not installed, or not for this user")
    place = lab.home / "docker"
    place.mkdir()
    address = f"unix://{place}/socket"
    of_its_own = ["--data-root", place / "data", "--exec-root", place / "exec", "-p", place / "pid"]
    no_network = ["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"]
    with (place / "log").open("wb") as log:
        daemon = subprocess.Popen(
            [one_version(place, program), "-H", address, *of_its_own, *no_network],
            env=lab.env,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    lab.env["DOCKER_HOST"] = address
    try:
        until(Engine("docker", lab).is_there, "docker's daemon")
        yield
    finally:
        daemon.terminate()
        daemon.wait(PATIENCE_S)


def pack(archive: Path) -> None:
    """This host's sh and cat with their libraries, and a file that only the image has."""
    mark = archive.with_name("mark")
    mark.write_text("image\n")
    inside = {"etc/of-the-image": mark}
    for name in ("sh", "cat"):
        program = shutil.which(name)
        assert program is not None
        inside[f"bin/{name}"] = Path(program)
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        inside |= {place.lstrip("/"): Path(place) for place in re.findall(r"(/\S+) \(0x", said)}
    with tarfile.open(archive, "w") as tar:
        for place, path in inside.items():
            tar.add(path.resolve(), place)


def test_the_image_is_weighed_in_its_container_and_natively(engine: Engine) -> None:
    """The command checks its files, its environment and that its directory is as it was."""
    lab = engine.lab
    run = lab.home / f"run-{engine.name}"
    ran = engine.weigh(
        "--image", IMAGE, *LIMITS, "--out", run, "--", "sh", "-c", COMMAND, OF_THE_USER="x"
    )
    assert ran.status == 0, ran
    for platform in ("native", "container"):
        assert statuses(run, platform, "command") == {"ok"}, ran
    found = json.loads((run / "summary.json").read_text())
    (container,) = [state for state in found["platforms"] if state["platform"] == "container"]
    assert container["vmm"].startswith(f"{engine.name} ")
    responses = {
        one["response"] for one in summary(run)["estimates"] if one["platform"] == "container"
    }
    assert {"elapsed", "outside_cpu"} <= responses
    assert not engine.containers
    assert not list((lab.home / "tmp").glob("hypertare-*"))


def test_a_run_that_is_killed_leaves_no_container(engine: Engine) -> None:
    lab = engine.lab
    started = lab.start(
        "weigh", "--engine", engine.name, "--image", IMAGE, "--", "sh", "-c", "while :; do :; done"
    )
    until(lambda: any(name.startswith("hypertare-") for name in engine.containers), "a container")
    lab.kill(started.process.pid)
    until(lambda: not engine.containers, "its end")
    until(lambda: not list((lab.home / "tmp").glob("hypertare-*")), "the end of its pipes")
    started.end()


def test_an_image_that_is_not_there_is_refused(engine: Engine) -> None:
    ran = engine.weigh("--image", "localhost/none:1", "--", "true")
    assert ran.status == 3
    assert f"{engine.name} has no image localhost/none:1" in ran.said
    assert f"{engine.name} pull localhost/none:1" in ran.said


def test_a_guest_runs_no_image_yet(engine: Engine) -> None:
    ran = engine.weigh("--image", IMAGE, "--on", "native,guest", "--", "true")
    assert ran.status == 2
    assert "--image" in ran.said and "--on native,container" in ran.said
