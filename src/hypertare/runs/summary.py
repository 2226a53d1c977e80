"""`summary.json`: what a run found, for programs. Schema: `schema/summary.schema.json`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from hypertare.base.closed import Closed
from hypertare.base.variables import Better, Cell, Level
from hypertare.runs.machine_state import MachineState
from hypertare.stats.line_rate import CurveKind
from hypertare.stats.practical import Reason, Verdict

Judgement = Literal["holds", "fails", "undecided", "not judged"]
Clock = Literal["wall", "virtual"]
SearchState = Literal["found", "all lose", "none loses", "limit", "failed", "open"]
PredictabilityVerdict = Literal["predictable", "not predictable", "undecided"]
Low = Annotated[float | None, Field(description="lower end of its interval")]
High = Annotated[float | None, Field(description="upper end of its interval")]
CostConfidence = Annotated[
    float | None,
    Field(
        description="of the intervals of `cost` and `difference`: so high among the run's other "
        "comparisons that they exclude 0 only where a difference is shown"
    ),
]


def optional(description: str) -> Any:
    """A field that may be null, and is where nothing is said of it."""
    return Field(default=None, description=description)


def several(description: str) -> Any:
    """A field of so many things, or of none."""
    return Field(default=(), description=description)


class Estimate(Closed):
    """A response of one platform in one cell, and its cost against the baseline."""

    response: str = Field(description="name of the measured quantity")
    unit: str = Field(description="its unit")
    better: Better = Field(description="the direction that a user wants")
    cell: Cell = Field(
        description="level by factor; a guest's also has the factors that only guests have"
    )
    platform: str = Field(description="`native`, `container`, `guest`, `driver`, `xen`")
    guest: int | None = optional("of one guest of several: its number from 1; null: of all")
    baseline: str | None = optional(
        "compared with this platform; null for the baseline itself, and where no block has both"
    )
    n: int = Field(description="counted trials")
    estimate: float = Field(description="mean over trials, in `unit`")
    low: float | None = optional(
        "lower end of its interval; null where the trials have no spread, or are too few"
    )
    high: High = None
    geometric: float | None = optional(
        "geometric mean over trials, which reports show where a change is a ratio: of the same "
        "blocks, the baseline's times the change; null where no ratio is made"
    )
    geometric_low: Low = None
    geometric_high: High = None
    confidence: float = Field(default=0.95, description="of all intervals of this estimate")
    exact: bool = Field(
        default=False,
        description="in virtual time, every trial gave the same: the ends of the interval are the "
        "estimate",
    )
    blocks: int | None = optional("blocks that the cost rests on")
    cost: float | None = optional(
        "1 - platform/baseline where higher is better, platform/baseline - 1 where lower is; "
        "positive is always a loss"
    )
    cost_low: Low = None
    cost_high: High = None
    difference: float | None = optional(
        "platform - baseline in `unit`: what is added, as of CPU time a gigabyte where the peer's "
        "is on both sides. The verdict rests on it where a value of zero or below forbids a `cost`"
    )
    difference_low: Low = None
    difference_high: High = None
    cost_confidence: CostConfidence = None
    verdict: Verdict | None = optional(
        "`costs`, `gains`, `no difference shown`, or `undecided` where a large one may have been "
        "missed; null for the baseline and where nothing was compared"
    )
    reason: Reason | None = optional(
        "why no difference is shown: `chance`, the interval holds 0; `size`, below `threshold`; "
        "`floor`, the baseline differed as much from itself. Why it is undecided: `few`, too few "
        "trials for an interval; `wide`, the interval holds 0 and more than 25 %"
    )
    of_alone: float | None = optional(
        "goodput of one of several guests over that of one alone in the same setting"
    )
    of_alone_low: Low = None
    of_alone_high: High = None
    doubt: str | None = optional(
        "why it decides no claim: streams of several guests that hardly ran at once, other "
        "programs that were busier beside one side, or a gain of a platform whose offloads are not "
        "native's, which then has no `verdict`"
    )


class LevelChange(Closed):
    """The leading response at one level of a factor, against another on the same platform."""

    factor: str = Field(description="path of the setting")
    level: Level = Field(description="this level of the factor, compared with `against`")
    against: Level = Field(
        description="the study's first level, unless `--baseline-level` names another"
    )
    platform: str = Field(description="the platform")
    cell: Cell = Field(
        description="what all settings of the other factors have alike, `workload` among them"
    )
    response: str = Field(description="name of the measured quantity")
    unit: str = Field(description="its unit")
    better: Better = Field(description="the direction that a user wants")
    settings: int = Field(description="settings of the other factors that it is the mean of")
    blocks: int = Field(description="blocks that it rests on, of all settings")
    confidence: float = Field(default=0.95, description="of all its intervals")
    exact: bool = Field(default=False, description="in virtual time, nothing varied")
    cost: float | None = optional(
        "what is lost at `level`, as a share of the response at `against`; positive is always a "
        "loss"
    )
    cost_low: Low = None
    cost_high: High = None
    difference: float | None = optional(
        "`level` - `against` in `unit`, in place of `cost` where a value of zero or below forbids "
        "a ratio"
    )
    difference_low: Low = None
    difference_high: High = None
    cost_confidence: CostConfidence = None
    verdict: Verdict | None = optional(
        "as of an estimate; all changes of a run are one family of comparisons"
    )
    reason: Reason | None = optional("as of an estimate")
    cost_change: float | None = optional(
        "how much larger the platform's cost against the baseline is at `level`, as a difference "
        "of shares; null for the baseline"
    )
    cost_change_low: Low = None
    cost_change_high: High = None
    doubt: str | None = optional("why it says nothing")


class Effect(Closed):
    """What a factor, or two of them together, have of the variance between a platform's cells. Shares
    of all effects and of `rest` add up to 1.
    """

    factors: tuple[str, ...] = Field(description="path of the factor; of two: their interaction")
    share: float = Field(description="of the variance between the platform's cells")
    share_low: float = Field(description="lower end of its interval")
    share_high: float = Field(description="upper end of its interval")
    total: float | None = optional(
        "with all interactions that the factor is in; null for an interaction"
    )
    total_low: Low = None
    total_high: High = None
    p: float | None = optional("of the F test; null where nothing varied")
    adjusted: float | None = optional("the same by Holm's method, among all of the run")
    level: Level | None = optional(
        "the best level, by the means over all other factors; null for an interaction"
    )
    against: Level | None = optional("the worst level")
    ratio: float | None = optional("best over worst, on a log scale")
    ratio_low: float | None = optional(
        "lower end of its interval, which knows that the two were chosen"
    )
    ratio_high: High = None
    difference: float | None = optional("best - worst in `unit`, on a linear scale")
    difference_low: Low = None
    difference_high: High = None


class Lead(Closed):
    """Which of two factors has the larger total share, by the parts that have one of the two, not both."""

    factor: str = Field(description="path of the one")
    against: str = Field(description="path of the other")
    share: float = Field(
        description="what the parts with `factor` have; above 0.5 its total is the larger one"
    )
    low: float = Field(
        description="lower end of its interval, corrected for as many others as a factor is "
        "compared with"
    )
    high: float = Field(description="upper end of its interval")


class Effects(Closed):
    """Which factors matter most for a response on a platform: a full factorial, taken apart."""

    response: str = Field(description="name of the measured quantity")
    unit: str = Field(description="its unit")
    better: Better = Field(description="the direction that a user wants")
    of: Literal["value", "efficiency"] = Field(
        description="`value`: the response itself; `efficiency`: against the baseline of the same "
        "block"
    )
    scale: Literal["log", "linear"] = Field(
        description="`log` where all values are above zero, else `linear`"
    )
    platform: str = Field(description="the platform")
    cell: Cell = Field(description="what all settings have alike, `workload` among them")
    levels: dict[str, tuple[Level, ...]] = Field(
        description="the levels of each factor that were measured: their combinations are the grid"
    )
    trials: int = Field(description="trials that it rests on")
    boots: int = Field(description="boots that it rests on")
    confidence: float = Field(default=0.95, description="of all its intervals")
    exact: bool = Field(
        default=False, description="in virtual time, nothing varied but by the factors"
    )
    balanced: bool = Field(
        default=True,
        description="every cell has as many trials; else means are those of least squares",
    )
    effects: tuple[Effect, ...] = several("the parts, the largest share first")
    leads: tuple[Lead, ...] = several("which of two factors has the larger total, for each two")
    rest: float | None = optional("all parts that are not in `effects`; null where there are none")
    rest_low: Low = None
    rest_high: High = None
    noise: float | None = optional("what noise is of the variance of a trial")
    left_out: tuple[Cell, ...] = several(
        "cells without a good trial, or levels of which no cell has one"
    )
    doubt: str | None = optional("why it decides nothing, as of an estimate")
    reason: str | None = optional("why there are no effects: no replicates, too few good cells")


class NoiseFloor(Closed):
    """The baseline against itself."""

    response: str = Field(description="name of the measured quantity")
    cell: Cell = Field(description="level by factor")
    n: int = Field(description="pairs of trials")
    cost: float = Field(description="the least cost that this run could have shown")
    cost_low: float = Field(description="lower bound of what the baseline cost against itself")
    cost_high: float = Field(description="upper bound of it")
    pairs: Literal["same block", "successive blocks"] = Field(
        default="successive blocks",
        description="`same block` where blocks hold two trials of the baseline, else `successive "
        "blocks`",
    )
    spread: float = Field(
        default=0.0,
        description="how much the baseline differed from one block to the next, as a share",
    )


class FailedTrial(Closed):
    """A trial that failed."""

    trial: int = Field(description="its id in `run.sqlite`")
    platform: str = Field(description="where it ran")
    cell: Cell = Field(description="level by factor")
    reason: str = Field(description="why it failed")
    console: tuple[str, ...] = several("the last lines of its node's console")


class JudgedClaim(Closed):
    """An expectation of the study, judged."""

    text: str = Field(description="the expectation in the study's words")
    judgement: Judgement = Field(
        description="`holds`, `fails` or `undecided`; `not judged` where the published conditions "
        "are not had"
    )
    evidence: str = Field(description="what it rests on")


class AnalysedFigure(Closed):
    """A mean over trials, with its interval."""

    estimate: float = Field(description="the mean")
    low: float | None = Field(description="lower end of its interval; null where it has none")
    high: float | None = Field(description="upper end of its interval; null where it has none")
    unit: str = Field(description="unit of all three")


class AnalysedRow(Closed):
    """What an analysis found of a platform in a cell."""

    platform: str = Field(description="its platform")
    cell: Cell = Field(description="level by factor")
    what: str = Field(description="what the figures are of")
    figures: tuple[AnalysedFigure | None, ...] = Field(
        description="one under each column; null where there is none"
    )


class Analysed(Closed):
    """What an analysis of the study found, or what the hosts of a run have that has several."""

    name: str = Field(description="its table in the study; or `hosts`")
    title: str = Field(description="what it is called")
    note: str = Field(description="what its columns mean")
    columns: tuple[str, ...] = Field(description="names of its figures")
    rows: tuple[AnalysedRow, ...] = Field(description="a platform in a cell each")


class Placement(Closed):
    """Virtual CPUs of a guest or a driver domain, and the machine's that they may run on."""

    cpus: int = Field(description="how many virtual CPUs")
    on: tuple[int, ...] = several("the machine's CPUs that they may run on; empty: any")


