"""A user's own Xen host, as far as it can be had without one: real Xen with its driver domain in QEMU,
by the wall clock, in which `hypertare-agent host` is started as on any host.

Two serial ports lead into it. Behind one a shell answers, which is the user's: outside of every
sandbox. The other is the agent's input and output; `agent` is a program that stands for it here, so
that whatever starts an agent starts the one in there.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from hypertare.base.paths import agent_binary
from hypertare.machines.image import cpio
from hypertare.machines.image.build import Image
from tests.integration.lab import until

_BOOT_LIMIT_S = 120.0
_TOOLS = "/usr/lib/xen-4.17/bin"
_END = "=== "
"""How the shell's last line begins; its status follows."""

_SHELL = f"""#!/bin/sh
exec 2>&1
PATH=$PATH:{_TOOLS}
while IFS= read -r line; do
eval "$line" </dev/null
echo "{_END}$?"
done
""".encode()

_IS_FREE = "(: <>/dev/vport0p2) 2>/dev/null && echo free"
RECORDS, CONSOLE = 8, 9
"""Descriptors of QEMU's, as `crates/agent/src/emulated/mod.rs` has them."""

_START = "hypertare-agent host <>/dev/vport0p2 >&0 2>/dev/null & echo $!"

_AGENT = """#!{python} -IS
import os, socket, sys, threading

if sys.argv[1:] != ["host"]:
    os.execv("{real}", ["{real}", *sys.argv[1:]])
port = socket.socket(socket.AF_UNIX)
port.connect("{folder}/agent-port")
door = socket.socket(socket.AF_UNIX)
door.connect("{folder}/door")
door.recv(1)

def records():
    while data := port.recv(65536):
        os.write(1, data)
    os._exit(0)

threading.Thread(target=records, daemon=True).start()
while data := os.read(0, 65536):
    port.sendall(data)
# It hears of the end of its input by this one's; what it still has to say comes before that.
port.shutdown(socket.SHUT_WR)
"""


class XenHost:
    """Use as a context manager."""

    def __init__(self, folder: Path, image: Image) -> None:
        self.folder = folder
        self.agent = folder / "agent"
        self.agent_pid = 0
        """Of the last one started: its outside, as the driver domain counts."""
        self._image = image
        self._lock = threading.Lock()

    def __enter__(self) -> XenHost:
        text = _AGENT.format(python=sys.executable, real=agent_binary(), folder=self.folder)
        self.agent.write_text(text)
        self.agent.chmod(0o755)
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(self.folder / "door"))
        self._door.listen()
        self._qemu = subprocess.Popen(self._command_line(), stdin=subprocess.DEVNULL)
        try:
            control = until(self._control_port, "QEMU to start", 30)
            control.settimeout(_BOOT_LIMIT_S)
            self._control = control.makefile("rwb", buffering=0)
            self.shell("echo up")
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._open_door, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._qemu.kill()
        self._qemu.wait()
        self._door.close()

    def shell(self, command: str) -> str:
        """What a command prints in the driver domain."""
        with self._lock:
            self._control.write(command.encode() + b"\n")
            reported = []
            while not (line := self._control.readline().decode(errors="replace")).startswith(_END):
                assert line, f"the driver domain has ended: {self.console()}"
                reported.append(line)
        return "".join(reported)

    def domains(self) -> set[str]:
        # What is destroyed, and whose memory is not all given back yet, has no name any more.
        return {line.split()[0] for line in self.shell("xl list").splitlines()[1:]} - {"(null)"}

    def links(self) -> set[str]:
        """Of the driver domain's own network namespace."""
        return set(self.shell("cd /sys/class/net && echo *").split())

    def driver_weight(self) -> int:
        return int(self.shell("xl sched-credit -d Domain-0").splitlines()[-1].split()[2])

    def console(self) -> str:
        return (self.folder / "console").read_text(errors="replace")[-2000:]

    def _open_door(self) -> None:
        while True:
            try:
                visitor, _ = self._door.accept()
            except OSError:
                return
            # The agent before may still be at its end.
            until(lambda: self.shell(_IS_FREE), "the port to be free", 60)
            # The visitor has connected to the port before: one that nobody is at reads as ended.
            self.agent_pid = int(self.shell(_START))
            visitor.sendall(b"!")
            visitor.close()

    def _control_port(self) -> socket.socket | None:
        port = socket.socket(socket.AF_UNIX)
        try:
            port.connect(str(self.folder / "control-port"))
        except OSError:
            port.close()
            time.sleep(0.05)
            return None
        return port

    def _command_line(self) -> list[str]:
        """That of an emulated machine by the wall clock, but for where its ports lead."""
        image, folder = self._image, self.folder
        own = [
            cpio.file(f"bin/{name}", Path(f"/bin/{name}").resolve().read_bytes(), executable=True)
            for name in ("dash", "cat")
        ]
        own += [cpio.link("bin/sh", "dash"), cpio.file("serve", _SHELL, executable=True)]
        initramfs = folder / "initramfs"
        initramfs.write_bytes(image.initramfs.read_bytes() + cpio.archive(own))
        asked = [agent_binary(), "emulate", "--show", "--clock=wall", "--memory=1G"]
        asked += [f"--kernel={image.kernel}", f"--initramfs={initramfs}"]
        asked += [f"--hypervisor={image.hypervisor}", "--driver-memory=448M"]
        asked += ["--module=veth", "--kernel-arg=hypertare.program=/serve"]
        words: list[str] = json.loads(subprocess.check_output(asked))
        while "-add-fd" in words:
            at_descriptor = words.index("-add-fd")
            del words[at_descriptor : at_descriptor + 2]
        at = {word: index for index, word in enumerate(words)}
        words[at["-kernel"] + 1] = str(image.hypervisor)
        modules = words[at["-initrd"] + 1]
        arguments = modules.removeprefix("kernel ").removesuffix(",initramfs")
        words[at["-initrd"] + 1] = f"{image.kernel} {arguments},{initramfs}"
        port = "socket,id={},path={}/{}-port,server=on,wait=off"
        to = "file,id={},path=/dev/fdset/{},append=on"
        changed = {
            to.format("console", CONSOLE): f"file,id=console,path={folder}/console",
            to.format("records", RECORDS): port.format("records", folder, "control"),
            "virtio-serial-pci,max_ports=2": "virtio-serial-pci,max_ports=3",
        }
        assert changed.keys() <= set(words), words
        words = [changed.get(word, word) for word in words]
        words += ["-chardev", port.format("agent", folder, "agent")]
        return [*words, "-device", "virtserialport,chardev=agent,name=agent,nr=2"]
