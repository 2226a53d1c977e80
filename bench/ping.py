"""RTT of the agent's `ping` against the kernel's own floor for the same socket calls.

The floor is `ping_floor.c`: blocking send and receive between two readings of the clock. Both are
run alternately, over loopback and over a veth pair between two network namespaces, with both ends
bound to one CPU (nothing but the kernel's path) and to two (waking an idle CPU is in it). The
namespaces have no names and are held by processes that end with this program's pipes, so the kernel
removes them whatever happens.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
AGENT = HERE.parent / "target/x86_64-unknown-linux-gnu/release/hypertare-agent"
TARGET = 1.03
BYTES = 64
PORT = 7000


@dataclass(frozen=True)
class Way:
    """From the requester to the replier: what to put before either's command, and the address."""

    name: str
    address: str
    requester: tuple[str, ...]
    replier: tuple[str, ...]


@contextmanager
def namespace() -> Iterator[int]:
    """A network namespace; yields the process that holds it."""
    holder = subprocess.Popen(
        ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None and holder.stdout is not None
    try:
        print("ready", file=holder.stdin, flush=True)
        if not holder.stdout.readline():
            raise RuntimeError("no network namespace: run as root, or under `unshare -rn`")
        yield holder.pid
    finally:
        holder.stdin.close()
        holder.wait()


def within(pid: int, *argv: str) -> tuple[str, ...]:
    return ("nsenter", "--target", str(pid), "--net", *argv)


def pinned(cpu: int) -> tuple[str, ...]:
    return ("taskset", "--cpu-list", str(cpu))


@contextmanager
def loopback(cpus: tuple[int, int]) -> Iterator[Way]:
    with namespace() as here:
        subprocess.run(within(here, "ip", "link", "set", "lo", "up"), check=True)
        yield Way("loopback", "127.0.0.1", *(within(here, *pinned(cpu)) for cpu in cpus))


@contextmanager
def veth(cpus: tuple[int, int]) -> Iterator[Way]:
    with namespace() as here, namespace() as there:
        peer = f"type veth peer name far0 netns {there}".split()
        subprocess.run(within(here, "ip", "link", "add", "near0", *peer), check=True)
        for pid, name, host in ((here, "near0", 1), (there, "far0", 2)):
            address = f"10.77.0.{host}/24"
            subprocess.run(within(pid, "ip", "addr", "add", address, "dev", name), check=True)
            subprocess.run(within(pid, "ip", "link", "set", name, "up"), check=True)
        places = (within(pid, *pinned(cpu)) for pid, cpu in zip((here, there), cpus, strict=True))
        yield Way("veth", "10.77.0.2", *places)


class Floor:
    """`ping_floor.c`, compiled."""

    def __init__(self, directory: Path) -> None:
        self.program = str(directory / "floor")
        source = str(HERE / "ping_floor.c")
        subprocess.run(["cc", "-O2", "-Wall", "-o", self.program, source], check=True)

    def median_ns(self, protocol: str, way: Way, count: int) -> float:
        place = [protocol, way.address, str(PORT), str(BYTES)]
        with ExitStack() as stack:
            if protocol != "icmp":
                stack.enter_context(self._replier([*way.replier, self.program, "reply", *place]))
            argv = [*way.requester, self.program, "request", *place, str(count)]
            return float(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout)

    @contextmanager
    def _replier(self, argv: Sequence[str]) -> Iterator[None]:
        replier = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert replier.stdout is not None
        try:
            if not replier.stdout.readline():
                raise RuntimeError("the floor's replier does not listen")
            yield
        finally:
            replier.kill()
            replier.wait()


class Agent:
    """The agent's `task` process, as a plan would have it."""

    def median_ns(self, protocol: str, way: Way, count: int) -> float:
        to = way.address if protocol == "icmp" else f"{way.address}:{PORT}"
        request = {"type": "ping_request", "to": to, "count": count, "duration_s": 60.0}
        with ExitStack() as stack:
            if protocol != "icmp":
                reply = {"type": "ping_reply", "on": to}
                stack.enter_context(self._replier(way.replier, self._workload(reply, protocol)))
            requester = self._start(way.requester, self._workload(request, protocol))
            assert requester.stdin is not None and requester.stdout is not None
            result = json.loads(requester.stdout.readline())
            requester.stdin.close()
            requester.wait()
        if result["error"]:
            raise RuntimeError(result["error"])
        return float(result["values"]["rtt_p50_ns"])

    @staticmethod
    def _workload(workload: dict[str, Any], protocol: str) -> dict[str, Any]:
        return {**workload, "protocol": protocol, "message": BYTES}

    @contextmanager
    def _replier(self, place: Sequence[str], workload: dict[str, Any]) -> Iterator[None]:
        ready, ready_write = os.pipe()
        replier = self._start(place, workload, ready_write)
        os.close(ready_write)
        try:
            if os.read(ready, 1) != b"1":
                raise RuntimeError("the agent's replier does not listen")
            yield
        finally:
            os.close(ready)
            replier.communicate()

    @staticmethod
    def _start(
        place: Sequence[str], workload: dict[str, Any], ready: int | None = None
    ) -> subprocess.Popen[str]:
        argv = [*place, str(AGENT), "task"]
        argv += [] if ready is None else ["--ready-fd", str(ready)]
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[] if ready is None else [ready],
        )
        task = {"id": "ping", "node": "bench", "workload": workload}
        assignment = json.dumps({"trial": 1, "phase": "ping", "task": task})
        assert process.stdin is not None
        print(assignment, file=process.stdin, flush=True)
        return process


def measure(
    floor: Floor, agent: Agent, protocol: str, way: Way, rounds: int, count: int
) -> list[tuple[float, float]]:
    """Medians of the agent and of the floor, run one after the other, in turns who is first."""
    pairs = []
    for round_ in range(rounds):
        order: list[Floor | Agent] = [agent, floor] if round_ % 2 else [floor, agent]
        seen = {type(side): side.median_ns(protocol, way, count) for side in order}
        pairs.append((seen[Agent], seen[Floor]))
    return pairs


def judge(name: str, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """The ratio is the median of the ratios of neighbouring runs: drift hits both alike."""
    ratio = statistics.median(ours / peer for ours, peer in pairs)
    return {
        "name": name,
        "unit": "ns",
        "ours": statistics.median(ours for ours, _ in pairs),
        "peer": statistics.median(peer for _, peer in pairs),
        "ratio": round(ratio, 4),
        "target": TARGET,
        "met": ratio <= TARGET,
    }


def main(argv: Sequence[str]) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    arguments = parser.parse_args(argv)
    rounds, count = (6, 2_000) if arguments.quick else (12, 8_000)
    usable = sorted(os.sched_getaffinity(0))
    one, two = (usable[-1], usable[-1]), (usable[-1], usable[max(0, len(usable) - 2)])
    # ICMP is answered by the kernel on the requester's own CPU: a second one makes no difference.
    placements = ((one, "one CPU", ("udp", "tcp", "icmp")), (two, "two CPUs", ("udp", "tcp")))
    results = []
    with tempfile.TemporaryDirectory() as directory:
        floor, agent = Floor(Path(directory)), Agent()
        for make in (loopback, veth):
            for cpus, words, protocols in placements:
                with make(cpus) as way:
                    for protocol in protocols:
                        name = f"ping {protocol} over {way.name}, {words}: RTT median"
                        pairs = measure(floor, agent, protocol, way, rounds, count)
                        results.append(judge(name, pairs))
    return results


if __name__ == "__main__":
    for result in main(sys.argv[1:]):
        print(json.dumps(result))
