from __future__ import annotations

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
