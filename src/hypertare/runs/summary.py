"""`summary.json`: what a run found, for programs. Schema: `schema/summary.schema.json`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from hypertare.base.level import Level
from hypertare.base.response import Better
from hypertare.runs.machine_state import MachineState
from hypertare.runs.part import Part, means
from hypertare.stats.overload import CurveKind
from hypertare.stats.practical import Reason, Verdict

Judgement = Literal["holds", "fails", "undecided", "not judged"]
Clock = Literal["wall", "virtual"]
SearchState = Literal["found", "all lose", "none loses", "limit", "failed", "open"]
PredictabilityVerdict = Literal["predictable", "not predictable", "undecided"]
Low = Annotated[float | None, means("lower end of its interval")]
High = Annotated[float | None, means("upper end of its interval")]
CostConfidence = Annotated[
    float | None,
    means(
        "of the intervals of `cost` and `difference`: so high among the run's other comparisons "
        "that they exclude 0 only where a difference is shown"
    ),
]


class Estimate(Part):
    """A response of one platform in one cell, and its cost against the baseline."""

    response: Annotated[str, means("name of the measured quantity")]
    unit: Annotated[str, means("its unit")]
    better: Annotated[Better, means("the direction that a user wants")]
    cell: Annotated[
        dict[str, Level],
        means("level by factor; a guest's also has the factors that only guests have"),
    ]
    platform: Annotated[str, means("`native`, `container`, `guest`, `driver`, `xen`")]
    guest: Annotated[
        int | None, means("of one guest of several: its number from 1; null: of all")
    ] = None
    baseline: Annotated[
        str | None,
        means(
            "compared with this platform; null for the baseline itself, and where no block has both"
        ),
    ] = None
    n: Annotated[int, means("counted trials")]
    estimate: Annotated[float, means("mean over trials, in `unit`")]
    low: Annotated[
        float | None,
        means("lower end of its interval; null where the trials have no spread, or are too few"),
    ] = None
    high: High = None
    geometric: Annotated[
        float | None,
        means(
            "geometric mean over trials, which reports show where a change is a ratio: of the same "
            "blocks, the baseline's times the change; null where no ratio is made"
        ),
    ] = None
    geometric_low: Low = None
    geometric_high: High = None
    confidence: Annotated[float, means("of all intervals of this estimate")] = 0.95
    exact: Annotated[
        bool,
        means(
            "in virtual time, every trial gave the same: the ends of the interval are the estimate"
        ),
    ] = False
    blocks: Annotated[int | None, means("blocks that the cost rests on")] = None
    cost: Annotated[
        float | None,
        means(
            "1 - platform/baseline where higher is better, platform/baseline - 1 where lower is; "
            "positive is always a loss"
        ),
    ] = None
    cost_low: Low = None
    cost_high: High = None
    difference: Annotated[
        float | None,
        means(
            "platform - baseline in `unit`: what is added, as of CPU time a gigabyte where the "
            "peer's is on both sides. The verdict rests on it where a value of zero or below "
            "forbids a `cost`"
        ),
    ] = None
    difference_low: Low = None
    difference_high: High = None
    cost_confidence: CostConfidence = None
    verdict: Annotated[
        Verdict | None,
        means(
            "`costs`, `gains`, `no difference shown`, or `undecided` where a large one may have been "
            "missed; null for the baseline and where nothing was compared"
        ),
    ] = None
    reason: Annotated[
        Reason | None,
        means(
            "why no difference is shown: `chance`, the interval holds 0; `size`, below "
            "`threshold`; `floor`, the baseline differed as much from itself. Why it is undecided: "
            "`few`, too few trials for an interval; `wide`, the interval holds 0 and more than 25 %"
        ),
    ] = None
    of_alone: Annotated[
        float | None,
        means("goodput of one of several guests over that of one alone in the same setting"),
    ] = None
    of_alone_low: Low = None
    of_alone_high: High = None
    doubt: Annotated[
        str | None,
        means(
            "why it decides no claim: streams of several guests that hardly ran at once, other "
            "programs that were busier beside one side, or a gain of a platform whose offloads "
            "are not native's, which then has no `verdict`"
        ),
    ] = None


class LevelChange(Part):
    """The leading response at one level of a factor, against another on the same platform."""

    factor: Annotated[str, means("path of the setting")]
    level: Annotated[Level, means("this level of the factor, compared with `against`")]
    against: Annotated[
        Level, means("the study's first level, unless `--baseline-level` names another")
    ]
    platform: Annotated[str, means("the platform")]
    cell: Annotated[
        dict[str, Level],
        means("what all settings of the other factors have alike, `workload` among them"),
    ]
    response: Annotated[str, means("name of the measured quantity")]
    unit: Annotated[str, means("its unit")]
    better: Annotated[Better, means("the direction that a user wants")]
    settings: Annotated[int, means("settings of the other factors that it is the mean of")]
    blocks: Annotated[int, means("blocks that it rests on, of all settings")]
    confidence: Annotated[float, means("of all its intervals")] = 0.95
    exact: Annotated[bool, means("in virtual time, nothing varied")] = False
    cost: Annotated[
        float | None,
        means(
            "what is lost at `level`, as a share of the response at `against`; positive is always "
            "a loss"
        ),
    ] = None
    cost_low: Low = None
    cost_high: High = None
    difference: Annotated[
        float | None,
        means(
            "`level` - `against` in `unit`, in place of `cost` where a value of zero or below "
            "forbids a ratio"
        ),
    ] = None
    difference_low: Low = None
    difference_high: High = None
    cost_confidence: CostConfidence = None
    verdict: Annotated[
        Verdict | None,
        means("as of an estimate; all changes of a run are one family of comparisons"),
    ] = None
    reason: Annotated[Reason | None, means("as of an estimate")] = None
    cost_change: Annotated[
        float | None,
        means(
            "how much larger the platform's cost against the baseline is at `level`, as a "
            "difference of shares; null for the baseline"
        ),
    ] = None
    cost_change_low: Low = None
    cost_change_high: High = None
    doubt: Annotated[str | None, means("why it says nothing")] = None


class Effect(Part):
    """What a factor, or two of them together, have of the variance between a platform's cells. Shares
    of all effects and of `rest` add up to 1.
    """

    factors: Annotated[tuple[str, ...], means("path of the factor; of two: their interaction")]
    share: Annotated[float, means("of the variance between the platform's cells")]
    share_low: Annotated[float, means("lower end of its interval")]
    share_high: Annotated[float, means("upper end of its interval")]
    total: Annotated[
        float | None, means("with all interactions that the factor is in; null for an interaction")
    ] = None
    total_low: Low = None
    total_high: High = None
    p: Annotated[float | None, means("of the F test; null where nothing varied")] = None
    adjusted: Annotated[float | None, means("the same by Holm's method, among all of the run")] = (
        None
    )
    level: Annotated[
        Level | None,
        means("the best level, by the means over all other factors; null for an interaction"),
    ] = None
    against: Annotated[Level | None, means("the worst level")] = None
    ratio: Annotated[float | None, means("best over worst, on a log scale")] = None
    ratio_low: Annotated[
        float | None, means("lower end of its interval, which knows that the two were chosen")
    ] = None
    ratio_high: High = None
    difference: Annotated[float | None, means("best - worst in `unit`, on a linear scale")] = None
    difference_low: Low = None
    difference_high: High = None


class Lead(Part):
    """Which of two factors has the larger total share, by the parts that have one of the two, not both."""

    factor: Annotated[str, means("path of the one")]
    against: Annotated[str, means("path of the other")]
    share: Annotated[
        float, means("what the parts with `factor` have; above 0.5 its total is the larger one")
    ]
    low: Annotated[
        float,
        means(
            "lower end of its interval, corrected for as many others as a factor is compared with"
        ),
    ]
    high: Annotated[float, means("upper end of its interval")]


class Effects(Part):
    """Which factors matter most for a response on a platform: a full factorial, taken apart."""

    response: Annotated[str, means("name of the measured quantity")]
    unit: Annotated[str, means("its unit")]
    better: Annotated[Better, means("the direction that a user wants")]
    of: Annotated[
        Literal["value", "efficiency"],
        means("`value`: the response itself; `efficiency`: against the baseline of the same block"),
    ]
    scale: Annotated[
        Literal["log", "linear"], means("`log` where all values are above zero, else `linear`")
    ]
    platform: Annotated[str, means("the platform")]
    cell: Annotated[dict[str, Level], means("what all settings have alike, `workload` among them")]
    levels: Annotated[
        dict[str, tuple[Level, ...]],
        means("the levels of each factor that were measured: their combinations are the grid"),
    ]
    trials: Annotated[int, means("trials that it rests on")]
    boots: Annotated[int, means("boots that it rests on")]
    confidence: Annotated[float, means("of all its intervals")] = 0.95
    exact: Annotated[bool, means("in virtual time, nothing varied but by the factors")] = False
    balanced: Annotated[
        bool, means("every cell has as many trials; else means are those of least squares")
    ] = True
    effects: Annotated[tuple[Effect, ...], means("the parts, the largest share first")] = ()
    leads: Annotated[
        tuple[Lead, ...], means("which of two factors has the larger total, for each two")
    ] = ()
    rest: Annotated[
        float | None, means("all parts that are not in `effects`; null where there are none")
    ] = None
    rest_low: Low = None
    rest_high: High = None
    noise: Annotated[float | None, means("what noise is of the variance of a trial")] = None
    left_out: Annotated[
        tuple[dict[str, Level], ...],
        means("cells without a good trial, or levels of which no cell has one"),
    ] = ()
    doubt: Annotated[str | None, means("why it decides nothing, as of an estimate")] = None
    reason: Annotated[
        str | None, means("why there are no effects: no replicates, too few good cells")
    ] = None


class NoiseFloor(Part):
    """The baseline against itself."""

    response: Annotated[str, means("name of the measured quantity")]
    cell: Annotated[dict[str, Level], means("level by factor")]
    n: Annotated[int, means("pairs of trials")]
    cost: Annotated[float, means("the least cost that this run could have shown")]
    cost_low: Annotated[float, means("lower bound of what the baseline cost against itself")]
    cost_high: Annotated[float, means("upper bound of it")]
    pairs: Annotated[
        Literal["same block", "successive blocks"],
        means(
            "`same block` where blocks hold two trials of the baseline, else `successive blocks`"
        ),
    ] = "successive blocks"
    spread: Annotated[
        float, means("how much the baseline differed from one block to the next, as a share")
    ] = 0.0


class FailedTrial(Part):
    """A trial that failed."""

    trial: Annotated[int, means("its id in `run.sqlite`")]
    platform: Annotated[str, means("where it ran")]
    cell: Annotated[dict[str, Level], means("level by factor")]
    reason: Annotated[str, means("why it failed")]
    console: Annotated[tuple[str, ...], means("the last lines of its node's console")] = ()


class JudgedClaim(Part):
    """An expectation of the study, judged."""

    text: Annotated[str, means("the expectation in the study's words")]
    judgement: Annotated[
        Judgement,
        means(
            "`holds`, `fails` or `undecided`; `not judged` where the published conditions are not "
            "had"
        ),
    ]
    evidence: Annotated[str, means("what it rests on")]


class AnalysedFigure(Part):
    """A mean over trials, with its interval."""

    estimate: Annotated[float, means("the mean")]
    low: Annotated[float | None, means("lower end of its interval; null where it has none")]
    high: Annotated[float | None, means("upper end of its interval; null where it has none")]
    unit: Annotated[str, means("unit of all three")]


class AnalysedRow(Part):
    """What an analysis found of a platform in a cell."""

    platform: Annotated[str, means("its platform")]
    cell: Annotated[dict[str, Level], means("level by factor")]
    what: Annotated[str, means("what the figures are of")]
    figures: Annotated[
        tuple[AnalysedFigure | None, ...], means("one under each column; null where there is none")
    ]


class Analysed(Part):
    """What an analysis of the study found, or what the hosts of a run have that has several."""

    name: Annotated[str, means("its table in the study; or `hosts`")]
    title: Annotated[str, means("what it is called")]
    note: Annotated[str, means("what its columns mean")]
    columns: Annotated[tuple[str, ...], means("names of its figures")]
    rows: Annotated[tuple[AnalysedRow, ...], means("a platform in a cell each")]


class Placement(Part):
    """Virtual CPUs of a guest or a driver domain, and the machine's that they may run on."""

    cpus: Annotated[int, means("how many virtual CPUs")]
    on: Annotated[
        tuple[int, ...], means("the machine's CPUs that they may run on; empty: any")
    ] = ()


