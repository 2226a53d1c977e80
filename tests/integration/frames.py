"""Sends frames that are none of its business, or looks for them: run alone, in a network namespace.

`send DELAY INTERFACE FRAMES_JSON`, where each frame is [destination, EtherType, hex payload]; the
destination is a MAC address, or `@` and the name of an interface of the host, which has it.
`watch SECONDS INTERFACE...` prints, by interface, how many frames passed, and how many bear the mark.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time

MARK = b"hypertare-stray-frame"
_ALL = 3
_ADD_MEMBERSHIP, _PROMISCUOUS = 1, 1
_SOL_PACKET = 263


def send(interface: str, frames: list[tuple[str, int, str]]) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL)) as out:
        out.bind((interface, 0))
        own = out.getsockname()[4]
        for _ in range(3):
            for mac, kind, payload in frames:
                head = hardware(mac) + own + struct.pack("!H", kind)
                out.send(head + bytes.fromhex(payload))


def hardware(destination: str) -> bytes:
    if destination.startswith("@"):
        # Not by pathlib, which takes long to import on an emulated machine.
        with open(f"/sys/class/net/{destination[1:]}/address") as file:  # noqa: PTH123
            destination = file.read().strip()
    return bytes.fromhex(destination.replace(":", ""))


def watch(seconds: float, interfaces: list[str]) -> dict[str, dict[str, int]]:
    """A bridge that is looked at like this takes in every frame that passes it."""
    sockets = {}
    for name in interfaces:
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
        one.bind((name, 0))
        wanted = struct.pack("iHH8s", socket.if_nametoindex(name), _PROMISCUOUS, 0, b"")
        one.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, wanted)
        sockets[one] = name
    seen = {name: {"frames": 0, "marked": 0} for name in interfaces}
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        for one in select.select(list(sockets), [], [], left)[0]:
            frame = one.recv(65536)
            seen[sockets[one]]["frames"] += 1
            seen[sockets[one]]["marked"] += MARK in frame
    return seen


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    if verb == "watch":
        print(json.dumps(watch(float(rest[0]), rest[1:])))
    else:
        time.sleep(float(rest[0]))
        send(rest[1], json.loads(rest[2]))
