"""A made-up KVM host below a directory, with programs `rmmod` and `modprobe` that act on it.

What is wrong with it is put into files beside: `refused` holds options with which loading fails,
`ignored` makes loading heed no options, `appears` makes a guest use the module when it is about to be
unloaded. `calls` says which programs were run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from hypertare.base.host_files import Host

INTEL = {"ept": "Y", "pml": "Y", "nested": "Y", "ple_gap": "128"}
AMD = {"npt": "1", "nested": "1", "vgif": "1"}

_RMMOD = """#!/bin/sh
echo "rmmod $*" >> {root}/calls
module={root}/sys/module/$1
[ ! -e {root}/appears ] || echo 1 > $module/refcnt
[ "$(cat $module/refcnt)" = 0 ] || {{ echo "rmmod: ERROR: Module $1 is in use" >&2; exit 1; }}
rm -r $module {root}/dev/kvm
"""

_MODPROBE = """#!/bin/sh
echo "modprobe $*" >> {root}/calls
if [ "$1" = --show-depends ]; then
    [ -d {root}/defaults/$2 ] || {{ echo "modprobe: FATAL: Module $2 not found" >&2; exit 1; }}
    exit 0
fi
name=$1; shift
if grep -qxF "$*" {root}/refused 2>/dev/null; then
    echo "modprobe: ERROR: could not insert '$name': Operation not supported" >&2; exit 1
fi
module={root}/sys/module/$name
mkdir -p $module
cp -r {root}/defaults/$name $module/parameters
[ ! -e {root}/ignored ] || set --
for option; do
    case $option in
        ept=0) echo N;;
        ept=1) echo Y;;
        *) echo "${{option#*=}}";;
    esac > $module/parameters/${{option%%=*}}
done
# What goes with it.
[ "$(cat $module/parameters/ept 2>/dev/null)" != N ] || echo N > $module/parameters/pml
echo 0 > $module/refcnt
: > {root}/dev/kvm; chmod 600 {root}/dev/kvm
"""


@dataclass
class MadeUp:
    """`programs` is to be first in PATH."""

    root: Path
    module: str = "kvm_intel"
    defaults: dict[str, str] = field(default_factory=lambda: dict(INTEL))

    def __post_init__(self) -> None:
        for name in ("run", "proc", "dev", "programs"):
            (self.root / name).mkdir(parents=True)
        for name, text in (("rmmod", _RMMOD), ("modprobe", _MODPROBE)):
            path = self.programs / name
            path.write_text(text.format(root=self.root))
            path.chmod(0o755)
        self._write(self.root / "defaults" / self.module, self.defaults)
        self.load(self.defaults)
        (self.root / "dev" / "kvm").touch(mode=0o600)
        self.set_pages(0, 0)

    @property
    def programs(self) -> Path:
        return self.root / "programs"

    @property
    def folder(self) -> Path:
        return self.root / "sys" / "module" / self.module

    @property
    def host(self) -> Host:
        """Time does not pass on it."""
        return Host(root=self.root, sleep=lambda _: None)

    @property
    def parameters(self) -> dict[str, str]:
        found = (self.folder / "parameters").iterdir()
        return {path.name: path.read_text().strip() for path in found}

    @property
    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def reloads(self) -> list[str]:
        return [call for call in self.calls if "--show-depends" not in call]

    @property
    def journal(self) -> Path:
        return self.root / "run" / "hypertare" / "before.json"

    def load(self, parameters: dict[str, str]) -> None:
        """As if it had been loaded with these."""
        self._write(self.folder / "parameters", parameters)
        (self.folder / "refcnt").write_text("0\n")

    def fault(self, name: str, text: str = "") -> Path:
        path = self.root / name
        path.write_text(f"{text}\n")
        return path

    def use(self, pid: int = 4711, count: int = 1) -> None:
        """A guest that runs."""
        (self.folder / "refcnt").write_text(f"{count}\n")
        descriptors = self.root / "proc" / str(pid) / "fd"
        descriptors.mkdir(parents=True, exist_ok=True)
        (self.root / "proc" / str(pid) / "comm").write_text("qemu-system-x86\n")
        (descriptors / "11").symlink_to("anon_inode:kvm-vm")
        (descriptors / "3").symlink_to("/usr/bin/true")

    def set_pages(self, total: int, free: int, promised: int = 0) -> None:
        folder = self.root / "sys/kernel/mm/hugepages/hugepages-2048kB"
        self._write(
            folder,
            {
                "nr_hugepages": str(total),
                "free_hugepages": str(free),
                "resv_hugepages": str(promised),
            },
        )

    @staticmethod
    def _write(folder: Path, files: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(f"{text}\n")

    def search_path(self) -> str:
        return f"{self.programs}:{os.environ['PATH']}"
