"""Starting guests: seconds from starting QEMU to the agent's first record, for one guest and for
four at once, under TCG with one CPU.

There is no peer to run beside it: the targets are fixed. Seconds are medians over rounds; for four
at once a round counts as its slowest guest.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import common
from common import Row

from hypertare.machines.image.build import Image, build

ONE_TARGET_S = 4.0
FOUR_TARGET_S = 8.0
LIMIT_S = 60


def main(argv: Sequence[str]) -> list[Row]:
    image = build()
    ones, fours = [], []
    for _ in range(2 if common.options(__doc__, argv).quick else 6):
        ones.append(boot_s(image))
        fours.append(boot_at_once_s(image, 4))
    return [
        judge("guest boot, TCG, 1 CPU", ones, ONE_TARGET_S),
        judge("4 guests' boot at once, TCG, 1 CPU each", fours, FOUR_TARGET_S),
    ]


def judge(name: str, seconds: list[float], target_s: float) -> Row:
    note = f"{min(seconds):.2f} to {max(seconds):.2f} s in {len(seconds)} rounds"
    return common.at_most(name, "s", statistics.median(seconds), target_s, note=note)


def boot_at_once_s(image: Image, count: int) -> float:
    """Seconds until the slowest of several guests has answered."""
    with ThreadPoolExecutor(count) as pool:
        return max(pool.map(lambda _: boot_s(image), range(count)))


def boot_s(image: Image) -> float:
    """Boots and ends one guest; returns its `start_s`."""
    argv = [str(common.agent()), "guest", "--kernel", str(image.kernel)]
    argv += ["--initramfs", str(image.initramfs), "--memory", "256M", "--limit", str(LIMIT_S)]
    records = [json.loads(line) for line in common.run(argv, LIMIT_S + 30).splitlines()]
    return next(r["start_s"] for r in records if r["record"] == "node")


if __name__ == "__main__":
    common.run_alone(main)
