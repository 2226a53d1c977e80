"""How long the controller waits for the host agent."""

from __future__ import annotations

import re
from pathlib import Path

from hypertare.machines import steps

EXECUTOR = Path(__file__).parents[2] / "crates" / "agent" / "src" / "host" / "executor.rs"


def test_the_agent_is_waited_for_longer_than_it_waits_for_a_silent_node() -> None:
    """Else a node that stands still ends the run, and not its trial."""
    declared = re.findall(
        r"^const (\w+): Duration = Duration::from_secs\((\d+)\);", EXECUTOR.read_text(), re.M
    )
    limits = {name: int(seconds) for name, seconds in declared}
    # An order to it, the end of its tasks, and what was changed on the others is put back.
    longest = limits["ORDER_LIMIT"] + limits["KILL_LIMIT"] + limits["END_LIMIT"]
    assert longest < steps._ANSWER_MARGIN_S