class PlatformState(Closed):
    """What a platform turned out to be: negotiated, not asked for. One a state."""

    platform: str = Field(description="its platform")
    node: str = Field(description="its node on the bench")
    kernel: str = Field(description="release of its kernel")
    cpus: int = Field(description="CPUs that it sees")
    memory: int = Field(description="bytes of memory that it sees")
    accelerator: str | None = optional("what its VMM reports to be using; guests only")
    vmm: str | None = optional("its VMM and version; guests only")
    processor: str | None = optional(
        "its processor; of a machine that was given, others have the run's"
    )
    paging: str | None = optional(
        "page tables that KVM gave it: `nested` or `shadow`; guests under KVM only"
    )
    pages: str | None = optional(
        "pages of its memory after its boot: `4K`, `2M` or `thp` (some are huge); guests only"
    )
    datapath: str | None = optional(
        "what moves its packets: `qemu`, `vhost`, `vhost-user` or `sidecore`; guests with a "
        "virtio-net only"
    )
    datapath_cpus: tuple[int, ...] = several(
        "CPUs of the machine that what moves its packets may use, where that is bound"
    )
    joined: str | None = optional(
        "`bridge` or `route`: how the driver domain joins it to its link; guests of Xen only"
    )
    scheduler: str | None = optional("the hypervisor's: `credit` or `credit2`; guests of Xen only")
    tsc: str | None = optional(
        "how it reads the time-stamp counter, as Xen says: `native`, `emulate` or `default`; "
        "guests of Xen only"
    )
    placed: Placement | None = optional(
        "its virtual CPUs, as Xen or the machine has it; guests of Xen and those that are bound"
    )
    driver: Placement | None = optional("the same of the driver domain")
    clocksource: str = Field(description="its kernel's clock source")
    interfaces: dict[str, dict[str, Level | None]] = Field(
        default={},
        description="by interface: `driver`, `mtu`, `rx_queues`, `tx_queues`, and each offload as "
        "true or false",
    )