class PlatformState(Part):
    """What a platform turned out to be: negotiated, not asked for. One a state."""

    platform: Annotated[str, means("its platform")]
    node: Annotated[str, means("its node on the bench")]
    kernel: Annotated[str, means("release of its kernel")]
    cpus: Annotated[int, means("CPUs that it sees")]
    memory: Annotated[int, means("bytes of memory that it sees")]
    accelerator: Annotated[str | None, means("what its VMM reports to be using; guests only")] = (
        None
    )
    vmm: Annotated[str | None, means("its VMM and version; guests only")] = None
    processor: Annotated[
        str | None, means("its processor; of a machine that was given, others have the run's")
    ] = None
    paging: Annotated[
        str | None,
        means("page tables that KVM gave it: `nested` or `shadow`; guests under KVM only"),
    ] = None
    pages: Annotated[
        str | None,
        means(
            "pages of its memory after its boot: `4K`, `2M` or `thp` (some are huge); guests only"
        ),
    ] = None
    datapath: Annotated[
        str | None,
        means(
            "what moves its packets: `qemu`, `vhost`, `vhost-user` or `sidecore`; guests with a "
            "virtio-net only"
        ),
    ] = None
    datapath_cpus: Annotated[
        tuple[int, ...],
        means("CPUs of the machine that what moves its packets may use, where that is bound"),
    ] = ()
    joined: Annotated[
        str | None,
        means(
            "`bridge` or `route`: how the driver domain joins it to its link; guests of Xen only"
        ),
    ] = None
    scheduler: Annotated[
        str | None, means("the hypervisor's: `credit` or `credit2`; guests of Xen only")
    ] = None
    tsc: Annotated[
        str | None,
        means(
            "how it reads the time-stamp counter, as Xen says: `native`, `emulate` or `default`; "
            "guests of Xen only"
        ),
    ] = None
    placed: Annotated[
        Placement | None,
        means(
            "its virtual CPUs, as Xen or the machine has it; guests of Xen and those that are bound"
        ),
    ] = None
    driver: Annotated[Placement | None, means("the same of the driver domain")] = None
    clocksource: Annotated[str, means("its kernel's clock source")]
    interfaces: Annotated[
        dict[str, dict[str, Level | None]],
        means(
            "by interface: `driver`, `mtu`, `rx_queues`, `tx_queues`, and each offload as true or "
            "false"
        ),
    ] = {}


