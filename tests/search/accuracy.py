"""How far off a search is, and how many trials it takes, on machines that are made up.

Prints in full the table of `docs/loss-free-rate.md`: `python -m tests.search.accuracy`.
"""

from __future__ import annotations

import statistics

from tests.search.made_up import Path, noisy, searched, settings

MACHINES = 1000


def row(deviation: float, total: float) -> str:
    """Of machines whose capacity varies by so much from trial to trial, searched with this `sum`."""
    inside, off, trials = 0, [], []
    for number in range(MACHINES):
        capacity = 2e7 * 1.0036**number
        search = searched(Path(noisy(capacity, deviation)), settings(loss=[0.005], sum=total))
        (found,) = search.found
        assert found.lower is not None and found.upper is not None
        # Capacity is lost of at the rate that sends 0.5 % more.
        truth = capacity / (1 - found.goal)
        inside += found.lower.rate <= truth <= found.upper.rate
        middle = (found.lower.rate + found.upper.rate) / 2
        off.append(abs(middle / truth - 1))
        trials.append(search.trials)
    within = sorted(off)[int(0.95 * MACHINES)]
    return (
        f"| {100 * deviation:g} % | {total:g} s | {100 * inside / MACHINES:.0f} % | "
        f"{100 * within:.1f} % | {statistics.mean(trials):.0f} |"
    )


if __name__ == "__main__":
    for deviation in (0.0, 0.01, 0.03):
        for total in (1.0, 3.0, 7.0):
            print(row(deviation, total))
