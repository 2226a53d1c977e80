"""What a study wants judged and shown: `[[claims]]` and `[[plots]]`."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from hypertare.base.closed import Settings
from hypertare.base.figures import level_text, no_such
from hypertare.base.variables import Level, same
from hypertare.study.analyses import GOAL, LOSS_FREE_RATE, LawName

_PERCENT = re.compile(r"^\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*%\s*$")


def parse_bound(given: object) -> float:
    """A number, or a share from `"5 %"`, `"-2.5%"`.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(given, str) and (match := _PERCENT.match(given)):
        return float(match[1]) / 100
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return float(given)
    raise ValueError(f"'{given}' is no bound; write a number such as 0.05, or \"5 %\"")


def _levels(given: object) -> object:
    """A goal of a search as the study's `search.loss` spells it: `"0.5%"`."""
    if isinstance(given, dict) and GOAL in given:
        return {**given, GOAL: parse_bound(given[GOAL])}
    return given


Bound = Annotated[float, BeforeValidator(parse_bound)]


Levels = Annotated[dict[str, Level], BeforeValidator(_levels)]


_NO_FACTORS = ("workload", "platform", "guest")
"""What distinguishes cells beside factors; `guest` is the number of one."""


def one_for_each(claims: object, factors: object) -> object:
    """Claims with `each` as those that they stand for; what is not valid stays for whoever validates it.

    Raises:
        ValueError: one names what is no factor.
    """
    if not isinstance(claims, list) or not isinstance(factors, dict):
        return claims
    found: list[object] = []
    for claim in claims:
        factor = claim.get("each") if isinstance(claim, dict) else None
        if not isinstance(factor, str):
            found.append(claim)
            continue
        levels = factors.get(factor)
        if not isinstance(levels, list):
            raise ValueError(
                f"claim '{claim.get('text')}': each = '{factor}' is no factor in [factors]; there are: "
                f"{', '.join(factors) or 'none'}"
            )
        where = claim.get("where")
        rest = {key: value for key, value in claim.items() if key != "each"}
        found += [
            {
                **rest,
                "text": f"{level}: {claim.get('text')}",
                "where": {**(where if isinstance(where, dict) else {}), factor: level},
            }
            for level in levels
        ]
    return found


