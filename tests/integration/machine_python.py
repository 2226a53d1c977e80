"""This Python, as far as one script needs it, for machines that do not see this host's files."""

from __future__ import annotations

import json
import os
import py_compile
import subprocess
import sys
from pathlib import Path

from hypertare.machines.image import cpio, userland
from hypertare.protocol import plan

_ROOT = "test"
_LOADER = "/lib64/ld-linux-x86-64.so.2"
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_STARTED_WITH = "encodings.ascii, encodings.latin_1, encodings.utf_8"
_LIST = f"""
import json, sys
sys.path.insert(0, sys.argv[1])
import {_STARTED_WITH}
__import__(sys.argv[2])
specs = [(name, module.__spec__) for name, module in sorted(sys.modules.items())]
found = [(n, s.origin, bool(s.submodule_search_locations)) for n, s in specs if s and s.has_location]
print(json.dumps(found))
"""


def archive(script: Path, scratch: Path) -> bytes:
    """For behind an initramfs; `scratch` is a directory to compile in."""
    python = Path(os.path.realpath(sys.executable))
    libraries = userland.read_own(python, "").libraries
    members = [
        cpio.file(f"{_ROOT}/loader", Path(_LOADER).read_bytes(), executable=True),
        cpio.file(f"{_ROOT}/python", python.read_bytes(), executable=True),
        cpio.file(f"{_ROOT}/{script.name}", script.read_bytes()),
        *(cpio.file(f"{_ROOT}/libraries/{name}", data) for name, data in libraries.items()),
    ]
    for name, origin, is_package in _modules(script):
        members.append(_module(name, Path(origin), is_package, scratch))
    return cpio.archive(members)


def task(node: str, id: str, script: Path, *words: str) -> plan.Task:
    """Runs the script with these words."""
    argv = (
        *(f"/{_ROOT}/loader", "--library-path", f"/{_ROOT}/libraries", f"/{_ROOT}/python"),
        *("-S", f"/{_ROOT}/{script.name}", *words),
    )
    work = plan.Command(argv=argv, env={"PYTHONHOME": f"/{_ROOT}/home"})
    return plan.Task(id=id, node=node, workload=work)


def _modules(script: Path) -> list[tuple[str, str, bool]]:
    words = ["-I", "-S", "-X", "frozen_modules=off", "-c", _LIST, str(script.parent), script.stem]
    said = subprocess.run([sys.executable, *words], capture_output=True, check=True, timeout=60)
    return [tuple(one) for one in json.loads(said.stdout) if one[0] != script.stem]


def _module(name: str, origin: Path, is_package: bool, scratch: Path) -> cpio.Member:
    """Compiled, for the machine is slow; an extension as it is."""
    home = f"{_ROOT}/home/lib/{_VERSION}"
    if origin.suffix == ".so":
        return cpio.file(f"{home}/lib-dynload/{origin.name}", origin.read_bytes())
    compiled = py_compile.compile(str(origin), str(scratch / f"{name}.pyc"), doraise=True)
    place = name.replace(".", "/") + ("/__init__" if is_package else "")
    return cpio.file(f"{home}/{place}.pyc", Path(compiled).read_bytes())