class Shift(Closed):
    """By how much a platform's round trips are later than the baseline's of the same block, at one share.
    Over all shares it is the shift function.
    """

    cell: Cell = Field(description="the setting")
    platform: str = Field(description="what was compared")
    baseline: str = Field(description="with what")
    share: float = Field(description="the quantile: 0.5 is the median")
    difference: float = Field(
        description="the platform's less the baseline's in seconds, the mean over blocks"
    )
    low: Low
    high: High
    n: int = Field(description="blocks")


class Amount(Closed):
    """A mean over boots, in the unit of what it is of."""

    estimate: float = Field(description="the mean over boots")
    low: Low
    high: High


class BillItem(Closed):
    """What a part of a cost is: so many, at a price each."""

    name: str = Field(description="the study's")
    count: float | None = Field(description="how many; without a price the amount itself")
    price: float | None = Field(description="what one costs")
    amount: Amount | None = Field(
        description="both together; null: it was not counted, or not priced, on this platform"
    )


class Bill(Closed):
    """What a response costs beside the baseline's, or is, by items that the study names."""

    cell: Cell = Field(description="the setting")
    platform: str = Field(description="its platform")
    baseline: str | None = Field(
        description="what it is compared with; null: it is of all that the response is"
    )
    response: str = Field(description="what costs")
    unit: str = Field(description="of all amounts")
    n: int = Field(description="boots")
    cost: Amount | None = Field(description="what the platform adds to the baseline's, or has")
    items: tuple[BillItem, ...] = Field(description="what that is made of")
    rest: str = Field(default="unexplained", description="the study's name of what the items leave")
    unexplained: Amount | None = Field(description="what the items leave")