class Shift(Part):
    """By how much a platform's round trips are later than the baseline's of the same block, at one share.
    Over all shares it is the shift function.
    """

    cell: Annotated[dict[str, Level], means("the setting")]
    platform: Annotated[str, means("what was compared")]
    baseline: Annotated[str, means("with what")]
    share: Annotated[float, means("the quantile: 0.5 is the median")]
    difference: Annotated[
        float, means("the platform's less the baseline's in seconds, the mean over blocks")
    ]
    low: Low
    high: High
    n: Annotated[int, means("blocks")]


class Amount(Part):
    """A mean over boots, in the unit of what it is of."""

    estimate: Annotated[float, means("the mean over boots")]
    low: Low
    high: High


class BillItem(Part):
    """What a part of a cost is: so many, at a price each."""

    name: Annotated[str, means("the study's")]
    count: Annotated[float | None, means("how many; without a price the amount itself")]
    price: Annotated[float | None, means("what one costs")]
    amount: Annotated[
        Amount | None,
        means("both together; null: it was not counted, or not priced, on this platform"),
    ]


class Bill(Part):
    """What a response costs beside the baseline's, or is, by items that the study names."""

    cell: Annotated[dict[str, Level], means("the setting")]
    platform: Annotated[str, means("its platform")]
    baseline: Annotated[
        str | None, means("what it is compared with; null: it is of all that the response is")
    ]
    response: Annotated[str, means("what costs")]
    unit: Annotated[str, means("of all amounts")]
    n: Annotated[int, means("boots")]
    cost: Annotated[Amount | None, means("what the platform adds to the baseline's, or has")]
    items: Annotated[tuple[BillItem, ...], means("what that is made of")]
    rest: Annotated[str, means("the study's name of what the items leave")] = "unexplained"
    unexplained: Annotated[Amount | None, means("what the items leave")]


