"""The processor architecture that hypertare measures on, and its names in programs, packages and paths.

One is supported, x86-64. Another one needs a value of `Arch`, and further: a kernel image that QEMU starts
without firmware (`machines/image/kernel_files.py`), the CPU models of `sut.cpu_model`, page walks (`walk`),
and of the agent a console, a clock and a program for `fork`. `hatch_build.py` names the compiler's target
too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arch:
    """An architecture.

    - `machine`: as `uname -m` prints it, and as QEMU's programs are called.
    - `label`: as people write it.
    - `target`: of the Rust compiler, for the agent, which is linked statically.
    - `multiarch`: Debian's name of the directory with libraries.
    - `loader`: where ELF files expect the dynamic loader.
    - `qemu_package`: Debian's package with the system emulator.
    """

    machine: str
    label: str
    target: str
    multiarch: str
    loader: str
    qemu_package: str

    @property
    def qemu(self) -> str:
        """QEMU's program for whole machines."""
        return f"qemu-system-{self.machine}"

    @property
    def qemu_user(self) -> str:
        """QEMU's program for single programs."""
        return f"qemu-{self.machine}"

    @property
    def libraries(self) -> str:
        """The directory with libraries, from the root."""
        return f"usr/lib/{self.multiarch}"

    @property
    def loader_name(self) -> str:
        return self.loader.rpartition("/")[2]


ARCH = Arch(
    machine="x86_64",
    label="x86-64",
    target="x86_64-unknown-linux-gnu",
    multiarch="x86_64-linux-gnu",
    loader="/lib64/ld-linux-x86-64.so.2",
    qemu_package="qemu-system-x86",
)
"""The one of this host, of its guests and of every emulated machine."""
