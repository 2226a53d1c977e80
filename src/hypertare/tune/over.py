"""A tuning for each level of a factor, the law of the best settings, and whether it holds at a level that
was not tuned. Every tuning is a run of its own, in a directory below that of the whole.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from pydantic import ValidationError

from hypertare.base.errors import InputError, writing
from hypertare.base.figures import did_you_mean, level_text, significant
from hypertare.base.variables import Level
from hypertare.design.planner import MachineResources
from hypertare.engine.prepare import RunOptions
from hypertare.engine.trial_recorder import Observer
from hypertare.findings.tuning import AskedOver, AtLevel, LawFitted, Tuning, TuningOver
from hypertare.protocol.constants import RUN_FILE
from hypertare.stats import growth
from hypertare.study import Study, StudyFile
from hypertare.study.file import toml_value
from hypertare.study.tune import TuneSettings
from hypertare.tune import FILE_NAME, OVER_FILE, session
from hypertare.tune.session import Prepared
from hypertare.tune.space import Knob, Setting, nearest, number_of, resolved
from hypertare.tune.tuner import confirming_blocks

_GUESTS = "sut.guests"


@dataclass(frozen=True)
class LevelTuning:
    """One level, with its tuning checked and the name of its directory."""

    level: Level
    prepared: Prepared
    folder: str


@dataclass(frozen=True)
class Sweep:
    """All tunings, checked as far as can be without starting anything."""

    asked: AskedOver
    file: StudyFile
    parts: tuple[LevelTuning, ...]
    confirm: LevelTuning | None

    @property
    def every(self) -> tuple[LevelTuning, ...]:
        return self.parts if self.confirm is None else (*self.parts, self.confirm)

    @property
    def confirm_trials(self) -> int:
        """At most so many confirm the law."""
        if self.confirm is None:
            return 0
        design = self.confirm.prepared.design
        return 2 * max(confirming_blocks(design), design.max_trials)

    def expected_s(self, jobs: int) -> float:
        tuned = sum(one.prepared.budget_s(jobs) for one in self.parts)
        last = self.confirm
        return tuned + (
            last.prepared.expected_s(self.confirm_trials, jobs, apart=True) if last else 0.0
        )


# --- what is asked for


def asked(file: StudyFile, over: str, confirm: str | None, seed: int) -> AskedOver:
    """From `--over FACTOR=LEVELS` and `--confirm FACTOR=LEVEL`.

    Raises:
        InputError: it does not fit the study.
    """
    factor, written, text = over.partition("=")
    study = file.study()
    if factor in (study.tune or TuneSettings()).knobs:
        raise InputError(
            f"--over {factor}: the tuning itself sets it: it is one of [tune.knobs].",
            "Name a factor that stays as it is during a tuning.",
        )
    if factor not in study.factors:
        raise InputError(
            f"--over {factor}: the study has no factor {factor}.{did_you_mean(factor, study.factors)}",
            f"Its factors: {', '.join(study.factors) or 'none'}.",
        )
    levels: tuple[Level, ...] = study.factors[factor]
    if written:
        levels = tuple(_level(part.strip(), f"--over {over}") for part in text.split(","))
    values = [resolved(file, factor, level) for level in levels]
    if len(set(map(repr, values))) < len(values):
        raise InputError(f"--over {over}: a level stands there twice.", "Leave one out.")
    if len(levels) < 2:
        raise InputError(
            f"--over {over}: {factor} has one level, {level_text(levels[0])}; no law follows from one.",
            f"Write several: --over {factor}=1,2,4",
        )
    numbers = [number_of(file, factor, level) for level in levels]
    at = _confirmed_at(file, factor, confirm, values, numbers)
    return AskedOver(
        factor=factor,
        levels=levels,
        confirm=at,
        seed=seed,
        study_text=file.text,
        settings=copy.deepcopy(file.raw),
        folder=str(file.folder),
    )


def _level(text: str, where: str) -> Level:
    value = toml_value(text)
    if not text or not isinstance(value, str | int | float | bool):
        raise InputError(f"{where}: '{text}' is no level.", "Write for example 1,2,4.")
    return value


def _confirmed_at(
    file: StudyFile,
    factor: str,
    confirm: str | None,
    values: Sequence[Level],
    numbers: Sequence[float | None],
) -> Level | None:
    """The level that is named; else the whole number in the middle of the widest gap, if there is one."""
    known = [number for number in numbers if number is not None]
    all_numbers = len(known) == len(numbers)
    if confirm is None:
        if not all_numbers or any(number % 1 for number in known):
            return None
        width, low = max((high - low, low) for low, high in pairwise(sorted(known)))
        middle = int(low + width // 2)
        try:
            file.cell({factor: middle})
        except InputError:
            return None
        return middle if width >= 2 else None
    name, written, text = confirm.partition("=")
    where = f"--confirm {confirm}"
    if name != factor or not written:
        raise InputError(f"{where}: it is a level of {factor}.", f"Write --confirm {factor}=LEVEL.")
    level = _level(text.strip(), where)
    if not all_numbers or number_of(file, factor, level) is None:
        raise InputError(f"{where}: a law needs levels that are numbers above 0.", "Leave it out.")
    if resolved(file, factor, level) in values:
        raise InputError(
            f"{where}: that level is tuned; what a law says is confirmed at one that is not.",
            "Name another one, or leave it out of --over.",
        )
    return level


def prepare(file: StudyFile, wanted: AskedOver) -> Sweep:
    """Checks each level's tuning against the study and this machine.

    Raises:
        InputError: one of them cannot be made; it says which.
    """
    parts = tuple(
        _part(file, wanted, level, str(place)) for place, level in enumerate(wanted.levels, start=1)
    )
    confirm = None
    if wanted.confirm is not None:
        confirm = _part(file, wanted, wanted.confirm, "confirm")
    return Sweep(wanted, file, parts, confirm)


def _part(file: StudyFile, wanted: AskedOver, level: Level, prefix: str) -> LevelTuning:
    own = StudyFile.restored(file.text, copy.deepcopy(file.raw), file.source, file.folder)
    try:
        # JSON of one value is TOML too.
        own.override([f"{wanted.factor}={json.dumps(level)}"], quick=False)
        prepared = session.prepare(own, wanted.seed)
    except InputError as error:
        raise InputError(f"{wanted.factor} = {level_text(level)}: {error.what}", error.do) from None
    folder = re.sub(r"[^\w.=-]+", "_", f"{prefix}-{wanted.factor}={level_text(level)}")
    return LevelTuning(level, prepared, folder)


# --- what there is already


def read(folder: Path) -> TuningOver | None:
    """What a directory holds of such a tuning, if it holds one.

    Raises:
        InputError: its file is damaged.
    """
    place = folder / OVER_FILE
    if not place.is_file():
        return None
    try:
        return TuningOver.model_validate_json(place.read_bytes())
    except ValidationError as error:
        raise InputError(
            f"{place} is damaged, or of another version: {error.errors()[0]['msg']}.",
            f"Each level's tuning stands in a directory of its own in {folder}.",
        ) from None


def restored(folder: Path, found: TuningOver) -> Sweep:
    """The whole as it was asked for."""
    was = found.asked
    file = StudyFile.restored(
        was.study_text, copy.deepcopy(was.settings), str(folder), Path(was.folder)
    )
    return prepare(file, was)


def check_vacant(folder: Path) -> None:
    """Raises:
    InputError: something is there already.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder} is not empty.",
            f"Name another directory, or: hypertare tune --resume --out {folder}",
        )


