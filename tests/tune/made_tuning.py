"""A tuning whose truth is known, as the document that it ends in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from hypertare.findings.tuning import Tuning
from hypertare.tune.findings import document
from hypertare.tune.space import Knob, Setting, Space
from tests import factory
from tests.tune.made_up import MadeUp, aims, tune

KNOBS = (
    Knob("knobs.offloads.gro", True, (True, False)),
    Knob("workloads.t.message", 8192, (1024, 8192, 65536)),
    Knob("knobs.mtu", 1500, (1500, 9000)),
)
LADDER = Knob("workloads.t.socket_buffer", "default", ("16K", "64K", "256K", "1M"))


def _truth(setting: Setting) -> tuple[float, float]:
    """Larger messages are faster and cheaper; the rest does nothing."""
    gain = {1024: -0.7, 8192: 0.0, 65536: 0.4}[setting.get("workloads.t.message", 8192)]  # type: ignore[index]
    return gain, -gain / 2


def _loss(setting: Setting) -> float:
    return 0.2 if setting.get("workloads.t.socket_buffer") in ("16K", "64K") else 0.0


def made(text: str = "buffers") -> Tuning:
    """`text` stands wherever a study's author may write something."""
    lab = MadeUp(_truth, loss=_loss)
    outcome = tune(lab, KNOBS, "balance", 120, ladders=(LADDER,))
    outcome.warnings.append(text)
    began = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    prepared = SimpleNamespace(
        run=SimpleNamespace(
            study=SimpleNamespace(
                name=text,
                question=f"Which is faster? {text}",
                sut=SimpleNamespace(nic="virtio-net"),
            ),
            design=SimpleNamespace(seed=1),
        ),
        space=Space(KNOBS, (LADDER,)),
        aims=aims("balance"),
        budget="120 trials",
        platform="guest",
        workload="t",
        known=None,
    )
    machine = factory.meta(factory.Script()).machine
    return document(
        outcome, prepared, machine, "kvm", began, began + timedelta(minutes=7), lab.trials
    )