class Claim(Settings):
    """An expectation about one response of one platform, in every cell that `where` fits.

    With `against` the first cell's figure is compared with the second's: the difference of the costs, the
    efficiencies or the values, or the ratio of the values. What `over` finds has an interval that knows
    that the cell was chosen. The response `loss_free_rate` is what the study's searches found, with the
    goal as the level `search.loss`.
    """

    text: str
    """The expectation, in one sentence."""
    response: str
    """The response that is bounded; `loss_free_rate` is that of the
    [searches](loss-free-rate.md#claims-about-it-and-two-runs), with the level `search.loss`.
    """
    workload: str | None = None
    """The workload that the claim is about. Default: all that have the response."""
    platform: str
    """The platform that the claim is about."""
    where: Levels = {}
    """Only cells with these levels count."""
    against: Levels | tuple[Levels, ...] | None = None
    """Levels (also `platform`, `guest`) of a second cell, which the first is compared with. With a list,
    the claim must hold against each.
    """
    against_response: str | None = None
    """Another response of the same cell, which `response` is compared with, for `value` (the difference)
    or `ratio`.
    """
    with_response: str | None = None
    """For `correlation`: the second response."""
    guest: Annotated[int, Field(ge=1)] | None = None
    """The number of one guest among several, for `value` or `ratio`."""
    law: LawName | None = None
    """For `error`: `fair rate`, `driver domain CPU`, `loaded rate`, `loaded rate, guest alone` or
    `universal scalability law`.
    """
    measure: Literal[
        "cost", "value", "difference", "ratio", "efficiency", "correlation", "share", "error"
    ] = "cost"
    """What is bounded. `cost`: a fraction; `value`: the response, in its unit (s, b/s, B); `difference`:
    platform minus native, in that unit; `ratio`: platform over native, with `against` first over second;
    `efficiency`: the ratio the way round in which more is better; `correlation`: Pearson's, over the
    cells; `share`: of `factor` with its interactions, in all that differs between the platform's cells;
    `error`: of a `law`'s prediction.
    """
    factor: str | None = None
    """For `share`: a factor that [`[effects]`](#effects-which-factor-matters-most) covers."""
    op: Literal["above", "below", "within", "largest"]
    """`above`, `below`, `within`; for `share` also `largest`: larger than that of each other factor.
    """
    value: Bound | tuple[Bound, Bound] | None = None
    """A number or a fraction such as `"5%"`; two for `within`: `[0.9, 1.1]`; none for `largest`."""
    accelerator: Literal["kvm", "tcg"] | None = None
    """The claim is judged only where guests run under this: `kvm` or `tcg`."""
    least_cpus: Annotated[int, Field(ge=1)] | None = None
    """The claim is judged only on machines with at least this number of CPUs."""
    over: Literal["mean", "least", "most"] | None = None
    """[One figure](method.md#claims) over all cells that `where` fits: `mean` (geometric for ratios,
    efficiencies and costs), `least`, `most`. Default: it must hold in each.
    """
    each: str | None = None
    """A factor in `[factors]`: there is one claim for each of its levels, whose name its text begins with.
    """
    differs: Annotated[str, Field(min_length=1)] | None = None
    """Published conditions that this study lacks. The claim is reported and not judged."""
    differs_where: Levels = {}
    """The cells in which `differs` applies, by their levels. Default: all."""

    @model_validator(mode="after")
    def _bounds_fit(self) -> Claim:
        if self.differs_where and self.differs is None:
            raise ValueError("'differs_where' needs 'differs', which says what differs there")
        if self.differs_where and self.measure == "correlation":
            raise ValueError("a correlation is over cells: it has no 'differs_where'")
        if (self.op == "largest") != (self.value is None):
            raise ValueError(
                f"op '{self.op}' needs a 'value'"
                if self.value is None
                else "op 'largest' is against the other factors: it has no 'value'"
            )
        two = isinstance(self.value, tuple)
        if two != (self.op == "within"):
            raise ValueError(f"op '{self.op}' needs {'one bound' if two else 'two: [low, high]'}")
        self._check_share()
        if isinstance(self.value, tuple) and not self.value[0] < self.value[1]:
            raise ValueError("the first bound of 'within' must be below the second")
        if self.against is not None and not all(self.seconds):
            raise ValueError("'against' names no level; leave it out or name what differs")
        if (self.measure == "correlation") != (self.with_response is not None):
            raise ValueError("'correlation' needs 'with_response', and nothing else has it")
        if self.measure == "correlation" and (self.against or self.against_response):
            raise ValueError("a correlation is over cells: it has neither 'against' nor the like")
        if (self.measure == "error") != (self.law is not None):
            raise ValueError("'error' needs a 'law', and nothing else has one")
        if self.measure == "error" and (self.against or self.against_response or self.guest):
            raise ValueError("an error is of a law: it has neither 'against' nor a 'guest'")
        if self.over and (self.measure in ("correlation", "error") or self.guest):
            raise ValueError(
                f"'over' is of cells: it is not for a '{self.measure}', nor for one guest"
            )
        if self.over and (self.against_response or self.response == LOSS_FREE_RATE):
            raise ValueError(
                f"'over' has neither 'against_response' nor '{LOSS_FREE_RATE}': leave it out, and the "
                "claim must hold in every cell"
            )
        if self.guest and self.measure in ("cost", "difference", "efficiency", "correlation"):
            raise ValueError(
                f"no '{self.measure}' is of one guest: measure its 'value', or a 'ratio' against another"
            )
        if self.guest and self.measure == "ratio" and not (self.against or self.against_response):
            raise ValueError("a 'ratio' of one guest needs what it is against")
        if self.against_response is not None and (
            self.against or self.measure in ("cost", "difference", "efficiency")
        ):
            raise ValueError(
                "'against_response' compares within a cell: leave 'against' out, and measure "
                "'value' or 'ratio'"
            )
        return self

    def _check_share(self) -> None:
        """Raises:
        ValueError: something is a share's and this is none, or the other way round.
        """
        if (self.measure == "share") != (self.factor is not None):
            raise ValueError("'share' needs a 'factor', and nothing else has one")
        if self.op == "largest" and self.measure != "share":
            raise ValueError("op 'largest' is for the measure 'share'")
        cells = (self.where, self.against, self.against_response, self.over, self.differs_where)
        if self.measure == "share" and (any(cells) or self.guest):
            raise ValueError(
                "a share is of all cells of a platform: it has no 'where', no 'against', no 'over', no "
                "'differs_where' and no 'guest'"
            )

    def problem(
        self,
        responses: Mapping[str, Collection[str]],
        factors: Mapping[str, Mapping[str, Collection[Level]]],
        platforms: Collection[str],
        guests: int,
    ) -> str | None:
        """What it names and the study has not, so that it could never be decided.

        Args:
            responses: names of responses by workload.
            factors: by workload, the levels of each factor.
            platforms: those of the study.
            guests: the most that work at once.
        """
        workload = self.workload or self.where.get("workload")
        if workload is not None and workload not in responses:
            return no_such("workload", workload, responses)
        names = list(responses) if workload is None else [str(workload)]
        known = list(dict.fromkeys(one for name in names for one in responses[name]))
        for response in (self.response, self.against_response, self.with_response):
            if response is not None and response not in known:
                return no_such("response", response, known)
        named = [self.where, *(levels for levels in self.seconds if levels)]
        for platform in (self.platform, *(one["platform"] for one in named if "platform" in one)):
            if platform not in platforms:
                return no_such("platform", platform, platforms)
        for number in (self.guest, *(one.get("guest") for one in named)):
            if isinstance(number, int) and number > guests:
                return f"there is no guest {number}: at most {guests} work at once"
        # A workload without the response has no cell that this is about.
        names = [name for name in names if self.response in responses[name]]
        for path, level in (pair for one in named for pair in one.items()):
            problem = no_level(path, level, [factors[name] for name in names])
            if path not in _NO_FACTORS and problem is not None:
                return problem
        return None

    @property
    def seconds(self) -> tuple[dict[str, Level] | None, ...]:
        """The levels of the cells with which each matching cell is compared; a single None without any."""
        if isinstance(self.against, tuple):
            return self.against or ({},)
        return (self.against,)

    @property
    def bounds(self) -> tuple[float, float]:
        """What is allowed, open at an infinite end."""
        if self.value is None:
            # Of what two factors do not share: see `hypertare.stats.effects.Lead`.
            return (0.5, math.inf)
        if isinstance(self.value, tuple):
            return self.value
        return (self.value, math.inf) if self.op == "above" else (-math.inf, self.value)


