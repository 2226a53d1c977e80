"""RTT of the agent's `ping` against the kernel's own floor for the same socket calls.

The floor is `ping_floor.c`: blocking send and receive between two readings of the clock. Both are
run by turns, over loopback and over a veth pair between two network namespaces, with both ends
bound to one CPU (nothing but the kernel's path) and to two (waking an idle CPU is in it).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
from common import NotMeasured, Row

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
def loopback(cpus: tuple[int, int]) -> Iterator[Way]:
    common.run(["ip", "link", "set", "lo", "up"])
    yield Way("loopback", "127.0.0.1", pinned(cpus[0]), pinned(cpus[1]))


@contextmanager
def veth(cpus: tuple[int, int]) -> Iterator[Way]:
    with common.veth() as far:
        yield Way("veth", common.FAR, pinned(cpus[0]), (*far, *pinned(cpus[1])))


def pinned(cpu: int) -> tuple[str, ...]:
    return ("taskset", "--cpu-list", str(cpu))


class Floor:
    """`ping_floor.c`, compiled."""

    def __init__(self, directory: Path) -> None:
        self.program = str(directory / "floor")
        source = str(common.HERE / "ping_floor.c")
        common.run(["cc", "-O2", "-Wall", "-o", self.program, source])

    def median_us(self, protocol: str, way: Way, count: int) -> float:
        place = [protocol, way.address, str(PORT), str(BYTES)]
        with ExitStack() as stack:
            if protocol != "icmp":
                stack.enter_context(self._replier([*way.replier, self.program, "reply", *place]))
            argv = [*way.requester, self.program, "request", *place, str(count)]
            return float(common.run(argv)) / 1e3

    @contextmanager
    def _replier(self, argv: Sequence[str]) -> Iterator[None]:
        replier = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert replier.stdout is not None
        try:
            if not replier.stdout.readline():
                raise NotMeasured("the floor's replier does not listen")
            yield
        finally:
            replier.kill()
            replier.wait()


class Agent:
    """The agent's `task` process, as a plan would have it."""

    def median_us(self, protocol: str, way: Way, count: int) -> float:
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
            raise NotMeasured(result["error"])
        return float(result["values"]["rtt_p50_ns"]) / 1e3

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
                raise NotMeasured("the agent's replier does not listen")
            yield
        finally:
            os.close(ready)
            replier.communicate()

    @staticmethod
    def _start(
        place: Sequence[str], workload: dict[str, Any], ready: int | None = None
    ) -> subprocess.Popen[str]:
        argv = [*place, str(common.agent()), "task"]
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


def main(argv: Sequence[str]) -> list[Row]:
    return common.in_sandbox(__file__, argv, __doc__, measure)


def measure(quick: bool) -> list[Row]:
    rounds, count = (6, 2_000) if quick else (12, 8_000)
    usable = sorted(os.sched_getaffinity(0))
    one, two = (usable[-1], usable[-1]), (usable[-1], usable[max(0, len(usable) - 2)])
    # ICMP is answered by the kernel on the requester's own CPU: a second one makes no difference.
    placements = ((one, "one CPU", ("udp", "tcp", "icmp")), (two, "two CPUs", ("udp", "tcp")))
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        floor, agent = Floor(Path(directory)), Agent()
        for make in (loopback, veth):
            for cpus, words, protocols in placements:
                with make(cpus) as way:
                    for protocol in protocols:
                        name = f"ping {protocol} over {way.name}, {words}: RTT median"
                        rows.append(judge(name, floor, agent, protocol, way, rounds, count))
    return rows


def judge(
    name: str, floor: Floor, agent: Agent, protocol: str, way: Way, rounds: int, count: int
) -> Row:
    pairs = common.alternate(
        rounds,
        lambda: agent.median_us(protocol, way, count),
        lambda: floor.median_us(protocol, way, count),
    )
    return common.against_peer(name, "us", pairs, at_most=TARGET)


if __name__ == "__main__":
    common.run_alone(main)
