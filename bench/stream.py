"""The agent's `stream` against iperf3, by turns, over a veth pair between two network namespaces."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import common
from common import FAR, NotMeasured, Row

AGENT_PORT, IPERF_PORT = 5201, 5401
PACING_ERROR_PERCENT = 1.0


@dataclass(frozen=True)
class Path:
    """Both programs' servers stand at the far end."""

    rounds: int
    seconds: str

    def ours(self, *args: str) -> dict[str, dict[str, float]]:
        """Values of both ends by task, of one stream of the agent."""
        argv = [str(common.agent()), "stream", FAR, "--port", str(AGENT_PORT), "--json"]
        argv += args if "--time" in args else ["--time", self.seconds, *args]
        records = [json.loads(line) for line in common.run(argv).splitlines()]
        return {r["task"]: r["values"] for r in records if r["record"] == "result"}

    def iperf(self, *args: str) -> dict[str, Any]:
        """The end of iperf3's report."""
        argv = ["iperf3", "-c", FAR, "-p", str(IPERF_PORT), "-J", "-t", self.seconds, *args]
        report = json.loads(common.run(argv))
        if "error" in report:
            raise NotMeasured(f"iperf3: {report['error']}")
        return report["end"]


def main(argv: Sequence[str]) -> list[Row]:
    if not shutil.which("iperf3"):
        raise NotMeasured("iperf3 is not installed")
    return common.in_sandbox(__file__, argv, __doc__, measure)


def measure(quick: bool) -> list[Row]:
    path = Path(2, "1") if quick else Path(6, "2")
    with ExitStack() as stack:
        far = stack.enter_context(common.veth())
        server = [str(common.agent()), "stream", "--listen", "--port", str(AGENT_PORT)]
        stack.enter_context(common.kept([*far, *server]))
        stack.enter_context(common.kept([*far, "iperf3", "-s", "-p", str(IPERF_PORT)]))
        time.sleep(0.5)
        most_tcp = path.ours("--time", "1")["receive"]["goodput_bps"]
        most_udp = path.ours("--time", "1", "--udp", "--message", "64")["send"]["sent_bps"]
        return [
            tcp(path, 1),
            tcp(path, 4),
            *udp(path, segmentation=True),
            *udp(path, segmentation=False),
            tcp_pacing(path, round(most_tcp / 10, -6)),
            udp_pacing(path, round(most_udp / 10, -5)),
            tcp_pacing(path, 1e6),
            udp_pacing(path, 100 * 64 * 8),
        ]


def tcp(path: Path, flows: int) -> Row:
    def ours() -> float:
        values = path.ours("--flows", str(flows), "--message", "128K")
        return values["receive"]["goodput_bps"] / 1e9

    def peer() -> float:
        end = path.iperf("-P", str(flows), "-l", "128K")
        return end["sum_received"]["bits_per_second"] / 1e9

    name = f"stream TCP, {flows} flow{'s' if flows > 1 else ''}, received"
    pairs = common.alternate(path.rounds, ours, peer)
    return common.against_peer(name, "Gb/s", pairs, at_least=1.0)


def udp(path: Path, segmentation: bool) -> list[Row]:
    """What came, and what was lost of what was sent."""
    lost: tuple[list[float], list[float]] = ([], [])

    def ours() -> float:
        extra = ["--segmentation"] if segmentation else []
        values = path.ours("--udp", "--message", "64", *extra)["receive"]
        came, gone = values["received_packets"], values["lost_packets"]
        lost[0].append(100 * gone / (came + gone))
        return came / values["elapsed_s"] / 1e6

    def peer() -> float:
        total = path.iperf("-u", "-b", "0", "-l", "64")["sum"]
        lost[1].append(100 * total["lost_packets"] / total["packets"])
        return (total["packets"] - total["lost_packets"]) / total["seconds"] / 1e6

    name = f"stream UDP 64 B, {'with' if segmentation else 'without'} segmentation"
    pairs = common.alternate(path.rounds, ours, peer)
    of_ours, of_peer = map(statistics.median, lost)
    return [
        common.against_peer(
            f"{name}, received", "M/s", pairs, at_least=4.0 if segmentation else 1.1
        ),
        common.at_most(f"{name}, lost", "%", of_ours, of_peer, peer=of_peer),
    ]


def tcp_pacing(path: Path, bps: float) -> Row:
    rate = str(int(bps))

    def ours() -> float:
        return path.ours("--rate", rate)["receive"]["goodput_bps"]

    def peer() -> float:
        return path.iperf("-b", rate)["sum_received"]["bits_per_second"]

    return pacing("TCP", bps, common.alternate(path.rounds, ours, peer))


def udp_pacing(path: Path, bps: float) -> Row:
    rate = str(int(bps))

    def ours() -> float:
        return path.ours("--udp", "--rate", rate, "--message", "64")["send"]["sent_bps"]

    def peer() -> float:
        total = path.iperf("-u", "-b", rate, "-l", "64")["sum"]
        return total["bytes"] * 8 / total["seconds"]

    return pacing("UDP", bps, common.alternate(path.rounds, ours, peer))


def pacing(protocol: str, bps: float, pairs: common.Pairs) -> Row:
    """By how many percent the achieved rate is off, in the middle of the rounds."""
    ours, peer = (
        statistics.median(abs(achieved / bps - 1) * 100 for achieved in side)
        for side in zip(*pairs, strict=True)
    )
    name = f"stream {protocol} pacing at {bps / 1e6:.4g} Mb/s, error"
    return common.at_most(name, "%", ours, PACING_ERROR_PERCENT, peer=peer)


if __name__ == "__main__":
    common.run_alone(main)
