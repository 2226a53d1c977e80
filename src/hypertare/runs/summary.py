"""`summary.json`: what a run found, for programs. Schema: `schema/summary.schema.json`."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from hypertare.base.level import Level
from hypertare.base.response import Better
from hypertare.runs.machine_state import MachineState
from hypertare.runs.part import Part
from hypertare.stats.overload import CurveKind

Verdict = Literal["costs", "gains", "no difference shown"]
Reason = Literal["chance", "size", "floor", "many"]
Judgement = Literal["holds", "fails", "undecided", "not judged"]
Clock = Literal["wall", "virtual"]
SearchState = Literal["found", "all lose", "none loses", "limit", "failed", "open"]
Foretelling = Literal["predictable", "not predictable", "undecided"]


class Estimate(Part):
    """A response of one platform in one cell, and its cost against the baseline.

    `estimate`, `low` and `high` are in `unit`: the mean over trials and its interval at
    `confidence`. `cost` is a share of the baseline: 1 - sut/baseline where higher is better,
    sut/baseline - 1 where lower is, so a positive cost is always a loss. It comes from `blocks`
    trials paired by block.

    `difference` is sut - baseline in `unit`, from the same blocks: what is added. Where a value of zero
    or below forbids a ratio there is no cost, and it carries the verdict.

    `reason` is why no difference is shown: its interval holds 0 ("chance"), it is below the summary's
    `threshold` ("size"), the baseline differed as much from itself ("floor"), or its interval excludes 0
    and yet, of so many comparisons, one may do so by chance ("many").

    `exact`: in virtual time, every trial gave the same; the ends of an interval are the estimate
    itself. On the wall clock values without any spread have no interval.

    `guest` is given where the response is of one guest of several that work at once: its number,
    from 1. It is then compared with nothing.

    `of_alone` stands with the goodput of several guests at once: what one of them gets on average over
    what one gets alone in the same setting, with its interval.

    `doubt` says why it decides no claim, whatever its interval is: streams of several guests that
    hardly ran at once, other programs that were busier beside one side than beside the other, or a gain
    of a platform whose offloads are not the baseline's.
    """

    response: str
    unit: str
    better: Better
    cell: dict[str, Level]
    platform: str
    guest: int | None = None
    baseline: str | None = None
    n: int
    estimate: float
    low: float | None = None
    high: float | None = None
    confidence: float = 0.95
    exact: bool = False
    blocks: int | None = None
    cost: float | None = None
    cost_low: float | None = None
    cost_high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    verdict: Verdict | None = None
    reason: Reason | None = None
    of_alone: float | None = None
    of_alone_low: float | None = None
    of_alone_high: float | None = None
    doubt: str | None = None


class LevelChange(Part):
    """What a level of a factor changes on a platform, against another level of it.

    `cost` with its interval is a share of the response at `against`, a positive one is a loss, as of an
    `Estimate`; where a value of zero or below forbids a ratio it is a `difference` in `unit`. It comes
    from `blocks` blocks of each side. With several factors it is the mean over the `settings` of the
    others; `cell` holds what these have alike.

    `cost_change` is how much more of the baseline is lost at this level than at the other, as a
    difference of costs: absent for the baseline itself.
    """

    factor: str
    level: Level
    against: Level
    platform: str
    cell: dict[str, Level]
    response: str
    unit: str
    better: Better
    settings: int
    blocks: int
    confidence: float = 0.95
    exact: bool = False
    cost: float | None = None
    cost_low: float | None = None
    cost_high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    verdict: Verdict | None = None
    reason: Reason | None = None
    cost_change: float | None = None
    cost_change_low: float | None = None
    cost_change_high: float | None = None
    doubt: str | None = None


class Effect(Part):
    """What a factor, or two of them together, have of the variance between a platform's cells.

    `share` with its interval is that of a factor alone, or of the interaction of two; `total`, of one
    factor only, has all interactions in it. `p` is the F test's; `adjusted` is the same by Holm's method
    among all of the run. Both are absent in virtual time where nothing varies but by the factors.

    `level` is the factor's best one, `against` its worst, by their means over all other factors: `ratio`
    is best over worst, on a linear scale it is a `difference` in the response's unit. Its interval
    knows that the two were chosen.
    """

    factors: tuple[str, ...]
    share: float
    share_low: float
    share_high: float
    total: float | None = None
    total_low: float | None = None
    total_high: float | None = None
    p: float | None = None
    adjusted: float | None = None
    level: Level | None = None
    against: Level | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None


class Lead(Part):
    """Which of two factors has the larger total share: of the parts that have one of both in them, and not
    both, `share` is what those of `factor` have. Above a half it leads before `against`. The interval
    knows how many others a factor is compared with.
    """

    factor: str
    against: str
    share: float
    low: float
    high: float


class Effects(Part):
    """Which factors matter most for a response on a platform: a full factorial, taken apart.

    `of` is what was taken apart: the response itself, or its `efficiency`, platform against baseline of
    the same block. `scale`: "log" where all values are above zero, else "linear". `effects`, the largest
    first, and `rest` (all other interactions) have shares of the variance between cells, which add up to
    1; `noise` is its share of the variance of a trial. `leads` are those of each two factors.

    `levels` of each factor make the grid, of `trials` in `boots`. `balanced`: every cell has as many
    trials; else the means are those of least squares. `left_out` are cells that have no good trial, or
    levels of which no cell has one. `reason` says why there are no effects, `doubt` why they decide
    nothing.
    """

    response: str
    unit: str
    better: Better
    of: Literal["value", "efficiency"]
    scale: Literal["log", "linear"]
    platform: str
    cell: dict[str, Level]
    levels: dict[str, tuple[Level, ...]]
    trials: int
    boots: int
    confidence: float = 0.95
    exact: bool = False
    balanced: bool = True
    effects: tuple[Effect, ...] = ()
    leads: tuple[Lead, ...] = ()
    rest: float | None = None
    rest_low: float | None = None
    rest_high: float | None = None
    noise: float | None = None
    left_out: tuple[dict[str, Level], ...] = ()
    doubt: str | None = None
    reason: str | None = None


class NoiseFloor(Part):
    """Native against native. `cost` is the least cost that this run could have shown, `cost_low`
    and `cost_high` bound what native cost against itself, over `n` pairs of trials of the same
    block or, where blocks hold one native trial, of successive blocks. `spread` is how much native
    differed from one block to the next, a share.
    """

    response: str
    cell: dict[str, Level]
    n: int
    cost: float
    cost_low: float
    cost_high: float
    pairs: Literal["same block", "successive blocks"] = "successive blocks"
    spread: float = 0.0


class FailedTrial(Part):
    trial: int
    platform: str
    cell: dict[str, Level]
    reason: str
    console: tuple[str, ...] = ()


class JudgedClaim(Part):
    text: str
    judgement: Judgement
    evidence: str


class Placement(Part):
    """Virtual CPUs of a guest, and the machine's that they may run on; none of these means any."""

    cpus: int
    on: tuple[int, ...] = ()


