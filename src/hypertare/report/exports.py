"""A report for other programs: every trial and response as a table of data, or the summary."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hypertare.base.level import Level
from hypertare.design.trials import FinishedTrial
from hypertare.findings.summarise import responses_of
from hypertare.report import verdict
from hypertare.report.findings import findings
from hypertare.report.model import Report
from hypertare.runs.summary import Estimate
from hypertare.workloads.responses import meaning

if TYPE_CHECKING:
    import polars

_MARKS = {"costs": "▲", "gains": "▼", "same": "=", "failed": "✗", "unknown": "?"}


def json(report: Report) -> str:
    """The summary, as in `summary.json`."""
    return report.summary.model_dump_json(indent=2) + "\n"


def csv(report: Report) -> str:
    """Every value of every trial, one a line."""
    return frame(report).write_csv()


def parquet(report: Report) -> bytes:
    """As `csv`, with types."""
    buffer = io.BytesIO()
    frame(report).write_parquet(buffer)
    return buffer.getvalue()


def frame(report: Report) -> polars.DataFrame:
    """Every value of every trial as a row, factors as columns by their paths.

    A failed trial is a row too: its `status` and `error` say so, `response` and `value` are absent. What
    is of one guest of several has its number in `guest`.
    A factor with levels of several types is given as text.
    """
    import polars

    factors = list(dict.fromkeys(f for trial in report.trials for f in trial.planned.cell))
    levels = {factor: _column(report, factor) for factor in factors}
    known = responses_of(report.meta)
    rows = []
    for place, trial in enumerate(report.trials):
        planned = trial.planned
        for guest, response, value in _values(trial):
            of = known.get(response) if response else None
            rows.append(
                (
                    planned.id,
                    planned.block,
                    planned.boot,
                    planned.platform,
                    planned.kind,
                    trial.status,
                    trial.error,
                    trial.elapsed_s,
                    *(levels[factor][place] for factor in factors),
                    guest,
                    response,
                    of.unit if of else None,
                    of.better if of else None,
                    value,
                )
            )
    text, whole, real = polars.String, polars.Int64, polars.Float64
    schema: dict[str, type[polars.DataType]] = {
        "trial": whole,
        "block": whole,
        "boot": whole,
        "platform": text,
        "kind": text,
        "status": text,
        "error": text,
        "trial_elapsed_s": real,
        **{factor: _type(levels[factor]) for factor in factors},
        "guest": whole,
        "response": text,
        "unit": text,
        "better": text,
        "value": real,
    }
    return polars.DataFrame(rows, schema=schema, orient="row")


def markdown(report: Report) -> str:
    """Verdicts and estimates, for a document or a merge request."""
    return "\n".join(_markdown(report)) + "\n"


# --- parts


def _values(trial: FinishedTrial) -> Iterator[tuple[int | None, str | None, float | None]]:
    """Of all guests, then of each."""
    if not trial.values:
        yield None, None, None
    for response, value in trial.values.items():
        yield None, response, value
    for guest, values in enumerate(trial.guests, start=1):
        for response, value in values.items():
            yield guest, response, value


def _column(report: Report, factor: str) -> list[Level | None]:
    found = [trial.planned.cell.get(factor) for trial in report.trials]
    kinds = {type(level) for level in found if level is not None}
    if len(kinds) <= 1 and kinds <= {str, int, float, bool}:
        return found
    if kinds == {int, float}:
        return [None if level is None else float(level) for level in found]
    return [None if level is None else str(level) for level in found]


def _type(levels: list[Level | None]) -> type[polars.DataType]:
    import polars

    types = {
        str: polars.String,
        int: polars.Int64,
        float: polars.Float64,
        bool: polars.Boolean,
    }
    return next((types[type(level)] for level in levels if level is not None), polars.String)


def _markdown(report: Report) -> Iterator[str]:
    summary = report.summary
    yield f"# {_text(summary.study)}"
    yield ""
    yield _text(summary.question)
    yield ""
    if said := meaning(summary.clock):
        yield _text(said)
        yield ""
    for sentence in report.sentences:
        yield f"- {_MARKS[sentence.tone]} {_text(sentence.text)}"
    for label in report.cells():
        estimates = report.estimates(label)
        if estimates:
            yield ""
            yield f"## {_text(label)}"
            yield ""
            confidence = f"{report.meta.confidence * 100:g} % interval"
            yield f"| response | platform | n | mean | {confidence} | change | {confidence} |"
            yield "|---|---|---:|---:|---:|---:|---:|"
            yield from (_line(report, estimate) for estimate in estimates)
    yield from _plots(report)
    for words, found in findings(report):
        yield from _found(words, found)
    yield from _claims(report)
    if report.warnings:
        yield ""
        yield "## Warnings"
        yield ""
        yield from (f"- {_text(warning)}" for warning in report.warnings)
    yield from ("", "## How", "")
    yield from (f"- {_text(line)}" for line in _how(report))


def _claims(report: Report) -> Iterator[str]:
    if not report.summary.claims:
        return
    yield from ("", "## Claims", "", "| claim | judgement | evidence |", "|---|---|---|")
    for claim in report.summary.claims:
        cells = (claim.text, claim.judgement, claim.evidence)
        yield f"| {' | '.join(map(_text, cells))} |"


def _how(report: Report) -> Iterator[str]:
    """What these figures are of: without it nobody could tell whether they still hold."""
    summary, machine = report.summary, report.summary.machine
    yield (
        f"{summary.started:%d %B %Y}, seed {summary.seed}, "
        f"{len(report.trials)} trials, {len(report.failures)} of them failed"
    )
    yield (
        f"{machine.kind} machine, {machine.cpus} x {machine.cpu}, Linux {machine.kernel}, "
        f"{summary.clock} clock, accelerator {summary.accelerator or 'none'}"
    )
    yield ", ".join(f"{name} {version}" for name, version in summary.versions.items())
    if report.meta.argv:
        yield report.commands[0]


def _plots(report: Report) -> Iterator[str]:
    """The figures of the plots that the study asks for."""
    from hypertare.report import plots

    for one in plots.drawn(report):
        yield from ("", f"## {_text(one.plot.title)}", "", _text(one.note), "")
        yield f"| {' | '.join(map(_text, one.head))} |"
        yield f"|{'|'.join('---' for _ in one.head)}|"
        for row in one.rows:
            yield f"| {' | '.join(map(_text, row))} |"


def _found(words: Any, found: Sequence[Any]) -> Iterator[str]:
    """A table of what was found of settings; `words` is the module that says it."""
    yield from ("", f"## {words.TITLE} of {_text(words.workloads(found))}", "")
    yield words.NOTE
    yield ""
    yield f"| {' | '.join(words.HEAD)} |"
    numbers = ("---" if place in words.TEXTS else "---:" for place in range(len(words.HEAD)))
    yield f"|{'|'.join(numbers)}|"
    for row in words.rows(found):
        yield f"| {' | '.join(map(_text, row.cells))} |"


def _line(report: Report, estimate: Estimate) -> str:
    mean, interval = verdict.mean_text(estimate, estimate.unit)
    baseline = estimate.platform == report.meta.baseline
    change, around = ("", "") if baseline else verdict.cost_text(estimate)
    platform = report.wording.platform(estimate.platform, estimate.cell)
    cells = (verdict.word(estimate.response), platform, str(estimate.n), mean, interval)
    return f"| {' | '.join(_text(cell) for cell in (*cells, change, around))} |"


def _text(text: str) -> str:
    """Text that Markdown takes for nothing else: what a guest says draws no table and no image."""
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
