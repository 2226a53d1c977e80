"""What a report gathers from a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from hypertare.base.errors import InputError
from hypertare.design.trials import FinishedTrial
from hypertare.protocol.records import Interval, Record, TaskResult
from hypertare.report.model import Report, _commands
from hypertare.runs.store import Meta, Store
from tests import factory
from tests.report.conftest import read

LABELS = ["build", "tcp receive", "tcp transmit", "udp", "rtt"]


def test_the_known_cost_is_found(report: Report) -> None:
    costs = {
        report.wording.platform(e.platform, e.cell): e
        for e in report.estimates("build")
        if e.response == "elapsed" and e.cost is not None
    }
    for name, factor in factory.COST.items():
        if name == "native":
            assert name not in costs
            continue
        estimate = costs[name]
        assert estimate.cost_low is not None and estimate.cost_high is not None
        assert estimate.cost_low < factor - 1 < estimate.cost_high
        assert estimate.verdict == ("costs" if factor > 1 else "no difference shown")


def test_cells_and_platforms_are_in_order(report: Report) -> None:
    assert list(report.cells) == LABELS
    assert report.platforms == ("native", "container", "guest e1000", "guest virtio-net")


def test_every_value_is_a_point(report: Report) -> None:
    assert len(report.points) == sum(len(trial.values) for trial in report.trials)
    assert {point.kind for point in report.points} == {"warmup", "measured"}


def test_failed_trials_and_warmups_are_in_no_figure(report: Report) -> None:
    counted = {trial.planned.id for trial in report.trials if trial.counts}
    assert {point.trial for point in report.series} <= counted
    assert [failure.trial for failure in report.failures] == [9, 41]
    assert report.failures[0].console[-1].endswith("Attempted to kill init!")
    of = Counter((time.platform, time.cell) for time in report.cpu)
    assert of["guest e1000", "rtt"] == 3 * 4


def test_estimates_and_points_by_cell_are_all_of_them(report: Report) -> None:
    labels = list(report.cells)
    by_cell = [estimate for label in labels for estimate in report.estimates(label)]
    assert by_cell == report.estimates() and len(by_cell) == len(report.summary.estimates)
    names = {point.response for point in report.points}
    points = [p for label in labels for name in names for p in report.points_of(label, name)]
    assert len(points) == len(report.points) and set(points) == set(report.points)
    assert report.estimates("no such cell") == report.points_of(labels[0], "no such") == []


def test_cpu_time_is_the_mean_over_trials_and_counts_a_guest_once(report: Report) -> None:
    times = [
        time
        for time in report.cpu
        if time.platform == "guest e1000" and time.cell == "rtt" and time.seen == "whole machine"
    ]
    # The factory's guests keep the machine busy for 1.6 times the 5 s that an rtt trial lasts.
    assert sum(time.seconds_s for time in times) == pytest.approx(8.0)
    assert {time.seen for time in report.cpu if time.platform == "guest e1000"} == {
        "whole machine",
        "VMM, from outside",
        "guest, from inside",
    }


def test_the_distribution_rises_to_one(report: Report) -> None:
    for platform in report.platforms:
        points = [p for p in report.ecdf if p.platform == platform]
        assert 20 < len(points) <= 400
        assert points[-1].share == 1.0
        assert [p.share for p in points] == sorted(p.share for p in points)
        assert [p.value_s for p in points] == sorted(p.value_s for p in points)
    native = [p for p in report.ecdf if p.platform == "native"]
    middle = next(p.value_s for p in native if p.share >= 0.5)
    assert middle == pytest.approx(21.4e-6, rel=0.05)


def test_how_to_reproduce(report: Report) -> None:
    assert report.commands[0] == "hypertare run first-look --seed 7"
    assert report.commands[1] == f"hypertare report {report.source.parent}"
    assert report.vmm_commands["guest2"].endswith("-append 'quiet panic=-1'")


@pytest.mark.parametrize(
    ("asked", "again"),
    [
        (["run", "x", "--out", "/home/me/x"], "run x --seed 7"),
        (["run", "--out=x", "x", "--seed", "9"], "run x --seed 9"),
        (["weigh", "--", "cc", "--out", "x"], "weigh --seed 7 -- cc --out x"),
        (["run", "x", "--out"], "run x --seed 7"),
    ],
)
def test_where_a_run_was_put_is_no_part_of_how(
    report: Report, asked: list[str], again: str
) -> None:
    meta = report.meta.model_copy(update={"argv": ("hypertare", *asked)})
    first, *_ = _commands(meta, report.source)
    assert first == f"hypertare {again}"


def test_platforms_are_what_was_negotiated(report: Report) -> None:
    states = {state.node: state for state in report.summary.platforms}
    assert set(states) == set(factory.NODES.values())
    assert states["guest3"].interfaces["eth0"]["driver"] == "e1000"
    assert states["guest3"].accelerator == "kvm"
    assert states["host"].platform == "native"


@pytest.mark.parametrize("trials", [0, 1, 5, 30])
def test_an_interrupted_run_is_reported_too(tmp_path: Path, trials: int) -> None:
    script = replace(factory.Script(), fail=frozenset())
    with Store.create(tmp_path / "run", factory.meta(script)) as store:
        for trial in list(factory.planned(script))[:trials]:
            finished = factory.finish(trial, script)
            store.append(finished, factory.records(finished, script))
        report = read(tmp_path / "run")
    assert not report.summary.complete
    assert report.summary.ended is None
    assert len(report.trials) == trials


def test_a_run_in_which_all_failed(tmp_path: Path) -> None:
    report = read(factory.write(tmp_path / "run", factory.Script(2, fail=frozenset(range(100)))))
    assert not report.summary.estimates
    assert len(report.failures) == len(report.trials)
    assert all(
        sentence.tone == "failed"
        for sentence in (*report.answers, *report.verdicts, *report.remarks)
    )


def test_claims_are_judged(tmp_path: Path) -> None:
    claim = {
        "text": "e1000 costs a build less than half",
        "response": "elapsed",
        "workload": "build",
        "platform": "guest",
        "where": {"sut.nic": "e1000"},
        "op": "below",
        "value": "50 %",
    }
    report = read(factory.write(tmp_path / "run", factory.Script(claims=(claim,))))
    (judged,) = report.summary.claims
    assert judged.text == claim["text"]
    assert judged.judgement == "fails"


def test_a_claim_of_each_level_is_judged_for_each(tmp_path: Path) -> None:
    claim = {
        "text": "a guest costs a build less than half",
        "each": "sut.nic",
        "response": "elapsed",
        "workload": "build",
        "platform": "guest",
        "op": "below",
        "value": "50 %",
    }
    script = factory.Script(claims=(claim,), factors={"sut.nic": ["virtio-net", "e1000"]})
    judged = read(factory.write(tmp_path / "run", script)).summary.claims
    assert [one.text for one in judged] == [
        f"{nic}: a guest costs a build less than half" for nic in ("virtio-net", "e1000")
    ]
    assert judged[1].judgement == "fails"
    # A run may be somebody else's.
    wrong = factory.write(tmp_path / "wrong", factory.Script(claims=(claim,)))
    with pytest.raises(InputError, match=r"cannot read: claims: .* is no factor"):
        read(wrong)


def test_a_run_of_an_older_format_reads_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = read(factory.write(tmp_path / "new"))

    def without_purpose(finished: FinishedTrial, script: factory.Script) -> list[Record]:
        return [
            record.model_copy(update={"purpose": None})
            if isinstance(record, Interval | TaskResult)
            else record
            for record in records(finished, script)
        ]

    def without_nodes(script: factory.Script) -> Meta:
        return meta(script).model_copy(update={"nodes": {}})

    records, meta = factory.records, factory.meta
    monkeypatch.setattr(factory, "meta", without_nodes)
    monkeypatch.setattr(factory, "records", without_purpose)
    old = read(factory.write(tmp_path / "old"))
    assert old.series == new.series and old.cpu == new.cpu and old.polls == new.polls
    times = {"started": new.summary.started, "ended": new.summary.ended}
    assert old.summary.model_copy(update=times) == new.summary