class RateBound(Closed):
    """A rate about which a search decided."""

    rate: float = Field(description="the rate")
    loss: float = Field(description="the median of what its trials lost")
    trials: int = Field(description="trials at this rate")


class LossFreeRate(Closed):
    """The highest rate of a setting that loses no more than its goal, by MLRsearch."""

    platform: str = Field(description="its platform")
    cell: Cell = Field(
        description="`workload`, and the levels of the factors that were searched over"
    )
    goal: float = Field(description="what may be lost")
    state: SearchState = Field(
        description="`found`; `all lose`: `lowest` loses already; `none loses`: `highest` does "
        "not lose either; `limit`: ended at its most trials, with the bounds so far; `failed`: "
        "see `reason`; `open`: interrupted, or still going on"
    )
    unit: str = Field(description="of all rates here")
    lower: RateBound | None = optional("the highest rate that keeps the goal")
    upper: RateBound | None = optional("the lowest rate above it that does not")
    throughput: float | None = optional(
        "MLRsearch's conditional throughput: what arrived at `lower`"
    )
    lowest: float | None = optional("lower end of the rates that were searched")
    highest: float | None = optional("upper end of them")
    sender: bool = Field(
        default=False, description="it ended because the sender could not send faster"
    )
    good_above: float | None = optional("a rate above `upper` that kept the goal")
    bad_below: int = Field(
        default=0,
        description="trials at or below `lower` that lost more than the goal. This or "
        "`good_above`: loss does not simply grow with the rate",
    )
    trials: int = Field(
        default=0, description="trials of the setting's search, for all of its goals"
    )
    reason: str | None = optional("why it failed")