class RateBound(Part):
    """A rate about which a search decided."""

    rate: Annotated[float, means("the rate")]
    loss: Annotated[float, means("the median of what its trials lost")]
    trials: Annotated[int, means("trials at this rate")]


class LossFreeRate(Part):
    """The highest rate of a setting that loses no more than its goal, by MLRsearch."""

    platform: Annotated[str, means("its platform")]
    cell: Annotated[
        dict[str, Level], means("`workload`, and the levels of the factors that were searched over")
    ]
    goal: Annotated[float, means("what may be lost")]
    state: Annotated[
        SearchState,
        means(
            "`found`; `all lose`: `lowest` loses already; `none loses`: `highest` does not lose "
            "either; `limit`: ended at its most trials, with the bounds so far; `failed`: see "
            "`reason`; `open`: interrupted, or still going on"
        ),
    ]
    unit: Annotated[str, means("of all rates here")]
    lower: Annotated[RateBound | None, means("the highest rate that keeps the goal")] = None
    upper: Annotated[RateBound | None, means("the lowest rate above it that does not")] = None
    throughput: Annotated[
        float | None, means("MLRsearch's conditional throughput: what arrived at `lower`")
    ] = None
    lowest: Annotated[float | None, means("lower end of the rates that were searched")] = None
    highest: Annotated[float | None, means("upper end of them")] = None
    sender: Annotated[bool, means("it ended because the sender could not send faster")] = False
    good_above: Annotated[float | None, means("a rate above `upper` that kept the goal")] = None
    bad_below: Annotated[
        int,
        means(
            "trials at or below `lower` that lost more than the goal. This or `good_above`: loss "
            "does not simply grow with the rate"
        ),
    ] = 0
    trials: Annotated[int, means("trials of the setting's search, for all of its goals")] = 0
    reason: Annotated[str | None, means("why it failed")] = None


