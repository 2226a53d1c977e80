"""Workloads of a study under the model: what is to be run, and real runs of it, kept and compared."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from pathlib import Path

import pytest

from hypertare.base import paths
from hypertare.base.errors import InputError, MachineError
from hypertare.engine import walks
from hypertare.engine.walks import Need, Stage
from hypertare.machines.image.cache import Cache
from hypertare.machines.image.programs import Choice
from hypertare.study import StudyFile
from hypertare.walk.result import Walked

STUDY = """
name = "s"
question = "?"
machine = "emulated"
[sut]
memory = "256M"
[workloads.fork]
type = "fork"
count = 3
touch = "64K"
[workloads.touch]
type = "touch"
memory = "4M"
count = 20000
[workloads.touch.factors]
"workloads.touch.memory" = ["1M", "4M"]
[workloads.burn]
type = "burn"
[knobs]
thp = "never"
[walk]
processors = ["phenom2"]
shared_cache = ["own", "none"]
"""


class Journal:
    """What was written. As with a run's file, by nobody but the thread that opened it."""

    def __init__(self) -> None:
        self.owner = threading.get_ident()
        self.known: list[Walked] = []
        self.fingerprints: list[str] = []
        self.events: list[str] = []

    def walks(self) -> list[Walked]:
        return self.known

    def add_walk(self, walked: Walked, fingerprint: str) -> None:
        assert threading.get_ident() == self.owner
        self.known.append(walked)
        self.fingerprints.append(fingerprint)

    def add_event(self, text: str) -> None:
        assert threading.get_ident() == self.owner
        self.events.append(text)


def made(text: str = STUDY) -> tuple[StudyFile, list[Need]]:
    file = StudyFile(text, "s.toml")
    return file, walks.needs(file, file.study())


def carry_out(
    folder: Path, needs: list[Need], journal: Journal, *, fresh: bool = False
) -> list[str]:
    reported: list[str] = []
    settings = StudyFile(STUDY, "s.toml").study().walk
    assert settings is not None
    Stage(
        settings,
        settings.descriptions(folder),
        Choice(),
        journal,
        reported.append,
        jobs=2,
        fresh=fresh,
        cache=Cache(folder / "cache"),
    ).carry_out(needs)
    return reported


def test_each_workload_with_an_elapsed_time_at_each_level_of_its_own() -> None:
    _, needs = made()
    assert [need.name for need in needs] == ["fork", "touch 1M", "touch 4M"]
    assert needs[0].argv == (
        "hypertare-agent",
        "fork",
        "--count",
        "3",
        "--touch",
        "65536",
        "--quiet",
    )
    assert needs[2].argv[2:4] == ("--memory", "4194304") and needs[2].argv[-2:] == ("4K", "--quiet")


def test_a_command_of_the_image_runs_there_and_the_agent_does_not() -> None:
    commands = (
        '[workloads.a]\ntype = "command"\ncommand = "make"\n'
        '[workloads.b]\ntype = "command"\ncommand = ["hypertare-agent", "burn", "--time", "1"]\n'
    )
    text = STUDY.replace("[walk]", f'{commands}[walk]\nworkloads = ["a", "b"]')
    _, (a, b) = made(text.replace('memory = "256M"', 'memory = "512M"\nprograms = ["build"]'))
    assert a.in_image and a.argv == ("/bin/sh", "-c", "make")
    assert not b.in_image


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("count = 20000", 'duration = "1s"', "as much as fits into a time"),
        ("[walk]", '[walk]\nworkloads = ["bren"]', "there is no workload 'bren'"),
        ("[walk]", '[walk]\nworkloads = ["burn"]', "'burn' has no elapsed time"),
        ('machine = "emulated"', 'machine = "emulated"\nclock = "wall"', "is for virtual time"),
        ('["own", "none"]', '["own", "own"]', "stands twice"),
        (
            "[sut]",
            '[sut]\nplatforms = ["native", "guest"]\npages = "4K"',
            "needs to know sut.paging",
        ),
        ('processors = ["phenom2"]', "processors = []", "at least 1"),
        ('thp = "never"', "", r'pages of \'fork\'.*Set knobs.thp = "never"'),
    ],
)
def test_what_cannot_be_is_said(old: str, new: str, said: str) -> None:
    assert old in STUDY
    with pytest.raises(InputError, match=said):
        made(STUDY.replace(old, new))