class PlatformState(Part):
    """What a platform turned out to be: negotiated, not asked for."""

    platform: str
    node: str
    kernel: str
    cpus: int
    memory: int
    accelerator: str | None = None
    vmm: str | None = None
    paging: str | None = None
    pages: str | None = None
    datapath: str | None = None
    sidecore: tuple[int, ...] = ()
    joined: str | None = None
    scheduler: str | None = None
    placed: Placement | None = None
    driver: Placement | None = None
    clocksource: str
    interfaces: dict[str, dict[str, Level | None]] = {}


class Shift(Part):
    """By how much the quantile `share` of a platform's round trips is above the baseline's of the same
    block, in seconds: the mean over blocks. Over all shares it is the shift function.
    """

    cell: dict[str, Level]
    platform: str
    baseline: str
    share: float
    difference: float
    low: float | None
    high: float | None
    n: int


class RateBound(Part):
    """A rate about which `trials` of a search decided; `loss` is the median share that they lost."""

    rate: float
    loss: float
    trials: int


class LossFreeRate(Part):
    """The highest rate of a setting that loses no more than the share `goal`, by MLRsearch.

    `lower` is that rate and `upper` one that loses more, both in `unit`. `throughput` is MLRsearch's
    conditional throughput: `lower` without what was lost there. `state` is

    - `found`: they are as close as was asked for.
    - `all lose`: `lowest` already lost; there is no `lower`.
    - `none loses`: `highest` lost no more; there is no `upper`.
    - `limit`: the search ended at its most trials; the bounds are the closest so far.
    - `failed`: it could not be carried out, `reason` says why.
    - `open`: it was interrupted, or still goes on.

    `sender`: what ended it is the sender, which could not send faster, and nothing that receives.
    `good_above`: a rate above `upper` that lost no more; `bad_below`: how many trials at or below
    `lower` lost more. Both mean that loss does not simply grow with the rate. `trials` are those of
    the setting's search, for all of its goals.
    """

    platform: str
    cell: dict[str, Level]
    goal: float
    state: SearchState
    unit: str
    lower: RateBound | None = None
    upper: RateBound | None = None
    throughput: float | None = None
    lowest: float | None = None
    highest: float | None = None
    sender: bool = False
    good_above: float | None = None
    bad_below: int = 0
    trials: int = 0
    reason: str | None = None


