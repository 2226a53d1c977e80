"""A tuning for each level of a factor: what can be asked, which law is found, what it picks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hypertare.base.errors import InputError
from hypertare.study import StudyFile, find
from hypertare.tune import OVER_FILE, over
from tests.cli.test_permissions import ask
from tests.tune.made_over import WEIGHT, at, made, sweep

SIZES = (
    'name = "s"\nquestion = "?"\n[workloads.tcp]\ntype = "stream"\n[factors]\n'
    '"knobs.mtu" = [1500, 3000, 9000]\n"workloads.tcp.message" = ["4K", "16K"]\n'
)


def test_levels_are_the_study_s_or_those_that_are_written() -> None:
    whole = over.asked(find("scheduler-weights"), "sut.guests", None, 1)
    assert whole.levels == (1, 2, 4, 8)
    file = find("scheduler-weights")
    file.override([], quick=True)
    assert over.asked(file, "sut.guests=1,3", None, 1).levels == (1, 3)
    for part in sweep().parts:
        study = part.prepared.run.study
        assert study.sut.guests == part.level
        assert [knob.path for knob in part.prepared.space.knobs] == [WEIGHT]


@pytest.mark.parametrize(
    ("levels", "at"), [("1,2,4,8", 6), ("8,1", 4), ("1,3", 2), ("1,2", None), ("1,2,3", None)]
)
def test_the_law_is_confirmed_in_the_middle_of_the_widest_gap(levels: str, at: int | None) -> None:
    assert over.asked(find("scheduler-weights"), f"sut.guests={levels}", None, 1).confirm == at


def test_a_level_that_the_factor_does_not_take_is_not_chosen() -> None:
    text = 'name = "s"\nquestion = "?"\n[workloads.u]\ntype = "io"\n[factors]\n'
    file = StudyFile(text + '"workloads.u.block" = ["4K", "16K", "64K"]\n', "s.toml")
    assert over.asked(file, "workloads.u.block", None, 1).confirm is None
    named = over.asked(file, "workloads.u.block", "workloads.u.block=32K", 1)
    assert named.confirm == "32K"


def test_factors_beside_the_one_are_tuned_where_the_study_names_no_knobs() -> None:
    file = StudyFile(SIZES, "s.toml")
    whole = over.prepare(file, over.asked(file, "knobs.mtu", None, 1))
    assert [[knob.path for knob in part.prepared.space.knobs] for part in whole.every] == (
        [["workloads.tcp.message"]] * 4
    )
    assert whole.confirm is not None and whole.confirm.level == 6000


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--over", "sut.gests"), "no factor sut.gests. Did you mean 'sut.guests'?"),
        (("--over", "bench.mtu=1500,9000"), "the study has no factor bench.mtu"),
        (("--over", WEIGHT), "the tuning itself sets it"),
        (("--over", "sut.guests=4"), "one level, 4; no law follows"),
        (("--quick", "--over", "sut.guests"), "one level, 4; no law follows"),
        (("--over", "sut.guests=2,2"), "a level stands there twice"),
        (("--over", "sut.guests=1,,2"), "'' is no level"),
        (("--over", "sut.guests=[1],2"), "'[1]' is no level"),
        (("--over", "sut.guests=0,2"), "sut.guests"),
        (("--over", "sut.guests=1,400"), "sut.guests: it must be at most 64"),
        (("--set", "sut.memory=900G", "--over", "sut.guests=1,2"), "sut.guests = 1: "),
        (("--over", "sut.guests=1,2", "--budget", "4"), "sut.guests = 1: A budget of 4 trials"),
        (("--over", "sut.guests", "--confirm", "sut.guests=4"), "that level is tuned"),
        (("--over", "sut.guests", "--confirm", "6"), "Write --confirm sut.guests=LEVEL"),
        (("--over", "sut.scheduler", "--confirm", "sut.scheduler=credit"), "that are numbers"),
        (("--over", "sut.guests", "--from", "last"), "--from is of one tuning"),
        (("--confirm", "sut.guests=4"), "--confirm sut.guests=4: it says where the law"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_what_cannot_be_asked_is_refused_before_anything_starts(
    asked: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    status, reported = ask(tmp_path, "tune", "scheduler-weights", *asked)
    assert status == 2 and said in reported and "Traceback" not in reported, reported


def test_a_dry_run_says_what_each_level_costs(tmp_path: Path) -> None:
    words = ("scheduler-weights", "--over", "sut.guests=1,2,4,8")
    status, said = ask(tmp_path, "tune", *words, "--json")
    plan = json.loads(said)
    assert status == 0 and plan["levels"] == [1, 2, 4, 8] and plan["confirm"] == 6
    one = json.loads(ask(tmp_path, "tune", "scheduler-weights", "--json")[1])["expected_s"]
    assert plan["expected_s"] > 4 * one
    status, said = ask(tmp_path, "tune", *words)
    assert status == 0 and "confirms what the law says of sut.guests = 6: at most" in said
    assert "without boots" not in said


def test_a_dry_run_counts_the_boots_of_emulated_machines(tmp_path: Path) -> None:
    """They are most of the time, and go on side by side."""

    def expected_s(*words: str) -> float:
        return json.loads(ask(tmp_path, "tune", *words, "--json")[1])["expected_s"]

    one, two = (expected_s("scheduler-weights", "--jobs", jobs) for jobs in "12")
    assert one == 2 * two > 60 * 9 / 2, "nine seconds of Xen alone, for two trials"
    few = expected_s("scheduler-weights", "--jobs", "1", "--budget", "30")
    assert few == one / 2
    status, said = ask(tmp_path, "tune", "tcp-knobs")
    assert status == 0 and "without boots" in said


def test_the_law_that_fits_is_preferred_and_says_what_to_confirm() -> None:
    found = made({1: 256, 2: 1024, 4: 3072, 8: 8192})
    (law,) = [one for one in found.laws if one.preferred]
    assert law.formula == "(log2 N + 1) N w" and law.scale == pytest.approx(256)
    assert law.left_out == pytest.approx(0, abs=1e-9) and dict(law.at)[6] == pytest.approx(
        5506.6, 1e-4
    )
    assert "with w = 260 predicts best" in found.verdict
    assert "At sut.guests = 6, which was not tuned: " in found.verdict


def test_the_pick_is_the_knob_s_level_that_is_nearest_by_factors() -> None:
    whole = sweep()
    tuned = [at(n, weight) for n, weight in {1: 256, 2: 1024, 4: 3072, 8: 8192}.items()]
    # 5507 lies between 4096 and 8192, by factors nearer to the former.
    assert over.pick(whole, tuned) == {WEIGHT: 4096}
    assert over.pick(sweep("1,2"), tuned[:2]) is None


def test_where_the_default_is_kept_there_is_nothing_to_confirm() -> None:
    best = {1: 256, 2: 256, 4: 256, 8: 256}
    assert over.pick(sweep(), [at(n, weight) for n, weight in best.items()]) is None
    found = made(best, confirm=False)
    assert found.verdict.startswith("Keep the default at every level of sut.guests.")
    assert "nothing to confirm" in found.verdict
    assert [one.law for one in found.laws if one.preferred] == ["the default"]


def test_a_factor_without_numbers_has_a_table_and_no_law() -> None:
    file = find("scheduler-weights")
    whole = over.prepare(file, over.asked(file, "sut.scheduler", None, 1))
    tuned = [at(1, 256), at(2, 1024)]
    named = [
        one.model_copy(update={"level": level})
        for one, level in zip(tuned, ("credit", "credit2"), strict=True)
    ]
    found = over.document(whole, named, complete=True)
    assert found.laws == () and "has no law" in found.warnings[0]
    assert found.verdict == "There is no law: see the best setting of each level."


def test_a_damaged_document_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / OVER_FILE).write_text("{")
    with pytest.raises(InputError, match="damaged"):
        over.read(tmp_path)
    assert over.read(tmp_path / "elsewhere") is None
