"""A tuning that starts from the cells of an earlier run: which of them count, and what they are for."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from hypertare.base.errors import InputError
from hypertare.base.variables import Level
from hypertare.machines import environment
from hypertare.platforms.commands import System
from hypertare.platforms.registry import find
from hypertare.runs.store import Store
from hypertare.study import StudyFile
from hypertare.study.tune import PHASE
from hypertare.tune import known, session
from hypertare.tune.findings import steps
from hypertare.tune.space import Knob, Setting
from hypertare.tune.tuner import Known
from tests import factory
from tests.made_trials import trial
from tests.tune.made_up import MadeUp, tune

STUDY = """
name = "parameters"
question = "Which parameters are good?"

[sut]
platforms = ["native", "guest"]
memory = "192M"

[bench]
mtu = 9000

[workloads.tcp]
type = "stream"
message = "8K"
nodelay = false

[factors]
"knobs.mtu" = [500, 1500, 9000]
"workloads.tcp.socket_buffer" = ["8K", "64K"]
"workloads.tcp.message" = ["1K", 8192, "64K"]

[tune]
goal = "balance"
platform = "guest"

[tune.knobs]
"knobs.mtu" = [500, 1500, 9000]
"workloads.tcp.socket_buffer" = ["8K", "64K", "256K"]
"workloads.tcp.message" = ["1K", "8K", "64K"]
"knobs.offloads.tso" = [false]
"knobs.offloads.gso" = [false]
"knobs.offloads.gro" = [false]
"""
MTU, BUFFER, MESSAGE = "knobs.mtu", "workloads.tcp.socket_buffer", "workloads.tcp.message"
OF_MTU = {500: 1.0, 1500: 1.9, 9000: 2.5}
OF_BUFFER = {"8K": 1.0, "64K": 1.3}
OF_MESSAGE = {"1K": 0.5, 8192: 1.0, "64K": 1.1}


def run_of(folder: Path, text: str = STUDY, **changes: object) -> Path:
    """A run of the study, whose truth is known, with two trials a cell."""
    file = StudyFile(text, "parameters.toml")
    meta = factory.meta(factory.Script()).model_copy(
        update={
            "study_text": text,
            "settings": file.raw,
            "platforms": ("native", "guest"),
            "machine": environment.machine_state(),
            **changes,
        }
    )
    levels = (OF_MTU, OF_BUFFER, OF_MESSAGE)
    with Store.create(folder, meta) as store:
        for block, (mtu, buffer, message) in enumerate([*product(*levels)] * 2):
            cell: dict[str, Level] = {"workload": "tcp", MTU: mtu, BUFFER: buffer, MESSAGE: message}
            for platform, scale in (("native", 2e9), ("guest", 1e9)):
                speed = OF_MTU[mtu] * OF_BUFFER[buffer] * OF_MESSAGE[message]
                values = {"goodput": scale * speed, "cpu_per_gigabyte": 4 / speed}
                made = trial(platform, block, values, cell)
                store.append(replace(made, planned=replace(made.planned, id=store.next_trial_id)))
    return folder


def prepared(run: Path, text: str = STUDY, *overrides: str) -> session.Prepared:
    file = StudyFile(text, "parameters.toml")
    file.override([f'tune.known="{run}"', *overrides], quick=False)
    return session.prepare(file, 1)


def test_cells_become_settings_in_the_tuning_s_words(tmp_path: Path) -> None:
    found = prepared(run_of(tmp_path / "run")).known
    assert found is not None and not found.before.left_out
    assert len(found.settings) == 3 * 2 * 3 and found.before.trials == 2 * 18
    best = max(found.settings, key=lambda one: one.logs["goodput"])
    assert best.setting == {
        MTU: 9000,
        BUFFER: "64K",
        MESSAGE: "64K",
        "knobs.offloads.tso": "default",
        "knobs.offloads.gso": "default",
        "knobs.offloads.gro": "default",
    }
    assert best.logs["goodput"] == pytest.approx(math.log(1e9 * 2.5 * 1.3 * 1.1))
    # 8192 is written as 8K among the tuning's levels.
    assert {one.setting[MESSAGE] for one in found.settings} == {"1K", "8K", "64K"}


def test_what_has_no_place_in_the_tuning_is_left_out_visibly(tmp_path: Path) -> None:
    head, tuned = STUDY.split("[tune.knobs]")
    text = f"{head}[tune.knobs]{tuned.replace('[500, 1500, 9000]', '[1500, 9000]')}"
    found = prepared(run_of(tmp_path / "run"), text).known
    assert found is not None and len(found.settings) == 12
    assert found.before.left_out == ("6 of its cells: mtu 500 is none of the tuning's levels",)


def test_factors_that_are_not_tuned_have_to_be_as_here(tmp_path: Path) -> None:
    text = STUDY.replace('"workloads.tcp.message" = ["1K", "8K", "64K"]\n', "")
    found = prepared(run_of(tmp_path / "run"), text).known
    assert found is not None and len(found.settings) == 6
    assert set(found.before.left_out) == {
        "6 of its cells: message 1024, here 8192",
        "6 of its cells: message 65536, here 8192",
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"clock": "virtual"}, "has the clock 'virtual', and this tuning 'wall'"),
        ({"platforms": ("native",)}, "has no platform 'guest', which is tuned; it has: native"),
        ({"responses": {}}, "has no workload 'tcp'"),
    ],
)
def test_a_run_of_something_else_is_refused(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    run = run_of(tmp_path / "run", **changes)
    with pytest.raises(InputError, match=said):
        prepared(run)


def test_a_run_under_other_settings_is_refused_with_them(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", STUDY.replace("192M", "256M"))
    said = "other settings: sut.memory was 268435456, here 201326592"
    with pytest.raises(InputError, match=said) as caught:
        prepared(run)
    assert caught.value.status == 2
    with pytest.raises(InputError, match=r"workloads.tcp.nodelay was True, here False"):
        prepared(run_of(tmp_path / "other", STUDY.replace("nodelay = false", "")))


def test_a_run_without_the_goal_s_response_is_refused(tmp_path: Path) -> None:
    meta = factory.meta(factory.Script())
    only = {"tcp": tuple(one for one in meta.responses["tcp"] if one.name == "goodput")}
    run = run_of(tmp_path / "run", responses=only)
    with pytest.raises(InputError, match="has no response 'cpu_per_gigabyte'"):
        prepared(run)
    assert prepared(run, STUDY, "tune.goal=goodput").known is not None


def test_no_run_and_a_tuning_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no run at"):
        prepared(tmp_path / "nothing")
    run = run_of(tmp_path / "run")
    with Store.resume(run) as store:
        cell: dict[str, Level] = {"workload": "tcp", PHASE: "search"}
        made = trial("guest", 99, {"goodput": 1.0}, cell)
        store.append(replace(made, planned=replace(made.planned, id=store.next_trial_id)))
    with pytest.raises(InputError, match="is a tuning, and no run of a study"):
        prepared(run)


def test_another_machine_is_refused(tmp_path: Path) -> None:
    found = prepared(run_of(tmp_path / "run")).known
    assert found is not None
    here = environment.machine_state()
    known.check_machine(found, here, "kvm")
    # A name is no machine, and its memory no part of what a setting does.
    known.check_machine(found, here.model_copy(update={"hostname": "other"}), None)
    with pytest.raises(InputError, match=r"on another machine: cpu .*, here Another"):
        known.check_machine(found, here.model_copy(update={"cpu": "Another"}), "kvm")
    with pytest.raises(InputError, match="accelerator kvm, here tcg"):
        known.check_machine(found, here, "tcg")


def test_every_network_parameter_has_commands_to_apply_and_undo(tmp_path: Path) -> None:
    space = prepared(run_of(tmp_path / "run")).space
    setting = {knob.path: knob.levels[-1] for knob in space.knobs}
    made = {one.knob: one for one in steps(setting, space.default, System(find("guest")))}
    assert {MTU, BUFFER, "knobs.offloads.tso", "knobs.offloads.gso"} < made.keys()
    for path, one in made.items():
        # What a program itself does has no command.
        assert one.note if path == MESSAGE else one.apply and one.undo, path


# --- what a search makes of it

KNOBS = tuple(Knob(f"workloads.t.{name}", 0, tuple(range(6))) for name in "abcd")
BEST = {"workloads.t.a": 3, "workloads.t.b": 1, "workloads.t.c": 4, "workloads.t.d": 2}


def hidden(setting: Setting) -> tuple[float, float]:
    """One corner of 1,296 is good, and the way there is flat."""
    gain = 0.5 if all(setting.get(path, 0) == level for path, level in BEST.items()) else 0.0
    return gain, 0.0


def of_all(truth: dict[str, Level] = BEST, offset: float = 0.0) -> tuple[Known, ...]:
    paths = [knob.path for knob in KNOBS]
    settings = [dict(zip(paths, levels, strict=True)) for levels in product(range(6), repeat=4)]
    return tuple(
        Known(one, {"goodput": offset + (0.5 if one == truth else 0.0), "cpu_per_gigabyte": 0.0}, 4)
        for one in settings
    )


@pytest.mark.parametrize("goal", ["goodput", "balance"])
def test_the_best_of_an_earlier_run_is_tried_and_confirmed(goal: str) -> None:
    without = tune(MadeUp(hidden), KNOBS, goal, 60)
    assert without.recommended is None
    outcome = tune(MadeUp(hidden), KNOBS, goal, 60, known=of_all(offset=20.0))
    assert outcome.recommended == BEST
    assert outcome.confirmed is not None and len(outcome.confirmed.duels) >= 5


def test_an_earlier_run_that_was_wrong_is_not_believed() -> None:
    """What it promises is measured here, and does not hold."""
    outcome = tune(MadeUp(hidden), KNOBS, "goodput", 60, known=of_all({**BEST, "workloads.t.a": 5}))
    assert outcome.recommended is None


def test_no_figure_of_an_earlier_run_is_among_this_one_s() -> None:
    lab = MadeUp(hidden)
    outcome = tune(lab, KNOBS, "goodput", 60, known=of_all())
    assert len(outcome.looks) < lab.trials and len(outcome.seen) < lab.trials
    assert outcome.promised is not None and outcome.promised == pytest.approx(0.5, abs=0.1)


def test_levels_that_are_refused_here_are_not_learnt() -> None:
    def refuse(setting: Setting) -> str | None:
        return "no such thing" if setting.get("workloads.t.a") == BEST["workloads.t.a"] else None

    outcome = tune(MadeUp(hidden, refuse=refuse), KNOBS, "goodput", 60, known=of_all())
    assert outcome.recommended is None and outcome.seen != []
