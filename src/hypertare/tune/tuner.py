"""A tuning from its first trial to its verdict: try, screen, search, confirm.

The order of work is `run` -> `_try_levels` -> `_screen` -> `_search` -> `_race` -> `_confirm` ->
`_smallest`. It asks a laboratory for blocks that hold the default and some settings, and looks at
nothing but their ratios, so that what drifts cancels. Chance comes from the seed alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from hypertare.errors import HypertareError
from hypertare.laboratory import Ask
from hypertare.stats import boots as booting
from hypertare.stats import practical
from hypertare.stats.stop import Decision, decide
from hypertare.study import DesignSettings
from hypertare.summary import Clock, Level
from hypertare.trials import FinishedTrial, Response
from hypertare.tune import pareto, screen
from hypertare.tune.budget import Purse
from hypertare.tune.optimise import Optimiser
from hypertare.tune.settings import Goal
from hypertare.tune.space import Knob, Setting, Space, key, overrides

PHASE = "tune.phase"
SCREEN_SHARE, SEARCH_SHARE, RACE_SHARE = 0.3, 0.5, 0.6
"""Shares of the budget after which screening, search and race have to end; the rest confirms."""
REPLICATES = 2
BATCH = 3
"""Settings of the search that share one trial of the default."""
FINALISTS = 3
LADDER_TRIALS = 3

Gains = tuple[float, float]
"""Of throughput and of CPU, in log ratio to the default, positive for better."""


class Lab(Protocol):
    """Who measures: `hypertare.laboratory`, or something made up in a test."""

    @property
    def trials(self) -> int: ...
    def block(
        self, asks: Sequence[Ask], kind: Literal["warmup", "measured"] = "measured"
    ) -> list[FinishedTrial]: ...


@dataclass(frozen=True)
class Aims:
    """What is wanted: `cpu` may be absent where a workload has no such response."""

    goal: Goal
    throughput: Response
    cpu: Response | None
    threshold: float
    loss: float = 0.0
    clock: Clock = "wall"
    confidence: float = 0.95

    def value(self, gains: Gains) -> float:
        """What the goal makes of both gains: balance is their geometric mean."""
        if self.goal == "goodput":
            return gains[0]
        return gains[1] if self.goal == "cpu" else (gains[0] + gains[1]) / 2

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
        return practical.verdict(
            -math.expm1(interval.estimate) * sign, low, high, threshold=self.threshold, sure=sure
        )

    @property
    def responses(self) -> tuple[Response, ...]:
        return (self.throughput,) if self.cpu is None else (self.throughput, self.cpu)


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
class Duel:
    """Winner and default of each block of the confirmation, both of which ended in good order."""

    winner: FinishedTrial
    default: FinishedTrial


@dataclass(frozen=True)
class Confirmed:
    """Fresh evidence: the goal's gain in log ratio with its interval, and the blocks it rests on."""

    setting: Setting
    mean: booting.Booted
    verdict: practical.Verdict
    duels: tuple[Duel, ...]
    promised: float


@dataclass(frozen=True)
class SmallestLevel:
    knob: Knob
    level: Level | None
    clean: int
    below: Level | None
    below_loss: float | None