# --- at work


def carry_out(
    sweep: Sweep,
    on: Sequence[MachineResources],
    folder: Path,
    watch: Callable[[Study], AbstractContextManager[Observer]],
    run_options: RunOptions,
    done: Callable[[AtLevel], None] = lambda _: None,
) -> TuningOver:
    """Tunes each level that is not tuned yet; `over.json` is written after each.

    Args:
        sweep: what is to be tuned.
        on: what the machine gives to each of `sweep.every`.
        folder: the directory of all.
        watch: makes the observer of one tuning.
        run_options: how to go about it.
        done: hears of each level.

    Returns:
        What was found; `complete` only if Ctrl-C did not come first.
    """
    tuned: list[AtLevel] = []
    # Before anything is measured, so that an interrupted one can go on.
    _write(folder, document(sweep, tuned, complete=False))
    for part, machine in zip(sweep.parts, on, strict=False):
        at = _tuning(part, machine, folder, watch, run_options)
        if at is None:
            return document(sweep, tuned, complete=False)
        tuned.append(at)
        done(at)
        _write(folder, document(sweep, tuned, complete=False))
    confirmed = None
    chosen = pick(sweep, tuned)
    if sweep.confirm is not None and chosen is not None:
        part = replace(sweep.confirm, prepared=replace(sweep.confirm.prepared, pick=chosen))
        confirmed = _tuning(part, on[-1], folder, watch, run_options)
        if confirmed is None:
            return document(sweep, tuned, complete=False)
        done(confirmed)
    found = document(sweep, tuned, confirmed, complete=True)
    _write(folder, found)
    return found


def _tuning(
    part: LevelTuning,
    on: MachineResources,
    folder: Path,
    watch: Callable[[Study], AbstractContextManager[Observer]],
    run_options: RunOptions,
) -> AtLevel | None:
    """Returns the tuning of one level: an earlier result, or the result of a resumed or new run.

    Returns None if Ctrl-C came first.
    """
    own = folder / part.folder
    if (own / FILE_NAME).is_file():
        found: Tuning | None = Tuning.model_validate_json((own / FILE_NAME).read_bytes())
    else:
        resume = (own / RUN_FILE).is_file()
        with watch(part.prepared.run.study) as observer:
            found = session.carry_out(
                part.prepared, on, own, observer, run_options, resume=resume, resumed_at=folder
            )
    return None if found is None else AtLevel(level=part.level, folder=part.folder, found=found)


