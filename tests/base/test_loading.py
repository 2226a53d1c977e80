from __future__ import annotations

import os
import subprocess
import sys

from hypertare.base import loading


def test_what_was_named_is_there_after_waiting() -> None:
    code = (
        "import sys; from hypertare.base import loading;"
        "loading.later('hypertare.findings.summarise'); loading.begin();"
        "loading.begin(); loading.later('json.tool'); loading.begin(); loading.later('xml.sax');"
        "loading.wait();"
        "assert {'hypertare.findings.summarise', 'json.tool', 'xml.sax'} <= set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nothing_named_is_not_waited_for() -> None:
    loading.wait()


def test_a_start_loads_neither_statistics_nor_reports() -> None:
    code = (
        "import sys; from hypertare.engine import session; from hypertare.engine.runners import local;"
        "from hypertare.cli import run, weigh, progress;"
        "late = {'numpy', 'scipy', 'hypertare.runs.summary', 'hypertare.report.model', 'xml.sax', 'rich',"
        "'hypertare.machines.image', 'hypertare.machines.emulated', 'MLRsearch'};"
        "assert not late & set(sys.modules), late & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_numpy_and_scipy_start_no_threads_and_commands_find_the_users_variables() -> None:
    code = (
        "import os; from hypertare.base import loading; loading.have_one_blas_thread();"
        "import numpy, scipy.special;"
        "print(len(os.listdir('/proc/self/task')), os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    own = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}

    def said(**users: str) -> list[str]:
        ran = subprocess.run(
            [sys.executable, "-c", code],
            env=own | users,
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout.split()

    assert said() == ["1", "None"]
    assert said(OPENBLAS_NUM_THREADS="2")[1] == "2"
