"""The agent's `stream` against iperf3, alternately, over a veth pair between two namespaces.

Everything happens in namespaces of their own, whose first process this script is: when it ends,
however it ends, the kernel removes the processes, the interfaces and the mounts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
AGENT = ROOT / "target" / "x86_64-unknown-linux-gnu" / "release" / "hypertare-agent"
HERE, THERE = "10.78.0.1", "10.78.0.2"
AGENT_PORT, IPERF_PORT = 5201, 5401
# Killed with this script, and with it everything inside.
UNSHARE = (
    "setpriv --pdeathsig KILL unshare --user --map-root-user --net --mount"
    " --pid --fork --kill-child --mount-proc"
)

Result = dict[str, Any]


class Failed(Exception):
    """One run brought no figure."""


class Veth:
    """Two namespaces, a pair of interfaces, and both programs' servers in the far one."""

    def __init__(self, agent: Path, stack: ExitStack) -> None:
        self.agent = agent
        self._stack = stack
        self._far = self._keep(["unshare", "--net", "sleep", "infinity"])
        self._wait_for_far()
        self._link()
        self._keep([*self._enter(), "iperf3", "-s", "-p", str(IPERF_PORT)])
        self._keep([*self._enter(), str(agent), "stream", "--listen", "--port", str(AGENT_PORT)])
        time.sleep(0.5)

    def ours(self, *args: str) -> dict[str, dict[str, float]]:
        """Values of both ends by task, of one stream of the agent."""
        command = [str(self.agent), "stream", THERE, "--port", str(AGENT_PORT), "--json", *args]
        records = [json.loads(line) for line in run(command).splitlines()]
        results = [record for record in records if record["record"] == "result"]
        return {result["task"]: result["values"] for result in results}

    def iperf(self, *args: str) -> dict[str, Any]:
        """The end of iperf3's report."""
        command = ["iperf3", "-c", THERE, "-p", str(IPERF_PORT), "-J", *args]
        report = json.loads(run(command))
        if "error" in report:
            raise Failed(f"iperf3: {report['error']}")
        return report["end"]

    def _keep(self, command: list[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def _enter(self) -> list[str]:
        return ["nsenter", "--target", str(self._far.pid), "--net"]

    def _wait_for_far(self) -> None:
        near = os.readlink("/proc/self/ns/net")
        for _ in range(200):
            if os.readlink(f"/proc/{self._far.pid}/ns/net") != near:
                return
            time.sleep(0.01)
        raise Failed("the far namespace did not come about")

    def _link(self) -> None:
        far = str(self._far.pid)
        run(["ip", "link", "add", "name", "near", "type", "veth", "peer", "far", "netns", far])
        for prefix, name, address in (([], "near", HERE), (self._enter(), "far", THERE)):
            run([*prefix, "ip", "address", "add", f"{address}/24", "dev", name])
            run([*prefix, "ip", "link", "set", name, "up"])


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        reason = done.stderr.strip() or done.stdout.strip()[-300:]
        raise Failed(f"{' '.join(command)}: {reason}")
    return done.stdout


def alternate(
    rounds: int, ours: Callable[[], float], peer: Callable[[], float]
) -> list[tuple[float, float]]:
    """Pairs of figures taken one right after the other, the order swapped every time."""
    pairs = []
    for number in range(rounds):
        try:
            if number % 2:
                second, first = peer(), ours()
            else:
                first, second = ours(), peer()
        except (Failed, subprocess.TimeoutExpired) as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        pairs.append((first, second))
    return pairs


def faster(name: str, unit: str, target: float, pairs: list[tuple[float, float]]) -> Result:
    """A ratio to the peer that is to be at least `target`."""
    if not pairs:
        return {"name": name, "unit": unit, "ours": None, "peer": None, "ratio": None,
                "target": f">= {target}", "met": False}  # fmt: skip
    ratio = statistics.median(ours / peer for ours, peer in pairs)
    return {
        "name": name,
        "unit": unit,
        "ours": statistics.median(ours for ours, _ in pairs),
        "peer": statistics.median(peer for _, peer in pairs),
        "ratio": ratio,
        "target": f">= {target}",
        "met": ratio >= target,
    }


def accurate(name: str, limit: float, pairs: list[tuple[float, float]]) -> Result:
    """Errors, in percent, whose median is to be under `limit`."""
    if not pairs:
        return {"name": name, "unit": "%", "ours": None, "peer": None, "ratio": None,
                "target": f"< {limit}", "met": False}  # fmt: skip
    ours = statistics.median(ours for ours, _ in pairs)
    peer = statistics.median(peer for _, peer in pairs)
    ratio = ours / peer if peer > 0 else None
    return {"name": name, "unit": "%", "ours": ours, "peer": peer, "ratio": ratio,
            "target": f"< {limit}", "met": ours < limit}  # fmt: skip


def tcp(path: Veth, rounds: int, seconds: str, flows: int) -> Result:
    def ours() -> float:
        values = path.ours("--time", seconds, "--flows", str(flows), "--message", "128K")
        return values["receive"]["goodput_bps"] / 1e9

    def peer() -> float:
        end = path.iperf("-t", seconds, "-P", str(flows), "-l", "128K")
        return end["sum_received"]["bits_per_second"] / 1e9

    name = f"stream TCP, {flows} flow{'s' if flows > 1 else ''}, received"
    return faster(name, "Gb/s", 1.0, alternate(rounds, ours, peer))


def udp(path: Veth, rounds: int, seconds: str, segmentation: bool) -> Result:
    def ours() -> float:
        extra = ["--segmentation"] if segmentation else []
        values = path.ours("--udp", "--time", seconds, "--message", "64", *extra)["receive"]
        return values["received_packets"] / values["elapsed_s"] / 1e6

    def peer() -> float:
        total = path.iperf("-u", "-b", "0", "-t", seconds, "-l", "64")["sum"]
        return (total["packets"] - total["lost_packets"]) / total["seconds"] / 1e6

    name = "stream UDP 64 B, received" + ("" if segmentation else ", without segmentation")
    target = 4.0 if segmentation else 1.0
    return faster(name, "M packets/s", target, alternate(rounds, ours, peer))


def tcp_pacing(path: Veth, rounds: int, seconds: str, bps: float) -> Result:
    rate = str(int(bps))

    def ours() -> float:
        values = path.ours("--time", seconds, "--rate", rate)["receive"]
        return abs(values["goodput_bps"] / bps - 1) * 100

    def peer() -> float:
        received = path.iperf("-t", seconds, "-b", rate)["sum_received"]["bits_per_second"]
        return abs(received / bps - 1) * 100

    name = f"stream TCP pacing at {bps / 1e6:.4g} Mb/s, error"
    return accurate(name, 1.0, alternate(rounds, ours, peer))


def udp_pacing(path: Veth, rounds: int, seconds: str, bps: float) -> Result:
    rate = str(int(bps))

    def ours() -> float:
        values = path.ours("--udp", "--time", seconds, "--rate", rate, "--message", "64")["send"]
        return abs(values["sent_bps"] / bps - 1) * 100

    def peer() -> float:
        total = path.iperf("-u", "-t", seconds, "-b", rate, "-l", "64")["sum"]
        return abs(total["bytes"] * 8 / total["seconds"] / bps - 1) * 100

    name = f"stream UDP pacing at {bps / 1e6:.4g} Mb/s, error"
    return accurate(name, 1.0, alternate(rounds, ours, peer))


def measure(agent: Path, rounds: int, seconds: str) -> list[Result]:
    with ExitStack() as stack:
        path = Veth(agent, stack)
        most_tcp = path.ours("--time", "1")["receive"]["goodput_bps"]
        most_udp = path.ours("--udp", "--time", "1", "--message", "64")["send"]["sent_bps"]
        return [
            tcp(path, rounds, seconds, 1),
            tcp(path, rounds, seconds, 4),
            udp(path, rounds, seconds, segmentation=True),
            udp(path, rounds, seconds, segmentation=False),
            tcp_pacing(path, rounds, seconds, round(most_tcp / 10, -6)),
            udp_pacing(path, rounds, seconds, round(most_udp / 10, -5)),
            tcp_pacing(path, rounds, seconds, 1e6),
            udp_pacing(path, rounds, seconds, 100 * 64 * 8),
        ]


def main(argv: list[str]) -> list[Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 rounds of 1 s in place of 5 of 2 s")
    parser.add_argument("--agent", type=Path, default=AGENT, help="the agent's binary")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        rounds, seconds = (2, "1") if args.quick else (5, "2")
        return measure(args.agent, rounds, seconds)
    tools = ("iperf3", "ip", "setpriv", "unshare", "nsenter")
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        print(f"not measured: install {', '.join(missing)}", file=sys.stderr)
        return []
    if not args.agent.exists():
        print(f"not measured: {args.agent} is missing; cargo build --release", file=sys.stderr)
        return []
    again = [*UNSHARE.split(), sys.executable, __file__, *argv, "--inside"]
    done = subprocess.run(again, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    for result in main(sys.argv[1:]):
        print(json.dumps(result))
