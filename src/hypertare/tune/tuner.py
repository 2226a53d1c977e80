"""A tuning from its first trial to its verdict: try, screen, search, confirm.

The order of work is `run` -> `_try_levels` -> `_screen` -> `_search` -> `_race` -> `_confirm` ->
`_smallest`. It asks a trial runner for blocks that hold the default and some settings, and looks at
nothing but their ratios, so that what drifts cancels. Chance comes from the seed alone.

What the confirmation needs is set aside from the start: no search may spend it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from hypertare.base.errors import HypertareError
from hypertare.base.variables import Level, Response, key
from hypertare.design.trials import Ask, FinishedTrial, Kind
from hypertare.engine.trial_runner import TrialRunner
from hypertare.findings.tuning import Look, Smallest
from hypertare.runs.summary import Clock
from hypertare.stats import boots as booting
from hypertare.stats import practical
from hypertare.stats.stop import Decision, StopRule
from hypertare.study import DesignSettings
from hypertare.study.tune import PHASE, Goal
from hypertare.tune import screen
from hypertare.tune.optimise import Optimiser, pareto_front, pareto_knee
from hypertare.tune.space import BudgetTracker, Knob, Setting, Space, overrides

SCREEN_SHARE, SEARCH_SHARE, RACE_SHARE = 0.3, 0.5, 0.6
"""Shares of the budget after which screening, search and race have to end; the rest confirms."""
REPLICATES = 2
BATCH = 3
"""Settings of the search that share one trial of the default."""
FINALISTS = 3
LADDER_TRIALS = 3
LADDER_BLOCKS = 6

Phase = Literal["screen", "search", "race"]
Gains = tuple[float, float]
"""Of throughput and of CPU, in log ratio to the default, positive for better."""


def confirming_blocks(design: DesignSettings) -> int:
    """The least that a confirmation rests on: enough trials of enough boots."""
    return max(design.min_trials, (design.min_boots - 1) * design.blocks_per_boot + 1)


def set_aside(space: Space, design: DesignSettings) -> tuple[int, int]:
    """Trials that are kept for the confirmation, and for the knobs that are to be small."""
    ladders = sum(
        LADDER_TRIALS * math.ceil(math.log2(len(knob.levels) + 1)) + 2 * _ladder_blocks(design)
        for knob in space.ladders
    )
    return (2 * confirming_blocks(design) if space.knobs else 0), ladders


def least_trials(space: Space, design: DesignSettings) -> int:
    """What a tuning needs at least: every level once, one block of the search, the confirmation."""
    tried = 1 + sum(len(_others(knob)) for knob in space.every)
    search = 1 + min(BATCH, space.size - 1) if space.knobs else 0
    return tried + search + sum(set_aside(space, design))


def _ladder_blocks(design: DesignSettings) -> int:
    return max(design.min_trials, LADDER_BLOCKS)


def _others(knob: Knob) -> list[Level]:
    """The levels to try beside the default; of a range its ends."""
    levels = (knob.range.low, knob.range.high) if knob.range else knob.levels
    return [level for level in levels if level != knob.default]


@dataclass(frozen=True)
class Aims:
    """What is wanted, and by which responses it is seen."""

    goal: Goal
    throughput: Response
    cpu: Response
    threshold: float
    loss: float = 0.0
    clock: Clock = "wall"
    confidence: float = 0.95

    def value(self, gains: Gains) -> float:
        """Returns the gain that the goal is about; for `balance` the geometric mean of both."""
        if self.goal == "goodput":
            return gains[0]
        return gains[1] if self.goal == "cpu" else (gains[0] + gains[1]) / 2

    def changes(self, gains: Gains) -> tuple[float, float]:
        """From log gains to the changes of the responses."""
        throughput, cpu = map(_sign, self.responses)
        return math.expm1(throughput * gains[0]), math.expm1(cpu * gains[1])

    def judge(self, mean: booting.Booted, sign: int = 1) -> practical.Verdict:
        """The verdict on a log ratio; `sign` is that of a gain."""
        interval = mean.interval
        sure = interval.constant and (
            self.clock == "virtual" or practical.unanimous(interval.n, self.confidence)
        )

        def cost(end: float | None) -> float | None:
            return None if end is None else -math.expm1(end) * sign

        ends = sorted(c for e in (interval.low, interval.high) if (c := cost(e)) is not None)
        low, high = ends if ends else (None, None)
        return practical.rule(
            -math.expm1(interval.estimate) * sign, low, high, threshold=self.threshold, sure=sure
        ).verdict

    @property
    def responses(self) -> tuple[Response, Response]:
        return self.throughput, self.cpu

    @property
    def wanted(self) -> tuple[Response, ...]:
        """Those that the goal is about."""
        if self.goal == "goodput":
            return (self.throughput,)
        return (self.cpu,) if self.goal == "cpu" else self.responses


@dataclass(frozen=True)
class Seen:
    """A setting of the search with the gains of its blocks."""

    setting: Setting
    gains: tuple[Gains, ...]

    @property
    def mean(self) -> Gains:
        count = len(self.gains)
        return sum(g[0] for g in self.gains) / count, sum(g[1] for g in self.gains) / count


@dataclass(frozen=True)
class Known:
    """A setting that an earlier run measured: mean logs of its responses by name, of so many trials."""

    setting: Setting
    logs: Mapping[str, float]
    trials: int


@dataclass(frozen=True)
class Duel:
    """Winner and default of each block of the confirmation, both of which ended in good order, and what the
    winner gained.
    """

    winner: FinishedTrial
    default: FinishedTrial
    gains: Gains


@dataclass(frozen=True)
class Confirmed:
    """Fresh evidence: the goal's gain in log ratio with its interval, and the blocks it rests on."""

    setting: Setting
    mean: booting.Booted
    verdict: practical.Verdict
    duels: tuple[Duel, ...]
    promised: float | None


