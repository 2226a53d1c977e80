"""The agent's `generate` and `capture` over a veth pair: against iperf3, the kernel's pktgen, tcpdump, and
its own socket without a ring, by turns. What is not installed is left out, with a word.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import common
from common import FAR, NotMeasured, Row

IPERF_PORT = 5401
FRAME = 64
PAYLOAD = 16
"""What iperf3 takes at least; a frame of 58 bytes."""
PKTGEN = Path("/proc/net/pktgen")
ONE_CPU = ("taskset", "--cpu-list", "0")


@dataclass(frozen=True)
class Wire:
    """Generators stand at the near end."""

    far: tuple[str, ...]
    rounds: int
    seconds: int

    @property
    def generator(self) -> list[str]:
        reported = ["generate", "near", "--to", FAR, "--frame", str(FRAME), "--json"]
        return [str(common.agent()), *reported, "--duration", str(self.seconds)]

    def generated(self) -> float:
        """Million frames a second on one CPU, with whoever takes them."""
        return _rate(common.run([*ONE_CPU, *self.generator]), "sent_packets") / 1e6

    def captured(self, via: str) -> float:
        """Million frames a second of what comes as fast as it goes."""
        argv = [str(common.agent()), "capture", "far", "--via", via, "--json"]
        with _beside([*self.far, *argv, "--duration", str(self.seconds + 2)]) as program:
            common.run(self.generator)
            reported, _ = program.communicate(timeout=30)
        return _rate(reported, "received_packets") / 1e6

    def iperf(self) -> float:
        if not shutil.which("iperf3"):
            raise NotMeasured("iperf3 is not installed")
        argv = ["iperf3", "-c", FAR, "-p", str(IPERF_PORT), "-J", "-t", str(self.seconds)]
        report = json.loads(common.run([*ONE_CPU, *argv, "-u", "-b", "0", "-l", str(PAYLOAD)]))
        total = report["end"]["sum"]
        return float(total["packets"] / total["seconds"] / 1e6)

    def tcpdump(self) -> float:
        if not shutil.which("tcpdump"):
            raise NotMeasured("tcpdump is not installed")
        argv = ["tcpdump", "-i", "far", "-w", "/dev/null", "-s", "128", "ether", "proto", "0x88b5"]
        with _beside([*self.far, *argv]) as program:
            common.run(self.generator)
            program.terminate()
            _, said = program.communicate(timeout=30)
        found = re.search(r"(\d+) packets captured", said)
        if not found:
            raise NotMeasured(f"tcpdump: {said.strip()[-200:]}")
        return int(found[1]) / self.seconds / 1e6

    def pktgen(self) -> float:
        if not PKTGEN.exists():
            raise NotMeasured("the kernel has no pktgen (modprobe pktgen)")
        mac = json.loads(common.run([*self.far, "ip", "-j", "link", "show", "far"]))[0]["address"]
        _write(PKTGEN / "kpktgend_0", "rem_device_all", "add_device near")
        frames = f"count {1_000_000 * self.seconds}"
        # As long as ours without its FCS, each made anew, as ours are.
        _write(PKTGEN / "near", frames, f"pkt_size {FRAME}", "clone_skb 0", f"dst_mac {mac}")
        _write(PKTGEN / "near", f"dst {FAR}")
        _write(PKTGEN / "pgctrl", "start")
        found = re.search(r"(\d+)pps", (PKTGEN / "near").read_text())
        if not found:
            raise NotMeasured("pktgen reported no rate")
        return int(found[1]) / 1e6


def _rate(reported: str, value: str) -> float:
    values = json.loads(reported)["values"]
    return float(values[value] / values["elapsed_s"])


def _beside(argv: Sequence[str]) -> subprocess.Popen[str]:
    """A program that has begun to listen."""
    pipe = subprocess.PIPE
    program = subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True)
    time.sleep(0.5)
    return program


def _write(file: Path, *orders: str) -> None:
    for order in orders:
        file.write_text(f"{order}\n")


def main(argv: Sequence[str]) -> list[Row]:
    if "--inside" in argv:
        inside = _as_root if _is_root_of_the_machine() else _as_anybody
        return common.in_sandbox(__file__, argv, __doc__, inside)
    rows = common.in_sandbox(__file__, argv, __doc__, _as_anybody)
    # tcpdump gives up root for a user of its own, and pktgen is root's: no namespace of users has either.
    if not _is_root_of_the_machine():
        print("  left out: tcpdump and pktgen: they need root", file=sys.stderr)
        return rows
    return rows + common.in_sandbox(__file__, argv, __doc__, _as_root, has_users=False)


def _is_root_of_the_machine() -> bool:
    is_everyone = Path("/proc/self/uid_map").read_text().split() == ["0", "0", str(2**32 - 1)]
    return is_everyone and os.geteuid() == 0


def _as_anybody(quick: bool) -> list[Row]:
    with _wire(quick) as wire, ExitStack() as stack:
        if shutil.which("iperf3"):
            server = [*wire.far, "iperf3", "-s", "-p", str(IPERF_PORT)]
            stack.enter_context(common.kept(server))
            time.sleep(0.5)
        return [
            *_row(wire, "64 B generated, one CPU (iperf3 -u)", wire.generated, wire.iperf, 2.0),
            *_row(
                wire,
                "captured by a ring (by a socket)",
                _via(wire, "packet"),
                _via(wire, "socket"),
                2.0,
            ),
        ]


def _as_root(quick: bool) -> list[Row]:
    with _wire(quick) as wire:
        return [
            *_row(wire, "captured by a ring (tcpdump)", _via(wire, "packet"), wire.tcpdump, 1.0),
            *_row(wire, "64 B generated, one CPU (pktgen)", wire.generated, wire.pktgen, 0.5),
        ]


@contextmanager
def _wire(quick: bool) -> Iterator[Wire]:
    with common.veth() as far:
        yield Wire(far, 2 if quick else 6, 1 if quick else 2)


def _row(
    wire: Wire, name: str, ours: Callable[[], float], peer: Callable[[], float], at_least: float
) -> list[Row]:
    """None where the peer is not there."""
    try:
        pairs = common.alternate(wire.rounds, ours, peer)
    except NotMeasured as error:
        print(f"  left out: {name}: {error}", file=sys.stderr)
        return []
    return [common.against_peer(f"frames of {name}", "M/s", pairs, at_least=at_least)]


def _via(wire: Wire, via: str) -> Callable[[], float]:
    return lambda: wire.captured(via)


if __name__ == "__main__":
    common.run_alone(main)
