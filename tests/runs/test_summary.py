"""`summary.json`: its schema and its documentation are in step with the types."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from hypertare.findings.summarise import summarise
from hypertare.runs import summary
from hypertare.runs.store import Store
from hypertare.runs.summary import Summary
from tests import factory

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "schema" / "summary.schema.json"


def made() -> dict[str, object]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "hypertare/summary.schema.json",
        **Summary.model_json_schema(mode="serialization"),
    }


def test_the_schema_is_in_step() -> None:
    kept = json.loads(SCHEMA.read_text())
    assert kept == made(), "renew it with `python -m tests.runs.test_summary`"


@pytest.mark.parametrize("complete", [True, False])
def test_a_summary_fits_the_schema(tmp_path: Path, complete: bool) -> None:
    run = factory.write(tmp_path / "run", factory.Script(4, complete=complete))
    with Store.open(run) as store:
        found = summarise(store)
    validator = jsonschema.Draft202012Validator(
        json.loads(SCHEMA.read_text()), format_checker=jsonschema.FormatChecker()
    )
    validator.validate(json.loads(found.model_dump_json()))
    assert found.complete is complete
    assert (found.ended is not None) is complete
    assert [trial.trial for trial in found.failed] == [9, 41]


HEADINGS = {
    "Summary": "Run",
    "Estimate": "Estimate",
    "LevelChange": "Change of a level",
    "Effects": "Effects",
    "Effect": "Effect",
    "Lead": "Lead",
    "NoiseFloor": "Noise floor",
    "FailedTrial": "Failed trial",
    "Disturbance": "Disturbance",
    "Curve": "Curve",
    "Shift": "Shift",
    "Predictability": "Predictability",
    "Prediction": "Prediction",
    "LossFreeRate": "Loss-free rate",
    "RateBound": "Bound of a rate",
    "Total": "Total",
    "Published": "Published",
    "JudgedClaim": "Claim",
    "PlatformState": "Platform",
    "Placement": "Placement",
    "MachineState": "Machine",
}


@pytest.mark.parametrize("name", HEADINGS)
def test_exactly_the_keys_are_documented(name: str) -> None:
    text = (ROOT / "docs" / "summary.md").read_text()
    parts = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    rows = [line for line in parts[HEADINGS[name]].splitlines() if line.startswith("| `")]
    keys = [key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert keys == list(getattr(summary, name).model_fields)


def test_every_part_has_its_heading() -> None:
    used = set(made()["$defs"]) | {"Summary"}  # type: ignore[call-overload]
    assert used == set(HEADINGS)


if __name__ == "__main__":
    SCHEMA.parent.mkdir(exist_ok=True)
    SCHEMA.write_text(json.dumps(made(), indent=2) + "\n")