def _write(folder: Path, found: TuningOver) -> None:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{OVER_FILE}.part"
        draft.write_text(found.model_dump_json(indent=2) + "\n")
        draft.replace(folder / OVER_FILE)


# --- what it says


def document(
    sweep: Sweep, tuned: Sequence[AtLevel], confirmed: AtLevel | None = None, *, complete: bool
) -> TuningOver:
    """What was found; without laws until every level is tuned."""
    laws, warnings = _laws(sweep, tuned) if complete else ([], [])
    return TuningOver(
        asked=sweep.asked,
        complete=complete,
        tuned=tuple(tuned),
        laws=tuple(laws),
        confirmed=confirmed,
        verdict=_verdict(sweep, tuned, laws, confirmed) if complete else "Not ended yet.",
        warnings=tuple(warnings),
    )


def _laws(sweep: Sweep, tuned: Sequence[AtLevel]) -> tuple[list[LawFitted], list[str]]:
    """Of every knob, and why a knob has none."""
    found: list[LawFitted] = []
    warnings: list[str] = []
    for knob in sweep.parts[0].prepared.space.every:
        points = list(_points(sweep, knob, tuned))
        default = number_of(sweep.file, knob.path, knob.default)
        if default is None or len(points) < len(sweep.parts):
            warnings.append(
                f"{knob.path} has no law: one needs levels and settings that are numbers above 0."
            )
            continue
        found += _fitted(sweep, knob, default, points)
    return found, warnings


def _points(sweep: Sweep, knob: Knob, tuned: Sequence[AtLevel]) -> Iterator[tuple[float, float]]:
    """The factor's level and the best setting, where both are numbers."""
    for one in tuned:
        level = number_of(sweep.file, sweep.asked.factor, one.level)
        best = number_of(
            sweep.file, knob.path, one.found.recommendation.get(knob.path, knob.default)
        )
        if level is not None and best is not None:
            yield level, best


def _fitted(
    sweep: Sweep, knob: Knob, default: float, points: Sequence[tuple[float, float]]
) -> list[LawFitted]:
    levels, best = zip(*points, strict=True)
    of_guests = sweep.asked.factor == _GUESTS
    fits = [growth.fit(law, levels, best) for law in growth.laws(default, of_guests=of_guests)]
    chosen = growth.preferred(fits)
    where = {*levels}
    if sweep.asked.confirm is not None:
        confirm = number_of(sweep.file, sweep.asked.factor, sweep.asked.confirm)
        where |= set() if confirm is None else {confirm}
    return [
        LawFitted(
            knob=knob.path,
            law=fit.law.name,
            formula=fit.law.formula,
            scale=fit.scale,
            residual=fit.residual,
            left_out=fit.left_out,
            preferred=fit is chosen,
            best=tuple(points),
            at=tuple((level, fit.at(level)) for level in sorted(where)),
        )
        for fit in fits
    ]


def pick(sweep: Sweep, tuned: Sequence[AtLevel]) -> Setting | None:
    """What the preferred laws say of the level that is not tuned; none where that is the default."""
    if sweep.confirm is None:
        return None
    laws = _laws(sweep, tuned)[0]
    number = number_of(sweep.file, sweep.asked.factor, sweep.confirm.level)
    space = sweep.confirm.prepared.space
    setting = space.default
    for knob in space.every:
        law = next((one for one in laws if one.preferred and one.knob == knob.path), None)
        if law is None or number is None:
            continue
        level = nearest(sweep.file, knob, dict(law.at)[number])
        if level is not None:
            setting[knob.path] = level
    return None if setting == space.default else setting


def _verdict(
    sweep: Sweep,
    tuned: Sequence[AtLevel],
    laws: Sequence[LawFitted],
    confirmed: AtLevel | None,
) -> str:
    sentences = [
        _about(law, [one for one in laws if one.knob == law.knob and one is not law])
        for law in laws
        if law.preferred
    ]
    if all(one.found.keep_default for one in tuned):
        sentences = [f"Keep the default at every level of {sweep.asked.factor}."]
    at = sweep.confirm
    if at is not None and (confirmed is not None or laws):
        place = f"{sweep.asked.factor} = {level_text(at.level)}, which was not tuned"
        sentences.append(
            f"At {place}, that gives the default, so there is nothing to confirm."
            if confirmed is None
            else f"At {place}: {confirmed.found.verdict}"
        )
    return " ".join(sentences) or "There is no law: see the best setting of each level."


def _about(law: LawFitted, others: Sequence[LawFitted]) -> str:
    scale = "" if law.law == "the default" else f" with w = {significant(law.scale)}"
    beaten = ", ".join(f"{one.law} {significant(one.left_out)}" for one in others)
    return (
        f"{law.knob} = {law.formula}{scale} predicts best: it misses a level that it was not fitted to "
        f"by {significant(law.left_out)} doublings ({beaten})."
    )