def no_level(
    path: str, level: Level, factors: Sequence[Mapping[str, Collection[Level]]]
) -> str | None:
    """Returns why no cell has this level, or None. `factors` has an item for each workload that may."""
    places = [of_one[path] for of_one in factors if path in of_one]
    if not places:
        return no_such(
            "factor", path, dict.fromkeys(factor for of_one in factors for factor in of_one)
        )
    if any(same(level, one) for levels in places for one in levels):
        return None
    known = dict.fromkeys(level_text(one) for levels in places for one in levels)
    return f"{path}: {no_such('level', level_text(level), known)}"


class Plot(Settings):
    """A response over a factor. `surface` and `interaction` are means over all other factors, a picture for
    each platform.
    """

    title: str
    """The title of the picture."""
    workload: str
    """The workload of the response."""
    x: str
    """The factor along the bottom."""
    y: str
    """The response."""
    where: Levels = {}
    """Only cells with these levels are drawn; where `--quick` or `--set` leaves a level out, none is."""
    lines: str | None = None
    """A factor whose levels have a line each."""
    facet: str | None = None
    """A factor whose levels have a picture each."""
    shape: Literal["lines", "stacked", "distribution", "surface", "interaction"] = "lines"
    """`stacked`: bars, a segment per guest, of CPU also for the driver domain; `distribution`: of round
    trips, with `x = "rtt"` and `y = "share"`; `surface`: a coloured field for each pair of levels of `x`
    and `lines`; `interaction`: lines, parallel where neither factor changes the other's effect; both means
    over all other factors.
    """
    of: Literal["value", "efficiency"] = "value"
    """For `surface` and `interaction`: the response itself; or `efficiency`, against native."""
    published: str = ""
    """What was found before, with its source."""

    @property
    def is_of_means(self) -> bool:
        """Whether it shows two factors, and means over all others."""
        return self.shape in ("surface", "interaction")

    @property
    def factors(self) -> tuple[str, ...]:
        x = None if self.shape == "distribution" else self.x
        return tuple(factor for factor in (x, self.lines, self.facet) if factor is not None)

    def shows(self, cell: Mapping[str, Level]) -> bool:
        """Whether it is of this cell."""
        return (
            cell.get("workload") == self.workload
            and all(factor in cell for factor in self.factors)
            and all(path in cell and same(cell[path], level) for path, level in self.where.items())
        )

    def unknown(self, factors: Mapping[str, Mapping[str, Collection[Level]]]) -> str | None:
        """What `where` names and the study has not; factors by workload."""
        levels = self.where.items()
        problems = (no_level(path, level, [factors[self.workload]]) for path, level in levels)
        return next(filter(None, problems), None)

    def problem(
        self, responses: Mapping[str, Collection[str]], factors: Mapping[str, Collection[str]]
    ) -> str | None:
        """What it asks for and the study has not; both by workload."""
        if self.workload not in responses:
            return f"there is no workload '{self.workload}'; there are: {', '.join(responses)}"
        if self.shape == "distribution":
            if (self.x, self.y) != ("rtt", "share"):
                return "a distribution has x = 'rtt' and y = 'share'"
            if "rtt_p50" not in responses[self.workload]:
                return f"a distribution is of round trips, and {self.workload} has none"
        elif self.y not in responses[self.workload]:
            known = ", ".join(responses[self.workload])
            return f"{self.workload} has no response '{self.y}'; it has: {known}"
        if self.shape == "stacked" and self.lines is not None:
            return "stacked bars have no 'lines'; take 'facet'"
        if self.is_of_means and self.lines is None:
            return f"shape '{self.shape}' has its second factor in 'lines': name one"
        if self.of == "efficiency" and not self.is_of_means:
            return "of = 'efficiency' is for the shapes 'surface' and 'interaction'"
        for factor in self.factors:
            if factor not in factors[self.workload]:
                known = ", ".join(factors[self.workload]) or "none"
                return f"'{factor}' is no factor of {self.workload}; its factors: {known}"
        if len(set(self.factors)) < len(self.factors):
            return "'x', 'lines' and 'facet' must be three different factors"
        if fixed := self.where.keys() & set(self.factors):
            return f"'where' leaves one level of '{min(fixed)}', which the plot is to show over its levels"
        return None
