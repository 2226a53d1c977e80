"""A guest's clock: right however its VMM was kept from the CPU while its kernel counted, and not believed
where it is wrong.

`HYPERTARE_STOPPED_BOOTS=20` boots so many; by default it is a few.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pytest

from tests.integration.lab import GUEST, Lab, until

pytestmark = pytest.mark.guest

BOOTS = int(os.environ.get("HYPERTARE_STOPPED_BOOTS", "3"))
SLEEP_S = 0.25
WEIGH = ("weigh", "--on", "native,guest", "--min-trials", "2", "--max-trials", "2")


def elapsed(run: Path) -> list[tuple[str, str, str | None, float | None, float]]:
    """Of each trial: platform, status, error, elapsed time by its node, and by this host."""
    with sqlite3.connect(run / "run.sqlite") as db:
        return db.execute(
            "SELECT platform, status, error, value, elapsed_s FROM trial "
            "LEFT JOIN value ON trial.id = value.trial AND response = 'elapsed'"
        ).fetchall()


def stop_while_it_boots(lab: Lab, chance: random.Random) -> None:
    """Stops QEMU some times within the second in which its guest's kernel counts."""
    qemu = until(lambda: lab.find(GUEST), "no QEMU began")
    for _ in range(3):
        time.sleep(chance.uniform(0.05, 0.5))
        with suppress(ProcessLookupError):
            os.kill(qemu, SIGSTOP)
            time.sleep(chance.uniform(0.1, 0.6))
            os.kill(qemu, SIGCONT)


@pytest.mark.parametrize("number", range(BOOTS))
def test_a_guest_that_was_stopped_while_its_kernel_counted_has_the_right_clock(
    tmp_path: Path, number: int
) -> None:
    lab = Lab(tmp_path)
    run = tmp_path / "run"
    weighing = lab.start(*WEIGH, "--out", run, "--", "sleep", str(SLEEP_S))
    thread = threading.Thread(target=stop_while_it_boots, args=(lab, random.Random(number)))
    thread.start()
    done = weighing.end()
    thread.join()
    assert done.status == 0, done
    seen = [one for one in elapsed(run) if one[0] == "guest"]
    assert any(status == "ok" for _, status, *_ in seen), seen
    for _, status, error, by_guest, by_host in seen:
        if status == "ok":
            assert by_guest is not None and SLEEP_S <= by_guest <= by_host, seen
        else:
            assert error is not None and "its clock is wrong" in error, seen


def test_a_clock_that_is_wrong_fails_its_trials_and_says_both_figures(tmp_path: Path) -> None:
    """A QEMU that gives its guest half of the TSC's rate: by its clock twice as much time passes."""
    lab = Lab(tmp_path)
    real = shutil.which("qemu-system-x86_64")
    assert real is not None
    wrapper = tmp_path / "bin" / "qemu-system-x86_64"
    wrapper.parent.mkdir()
    wrapper.write_text(
        "#!/bin/bash\n"
        'for word in "$@"; do\n'
        "    if [[ $word =~ (.*tsc_early_khz=)([0-9]+)(.*) ]]; then\n"
        '        word="${BASH_REMATCH[1]}$((BASH_REMATCH[2] / 2))${BASH_REMATCH[3]}"\n'
        "    fi\n"
        '    words+=("$word")\n'
        "done\n"
        f'exec -a qemu-system-x86_64 {real} "${{words[@]}}"\n'
    )
    wrapper.chmod(0o755)
    run = tmp_path / "run"
    path = f"{wrapper.parent}:{os.environ['PATH']}"
    done = lab.run(*WEIGH, "--out", run, "--", "sleep", str(SLEEP_S), PATH=path)
    seen = [one for one in elapsed(run) if one[0] == "guest"]
    assert seen and all(status == "failed" for _, status, *_ in seen), (seen, done)
    reason = str(seen[0][2])
    assert "its clock is wrong" in reason and "by this host's clock" in reason, seen
    assert "its clock is wrong" in done.said, done
    assert "times the elapsed time" not in done.said
