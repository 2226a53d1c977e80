"""A factorial as a user has it: a cell that fails is left out of the effects, a claim about a share is
judged, and a tuning starts from the run.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.lab import Lab
from tests.integration.test_bad_input import assert_refused

STUDY = """
name = "parameters"
question = "Which parameter matters?"
[sut]
platforms = ["native"]
[workloads.udp]
type = "stream"
protocol = "udp"
direction = "receive"
rate = "20M"
duration = "100ms"
omit = "20ms"
[factors]
"workloads.udp.socket_buffer" = ["4K", "256K"]
"workloads.udp.message" = [512, 8192, 60000]
[design]
min_trials = 3
max_trials = 3
[effects]
responses = ["goodput"]
[[claims]]
text = "the message matters most"
response = "goodput"
platform = "native"
measure = "share"
factor = "workloads.udp.message"
op = "largest"
[tune]
platform = "native"
budget = 40
[tune.knobs]
"workloads.udp.socket_buffer" = ["4K", "256K"]
"workloads.udp.message" = [512, 8192]
"""
IMPOSSIBLE = {"workloads.udp.socket_buffer": "4K", "workloads.udp.message": 60000}
"""No datagram fits into its receiver's buffer."""


@pytest.mark.runs
def test_a_cell_that_fails_is_left_out_and_the_others_start_a_tuning(lab: Lab) -> None:
    study = lab.study(STUDY)
    ran = lab.run("run", study, "--out", "factorial")
    assert ran.status == 0, ran.said
    shown = " ".join(ran.out.split())
    assert "left out, for no trial of it was good: socket buffer 4K message 60000" in shown
    assert "not every cell has as many trials: by least squares" in shown
    summary = json.loads((lab.work / "factorial" / "summary.json").read_text())
    (effects,) = summary["effects"]
    assert effects["left_out"] == [IMPOSSIBLE] and effects["balanced"] is False
    assert len(effects["effects"]) == 3 and effects["reason"] is None
    (claim,) = summary["claims"]
    assert "total share of message in goodput" in claim["evidence"]

    tuned = lab.run("tune", study, "--from", "factorial", "--out", "tuned")
    assert tuned.status == 0, tuned.said
    known = found(lab)["known"]
    assert known["settings"] == 4 and known["trials"] == 12
    assert known["left_out"] == ["1 of its cells: message 60000 is none of the tuning's levels"]
    reported = " ".join(tuned.out.split())
    assert "4 settings of 12 trials; left out 1 of its cells" in reported
    before = found(lab)
    again = lab.run("tune", "--resume", "--out", "tuned")
    assert again.status == 0, again.said
    assert found(lab)["known"] == known and found(lab)["looks"] == before["looks"]


def found(lab: Lab) -> Any:
    return json.loads((lab.work / "tuned" / "tune.json").read_text())


@pytest.mark.runs
def test_a_run_under_other_settings_starts_no_tuning(lab: Lab) -> None:
    study = lab.study(STUDY)
    ran = lab.run("run", study, "--out", "factorial", "--set", "workloads.udp.message=512")
    assert ran.status == 0, ran.said
    refused = lab.run("tune", study, "--from", "factorial", "--set", "workloads.udp.rate=10M")
    assert_refused(lab, refused, 2, "workloads.udp.rate was", "Set them alike with --set")
    refused = lab.run("tune", "--resume", "--from", "factorial", "--out", "factorial")
    assert_refused(lab, refused, 2, "--from would change it")


@pytest.mark.parametrize("verb", [("run",), ("run", "--dry-run"), ("tune",), ("tune", "--dry-run")])
def test_a_million_cells_are_refused(lab: Lab, verb: tuple[str, ...]) -> None:
    factors = ['"knobs.mtu" = %s', '"workloads.udp.message" = %s', '"knobs.busy_poll" = %s']
    levels = str(list(range(100, 200)))
    text = STUDY.partition("[factors]")[0] + "[factors]\n" + "\n".join(factors)
    refused = lab.run(*verb, lab.study(text.replace("%s", levels)))
    words = "1,000,000 cells", "10,000 are the most", "days without boots", "Leave out factors"
    assert_refused(lab, refused, 2, *words)
