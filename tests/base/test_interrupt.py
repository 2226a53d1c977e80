"""An interrupt ends what runs, wherever it meets Python, and lets whoever tidies up do so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Final

import pytest

PRELUDE: Final = """
import signal, time
from hypertare.base import interrupt

interrupt.listen()

def ask():
    signal.raise_signal(signal.SIGINT)
"""

OBJECT_GOES: Final = """
class Going:
    def __del__(self):
        ask()

Going()
"""

CALLBACK: Final = """
from pydantic import BaseModel

class Asked(type(BaseModel)):
    def __instancecheck__(cls, value):
        ask()
        return super().__instancecheck__(value)

class Low(BaseModel, metaclass=Asked):
    a: int = 1

class High(Low):
    b: int = 2

class Holder(BaseModel):
    one: Low | int

import warnings
warnings.simplefilter("ignore")
Holder.model_construct(one=High()).model_dump_json()
"""

TIDYING: Final = """
def under_way():
    try:
        yield 1
    finally:
        time.sleep(0.5)
        print("generator tidied")

try:
    with open("/dev/null"):
        try:
            for _ in under_way():
                ask()
        finally:
            time.sleep(0.5)
            print("tidied")
except KeyboardInterrupt:
    interrupt.heard()
    time.sleep(0.5)
    print("ended in order")
"""


def ran(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + script],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize("where", [OBJECT_GOES, CALLBACK], ids=["object-goes", "callback"])
def test_one_that_is_dropped_comes_again(where: str) -> None:
    ended = ran(where + "\nprint('went on')\ntime.sleep(20)\nprint('to the end')\n")
    assert ended.returncode == -signal.SIGINT, ended
    assert "went on" in ended.stdout and "to the end" not in ended.stdout
    assert "Exception ignored" not in ended.stderr


def test_it_comes_no_more_once_python_ends() -> None:
    """Whose handlers are gone by then: an alarm would kill it."""
    slow_to_end = (
        "class Last:\n    def __del__(self):\n        time.sleep(0.5)\nlast = Last()\nask()\n"
    )
    ended = ran(slow_to_end)
    assert ended.returncode == -signal.SIGINT, ended


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_one_does_not_kill_what_only_has_to_end(number: int) -> None:
    """Of which the exit status is wanted."""
    asked_at_the_end = f"""
import os
class Last:
    def __del__(self, kill=os.kill, own=os.getpid()):
        kill(own, {int(number)})
last = Last()
raise SystemExit(130)
"""
    assert ran(asked_at_the_end).returncode == 130


FINISHING: Final = """
try:
    with interrupt.finishing("this trial"):
        ask()
        print("measured")
        {again}
        print("noted")
    print("went on")
except KeyboardInterrupt:
    interrupt.heard()
    print("ended in order")
"""


def test_what_was_begun_is_finished() -> None:
    ended = ran(FINISHING.format(again=""))
    assert ended.stdout.splitlines() == ["measured", "noted", "ended in order"]
    assert "hypertare: ending this trial; Ctrl-C again drops it" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_one_drops_it(number: int) -> None:
    ended = ran(FINISHING.format(again=f"signal.raise_signal({int(number)})"))
    assert ended.stdout.splitlines() == ["measured", "ended in order"]


def test_only_ctrl_c_is_patient() -> None:
    """Who sends SIGTERM wants an end, and reads nothing."""
    ended = ran(FINISHING.format(again="").replace("ask()", "signal.raise_signal(signal.SIGTERM)"))
    assert ended.stdout.splitlines() == ["ended in order"]


def test_nothing_is_ended_where_nobody_asked() -> None:
    ended = ran(FINISHING.format(again="").replace("ask()", "pass"))
    assert ended.stdout.splitlines() == ["measured", "noted", "went on"]


def test_who_tidies_up_is_left_in_peace() -> None:
    ended = ran(TIDYING)
    assert ended.returncode == 0, ended
    assert ended.stdout.splitlines() == ["tidied", "generator tidied", "ended in order"] or (
        ended.stdout.splitlines() == ["generator tidied", "tidied", "ended in order"]
    )


def test_what_else_is_dropped_is_reported() -> None:
    ended = ran("class Going:\n    def __del__(self):\n        1 / 0\nGoing()\n")
    assert ended.returncode == 0 and "ZeroDivisionError" in ended.stderr
