"""What a user names for results and inputs is looked at before any work."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hypertare.base.errors import MachineError
from hypertare.cli.options import write_result
from tests import commands, factory

STUDY = """
name = "small"
question = "Does it work?"
[sut]
platforms = ["native", "container"]
[workloads.work]
type = "burn"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return factory.write(tmp_path_factory.mktemp("run"), factory.Script(2))


def hypertare(folder: Path, *words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return commands.run(*words, folder=folder, env=env)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("run", "first-look", "--out", ""), "--out"),
        (("run", ""), "STUDY"),
        (("report", ""), "RUN"),
        (("compare", "x", ""), "RUN_B"),
        (("weigh", "--kernel", "", "--", "true"), "--kernel"),
        (("weigh", "--on=", "--", "true"), "--on"),
        (("weigh", "--paging", "", "--", "true"), "--paging"),
        (("image", "build", "--kernel", ""), "--kernel"),
        (("image", "programs", "--work", ""), "--work"),
        (("studies", "show", ""), "NAME"),
        (("walk", "--cache-share", "", "--", "true"), "--cache-share"),
    ],
)
def test_what_is_empty_is_refused_by_its_name(
    tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    done = hypertare(tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"hypertare: {name} is empty.")
    assert list(tmp_path.iterdir()) == []


def test_a_command_may_have_an_empty_word(tmp_path: Path) -> None:
    done = hypertare(tmp_path, "weigh", "--on", "native", "--dry-run", "--", "printf", "")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("option", ["--json", "--html"])
@pytest.mark.parametrize("verb", ["weigh", "walk", "report"])
def test_a_file_in_no_folder_is_refused_before_the_work(
    run: Path, tmp_path: Path, verb: str, option: str
) -> None:
    if (verb, option) in (("walk", "--html"), ("report", "--json")):
        return
    target = tmp_path / "none" / "file"
    what = (run,) if verb == "report" else ("--", "touch", tmp_path / "ran")
    done = hypertare(tmp_path, verb, option, target, *what)
    assert done.returncode == 2
    assert f"{target}: the folder {target.parent} is not there." in done.stderr
    assert done.stdout == "" and list(tmp_path.iterdir()) == []


def test_only_one_result_goes_to_the_standard_output(run: Path, tmp_path: Path) -> None:
    done = hypertare(tmp_path, "weigh", "--json", "-", "--html", "-", "--", "true")
    assert done.returncode == 2
    assert "--json and --html are both -" in done.stderr
    done = hypertare(tmp_path, "report", run, "--html", "-", "--format", "csv")
    assert done.returncode == 2
    assert "--html - and --format csv both go to the standard output" in done.stderr


def test_a_page_to_the_standard_output_is_all_that_stands_there(run: Path, tmp_path: Path) -> None:
    done = hypertare(tmp_path, "report", run, "--html", "-")
    assert done.returncode == 0
    assert done.stdout.startswith("<!doctype html>") and done.stdout.rstrip().endswith("</html>")
    assert list(tmp_path.iterdir()) == []


def test_a_result_whose_file_cannot_be_written_after_all_is_not_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(MachineError) as caught:
        write_result('{"a": 1}', tmp_path / "gone" / "file")
    assert "cannot be written: No such file or directory" in str(caught.value)
    assert "stands on the standard output" in str(caught.value)
    assert json.loads(capsys.readouterr().out) == {"a": 1}
    write_result('{"a": 2}', tmp_path / "file")
    assert json.loads((tmp_path / "file").read_text()) == {"a": 2}


def test_a_dry_run_of_weigh_is_json_where_that_is_asked_for(tmp_path: Path) -> None:
    done = hypertare(tmp_path, "weigh", "--on", "native", "--dry-run", "--json", "-", "--", "true")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["study"] == "weigh"


def test_the_short_form_of_weigh_leaves_what_was_asked_for(tmp_path: Path) -> None:
    words = ("weigh", "--quick", "--on", "native", "--dry-run", "--json", "-")
    quick = json.loads(hypertare(tmp_path, *words, "--", "true").stdout)
    shorter = json.loads(hypertare(tmp_path, *words, "--time-limit", "20s", "--", "true").stdout)
    assert quick["expected_s"]["most"] == 30
    assert shorter["expected_s"]["most"] == 20


def test_a_dry_run_looks_at_the_run_directory(run: Path, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(STUDY)
    done = hypertare(tmp_path, "run", "s.toml", "--dry-run", "--out", run)
    assert done.returncode == 2
    assert "holds a run already" in done.stderr
    (tmp_path / "file").write_text("")
    done = hypertare(tmp_path, "run", "s.toml", "--dry-run", "--out", "file/run")
    assert done.returncode == 3
    assert "is no directory" in done.stderr


def test_a_dry_run_looks_for_the_kernel(tmp_path: Path) -> None:
    text = STUDY.replace('"container"]', '"guest"]\nkernel = "void"')
    (tmp_path / "s.toml").write_text(text)
    done = hypertare(tmp_path, "run", "s.toml", "--dry-run")
    assert done.returncode == 2
    assert "There is no kernel void." in done.stderr


@pytest.mark.parametrize("verb", ["run", "tune"])
def test_a_run_is_no_study(run: Path, tmp_path: Path, verb: str) -> None:
    done = hypertare(tmp_path, verb, run)
    assert done.returncode == 2
    assert f"{run} is a run, and no study." in done.stderr
    assert f"`hypertare report {run}`" in done.stderr and "--resume" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--on", "foo"),
            "--on: 'foo' is not allowed here.\n  Allowed: native, container, guest, given.",
        ),
        (("--on", "xen"), "--on: 'xen' is not allowed here."),
        (("--precision", "0"), "--precision: it must lie within 0.0001% to 100%"),
        (("--memory", "1M"), "--memory: it must lie within 16M to 64T (given: 1M)"),
        (("--paging", "nested,nested"), "a level stands twice in --paging: 'nested'."),
    ],
)
def test_weigh_speaks_of_its_options(tmp_path: Path, words: tuple[str, str], said: str) -> None:
    done = hypertare(tmp_path, "weigh", *words, "--", "true")
    assert done.returncode == 2
    assert done.stderr.startswith(f"hypertare: {said}")