@dataclass
class Outcome:
    """All that a tuning found, effects and gains in log ratios. `looks` are the trials that the search went
    by.
    """

    space: Space
    design: screen.Design | None = None
    effects: dict[str, list[screen.Effect]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    looks: list[Look] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    promised: float | None = None
    front: list[int] = field(default_factory=list)
    knee: int | None = None
    confirmed: Confirmed | None = None
    smallest: list[Smallest] = field(default_factory=list)
    refused: dict[str, dict[str, str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def recommended(self) -> Setting | None:
        """The setting that proved better; none where the default is to be kept."""
        won = self.confirmed is not None and self.confirmed.verdict == "gains"
        return self.confirmed.setting if won and self.confirmed else None


@dataclass
class Tuner:
    """Finds out which setting of a space is better than its default, if any is."""

    lab: TrialRunner
    space: Space
    aims: Aims
    design: DesignSettings
    budget: BudgetTracker
    seed: int
    trial_s: float = 1.0
    known: Sequence[Known] = ()

    def __post_init__(self) -> None:
        self.outcome = Outcome(self.space)
        self._gains: dict[object, Seen] = {}
        self._failed: set[object] = set()
        self._confirming, self._climbing = set_aside(self.space, self.design)

    def run(self) -> Outcome:
        """Works until there is a verdict or the budget is spent.

        Raises:
            HypertareError: the default itself cannot be measured.
        """
        self._try_levels()
        if self.space.knobs:
            knobs = self._screen()
            if knobs:
                self._search(knobs)
                self._race()
                self._confirm()
        self._confirming = 0
        for ladder in self.space.ladders:
            self._smallest(ladder)
        return self.outcome

    def _affords(self, trials: int) -> bool:
        """Whether the budget pays for so many and for what is set aside."""
        return self.budget.spent(trials + self._confirming + self._climbing) <= 1

    # --- what this system takes at all

    def _try_levels(self) -> None:
        """Each level once, uncounted: a knob that a driver lacks is left out now, with the reason."""
        every = self.space.every
        wanted = [(knob, level) for knob in every for level in _others(knob)]
        # A guest that does not boot takes its bench with it: what needs a bench of its own is tried alone.
        easy = [(knob, level) for knob, level in wanted if not knob.hard]
        hard = [(knob, level) for knob, level in wanted if knob.hard]
        base = self.space.default
        blocks = [[base, *({**base, knob.path: level} for knob, level in easy)]]
        blocks += [[{**base, knob.path: level}] for knob, level in hard]
        (first, *others), *alone = self._ask_each(blocks, "try", "warmup")
        reason = first.error if first.status == "failed" else None
        if reason is None and self._gain(first, first) is None:
            reason = f"it has no {self.aims.wanted[0].name} above 0"
        if reason is not None:
            raise HypertareError(
                f"the default setting cannot be measured: {reason}",
                "Nothing can be tuned against it. Does `hypertare run` work with this study?",
            )
        answers: dict[str, dict[Level, FinishedTrial]] = {knob.path: {} for knob in every}
        for (knob, level), trial in zip(
            easy + hard, [*others, *(trial for (trial,) in alone)], strict=True
        ):
            answers[knob.path][level] = trial
        taken = [self._taken(knob, answers[knob.path]) for knob in every]
        left = [knob for knob in taken if knob is not None]
        ladders = {knob.path for knob in self.space.ladders}
        self.space = Space(
            tuple(knob for knob in left if knob.path not in ladders),
            tuple(knob for knob in left if knob.path in ladders),
            self.space.default,
        )

    def _taken(self, knob: Knob, answers: dict[Level, FinishedTrial]) -> Knob | None:
        """The knob without the levels that failed; none where no choice is left."""
        refused = {str(lv): str(t.error) for lv, t in answers.items() if t.status == "failed"}
        if not refused:
            return knob
        self.outcome.refused[knob.path] = refused
        for level, reason in refused.items():
            self._warn(f"{knob.path} = {level} was left out: {reason}")
        left = tuple(level for level in knob.levels if str(level) not in refused)
        return None if knob.range or len(left) < 2 else replace(knob, levels=left)

    # --- which knobs matter

    def _screen(self) -> list[Knob]:
        """Effects of all knobs; returns those that may matter."""
        budget = self.budget.expected_trials(self.trial_s)
        room = min(
            int(SCREEN_SHARE * budget) - self.lab.trials,
            budget - self.lab.trials - self._confirming - self._climbing - BATCH - 1,
        )
        design = screen.design(self.space.knobs, max(0, room) // REPLICATES)
        if design is None:
            if len(self.space.knobs) > 2:
                self._warn(
                    "The budget is too small for screening; every knob goes into the search."
                )
            return list(self.space.knobs)
        self.outcome.design = design
        settings = design.settings(self.space.default)
        replicates = self._ask_each([settings] * REPLICATES, "screen")
        while self.budget.spent(len(settings)) <= SCREEN_SHARE and self._affords(len(settings)):
            replicates += self._ask_each([settings], "screen")
        for trials in replicates:
            self._remember(settings, trials, "screen")
        for response in self.aims.responses:
            values = [
                {
                    run: trial.values[response.name]
                    for run, trial in enumerate(trials)
                    if trial.counts and trial.values.get(response.name, 0.0) > 0
                }
                for trials in replicates
            ]
            found = screen.effects(design, values, self.aims.confidence)
            if not found:
                self._warn(f"{response.name} could not be screened: too many trials failed.")
            self.outcome.effects[response.name] = found
        # The screening saw two levels of each knob only: what an earlier run's best setting changes stays.
        best = self._best_of(self._of_earlier(self.space.knobs))[:1]
        default = self.space.default
        changed = {path for one in best for path, level in one.items() if level != default[path]}
        left = [knob for knob in self.space.knobs if knob.path in changed or not self._idle(knob)]
        self.outcome.left_out = tuple(k.path for k in self.space.knobs if k not in left)
        return left

    def _idle(self, knob: Knob) -> bool:
        """Whether the knob is shown to do nothing that matters, alone or with another."""
        for response in self.aims.wanted:
            found = [e for e in self.outcome.effects.get(response.name, ()) if knob.path in e.paths]
            alone = [effect for effect in found if len(effect.paths) == 1]
            if not alone or not all(e.within(math.log1p(self.aims.threshold)) for e in alone):
                return False
            if any(effect.shown for effect in found):
                return False
        return True

    # --- which setting

    def _search(self, knobs: Sequence[Knob]) -> None:
        """Blocks of the default and a few settings that the optimiser asks for."""
        objectives = 2 if self.aims.goal == "balance" else 1
        optimiser = Optimiser(knobs, self.space.default, objectives, self.seed)
        for seen in list(self._gains.values()):
            optimiser.learn(seen.setting, self._goals(seen.mean))
        if (best := self._foreseen()) is not None:
            optimiser.suggest_first(best)
        earlier = self._of_earlier(knobs)
        for setting in self._best_of(earlier):
            optimiser.suggest_first(setting)
        is_taught = self._teach_earlier(optimiser, earlier)
        reachable = math.prod(knob.size for knob in knobs) - 1
        first = True
        block = 1 + min(BATCH, reachable)
        while self._affords(block) and (first or self.budget.spent(block) <= SEARCH_SHARE):
            first = False
            asked = self._batch(optimiser)
            if not asked:
                return
            settings = [self.space.default, *(setting for _, setting in asked)]
            (trials,) = self._ask_each([settings], "search")
            gains = self._remember(settings, trials, "search")[1:]
            for (ticket, _), gain in zip(asked, gains, strict=True):
                optimiser.learn_of(ticket, None if gain is None else self._goals(gain))
            is_taught = is_taught or self._teach_earlier(optimiser, earlier)
            if len(self._gains) + len(self._failed) >= reachable and reachable <= 2 * BATCH:
                return  # every setting was seen; the race ranks the best of them

    # --- what an earlier run knows

    def _of_earlier(self, knobs: Sequence[Knob]) -> list[Seen]:
        """Returns the earlier run's settings that the search may ask for, with their logs as gains.

        A knob that the screening showed not to matter is put to its default. Any other fixed knob must have
        had its fixed level in the earlier run.
        """
        paths = {knob.path: knob for knob in knobs}
        fixed = {
            path: level
            for path, level in self.space.default.items()
            if path not in paths and path not in self.outcome.left_out
        }
        found: dict[object, Seen] = {}
        for one in self.known:
            gains = self._gains_of_logs(one.logs)
            chosen = {path: level for path, level in one.setting.items() if path in paths}
            if gains is None or not all(paths[path].has(level) for path, level in chosen.items()):
                continue
            if any(repr(one.setting.get(path)) != repr(level) for path, level in fixed.items()):
                continue
            setting = {**self.space.default, **chosen}
            before = found.get(key(setting), Seen(setting, ()))
            found[key(setting)] = Seen(setting, (*before.gains, gains))
        return list(found.values())

    def _gains_of_logs(self, logs: Mapping[str, float]) -> Gains | None:
        """None where a response that the goal is about cannot be had; another counts as unchanged."""
        if any(response.name not in logs for response in self.aims.wanted):
            return None
        throughput, cpu = (_sign(one) * logs.get(one.name, 0.0) for one in self.aims.responses)
        return throughput, cpu

    def _best_of(self, earlier: Sequence[Seen]) -> list[Setting]:
        """Returns the best settings of the earlier run, as many as a block of the search holds."""
        default = key(self.space.default)
        ranked = sorted(earlier, key=lambda one: -self.aims.value(one.mean))
        return [one.setting for one in ranked if key(one.setting) != default][:BATCH]

    def _teach_earlier(self, optimiser: Optimiser, earlier: Sequence[Seen]) -> bool:
        """Gives the optimiser the earlier run's settings with their gains over the default.

        The earlier run may not have measured the default, and its machine may have been faster or slower.
        So its logs are shifted by the mean difference over the settings that both runs have measured.

        Returns:
            Whether any setting has been measured by both.
        """
        own: dict[object, Gains] = {key(self.space.default): (0.0, 0.0)}
        own |= {place: seen.mean for place, seen in self._gains.items()}
        both = [(own[key(one.setting)], one.mean) for one in earlier if key(one.setting) in own]
        if not both:
            return False
        off = [sum(mine[i] - its[i] for mine, its in both) / len(both) for i in (0, 1)]
        for one in earlier:
            if key(one.setting) not in own:
                gains = one.mean[0] + off[0], one.mean[1] + off[1]
                optimiser.learn(one.setting, self._goals(gains))
        return True

    def _batch(self, optimiser: Optimiser) -> list[tuple[object, Setting]]:
        """Returns settings for the next block, each with its ticket.

        The default, repeated settings, failed and hopeless ones are answered from memory and not measured.
        """
        asked: list[tuple[object, Setting]] = []
        for _ in range(8 * BATCH):
            if len(asked) == BATCH:
                break
            ticket, setting = optimiser.ask()
            if key(setting) == key(self.space.default):
                optimiser.learn_of(ticket, self._goals((0.0, 0.0)))
            elif key(setting) in self._failed:
                optimiser.learn_of(ticket, None)
            elif any(key(setting) == key(other) for _, other in asked) or self._hopeless(setting):
                seen = self._gains.get(key(setting))
                optimiser.learn_of(ticket, self._goals(seen.mean) if seen else None)
            else:
                asked.append((ticket, setting))
        return asked

    def _hopeless(self, setting: Setting) -> bool:
        """Whether two blocks or more were all worse than all of the best setting's (for balance, of
        a setting that beats it in both).
        """
        seen = self._gains.get(key(setting))
        if seen is None or len(seen.gains) < 2:
            return False
        parts = (
            (0, 1) if self.aims.goal == "balance" else (0,) if self.aims.goal == "goodput" else (1,)
        )
        return any(
            len(other.gains) >= 2
            and all(max(g[i] for g in seen.gains) < min(g[i] for g in other.gains) for i in parts)
            for other in self._gains.values()
        )

    def _foreseen(self) -> Setting | None:
        """The corner that the screening's effects predict to be best."""
        design = self.outcome.design
        if design is None:
            return None

        def predicted(row: Sequence[int]) -> float:
            throughput, cpu = (
                _sign(response) * screen.predict(design, row, self.outcome.effects[response.name])
                for response in self.aims.responses
            )
            return self.aims.value((throughput, cpu))

        best = max(screen.corners(len(design.knobs)), key=predicted)
        return design.setting(best, self.space.default)

    def _race(self) -> None:
        """The best few once more, together, so that luck counts less in who wins."""
        while self.budget.spent(FINALISTS + 1) <= RACE_SHARE and self._affords(FINALISTS + 1):
            finalists = [seen.setting for seen in self._ranked()[:FINALISTS]]
            if not finalists:
                return
            settings = [self.space.default, *finalists]
            (trials,) = self._ask_each([settings], "race")
            self._remember(settings, trials, "race")

    def _ranked(self) -> list[Seen]:
        """Settings by what the goal makes of them; for balance the knee first, then its front."""
        seen = list(self._gains.values())
        ranked = sorted(seen, key=lambda one: -self.aims.value(one.mean))
        if self.aims.goal != "balance" or not seen:
            return ranked
        means = [one.mean for one in seen]
        middle, front = seen[pareto_knee(means)], [seen[place] for place in pareto_front(means)]
        return sorted(ranked, key=lambda one: (one is not middle, one not in front))

    def _winner(self) -> Seen | None:
        ranked = self._ranked()
        self.outcome.seen = list(self._gains.values())
        points = [one.mean for one in self.outcome.seen]
        if not points:
            return None
        # The default is a setting too: what it beats is not on the front.
        everything = [*points, (0.0, 0.0)]
        self.outcome.front = [p for p in pareto_front(everything) if p < len(points)]
        knee = pareto_knee(everything)
        self.outcome.knee = knee if knee < len(points) else None
        winner = ranked[0]
        if self.aims.goal == "balance" and self.aims.value(winner.mean) <= 0:
            # The knee may cost more of the one than it gains of the other.
            winner = max(self.outcome.seen, key=lambda one: self.aims.value(one.mean))
        self.outcome.promised = self.aims.value(winner.mean)
        return winner

    # --- whether it is true

    def _confirm(self) -> None:
        winner = self._winner()
        if winner is None or self.aims.value(winner.mean) <= math.log1p(self.aims.threshold):
            return
        self.lab.renew()
        self.confirm(winner.setting, self.aims.value(winner.mean))

    def confirm(self, setting: Setting, promised: float | None = None) -> Outcome:
        """Fresh blocks of a setting and the default, on boots that no search has seen, until the stop rule
        is content. `promised` is the gain that made somebody choose it, where one was measured.
        """
        self._confirming = 0
        pair = [self.space.default, setting]
        duels: list[Duel] = []
        asked, least = 0, confirming_blocks(self.design)
        while asked < max(least, self.design.max_trials):
            # The first look is at the least that can do; on machines in virtual time two run beside two.
            count = least if asked == 0 else 2 if self.aims.clock == "virtual" else 1
            if not self._affords(2 * count):
                break
            for default, mine in self._ask_each([pair] * count, "confirm", apart=True):
                if (gain := self._gain(default, mine)) is not None:
                    duels.append(Duel(mine, default, gain))
            asked += count
            if len(duels) >= least and self._enough(duels, promised):
                break
        if len(duels) < least:
            self._warn(
                f"The confirmation needs {least} blocks that end in good order, and has "
                f"{len(duels)} of {asked}: "
                + ("the budget is spent." if asked == 0 else "too many trials failed.")
            )
            return self.outcome
        gains = [self.aims.value(duel.gains) for duel in duels]
        boots = [duel.winner.planned.boot for duel in duels]
        mean = booting.mean(gains, boots, self.aims.confidence)
        self.outcome.confirmed = Confirmed(
            setting, mean, self.aims.judge(mean), tuple(duels), promised
        )
        return self.outcome

    def _enough(self, duels: Sequence[Duel], promised: float | None) -> bool:
        """Whether the stop rule of the study ends the confirmation.

        For a small promised gain the precision is half of that gain. The promise rests on no fresh trial.
        """
        closely = self.design.precision if promised is None else promised / 2
        rule = StopRule(
            precision=min(self.design.precision, max(self.aims.threshold, closely)),
            min_trials=self.design.min_trials,
            max_trials=self.design.max_trials,
            min_boots=self.design.min_boots,
            confidence=self.aims.confidence,
        )
        for duel in duels:
            rule.add(self.aims.value(duel.gains), duel.winner.planned.boot)
        return rule.decide() is not Decision.CONTINUE

    # --- the smallest without loss

    def _smallest(self, knob: Knob) -> None:
        """Bisects the levels, which lose less and less, then tries the answer on fresh trials."""
        base = self.outcome.recommended or self.space.default
        self._climbing = 0
        low, high = -1, len(knob.levels)
        place = high - 1
        while high - low > 1 and self._affords(LADDER_TRIALS):
            asked = [[{**base, knob.path: knob.levels[place]}]] * LADDER_TRIALS
            clean = all(self._clean(trial) for (trial,) in self._ask_each(asked, "smallest"))
            low, high = (low, place) if clean else (place, high)
            place = (low + high) // 2
        self.lab.renew()
        while high < len(knob.levels) and self._affords(2 * _ladder_blocks(self.design)):
            found = self._prove(knob, base, high)
            if found is not None:
                self.outcome.smallest.append(found)
                return
            high += 1
        if high < len(knob.levels):
            self._warn(f"{knob.path}: the budget was spent before its smallest level was proved.")
        else:
            self.outcome.smallest.append(
                Smallest(
                    knob=knob.path,
                    level=None,
                    clean=0,
                    chance=None,
                    loss=self.aims.loss,
                    below=knob.levels[-1],
                )
            )

    def _prove(self, knob: Knob, base: Setting, place: int) -> Smallest | None:
        """Fresh trials of a level beside the one below it; none when it loses after all."""
        below = knob.levels[place - 1] if place > 0 else None
        levels = [knob.levels[place]] if below is None else [knob.levels[place], below]
        settings = [{**base, knob.path: level} for level in levels]
        count = _ladder_blocks(self.design)
        blocks = self._ask_each([settings] * count, "confirm", apart=True)
        if not all(self._clean(trials[0]) for trials in blocks):
            return None
        losses = [trial.values["loss"] for trials in blocks for trial in trials[1:] if trial.counts]
        return Smallest(
            knob=knob.path,
            level=knob.levels[place],
            clean=count,
            # None of n trials lost: at 95 %, at most this share of them does (Clopper & Pearson 1934).
            chance=1 - 0.05 ** (1 / count),
            loss=self.aims.loss,
            below=below,
            below_loss=sum(losses) / len(losses) if losses else None,
        )

    def _clean(self, trial: FinishedTrial) -> bool:
        return trial.status == "ok" and trial.values.get("loss", math.inf) <= self.aims.loss

    # --- asking

    def _ask_each(
        self,
        many: Sequence[Sequence[Setting]],
        phase: str,
        kind: Kind = "measured",
        *,
        apart: bool = False,
    ) -> list[list[FinishedTrial]]:
        """Several blocks. `apart`: where settings need benches of their own, no two blocks share one,
        so that blocks are independent also where boots differ."""
        asks = [
            [Ask(overrides(setting), {PHASE: phase, **setting}) for setting in settings]
            for settings in many
        ]
        return self.lab.blocks(asks, kind, apart=apart)

    def _remember(
        self, settings: Sequence[Setting], trials: Sequence[FinishedTrial], phase: Phase
    ) -> list[Gains | None]:
        """Returns the gains of a block's trials over its first one, the default, and stores all but the
        first.
        """
        gains = [self._gain(trials[0], trial) for trial in trials]
        for setting, trial, gain in zip(settings[1:], trials[1:], gains[1:], strict=True):
            if trial.status == "failed":
                self._failed.add(key(setting))
            elif gain is not None:
                known = self._gains.get(key(setting), Seen(setting, ()))
                self._gains[key(setting)] = Seen(setting, (*known.gains, gain))
                throughput, cpu = self.aims.changes(gain)
                self.outcome.looks.append(
                    Look(phase=phase, setting=setting, throughput=throughput, cpu=cpu)
                )
        return gains

    def _gain(self, default: FinishedTrial, trial: FinishedTrial) -> Gains | None:
        logs = {
            name: math.log(trial.values[name] / base)
            for name, base in default.values.items()
            if base > 0 and trial.values.get(name, 0.0) > 0
        }
        return self._gains_of_logs(logs)

    def _goals(self, gains: Gains) -> Gains:
        """As the optimiser takes them: the goal first."""
        return gains if self.aims.goal == "balance" else (self.aims.value(gains), 0.0)

    def _warn(self, text: str) -> None:
        self.outcome.warnings.append(text)


def _sign(response: Response) -> int:
    return 1 if response.better == "higher" else -1
