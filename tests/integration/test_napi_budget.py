"""Study A in small: real machines in virtual time, from the measured capacity to judged claims."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.guest

WEIGHTS = '"knobs.napi_weight" = [1, 60]'
RATES = "[" + ", ".join(f'"{share} % of capacity"' for share in (20, 60, 100, 150)) + "]"
SMALL = (
    "workloads.tcp.factors={ " + WEIGHTS + " }",
    "workloads.udp.factors={ " + WEIGHTS + " }",
    "workloads.load.factors={ " + WEIGHTS + ', "workloads.load.rate" = ' + RATES + ", "
    '"workloads.load.socket_buffer" = ["16K", "8M"] }',
    "plots=[]",
)


@pytest.mark.timeout(900)
def test_what_the_study_found_is_judged_from_what_was_measured(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    argv = [sys.executable, "-m", "hypertare", "run", "napi-budget", "--quick", "--jobs", "2"]
    argv += ["--out", str(folder)]
    argv += [word for setting in SMALL for word in ("--set", setting)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads((folder / "summary.json").read_text())
    judged = {claim["text"]: claim["judgement"] for claim in summary["claims"]}
    # Sender and receiver share a CPU here: it is told what was lost, and nothing judged by it.
    assert judged["Weight 1 loses packets that weight 60 delivers"] == "not judged"
    assert judged["With a small receive buffer UDP is lost in the socket"] == "holds"
    assert judged["... and not in the driver"] == "holds"
    assert judged["With a large receive buffer nothing is lost in the socket"] == "holds"
    # Two weights make no correlation.
    assert judged["What the driver takes and what arrives go together (TCP)"] == "undecided"
    kinds = {
        (curve["cell"]["knobs.napi_weight"], curve["cell"]["workloads.load.socket_buffer"]): curve
        for curve in summary["curves"]
    }
    # Three boots: which of these an interval still allows follows from the host's kernel and QEMU.
    assert kinds[1, "8M"]["kind"] in ("livelock", "undecided")
    assert kinds[60, "8M"]["kind"] in ("levels off", "keeps up", "undecided")
    assert kinds[1, "8M"]["last"] < 0.8 * kinds[1, "8M"]["peak"]
    assert kinds[60, "8M"]["last"] > 0.9 * kinds[60, "8M"]["peak"]
    assert kinds[60, "8M"]["peak"] > 1.5 * kinds[1, "8M"]["peak"]
    assert kinds[1, "8M"]["unit"] == "b/s (virtual)"
    assert "Packets per poll" in (folder / "report.html").read_text()