class Curve(Closed):
    """Goodput of a UDP stream as more is offered to it. See `stats/line_rate.py`."""

    platform: str = Field(description="platform of the setting")
    cell: Cell = Field(description="the setting, without the rate")
    kind: CurveKind = Field(
        description="what it does at the highest rate that was offered; `undecided` where the "
        "intervals do not say, or too few rates were offered"
    )
    unit: str = Field(description="of `peak` and `last`")
    rates: int = Field(
        description="how many rates were offered: the peer sent 95 % of them or more"
    )
    peak_at: Level = Field(description="the rate of the highest goodput")
    peak: float = Field(description="the highest goodput")
    last_at: Level = Field(description="the highest rate that was offered")
    last: float = Field(description="goodput at it")
    doubt: str | None = optional("of the highest rate that was not offered: how much of it was")


class Prediction(Closed):
    """What a law predicted of a number of guests that its fit had not seen, and what was measured."""

    guests: int = Field(description="how many guests")
    predicted: float = Field(description="what the law says")
    measured: float = Field(description="the geometric mean over trials")
    error: float = Field(description="predicted / measured - 1")
    error_low: float | None = optional(
        "lower end of its interval, of the confidence of the estimates"
    )
    error_high: High = None
    doubt: str | None = optional("why it decides nothing, as of an estimate")


class Predictability(Closed):
    """Whether a law, fitted to some numbers of guests, predicts the others. With a line of a limited
    rate the fair rate is what that carries, and nothing is fitted.
    """

    law: str = Field(
        description="its name: `fair rate`, `driver domain CPU`, `universal scalability law`, "
        "`loaded rate`, `loaded rate, guest alone`"
    )
    formula: str = Field(description="the law")
    platform: str = Field(description="platform of the setting")
    cell: Cell = Field(description="the setting, without the number of guests")
    response: str = Field(description="what is predicted")
    unit: str = Field(description="of `predicted` and `measured`")
    fitted: tuple[int, ...] = Field(description="numbers of guests that the law was fitted to")
    predictions: tuple[Prediction, ...] = several("one for each number that the fit has not seen")
    most: float = Field(description="the largest error that is still predictable")
    verdict: PredictabilityVerdict = Field(
        description="`predictable`: every error lies within ±`most` with its whole interval; `not "
        "predictable`: one lies outside with all of it; else `undecided`"
    )
    reason: str | None = optional("why nothing could be predicted")


class Total(Closed):
    """What a workload would take on a platform if page walks were not free, with its parts."""

    platform: str = Field(description="its platform")
    cell: Cell = Field(
        description="level by factor, `walk.processor` and `walk.shared_cache` among them"
    )
    unit: str = Field(description="of `elapsed`, `walk_time` and `total`")
    elapsed: float = Field(description="measured in virtual time, without walks")
    walk_time: float = Field(description="`walk_cycles` in virtual time")
    total: float = Field(description="their sum")
    ratio: float | None = optional(
        "`total` over the baseline's, from trials of the same block; null for the baseline"
    )
    ratio_low: Low = None
    ratio_high: High = None
    paging: Literal["native", "shadow", "nested"] = Field(
        description="`native`, `shadow` or `nested`: the tables that the model walked"
    )
    guest_pages: Literal["4K", "2M"] = Field(description="`4K` or `2M`")
    host_pages: Literal["4K", "2M"] | None = optional("pages that back the guest; null natively")
    walks: int = Field(description="page walks")
    references: int = Field(
        description="table entries that they read through caches or from memory"
    )
    uncached_references: int = Field(
        description="those of one walk without any cache of the walker"
    )
    walk_cycles: int = Field(description="cycles of walks and of look-ups in the second-level TLB")
    threads: int = Field(
        description="most threads of a program; with several, other hosts may count slightly "
        "differently"
    )


