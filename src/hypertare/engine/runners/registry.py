"""Every kind of machine that studies are run on: a new one is entered here."""

from __future__ import annotations

from hypertare.engine.runners.emulated import EMULATED
from hypertare.engine.runners.local import LOCAL
from hypertare.engine.runners.runner import Runner
from hypertare.machine_kinds.machine_kind import MachineKind

RUNNERS: dict[MachineKind, Runner] = {runner.kind: runner for runner in (LOCAL, EMULATED)}
