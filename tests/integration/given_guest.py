"""A virtual machine that hypertare did not start: QEMU with the kernel and the modules of a guest of ours,
busybox and dropbear, on a TAP. Its network is a namespace of its own, in which the controller has to be.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hypertare.machines.image import cpio
from hypertare.machines.image.build import Image, build
from hypertare.machines.image.cache import Cache
from hypertare.machines.image.userland import Userland, fetch_all
from hypertare.protocol.constants import MODULES_DIRECTORY
from tests.integration.lab import Lab, until

HOST, ADDRESS = "192.0.2.1", "192.0.2.2"
_TAP = "tap0"
_PACKAGES = ("busybox-static", "dropbear-bin")
_DROPBEAR = "usr/sbin/dropbear"
_START = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/sbin HOME=/root
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm /tmp /etc/dropbear
mount -t devpts pts /dev/pts; mount -t tmpfs shm /dev/shm; mount -t tmpfs tmp /tmp
for name in virtio_pci virtio_net hypertare_napi; do
    for file in $(sed -n "s/^$name //p" {MODULES_DIRECTORY}/index); do
        insmod {MODULES_DIRECTORY}/$file 2>/dev/null
    done
done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+cpuset +cpu +memory" > /sys/fs/cgroup/cgroup.subtree_control
ip link set lo up; ip addr add {ADDRESS}/30 dev eth0; ip link set eth0 up
exec dropbear -R -E -F -s
"""
"""As a machine of somebody else starts, with an ssh server of its own."""
_BOARD = "q35,usb=off,sata=off,smbus=off,smm=off,vmport=off,hpet=off"
_CPU = "max,-erms,-fsrm,-la57"
_KERNEL = (
    "console=ttyS0 quiet panic=-1 reboot=t cryptomgr.notests tsc=reliable no_timer_check rodata=off"
)
"""What guests of ours have (`crates/agent/src/vmm/command_line.rs`, `Lab.study`): the same machine is to be
compared.
"""


@dataclass(frozen=True)
class GivenGuest:
    """What the controller is wrapped in, its environment, and words of the VMM's command line."""

    wrap: tuple[str, ...]
    env: dict[str, str]
    outside: str

    @property
    def reach(self) -> str:
        return f"ssh root@{ADDRESS}"

    def said(self, command: str) -> str:
        """What a command prints there."""
        argv = (*self.wrap, *self.env["HYPERTARE_SSH"].split(), f"root@{ADDRESS}", command)
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def given_guest(lab: Lab, cpus: int, memory: str) -> Iterator[GivenGuest]:
    place = lab.home / "vm"
    place.mkdir()
    key = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / "user"))
    subprocess.run(key, check=True)
    image = build("debian", "guest")
    (place / "further.cpio").write_bytes(_further((place / "user.pub").read_bytes()))
    with (place / "initramfs").open("wb") as whole:
        for part in (image.initramfs, place / "further.cpio"):
            whole.write(part.read_bytes())
    holder = subprocess.Popen(
        (
            "unshare",
            "--net",
            "/bin/sh",
            "-c",
            "ip link set lo up && echo ready && exec sleep infinity",
        ),
        stdout=subprocess.PIPE,
    )
    wrap = ("nsenter", "--target", str(holder.pid), "--net")
    vm = None
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"ready\n"
        vm = subprocess.Popen((*wrap, *_qemu(image, place, cpus, memory)), stdin=subprocess.DEVNULL)
        until(lambda: _has_tap(wrap), "QEMU to make its TAP", 30)
        for words in (("addr", "add", f"{HOST}/30", "dev", _TAP), ("link", "set", _TAP, "up")):
            subprocess.run((*wrap, "ip", *words), check=True)
        until(lambda: _takes_keys(wrap, place), "the machine to boot", 180)
        config = (
            f"Host *\n  UserKnownHostsFile {place}/known\n  IdentityFile {place}/user\n"
            "  IdentitiesOnly yes\n"
        )
        (place / "client").write_text(config)
        yield GivenGuest(wrap, {"HYPERTARE_SSH": f"ssh -F {place}/client"}, f"{place}/initramfs")
    finally:
        for process in filter(None, (vm, holder)):
            process.kill()
            process.wait()


def _further(key: bytes) -> bytes:
    packages = fetch_all(_PACKAGES, Cache(), lambda _: None)
    userland = Userland(packages)
    members = [*userland.members((_DROPBEAR,)), *userland.members(("bin/busybox",))]
    members += [
        cpio.file("start", _START.encode(), executable=True),
        cpio.file("etc/passwd", b"root::0:0::/root:/bin/sh\n"),
        cpio.file("etc/shells", b"/bin/sh\n"),
        cpio.directory("root", 0o700),
        cpio.directory("root/.ssh", 0o700),
        cpio.file("root/.ssh/authorized_keys", key),
    ]
    return cpio.archive(members)


def _qemu(image: Image, place: Path, cpus: int, memory: str) -> list[str]:
    return [
        *("qemu-system-x86_64", "-nodefaults", "-display", "none", "-machine", _BOARD),
        *("-accel", "tcg,thread=multi", "-cpu", _CPU, "-m", memory),
        *("-smp", f"cpus={cpus},sockets=1,cores={cpus},threads=1"),
        *("-serial", f"file:{place}/console"),
        *("-netdev", f"tap,id=net,ifname={_TAP},script=no,downscript=no"),
        *("-device", "virtio-net-pci,netdev=net,romfile=,mac=52:54:00:77:00:99"),
        *("-kernel", str(image.kernel), "-initrd", str(place / "initramfs")),
        *("-append", f"{_KERNEL} rdinit=/start"),
    ]


def _has_tap(wrap: tuple[str, ...]) -> bool:
    return subprocess.run((*wrap, "ip", "link", "show", _TAP), capture_output=True).returncode == 0


def _takes_keys(wrap: tuple[str, ...], place: Path) -> bool:
    """Whether its server answers; its host key is known then."""
    argv = (*wrap, "ssh-keyscan", "-T", "5", "-t", "ed25519", ADDRESS)
    keys = subprocess.run(argv, capture_output=True, text=True).stdout
    (place / "known").write_text(keys)
    return "ssh-ed25519" in keys