@dataclass
class Outcome:
    """All that a tuning found, in log ratios."""

    space: Space
    design: screen.Design | None = None
    effects: dict[str, list[screen.Effect]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    front: list[int] = field(default_factory=list)
    knee: int | None = None
    confirmed: Confirmed | None = None
    smallest: list[SmallestLevel] = field(default_factory=list)
    refused: dict[str, dict[str, str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def recommended(self) -> Setting | None:
        """The setting that proved better; none where the default is to be kept."""
        won = self.confirmed is not None and self.confirmed.verdict == "gains"
        return self.confirmed.setting if won and self.confirmed else None


class Tuner:
    """Finds out which setting of a space is better than its default, if any is."""

    def __init__(
        self,
        lab: Lab,
        space: Space,
        aims: Aims,
        design: DesignSettings,
        purse: Purse,
        seed: int,
        trial_s: float = 1.0,
    ) -> None:
        self.lab = lab
        self.space = space
        self.aims = aims
        self.design = design
        self.purse = purse
        self.seed = seed
        self.trial_s = trial_s
        self.outcome = Outcome(space)
        self._gains: dict[tuple[tuple[str, str], ...], Seen] = {}
        self._failed: set[tuple[tuple[str, str], ...]] = set()

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
        for ladder in self.space.ladders:
            self._smallest(ladder)
        return self.outcome

    # --- what this system takes at all

    def _try_levels(self) -> None:
        """Each level once, uncounted: a knob that a driver lacks is left out now, with the reason."""
        (first,) = self._ask([self.space.default], "try", "warmup")
        if first.status == "failed":
            raise HypertareError(
                f"the default setting cannot be measured: {first.error}",
                "Nothing can be tuned against it. Does `hypertare run` work with this study?",
            )
        knobs = [self._taken(knob) for knob in self.space.knobs]
        ladders = [self._taken(knob) for knob in self.space.ladders]
        self.space = Space(
            tuple(knob for knob in knobs if knob is not None),
            tuple(knob for knob in ladders if knob is not None),
            self.space.default,
        )

    def _taken(self, knob: Knob) -> Knob | None:
        """The knob without the levels that failed; none where no choice is left."""
        levels = (knob.range.low, knob.range.high) if knob.range else knob.levels
        refused: dict[str, str] = {}
        for level in levels:
            if level == knob.default:
                continue
            (trial,) = self._ask([{**self.space.default, knob.path: level}], "try", "warmup")
            if trial.status == "failed":
                refused[str(level)] = str(trial.error)
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
        budget = self.purse.budget.expected_trials(self.trial_s)
        room = int(SCREEN_SHARE * budget) - self.lab.trials
        design = screen.design(self.space.knobs, max(0, room) // REPLICATES)
        if design is None:
            self._warn("The budget is too small for screening; every knob goes into the search.")
            return list(self.space.knobs)
        self.outcome.design = design
        settings = design.settings(self.space.default)
        replicates: list[list[FinishedTrial]] = []
        # Two are needed for an error to go by, also when the clock says that they cost too much.
        while len(replicates) < REPLICATES or self.purse.spent(len(settings)) <= SCREEN_SHARE:
            trials = self._ask(settings, "screen")
            replicates.append(trials)
            self._remember(settings, trials)
        for response in self.aims.responses:
            values = [_values(trials, response.name) for trials in replicates]
            found = screen.effects(design, values, self.aims.confidence)
            if not found:
                self._warn(f"{response.name} could not be screened: too many trials failed.")
            self.outcome.effects[response.name] = found
        return [knob for knob in self.space.knobs if not self._idle(knob)]

    def _idle(self, knob: Knob) -> bool:
        """Whether the knob is shown to do nothing that matters, alone or with another."""
        wanted = self._goal_responses()
        for response in wanted:
            found = [e for e in self.outcome.effects.get(response.name, ()) if knob.path in e.paths]
            alone = [effect for effect in found if len(effect.paths) == 1]
            if not alone or not all(e.within(math.log1p(self.aims.threshold)) for e in alone):
                return False
            if any(effect.shown for effect in found):
                return False
        return bool(wanted)

    def _goal_responses(self) -> tuple[Response, ...]:
        if self.aims.goal == "goodput" or self.aims.cpu is None:
            return (self.aims.throughput,)
        return (self.aims.cpu,) if self.aims.goal == "cpu" else self.aims.responses

    # --- which setting

    def _search(self, knobs: Sequence[Knob]) -> None:
        """Blocks of the default and a few settings that the optimiser asks for."""
        objectives = 2 if self.aims.goal == "balance" else 1
        optimiser = Optimiser(knobs, self.space.default, objectives, self.seed)
        for seen in list(self._gains.values()):
            optimiser.learn(seen.setting, self._told(seen.mean))
        if (best := self._foreseen()) is not None:
            optimiser.suggest_first(best)
        reachable = math.prod(knob.size for knob in knobs) - 1
        while self.purse.spent(BATCH + 1) <= SEARCH_SHARE:
            asked = self._batch(optimiser)
            if not asked:
                return
            settings = [setting for _, setting in asked]
            trials = self._ask([self.space.default, *settings], "search")
            gains = self._remember([self.space.default, *settings], trials)[1:]
            for (ticket, _), gain in zip(asked, gains, strict=True):
                optimiser.tell(ticket, None if gain is None else self._told(gain))
            if len(self._gains) + len(self._failed) >= reachable and reachable <= 2 * BATCH:
                return  # every setting was seen; the race tells the best of them apart

    def _batch(self, optimiser: Optimiser) -> list[tuple[object, Setting]]:
        """New questions; the default, doubles and what failed before are answered from memory."""
        asked: list[tuple[object, Setting]] = []
        for _ in range(8 * BATCH):
            if len(asked) == BATCH:
                break
            ticket, setting = optimiser.ask()
            if key(setting) == key(self.space.default):
                optimiser.tell(ticket, self._told((0.0, 0.0)))
            elif key(setting) in self._failed:
                optimiser.tell(ticket, None)
            elif any(key(setting) == key(other) for _, other in asked) or self._hopeless(setting):
                seen = self._gains.get(key(setting))
                optimiser.tell(ticket, self._told(seen.mean) if seen else None)
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
        """The corner that the screening's effects foretell to be best."""
        design = self.outcome.design
        if design is None:
            return None
        sums: dict[int, Gains] = {}
        for run, row in enumerate(screen.corners(len(design.knobs))):
            gains = [
                _sign(response) * screen.foretell(design, row, self.outcome.effects[response.name])
                for response in self.aims.responses
            ]
            sums[run] = (gains[0], gains[-1])
        best = max(sums, key=lambda run: self.aims.value(sums[run]))
        return design.setting(screen.corners(len(design.knobs))[best], self.space.default)

    def _race(self) -> None:
        """The best few once more, together, so that luck counts less in who wins."""
        while self.purse.spent(FINALISTS + 1) <= RACE_SHARE:
            finalists = [seen.setting for seen in self._ranked()[:FINALISTS]]
            if not finalists:
                return
            settings = [self.space.default, *finalists]
            self._remember(settings, self._ask(settings, "race"))

    def _ranked(self) -> list[Seen]:
        """Settings by what the goal makes of them; for balance the knee first, then its front."""
        seen = list(self._gains.values())
        ranked = sorted(seen, key=lambda one: -self.aims.value(one.mean))
        if self.aims.goal != "balance" or not seen:
            return ranked
        means = [one.mean for one in seen]
        middle, front = seen[pareto.knee(means)], [seen[place] for place in pareto.front(means)]
        return sorted(ranked, key=lambda one: (one is not middle, one not in front))

    def _winner(self) -> Seen | None:
        ranked = self._ranked()
        self.outcome.seen = list(self._gains.values())
        points = [one.mean for one in self.outcome.seen]
        if not points:
            return None
        if self.aims.cpu is not None:
            # The default is a setting too: what it beats is not on the front.
            everything = [*points, (0.0, 0.0)]
            self.outcome.front = [p for p in pareto.front(everything) if p < len(points)]
            knee = pareto.knee(everything)
            self.outcome.knee = knee if knee < len(points) else None
        if self.aims.goal == "balance":
            return None if self.outcome.knee is None else self.outcome.seen[self.outcome.knee]
        return ranked[0]

    # --- whether it is true

    def _confirm(self) -> None:
        """Fresh blocks of the winner and the default until the stop rule is content."""
        winner = self._winner()
        if winner is None or self.aims.value(winner.mean) <= 0:
            return
        pair = [self.space.default, winner.setting]
        duels: list[Duel] = []
        attempts = 0
        while attempts < self.design.max_trials:
            if attempts >= self.design.min_trials and self.purse.spent(2) > 1:
                break
            default, mine = self._ask(pair, "confirm")
            attempts += 1
            if self._gain(default, mine) is not None:
                duels.append(Duel(mine, default))
            if len(duels) > 1 and self._enough(duels):
                break
        if len(duels) < 2:
            self._warn("The confirmation failed: fewer than two blocks ended in good order.")
            return
        mean = self._mean([self.aims.value(g) for g in self._gains_of(duels)], duels)
        verdict = self.aims.judge(mean)
        self.outcome.confirmed = Confirmed(
            winner.setting, mean, verdict, tuple(duels), self.aims.value(winner.mean)
        )

    def _enough(self, duels: Sequence[Duel]) -> bool:
        decision = decide(
            [self.aims.value(gains) for gains in self._gains_of(duels)],
            boots=[duel.winner.planned.boot for duel in duels],
            precision=self.design.precision,
            min_trials=self.design.min_trials,
            max_trials=self.design.max_trials,
            min_boots=self.design.min_boots,
            confidence=self.aims.confidence,
        )
        return decision is not Decision.CONTINUE

    def _gains_of(self, duels: Sequence[Duel]) -> list[Gains]:
        found = [self._gain(duel.default, duel.winner) for duel in duels]
        return [gains for gains in found if gains is not None]

    def _mean(self, values: Sequence[float], duels: Sequence[Duel]) -> booting.Booted:
        boots = [duel.winner.planned.boot for duel in duels]
        return booting.mean(values, boots, self.aims.confidence)

    # --- the smallest without loss

    def _smallest(self, knob: Knob) -> None:
        """Bisects the levels, which lose less and less, then tries the answer on fresh trials."""
        base = self.outcome.recommended or self.space.default
        low, high = -1, len(knob.levels)
        place = high - 1
        while high - low > 1:
            clean = all(
                self._clean(self._ask([{**base, knob.path: knob.levels[place]}], "smallest")[0])
                for _ in range(LADDER_TRIALS)
            )
            low, high = (low, place) if clean else (place, high)
            place = (low + high) // 2
        while high < len(knob.levels):
            found = self._prove(knob, base, high)
            if found is not None:
                self.outcome.smallest.append(found)
                return
            high += 1
        self.outcome.smallest.append(SmallestLevel(knob, None, 0, knob.levels[-1], None))

    def _prove(self, knob: Knob, base: Setting, place: int) -> SmallestLevel | None:
        """Fresh trials of a level beside the one below it; none when it loses after all."""
        below = knob.levels[place - 1] if place > 0 else None
        levels = [knob.levels[place]] if below is None else [knob.levels[place], below]
        losses: list[float] = []
        blocks = max(self.design.min_trials, 6)
        for _ in range(blocks):
            trials = self._ask([{**base, knob.path: level} for level in levels], "confirm")
            if not self._clean(trials[0]):
                return None
            losses += [trial.values.get("loss", math.nan) for trial in trials[1:] if trial.counts]
        mean = sum(losses) / len(losses) if losses else None
        return SmallestLevel(knob, knob.levels[place], blocks, below, mean)

    def _clean(self, trial: FinishedTrial) -> bool:
        return trial.status == "ok" and trial.values.get("loss", math.inf) <= self.aims.loss

    # --- asking

    def _ask(
        self,
        settings: Sequence[Setting],
        phase: str,
        kind: Literal["warmup", "measured"] = "measured",
    ) -> list[FinishedTrial]:
        asks = [Ask(overrides(setting), {PHASE: phase, **setting}) for setting in settings]
        return self.lab.block(asks, kind)

    def _remember(
        self, settings: Sequence[Setting], trials: Sequence[FinishedTrial]
    ) -> list[Gains | None]:
        """The gains over the block's default, which stands first; kept for all but that."""
        gains = [self._gain(trials[0], trial) for trial in trials]
        for setting, trial, gain in zip(settings[1:], trials[1:], gains[1:], strict=True):
            if trial.status == "failed":
                self._failed.add(key(setting))
            elif gain is not None:
                known = self._gains.get(key(setting), Seen(setting, ()))
                self._gains[key(setting)] = Seen(setting, (*known.gains, gain))
        return gains

    def _gain(self, default: FinishedTrial, trial: FinishedTrial) -> Gains | None:
        gains = []
        for response in self.aims.responses:
            base, mine = (
                default.values.get(response.name, 0.0),
                trial.values.get(response.name, 0.0),
            )
            if base <= 0 or mine <= 0:
                return None
            gains.append(_sign(response) * math.log(mine / base))
        return gains[0], gains[-1] if self.aims.cpu is not None else 0.0

    def _told(self, gains: Gains) -> Gains:
        """As the optimiser is told: the goal first."""
        return gains if self.aims.goal == "balance" else (self.aims.value(gains), 0.0)

    def _warn(self, text: str) -> None:
        self.outcome.warnings.append(text)


def _values(trials: Sequence[FinishedTrial], response: str) -> dict[int, float]:
    return {
        run: trial.values[response]
        for run, trial in enumerate(trials)
        if trial.counts and trial.values.get(response, 0.0) > 0
    }


def _sign(response: Response) -> int:
    return 1 if response.better == "higher" else -1
