"""The first fifteen minutes, as somebody spends them who has never seen the product.

Typed into a terminal of 80 columns and 24 lines, in a small C project, in the order in which questions
come up. What is asserted is what is seen: the answer where the eye is, in words, and what to do next.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.lab import Lab, Traces
from tests.integration.terminal import LINES, Seen, see

pytestmark = [pytest.mark.runs, pytest.mark.timeout(900)]

ON = ("--on", "native,container")
FEW = ("--quick", "--max-trials", "4")
PROGRAM = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'
MAKEFILE = "prog: prog.c\n\t$(CC) -O2 -o prog prog.c\nclean:\n\trm -f prog\n"
BUSY = 10
"""Lines more, at most, in which a busy machine is named, and what was not known precisely enough."""

SHORT_MS = 5.0
"""Below, a run is mostly the start of a program."""

VERDICT = re.compile(
    r"costs|gains|loses|saves|no difference|too few trials to say|one block decides nothing"
)
RECIPES = Path(__file__).parents[2] / "docs" / "study-files.md"


@pytest.fixture(scope="module")
def newcomer(shared: Lab) -> Iterator[Lab]:
    """A project to weigh. The session leaves nothing on the machine, and nothing else in the project."""
    (shared.work / "prog.c").write_text(PROGRAM)
    (shared.work / "Makefile").write_text(MAKEFILE)
    (shared.work / "data").write_bytes(b"".join(b"%d\n" % n for n in range(100_000)))
    before = Traces.now()
    yield shared
    shared.assert_nothing_left(before)
    asked_for = {"Makefile", "prog.c", "data", "report.html", "hypertare-runs"}
    left = {path.name for path in shared.work.iterdir()}
    assert {name for name in left - asked_for if not name.endswith(".toml")} == set()


@pytest.fixture(scope="module")
def weighed(newcomer: Lab) -> Seen:
    return see(newcomer, "weigh", *ON, *FEW, "--", "make")


@pytest.fixture(scope="module")
def two(newcomer: Lab) -> Seen:
    # On a busy machine four rounds may not show it.
    rounds = ("--quick", "--max-trials", "16")
    return see(newcomer, "weigh", *ON, *rounds, "gzip -9 -kc data", "gzip -1 -kc data")


def test_what_is_it(newcomer: Lab) -> None:
    seen = see(newcomer)
    assert "weigh" in seen.text and "doctor" in seen.text
    assert see(newcomer, "--version").screen[0].startswith("hypertare ")


def test_what_can_this_machine_do(newcomer: Lab) -> None:
    """The first line is the answer."""
    seen = see(newcomer, "doctor")
    assert seen.status in (0, 1)
    assert seen.lines[0].startswith("This machine can weigh native, container"), seen.lines[0]


def test_what_does_it_cost_my_build(weighed: Seen) -> None:
    """The answer is where the eye is, on the last screen. Only a busy machine has more to say than fits."""
    assert weighed.status == 0, weighed.text
    assert len(weighed.lines) <= LINES + BUSY, weighed.text
    answer = next(line for line in weighed.screen if VERDICT.search(line))
    assert "container" in answer
    assert any(line.startswith("  native") for line in weighed.lines)


def test_what_would_it_do_first(newcomer: Lab) -> None:
    seen = see(newcomer, "weigh", "--dry-run", "--", "make")
    assert seen.status == 0 and "guest" in seen.text
    assert re.search(r"\d+ (s|min)", seen.text), "how long"


def test_weighing_nothing_is_reported_and_how_to_weigh_something(newcomer: Lab) -> None:
    """A project that is built: the commonest state."""
    subprocess.run(["make", "-s"], cwd=newcomer.work, check=True)
    try:
        idle = see(newcomer, "weigh", *ON, *FEW, "--", "make")
        took = re.search(r"native +([\d.]+) ms", idle.text)
        assert took is not None, idle.text
        # On a busy machine even nothing takes longer.
        if float(took[1]) < SHORT_MS:
            assert "is up to date" in idle.words and "--prepare 'make clean'" in idle.words
        assert "is up to date" in see(newcomer, "report", "last", "--all").words
        busy = see(newcomer, "weigh", *ON, *FEW, "--prepare", "make clean", "--", "make")
        assert busy.status == 0 and "is there work to do?" not in busy.words
    finally:
        (newcomer.work / "prog").unlink()


def test_which_of_two_commands_is_faster(two: Seen) -> None:
    assert two.status == 0, two.text
    # Two verdicts for each of two commands: the screen is full before the answer is said again.
    assert len(two.lines) <= LINES + 2 * BUSY, two.text
    title = next(place for place, line in enumerate(two.lines) if line.startswith("gzip -1"))
    rows = two.lines[title + 1 : title + 4]
    changes = [re.search(r"^  (native|container) +▼ −[\d.]+ %", row) for row in rows]
    assert any(changes), two.text
    assert "gzip -1 -kc data is the fastest natively" in two.words or (
        "gzip -1 -kc data leads natively, not shown to be the fastest" in two.words
    )


def test_where_is_my_result(newcomer: Lab, weighed: Seen, two: Seen) -> None:
    listed = see(newcomer, "runs")
    assert listed.text.count("weigh-") >= 2
    again = see(newcomer, "report", "last")
    answer = next(line for line in two.lines if VERDICT.search(line) or "elapsed" in line)
    assert answer in again.lines
    page = newcomer.work / "report.html"
    assert see(newcomer, "report", "last", "--html", page).status == 0
    assert page.read_text().lower().startswith("<!doctype html>")


def test_what_changed_is_asked_of_like_runs_only(newcomer: Lab, weighed: Seen, two: Seen) -> None:
    """`make` against `gzip` is no change."""
    names = re.findall(r"weigh-[\d-]+", see(newcomer, "runs").text)
    unlike = see(newcomer, "compare", names[0], names[-1])
    assert unlike.status == 2 and "--force" in unlike.words
    alike = see(newcomer, "compare", names[0], names[0])
    assert alike.status == 0 and "no difference" in alike.words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("weight", "--", "make"), "Did you mean 'weigh'?"),
        (("weigh", "make", "clean"), "hypertare weigh -- make clean"),
        (("weigh", "--on", "native,gest", "--", "make"), "Did you mean 'guest'?"),
        (("weigh", "--memory", "64M", "--", "make"), "80 MiB"),
        (("weigh", "--precision", "5", "--", "make"), "5%"),
        (("weigh", "--", "mkae"), "there is no program 'mkae'"),
        (("report", "lsat"), "hypertare runs"),
        (("run", "frist-look"), "Did you mean 'first-look'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_slip_costs_nothing_and_says_what_was_meant(
    newcomer: Lab, words: tuple[str, ...], said: str
) -> None:
    seen = see(newcomer, *words)
    assert seen.status == 2 and said in seen.words, seen.text
    assert len(seen.lines) <= LINES // 2, seen.text


def test_what_fails_is_reported_once_in_its_own_words(newcomer: Lab) -> None:
    script = "echo first >&2; echo oops >&2; exit 3"
    seen = see(newcomer, "weigh", *ON, *FEW, "--", "bash", "-c", script)
    assert seen.status != 0
    assert "`bash` ends with exit status 3 natively already" in seen.words
    assert len(re.findall(r"oops(?! >&2)", seen.words)) == 1, seen.text


def test_the_recipes_of_the_docs_are_studies(newcomer: Lab) -> None:
    recipes = re.findall(r"```toml\n(name = .*?)```", RECIPES.read_text(), re.DOTALL)
    assert len(recipes) >= 4
    for recipe in recipes:
        seen = see(newcomer, "run", newcomer.study(recipe, "mine.toml"), "--dry-run")
        assert seen.status == 0, f"{recipe}\n{seen.text}"


def test_a_study_of_ones_own_answers_its_question(newcomer: Lab) -> None:
    recipe = next(
        found
        for found in re.findall(r"```toml\n(name = .*?)```", RECIPES.read_text(), re.DOTALL)
        if "large-packets" in found
    )
    short = ("sut.platforms=native", "workloads.receive.duration=300ms", "design.max_trials=5")
    study = newcomer.study(recipe, "mine.toml")
    seen = see(newcomer, "run", study, *(word for one in short for word in ("--set", one)))
    assert seen.status == 0, seen.text
    answer = next(line for line in seen.lines if "9000" in line)
    assert VERDICT.search(seen.words) or "%" in answer, seen.text


@pytest.mark.guest
def test_what_does_a_guest_cost_my_build(newcomer: Lab) -> None:
    seen = see(newcomer, "weigh", "--quick", "--", "make")
    if "The time limit went for boot and warm-ups" in seen.words:
        # A busy machine has booted no guest by then; what it says helps.
        seen = see(newcomer, "weigh", "--quick", "--time-limit", "3m", "--", "make")
    assert seen.status == 0, seen.text
    assert len(seen.lines) <= LINES + BUSY, seen.text
    # On a busy machine half a minute may be gone after a block or two, and then it says so.
    few = re.search(r"guest( \(tcg\))?: (one block decides nothing|too few trials)", seen.words)
    late = few and "(ended early" in seen.words
    assert late or any(line.startswith("▲ guest (") for line in seen.screen), seen.text
    assert "container" in seen.text
