"""What a reader of a run's figures should know before believing them. Pure.

Each warning says what was seen, where, and what to do. Nothing is corrected or left out because of
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from hypertare.base.figures import listing, percent, place
from hypertare.base.variables import Response
from hypertare.findings.series import Series, baseline_of
from hypertare.findings.setups import unlike_platforms
from hypertare.platforms.registry import find as find_platform
from hypertare.runs.summary import Clock, Estimate, PlatformState
from hypertare.stats.anomalies import outliers, trend
from hypertare.stats.boots import Booted
from hypertare.stats.noise import Floor
from hypertare.stats.practical import unanimous

FALSE_WARNINGS = 0.05
"""Chance that a run in which nothing drifts warns of a drift anywhere; the same for boots."""

NOTABLE_SHARE = 0.1
"""So much more of a working set in huge pages, and platforms did not do the same."""

NOTABLE_DRIFT = 0.01
"""A drift that matters, as a share of the median, from the first trial to the last."""


@dataclass(frozen=True)
class Judged:
    """An estimate with what it was judged by."""

    estimate: Estimate
    floor: Floor | None
    value: Booted
    comparison: Booted | None

    @property
    def where(self) -> str:
        return f"{self.estimate.response} of {place(self.estimate.platform, self.estimate.cell)}"


def warnings(
    every: Sequence[Series],
    responses: Mapping[str, Response],
    tests: Sequence[Judged],
    baseline: str,
    clock: Clock,
    platforms: Sequence[PlatformState],
) -> Iterator[str]:
    """All warnings of a run, the gravest kinds first."""
    yield from failures(every)
    yield from not_finite(every, responses)
    yield from unpaired(every, baseline)
    yield from unlike(platforms, baseline)
    yield from unlike_pages(every, baseline)
    yield from one_boot(every, baseline)
    if clock == "wall":
        yield from differing_boots(tests)
        yield from drifts(every, responses)
        yield from far_out(every, responses)
        yield from without_spread(tests)
        yield from below_floor(tests)
    yield from without_ratio(tests)


def failures(every: Sequence[Series]) -> Iterator[str]:
    for one in every:
        failed = len(one.trials) - len(one.good)
        if failed:
            yield (
                f"{failed} of {len(one.trials)} trials of {place(one.platform, one.cell)} failed. "
                "They are in no figure; if they fail for their slowness, the figures flatter it."
            )


def not_finite(every: Sequence[Series], responses: Mapping[str, Response]) -> Iterator[str]:
    for one in every:
        for name in responses:
            given = sum(name in trial.values for trial in one.good)
            lost = given - len(one.values(name)[0])
            if lost:
                yield (
                    f"{lost} values of {name} of {place(one.platform, one.cell)} are not finite "
                    "and were left out."
                )


def unpaired(every: Sequence[Series], baseline: str) -> Iterator[str]:
    """Costs that cannot be had, and blocks that lack one side."""
    for one in every:
        if one.platform == baseline or not one.good:
            continue
        bases = baseline_of(one, every, baseline)
        where = place(one.platform, one.cell)
        if len(bases) != 1:
            count = f"{len(bases)} cells" if bases else "no cell"
            yield (
                f"{where} has no cost: {count} of {baseline} would be its baseline. "
                "Give both the same factors."
            )
            continue
        planned = {trial.planned.block for trial in one.trials}
        whole = {trial.planned.block for trial in one.good} & {
            trial.planned.block for trial in bases[0].good
        }
        if len(whole) < len(planned):
            yield (
                f"{len(planned) - len(whole)} of {len(planned)} blocks of {where} lack a trial of "
                f"it or of {baseline}: its costs rest on the other {len(whole)}."
            )


def unlike(platforms: Sequence[PlatformState], baseline: str) -> Iterator[str]:
    """Conditions that differ between a platform and the baseline, once for each difference."""
    bases = [state for state in platforms if state.platform == baseline]
    for state in platforms:
        if bases and state.platform != baseline:
            # A factor of the bench gives both several states: the likest belong together.
            differ = min((unlike_platforms(state, base) for base in bases), key=len)
            if differ:
                contained = (
                    "They are two machines: what differs is no cost of virtualisation alone."
                    if not find_platform(state.platform).is_made
                    else "The cost contains this difference."
                )
                yield f"{state.platform} and {baseline} are not alike: {listing(differ)}. {contained}"


def unlike_pages(every: Sequence[Series], baseline: str) -> Iterator[str]:
    """Working sets of which a kernel put more into huge pages than another one did."""
    for one in every:
        mine = one.values("huge_share")[0]
        if one.platform == baseline or not mine:
            continue
        for base in baseline_of(one, every, baseline):
            its = base.values("huge_share")[0]
            if its and abs(fmean(mine) - fmean(its)) > NOTABLE_SHARE:
                yield (
                    f"{place(one.platform, one.cell)} and {baseline} are not alike: "
                    f"{100 * fmean(mine):.0f} % and {100 * fmean(its):.0f} % of the working set "
                    "lay in pages of 2 MB. Set knobs.thp, or the pages of the workload, for both."
                )


def one_boot(every: Sequence[Series], baseline: str) -> Iterator[str]:
    platforms = dict.fromkeys(
        one.platform
        for one in every
        if one.platform != baseline
        and len(one.good) > 1
        and len({trial.planned.boot for trial in one.good}) == 1
    )
    if platforms:
        yield (
            f"Every trial of a cell of {listing(platforms)} ran in one boot: how much boots differ "
            "was not seen and is in no interval. Take several boots before generalising."
        )


def differing_boots(tests: Sequence[Judged]) -> Iterator[str]:
    """Yields a warning for each estimate whose boots differ.

    The test is the analysis of variance, with Bonferroni's correction for the number of tests.
    """
    tested = [
        (test, booted)
        for test in tests
        if (booted := test.comparison or test.value) and booted.p is not None
    ]
    for test, booted in tested:
        assert booted.p is not None
        if booted.p * len(tested) < FALSE_WARNINGS:
            few = " Two boots are too few to say how much; take three at least."
            yield (
                f"Boots differ in {test.where} (p = {booted.p:.2g}): its interval rests on the "
                f"means of {booted.boots} boots, not on the trials."
                f"{few if booted.boots == 2 else ''}"
            )


def drifts(every: Sequence[Series], responses: Mapping[str, Response]) -> Iterator[str]:
    """Yields a warning for each platform in a cell whose responses drift over the run.

    The test is Kendall's, with Bonferroni's correction for the number of tests.
    """
    seen = [
        (one, name, found)
        for one in every
        for name in responses
        if (values := one.values(name)[0]) and (found := trend(values))
    ]
    for one in every:
        named = [
            f"{name} by {percent(found.change)}"
            for other, name, found in seen
            if other is one
            and found.p * len(seen) < FALSE_WARNINGS
            and abs(found.change) >= NOTABLE_DRIFT
        ]
        if named:
            yield (
                f"{place(one.platform, one.cell)} drifted over the run: {listing(named)}. "
                "Costs are paired by block, so most of it cancels; more warm-up helps."
            )


def far_out(every: Sequence[Series], responses: Mapping[str, Response]) -> Iterator[str]:
    for one in every:
        named = []
        for name in responses:
            values = one.values(name)[0]
            if not values:
                continue
            having = [trial for trial in one.good if name in trial.values]
            if len(values) == len(having):
                named += [
                    f"{name} in trial {having[index].planned.id}" for index in outliers(values)
                ]
        if named:
            yield (
                f"{place(one.platform, one.cell)} has outliers, which were kept: {listing(named)}. "
                "Look for what else the machine did then, or take more trials."
            )


def without_spread(tests: Sequence[Judged]) -> Iterator[str]:
    """Comparisons without any spread that are too few for a verdict."""
    few = [
        test.where
        for test in tests
        if test.comparison
        and test.comparison.interval.constant
        and test.comparison.interval.estimate != 0
        and not unanimous(test.comparison.interval.n, test.estimate.confidence)
    ]
    if few:
        yield (
            f"The difference did not vary in {listing(few)}, so it has no interval, and so few "
            "blocks could agree by chance. Take six or more."
        )


def below_floor(tests: Sequence[Judged]) -> Iterator[str]:
    shown = [
        test.where
        for test in tests
        if test.floor
        and test.floor.pairs == "successive blocks"
        and test.estimate.verdict in ("costs", "gains")
        and test.estimate.cost is not None
        and abs(test.estimate.cost) <= test.floor.least
    ]
    if shown:
        yield (
            f"The cost is below what the baseline varied from block to block in {listing(shown)}. "
            "Pairing by block takes such variation out; repeat the run before relying on it."
        )


def without_ratio(tests: Sequence[Judged]) -> Iterator[str]:
    named = [
        test.where
        for test in tests
        if test.estimate.cost is None and test.estimate.difference not in (None, 0)
    ]
    if named:
        yield (
            f"A value of zero or below has no ratio, so a difference is given in place of a cost "
            f"for {listing(named)}."
        )
