"""Devices of this host that a command sees: those of every program, and those that were asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.lab import Lab, statuses, summary

OF_EVERY_PROGRAM = (
    *("fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout"),
    *("tty", "urandom", "zero"),
)
MORE = next((path for path in ("/dev/kmsg", "/dev/net/tun") if Path(path).exists()), None)
"""Any that is not of every program; a guest has both, too."""

COMMAND = """
set -e
test "$(ls /dev | sort | tr '\\n' ' ')" = "{seen} "
test -c {more}
echo shared > /dev/shm/shared
echo nowhere > /dev/null
test "$(head -c 3 /dev/zero | wc -c)" = 3
"""


@pytest.mark.skipif(MORE is None, reason="this host has no device to name")
@pytest.mark.parametrize(
    "platforms",
    [
        pytest.param(("native", "container"), marks=pytest.mark.runs),
        pytest.param(("native", "guest"), marks=pytest.mark.guest),
    ],
    ids=lambda names: names[-1],
)
def test_a_command_sees_the_usual_devices_and_those_asked_for(
    lab: Lab, platforms: tuple[str, ...]
) -> None:
    assert MORE is not None
    seen = sorted({*OF_EVERY_PROGRAM, Path(MORE).parts[2]})
    command = COMMAND.format(seen=" ".join(seen), more=MORE)
    few = ("--warmup", "0", "--min-trials", "2", "--max-trials", "2", "--memory", "192M")
    what = ("--on", ",".join(platforms), "--device", MORE, "--out", "run")
    ran = lab.run("weigh", *what, *few, "--", "sh", "-c", command)
    assert ran.status == 0, ran
    for platform in platforms:
        assert statuses(lab.work / "run", platform, "command") == {"ok"}
    reported = f"commands see {MORE}, as asked: what they do to it stays"
    assert any(reported in warning for warning in summary(lab.work / "run")["warnings"])
    assert reported in ran.said