class Curve(Part):
    """Goodput of a UDP stream as more is offered to it. See `stats/overload.py`."""

    platform: Annotated[str, means("platform of the setting")]
    cell: Annotated[dict[str, Level], means("the setting, without the rate")]
    kind: Annotated[
        CurveKind,
        means(
            "what it does at the highest rate that was offered; `undecided` where the intervals do not "
            "say, or too few rates were offered"
        ),
    ]
    unit: Annotated[str, means("of `peak` and `last`")]
    rates: Annotated[int, means("how many rates were offered: the peer sent 95 % of them or more")]
    peak_at: Annotated[Level, means("the rate of the highest goodput")]
    peak: Annotated[float, means("the highest goodput")]
    last_at: Annotated[Level, means("the highest rate that was offered")]
    last: Annotated[float, means("goodput at it")]
    doubt: Annotated[
        str | None, means("of the highest rate that was not offered: how much of it was")
    ] = None


class Prediction(Part):
    """What a law predicted of a number of guests that its fit had not seen, and what was measured."""

    guests: Annotated[int, means("how many guests")]
    predicted: Annotated[float, means("what the law says")]
    measured: Annotated[float, means("the geometric mean over trials")]
    error: Annotated[float, means("predicted / measured - 1")]
    error_low: Annotated[
        float | None, means("lower end of its interval, of the confidence of the estimates")
    ] = None
    error_high: High = None
    doubt: Annotated[str | None, means("why it decides nothing, as of an estimate")] = None