class Curve(Part):
    """Goodput of a setting as more is offered to it, over `rates` offered rates.

    `peak` is its highest goodput, at the rate `peak_at`; `last` that at the highest rate, `last_at`;
    both in `unit`. `kind` says what it does there: it `keeps up` with what is offered, `levels off`,
    or falls (`livelock`); `undecided` where the intervals do not tell. See `stats/overload.py`.
    """

    platform: str
    cell: dict[str, Level]
    kind: CurveKind
    unit: str
    rates: int
    peak_at: Level
    peak: float
    last_at: Level
    last: float


class Prediction(Part):
    """What a law foretold of `guests` that its fit had not seen, and what was measured.

    Both in the unit of the response, geometric means over trials. `error` is predicted / measured - 1.
    `doubt` says why it decides nothing, as an estimate's does.
    """

    guests: int
    predicted: float
    measured: float
    error: float
    error_low: float | None = None
    error_high: float | None = None
    doubt: str | None = None


class Predictability(Part):
    """Whether a law, fitted to some numbers of guests, foretells the others.

    With a line of a limited rate the fair rate's R is what that carries, and `fitted` is empty;
    `formula` says so. `cell` is without the number of guests. `verdict` is "predictable" where every
    error lies within ±`most` with its whole interval, "not predictable" where one lies outside with
    all of it; `reason` says why nothing could be foretold.
    """

    law: str
    formula: str
    platform: str
    cell: dict[str, Level]
    response: str
    unit: str
    fitted: tuple[int, ...]
    predictions: tuple[Prediction, ...] = ()
    most: float
    verdict: Foretelling
    reason: str | None = None


class Total(Part):
    """What a workload would take on a platform if page walks were not free, with its parts.

    `elapsed` was measured in virtual time, `walk_time` is `walk_cycles` of the model in the same time;
    `total` is their sum, all in `unit`. `ratio` is `total` over the baseline's, from trials of the same
    block, with its interval. `cell` also has the modelled processor and its shared cache.

    The model walked tables of this `paging`, `guest_pages` in `host_pages`; `references` are table
    entries read in `walks`, each of at most `uncached_references`. With several `threads` its counts
    depend on how these took turns: other hosts may count a few others.
    """

    platform: str
    cell: dict[str, Level]
    unit: str
    elapsed: float
    walk_time: float
    total: float
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    paging: Literal["native", "shadow", "nested"]
    guest_pages: Literal["4K", "2M"]
    host_pages: Literal["4K", "2M"] | None = None
    walks: int
    references: int
    uncached_references: int
    walk_cycles: int
    threads: int


class Published(Part):
    """Somebody else's figure beside ours, both as ratios to the baseline.

    `published` is theirs, made of `value` and `baseline_value` in `value_unit`, from `source`; `on` says
    what they measured it on. `ratio` with its interval is ours, of `response` in `cell`; absent where
    this run has no such cell, or no ratio of it.
    """

    source: str
    on: dict[str, str]
    response: str
    platform: str
    cell: dict[str, Level]
    value: float
    baseline_value: float
    value_unit: str
    published: float
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None


class Disturbance(Part):
    """What took CPU time from a run: `cpus` of it on average, in `blocks` of its `of` blocks.

    `what` is another "program" of this machine, of the name `program`; a "hypervisor" below the machine
    (steal time); or "unseen" work, of which no program can be seen from where the run was made.
    """

    what: Literal["program", "hypervisor", "unseen"]
    program: str | None
    cpus: float
    blocks: int
    of: int


class Summary(Part):
    hypertare: str
    study: str
    question: str
    machine: MachineState
    clock: Clock
    accelerator: str | None
    versions: dict[str, str]
    seed: int
    threshold: float
    started: datetime
    ended: datetime | None
    complete: bool
    platforms: tuple[PlatformState, ...]
    estimates: tuple[Estimate, ...]
    guests: tuple[Estimate, ...] = ()
    levels: tuple[LevelChange, ...] = ()
    effects: tuple[Effects, ...] = ()
    noise: tuple[NoiseFloor, ...] = ()
    curves: tuple[Curve, ...] = ()
    shifts: tuple[Shift, ...] = ()
    predictability: tuple[Predictability, ...] = ()
    loss_free: tuple[LossFreeRate, ...] = ()
    totals: tuple[Total, ...] = ()
    published: tuple[Published, ...] = ()
    claims: tuple[JudgedClaim, ...] = ()
    failed: tuple[FailedTrial, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()
    warnings: tuple[str, ...] = ()
