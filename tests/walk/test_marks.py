"""Programs that say which part of them is to count, walked for real."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from hypertare.base import paths
from hypertare.cli.walk import show
from hypertare.walk import processors, run
from hypertare.walk.processors import Options
from hypertare.walk.result import Counts, WalkSummary

pytestmark = pytest.mark.runs


def walked(*argv: str) -> WalkSummary:
    done = run.walk(list(argv), processors.chosen(["phenom2"]), Options(1, 0.25), lambda *_: None)
    assert (done.status, done.lost) == (0, [])
    return done


def native(found: WalkSummary) -> Counts:
    """In pages of 4 KB."""
    return found.processors[0].layouts[0].counts


def nested(found: WalkSummary) -> Counts:
    return found.processors[0].layouts[5].counts


def touched(count: int) -> WalkSummary:
    """16 MB are 4096 pages; the processor's TLBs hold 48 and 512."""
    settings = ("--memory", "16M", "--pages", "4K", "--count", str(count), "--quiet")
    return walked(str(paths.agent_binary()), "touch", *settings)


def forked(count: int) -> WalkSummary:
    settings = ("--count", str(count), "--touch", "256K", "--quiet")
    return walked(str(paths.agent_binary()), "fork", *settings)


def test_of_touch_the_reads_count_and_not_the_filling() -> None:
    one, some, twice = touched(1), touched(20_000), touched(40_000)
    assert [found.marked for found in (one, some, twice)] == [1, 1, 1]
    # Filling 4096 pages would walk to each of them.
    assert native(one).walks < 100
    # 512 of 4096 pages are held: of eight reads at random seven walk.
    assert native(some).walks == pytest.approx(20_000 * 7 / 8, rel=0.02)
    for counts in (native, nested):
        assert counts(twice).cycles == pytest.approx(2 * counts(some).cycles, rel=0.02)
    assert some.accesses - one.accesses == pytest.approx(19_999, rel=0.01)
    assert twice.accesses - some.accesses == pytest.approx(20_000, rel=0.01)
    # A read is an instruction with little around it, however the agent was compiled.
    assert 20_000 < twice.instructions - some.instructions < 1.5 * 20_000


def test_of_fork_the_forks_count_with_all_that_they_start() -> None:
    one, some, twice = forked(1), forked(10), forked(20)
    # The parent; a child before and after exec.
    assert [found.programs for found in (one, some, twice)] == [3, 21, 41]
    # The parent, and the child until exec: it was forked within the parent's part.
    assert [found.marked for found in (one, some, twice)] == [2, 11, 21]
    # Each writes to 64 pages.
    assert native(one).walks > 64
    for counts in (native, nested):
        # A first one also walks to what the others find in the TLB: how much, the agent's layout decides.
        assert counts(some).walks == pytest.approx(10 * counts(one).walks, rel=0.1)
        assert counts(some).cycles == pytest.approx(10 * counts(one).cycles, rel=0.05)
        assert counts(twice).cycles == pytest.approx(2 * counts(some).cycles, rel=0.02)


ACTIONS = r"""
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
enum { PAGES = 4096, MARK = 0x6874776d, BEGIN = 1, END = 2 };
static volatile char *memory;
static void *work(void *none) {
    for (int page = 0; page < PAGES; page++)
        memory[page * 4096L];
    return none;
}
static int refused(int which) { return prctl(MARK, which, 0, 0, 0) == -1 && errno == EINVAL; }
int main(int count, char **arguments) {
    memory = mmap(0, PAGES * 4096L, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (char *action = arguments[1]; *action; action++) {
        pthread_t thread;
        switch (*action) {
        case 'b': if (!refused(BEGIN)) return 1; break;
        case 'e': if (!refused(END)) return 1; break;
        case 'w': work(0); break;
        case 't':
            if (pthread_create(&thread, 0, work, 0) || pthread_join(thread, 0)) return 1;
            break;
        case 'f':
            if (fork() == 0) { work(0); _exit(0); }
            wait(0);
            break;
        case 'F':
            if (fork() == 0) { refused(BEGIN); work(0); refused(END); work(0); _exit(0); }
            wait(0);
            break;
        case 'x':
            execl("/no/such/program", "none", (char *)0);
            execl(arguments[0], arguments[0], action + 1, (char *)0);
            return 1;
        }
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("marks")
    source, program = folder / "actions.c", folder / "actions"
    source.write_text(ACTIONS)
    subprocess.run(["gcc", "-O1", "-static", "-pthread", "-o", program, source], check=True)
    return str(program)


def test_without_the_model_the_kernel_refuses_marks_and_no_harm_is_done(program: str) -> None:
    assert subprocess.run([program, "bwebe"]).returncode == 0


@pytest.mark.parametrize(
    ("actions", "counted", "marked"),
    [
        ("ww", 2, 0),
        ("wwbwe", 1, 1),
        ("bwewwbwew", 2, 1),
        # A part begun twice, ended twice, without end; an end alone.
        ("wbwbwew", 2, 1),
        ("wbwewew", 1, 1),
        ("wbww", 2, 1),
        ("wew", 2, 0),
        # A part is of all threads.
        ("wtbtwetw", 2, 1),
        # Of a child all, if its parent was within a part or made no marks before; else nothing.
        ("wbfe", 1, 2),
        ("wf", 2, 0),
        ("bwef", 1, 2),
        # But for the parts that it marks itself.
        ("bweF", 2, 2),
        # What is executed counts for itself: all of it, or its own parts.
        ("wbwxw", 2, 1),
        ("wxwbwe", 2, 1),
        ("bwewxbwewbwe", 3, 2),
    ],
)
def test_what_counts(program: str, actions: str, counted: int, marked: int) -> None:
    found = walked(program, actions)
    assert native(found).walks == pytest.approx(counted * 4096, abs=300)
    assert found.accesses == pytest.approx(counted * 4096, abs=20_000)
    assert found.marked == marked


def test_the_summary_says_that_parts_alone_count(program: str) -> None:
    said = []
    for actions in ("w", "bwe"):
        console = Console(width=110)
        with console.capture() as capture:
            show(walked(program, actions), console)
        said.append("between their marks" in capture.get())
    assert said == [False, True]
