"""A wheel holds what the installed package looks for: it is built, unpacked and asked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hypertare.study import builtin_folder

pytestmark = pytest.mark.runs
ROOT = Path(__file__).resolve().parents[1]
ASK = """
import json
from hypertare.base import paths
from hypertare.machines.image.kernel import sources
from hypertare.study import builtin_folder
print(json.dumps({
    "agent": str(paths.agent_binary()),
    "plugin": str(paths.walk_plugin()),
    "studies": str(builtin_folder()),
    "module": [str(path) for path in sources("hypertare_napi")],
}))
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=280)
    (wheel,) = place.glob("*.whl")
    named = re.search(r"-py3-none-manylinux_2_(\d+)_x86_64\.whl$", wheel.name)
    assert named, wheel.name
    with zipfile.ZipFile(wheel) as archive:
        for one in archive.infolist():
            path = Path(archive.extract(one, place / "site"))
            path.chmod(one.external_attr >> 16 & 0o777)
    # It says no older libc than its libraries ask for.
    for name in ("libhypertare_walk.so", "hypertare-agent"):
        binary = place / "site" / "hypertare" / "bin" / name
        symbols = subprocess.run(["objdump", "-T", binary], capture_output=True, text=True)
        asked = [int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", symbols.stdout)]
        assert max(asked, default=0) <= int(named[1])
        assert bool(asked) == name.endswith(".so")
    return place / "site"


def test_all_is_found_inside(unpacked: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if "HYPERTARE" not in name}
    asked = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=unpacked.parent,
        env={**kept, "PYTHONPATH": str(unpacked)},
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(asked.stdout)
    package = unpacked / "hypertare"
    assert found["agent"] == str(package / "bin" / "hypertare-agent")
    assert found["plugin"] == str(package / "bin" / "libhypertare_walk.so")
    assert found["studies"] == str(package / "studies")
    module = [package / "kernel" / name for name in ("Kbuild", "hypertare_napi.c")]
    assert found["module"] == [str(path) for path in module]
    for path in module:
        assert path.read_bytes() == (ROOT / "kernel" / path.name).read_bytes()
    version = subprocess.run([found["agent"], "--version"], capture_output=True, check=True)
    assert version.stdout.startswith(b"hypertare-agent")


@pytest.mark.parametrize(
    "folder", [builtin_folder(), ROOT / "emulator", ROOT / "src" / "hypertare"]
)
def test_no_file_is_left_out(unpacked: Path, folder: Path) -> None:
    """Studies with the files they name; the emulator's patches; style sheets, templates and processors of
    the package.
    """
    place = unpacked / "hypertare"
    if folder.name != "hypertare":
        place /= folder.name
    listed = subprocess.run(
        ["git", "ls-files", "-z", "."], cwd=folder, capture_output=True, check=True, text=True
    )
    names = [name for name in listed.stdout.split("\0") if name]
    assert len(names) > 5
    for name in names:
        assert (place / name).read_bytes() == (folder / name).read_bytes(), name