class Predictability(Part):
    """Whether a law, fitted to some numbers of guests, predicts the others. With a line of a limited
    rate the fair rate is what that carries, and nothing is fitted.
    """

    law: Annotated[
        str,
        means(
            "its name: `fair rate`, `driver domain CPU`, `universal scalability law`, `loaded "
            "rate`, `loaded rate, guest alone`"
        ),
    ]
    formula: Annotated[str, means("the law")]
    platform: Annotated[str, means("platform of the setting")]
    cell: Annotated[dict[str, Level], means("the setting, without the number of guests")]
    response: Annotated[str, means("what is predicted")]
    unit: Annotated[str, means("of `predicted` and `measured`")]
    fitted: Annotated[tuple[int, ...], means("numbers of guests that the law was fitted to")]
    predictions: Annotated[
        tuple[Prediction, ...], means("one for each number that the fit has not seen")
    ] = ()
    most: Annotated[float, means("the largest error that is still predictable")]
    verdict: Annotated[
        PredictabilityVerdict,
        means(
            "`predictable`: every error lies within ±`most` with its whole interval; `not "
            "predictable`: one lies outside with all of it; else `undecided`"
        ),
    ]
    reason: Annotated[str | None, means("why nothing could be predicted")] = None


class Total(Part):
    """What a workload would take on a platform if page walks were not free, with its parts."""

    platform: Annotated[str, means("its platform")]
    cell: Annotated[
        dict[str, Level],
        means("level by factor, `walk.processor` and `walk.shared_cache` among them"),
    ]
    unit: Annotated[str, means("of `elapsed`, `walk_time` and `total`")]
    elapsed: Annotated[float, means("measured in virtual time, without walks")]
    walk_time: Annotated[float, means("`walk_cycles` in virtual time")]
    total: Annotated[float, means("their sum")]
    ratio: Annotated[
        float | None,
        means("`total` over the baseline's, from trials of the same block; null for the baseline"),
    ] = None
    ratio_low: Low = None
    ratio_high: High = None
    paging: Annotated[
        Literal["native", "shadow", "nested"],
        means("`native`, `shadow` or `nested`: the tables that the model walked"),
    ]
    guest_pages: Annotated[Literal["4K", "2M"], means("`4K` or `2M`")]
    host_pages: Annotated[
        Literal["4K", "2M"] | None, means("pages that back the guest; null natively")
    ] = None
    walks: Annotated[int, means("page walks")]
    references: Annotated[int, means("table entries that they read through caches or from memory")]
    uncached_references: Annotated[int, means("those of one walk without any cache of the walker")]
    walk_cycles: Annotated[int, means("cycles of walks and of look-ups in the second-level TLB")]
    threads: Annotated[
        int,
        means(
            "most threads of a program; with several, other hosts may count slightly differently"
        ),
    ]


class Published(Part):
    """Somebody else's figure beside ours, both as ratios to the baseline."""

    source: Annotated[str, means("who, what, when")]
    on: Annotated[dict[str, str], means("what they measured it on")]
    response: Annotated[str, means("ours that it is set beside")]
    platform: Annotated[str, means("its platform")]
    cell: Annotated[dict[str, Level], means("the cell of ours; without ours, what it says itself")]
    value: Annotated[float, means("their figure")]
    baseline_value: Annotated[float, means("theirs of the baseline")]
    value_unit: Annotated[str, means("of both")]
    published: Annotated[float, means("`value` over `baseline_value`")]
    ratio: Annotated[
        float | None, means("ours, platform over baseline; null where this run has no such cell")
    ] = None
    ratio_low: Low = None
    ratio_high: High = None