@pytest.mark.runs
def test_walks_are_run_kept_and_repeat(tmp_path: Path) -> None:
    _, needs = made()
    first = Journal()
    assert len(carry_out(tmp_path, needs, first)) == 3
    fork = first.known[0].result
    # The agent, and each child before and after exec.
    assert (fork.programs, fork.threads, fork.lost) == (1 + 2 * 3, 1, [])
    own, none = (
        {(c.counts.paging, c.counts.guest_pages, c.counts.host_pages): c for c in p.layouts}
        for p in first.known[2].result.processors
    )
    # 4 MB are 1024 pages: more than TLBs hold, and random.
    native, nested = own["native", "4K", None], own["nested", "4K", "4K"]
    assert native.counts.walks > 1000
    assert nested.cycles > own["nested", "4K", "2M"].cycles > native.cycles
    assert own["shadow", "4K", "4K"].cycles == native.cycles
    assert none["nested", "4K", "4K"].cycles >= nested.cycles

    # Again: what is known is taken; asked for afresh, it is the same.
    again, fresh = Journal(), Journal()
    assert carry_out(tmp_path, needs, again) == []
    assert len(carry_out(tmp_path, needs, fresh, fresh=True)) == 3
    assert again.known == first.known and again.fingerprints == first.fingerprints
    assert fresh.known == first.known and fresh.events == []

    # A run that goes on asks for what it has not.
    assert carry_out(tmp_path, needs, first, fresh=True) == []


@pytest.mark.runs
def test_it_is_the_same_wherever_hypertare_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, needs = made()
    found = []
    for place in ("a", "b" * 23, "c" * 100):
        program = tmp_path / place / "its-agent"
        program.parent.mkdir()
        shutil.copy(paths.agent_binary(), program)
        monkeypatch.setenv("HYPERTARE_AGENT", str(program))
        monkeypatch.setattr(tempfile, "tempdir", str(program.parent))
        journal = Journal()
        assert len(carry_out(tmp_path / place, needs, journal)) == 3
        found.append([(one.cell, walks._counts(one.result)) for one in journal.known])
    assert found[0] == found[1] == found[2]


@pytest.mark.runs
def test_a_place_for_the_agent_that_will_not_do_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, needs = made()
    long = tmp_path / ("a" * 200)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with pytest.raises(MachineError, match=r"path of .* is too long"):
        carry_out(tmp_path, needs[:1], Journal())
    assert not list(long.iterdir())


@pytest.mark.runs
def test_a_result_that_does_not_repeat_is_said(tmp_path: Path) -> None:
    _, needs = made()
    carry_out(tmp_path, needs[:1], Journal())
    (kept,) = (tmp_path / "cache" / "walks").glob("*/walk.json")
    # As if another run had found something else.
    text = json.loads(kept.read_text())
    text["processors"][0]["layouts"][0]["counts"]["cycles"] += 1
    kept.write_text(json.dumps(text))
    entry = kept.with_name("entry.json")
    meta = json.loads(entry.read_text())
    import hashlib

    meta["digests"]["walk.json"] = hashlib.sha256(kept.read_bytes()).hexdigest()
    entry.write_text(json.dumps(meta))
    journal = Journal()
    carry_out(tmp_path, needs[:1], journal, fresh=True)
    assert "did not repeat" in journal.events[0]
    first = journal.known[0].result.processors[0].layouts[0].counts.cycles
    assert first == text["processors"][0]["layouts"][0]["counts"]["cycles"]


@pytest.mark.runs
def test_a_workload_that_fails_is_a_sentence(tmp_path: Path) -> None:
    need = Need({"workload": "fork"}, (paths.AGENT, "fork", "--count", "0"))
    with pytest.raises(MachineError, match=r"fork cannot be modelled: .*status 1.*count is 0"):
        carry_out(tmp_path, [need], Journal())


@pytest.mark.runs
def test_what_another_build_said_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, needs = made()
    journals = [Journal()]
    assert len(carry_out(tmp_path, needs[:1], journals[0])) == 1
    for variable, build in [
        ("HYPERTARE_WALK_PLUGIN", paths.walk_plugin()),
        ("HYPERTARE_AGENT", paths.agent_binary()),
    ]:
        other = tmp_path / build.name
        shutil.copy(build, other)
        with other.open("ab") as file:
            file.write(b"\0")
        monkeypatch.setenv(variable, str(other))
        journals.append(Journal())
        assert len(carry_out(tmp_path, needs[:1], journals[-1])) == 1
    assert len({journal.fingerprints[0] for journal in journals}) == 3
    # It is the same all the same.
    assert len({str(walks._counts(journal.known[0].result)) for journal in journals}) == 1
