"""Loss-free rates made up for tests: what a search has found."""

from __future__ import annotations

from hypertare.runs.summary import LossFreeRate


def searched(lower: float | None, upper: float | None, **fields: object) -> LossFreeRate:
    given: dict[str, object] = {
        "platform": "guest",
        "cell": {"workload": "udp", "knobs.napi_weight": 64},
        "goal": 0.005,
        "state": "found",
        "unit": "b/s",
        "trials": 12,
        "lower": lower and {"rate": lower, "loss": 0, "trials": 3},
        "upper": upper and {"rate": upper, "loss": 0.1, "trials": 3},
    }
    return LossFreeRate.model_validate(given | fields)