class Published(Closed):
    """Somebody else's figure beside ours, both as ratios to the baseline."""

    source: str = Field(description="who, what, when")
    on: dict[str, str] = Field(description="what they measured it on")
    response: str = Field(description="ours that it is set beside")
    platform: str = Field(description="its platform")
    cell: Cell = Field(description="the cell of ours; without ours, what it says itself")
    value: float = Field(description="their figure")
    baseline_value: float = Field(description="theirs of the baseline")
    value_unit: str = Field(description="of both")
    published: float = Field(description="`value` over `baseline_value`")
    ratio: float | None = optional(
        "ours, platform over baseline; null where this run has no such cell"
    )
    ratio_low: Low = None
    ratio_high: High = None


class Disturbance(Closed):
    """What took CPU time from a run, in a tenth of its blocks or more."""

    what: Literal["program", "hypervisor", "unseen"] = Field(
        description="`program`: another program of this machine; `hypervisor`: one below the "
        "machine (steal time); `unseen`: work of which no program can be seen, as from inside a "
        "container"
    )
    program: str | None = Field(description="the program's name, of all processes that have it")
    cpus: float = Field(
        description="CPUs that it took on average in these blocks: 0.76 is 76 % of one"
    )
    blocks: int = Field(description="blocks in which it took a tenth of a CPU or more")
    of: int = Field(description="blocks in all")


class Summary(Closed):
    """What a run found."""

    hypertare: str = Field(description="version that made the run")
    study: str = Field(description="name of the study")
    question: str = Field(description="what the study asks")
    machine: MachineState = Field(description="where it ran")
    clock: Clock = Field(
        description="`virtual`: instructions are the clock, runs repeat exactly; never compare "
        "the two"
    )
    accelerator: str | None = Field(
        description="what guests ran on (`kvm`, `tcg`); null without guests"
    )
    versions: dict[str, str] = Field(description="versions of what took part, by name")
    seed: int = Field(description="seed of the design's random order")
    threshold: float = Field(description="the least cost that matters: `design.threshold`")
    started: datetime = Field(description="when the run's file was made")
    ended: datetime | None = Field(
        description="when the run ended; null while it goes on, and after it was killed"
    )
    complete: bool = Field(description="every cell is precise, or at its limit of trials")
    platforms: tuple[PlatformState, ...] = Field(description="what each platform turned out to be")
    estimates: tuple[Estimate, ...] = Field(description="what was found")
    guests: tuple[Estimate, ...] = several(
        "estimates of each guest, where several worked at once; compared with nothing"
    )
    levels: tuple[LevelChange, ...] = several("what the levels of factors change")
    fastest: tuple[LevelChange, ...] = several(
        "of several commands: every other one against the one whose mean is best natively (the least "
        "time, or the best figure of its own), as of `levels`"
    )
    effects: tuple[Effects, ...] = several("which factors matter most")
    noise: tuple[NoiseFloor, ...] = several("the baseline against itself")
    curves: tuple[Curve, ...] = several("what streams do as more is offered to them")
    shifts: tuple[Shift, ...] = several("how much later round trips come")
    bills: tuple[Bill, ...] = several("what a cost is made of")
    analyses: tuple[Analysed, ...] = several(
        "what the study's further analyses found, `[jitter]` for example"
    )
    predictability: tuple[Predictability, ...] = several(
        "whether simple laws predict what more guests do"
    )
    loss_free: tuple[LossFreeRate, ...] = several("what the study's searches found")
    totals: tuple[Total, ...] = several("elapsed times with modelled page walks")
    published: tuple[Published, ...] = several("others' figures beside ours")
    claims: tuple[JudgedClaim, ...] = several("the study's expectations, judged")
    failed: tuple[FailedTrial, ...] = several("trials that failed; they are in no estimate")
    disturbances: tuple[Disturbance, ...] = several(
        "what took CPU time from the run, the greatest first"
    )
    warnings: tuple[str, ...] = several("what to know before believing the figures")