class Disturbance(Part):
    """What took CPU time from a run, in a tenth of its blocks or more."""

    what: Annotated[
        Literal["program", "hypervisor", "unseen"],
        means(
            "`program`: another program of this machine; `hypervisor`: one below the machine "
            "(steal time); `unseen`: work of which no program can be seen, as from inside a "
            "container"
        ),
    ]
    program: Annotated[str | None, means("the program's name, of all processes that have it")]
    cpus: Annotated[
        float, means("CPUs that it took on average in these blocks: 0.76 is 76 % of one")
    ]
    blocks: Annotated[int, means("blocks in which it took a tenth of a CPU or more")]
    of: Annotated[int, means("blocks in all")]


class Summary(Part):
    """What a run found."""

    hypertare: Annotated[str, means("version that made the run")]
    study: Annotated[str, means("name of the study")]
    question: Annotated[str, means("what the study asks")]
    machine: Annotated[MachineState, means("where it ran")]
    clock: Annotated[
        Clock,
        means("`virtual`: instructions are the clock, runs repeat exactly; never compare the two"),
    ]
    accelerator: Annotated[
        str | None, means("what guests ran on (`kvm`, `tcg`); null without guests")
    ]
    versions: Annotated[dict[str, str], means("versions of what took part, by name")]
    seed: Annotated[int, means("seed of the design's random order")]
    threshold: Annotated[float, means("the least cost that matters: `design.threshold`")]
    started: Annotated[datetime, means("when the run's file was made")]
    ended: Annotated[
        datetime | None, means("when the run ended; null while it goes on, and after it was killed")
    ]
    complete: Annotated[bool, means("every cell is precise, or at its limit of trials")]
    platforms: Annotated[tuple[PlatformState, ...], means("what each platform turned out to be")]
    estimates: Annotated[tuple[Estimate, ...], means("what was found")]
    guests: Annotated[
        tuple[Estimate, ...],
        means("estimates of each guest, where several worked at once; compared with nothing"),
    ] = ()
    levels: Annotated[tuple[LevelChange, ...], means("what the levels of factors change")] = ()
    fastest: Annotated[
        tuple[LevelChange, ...],
        means(
            "of several commands: every other one against the one whose mean is least natively, as of "
            "`levels`"
        ),
    ] = ()
    effects: Annotated[tuple[Effects, ...], means("which factors matter most")] = ()
    noise: Annotated[tuple[NoiseFloor, ...], means("the baseline against itself")] = ()
    curves: Annotated[tuple[Curve, ...], means("what streams do as more is offered to them")] = ()
    shifts: Annotated[tuple[Shift, ...], means("how much later round trips come")] = ()
    bills: Annotated[tuple[Bill, ...], means("what a cost is made of")] = ()
    analyses: Annotated[
        tuple[Analysed, ...],
        means("what the study's further analyses found, `[jitter]` for example"),
    ] = ()
    predictability: Annotated[
        tuple[Predictability, ...], means("whether simple laws predict what more guests do")
    ] = ()
    loss_free: Annotated[tuple[LossFreeRate, ...], means("what the study's searches found")] = ()
    totals: Annotated[tuple[Total, ...], means("elapsed times with modelled page walks")] = ()
    published: Annotated[tuple[Published, ...], means("others' figures beside ours")] = ()
    claims: Annotated[tuple[JudgedClaim, ...], means("the study's expectations, judged")] = ()
    failed: Annotated[
        tuple[FailedTrial, ...], means("trials that failed; they are in no estimate")
    ] = ()
    disturbances: Annotated[
        tuple[Disturbance, ...], means("what took CPU time from the run, the greatest first")
    ] = ()
    warnings: Annotated[tuple[str, ...], means("what to know before believing the figures")] = ()
