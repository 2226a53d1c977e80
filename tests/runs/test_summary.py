"""`summary.json`: its schema and its documentation are in step with the types."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from hypertare.findings.summarise import summarise
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


def test_every_field_says_what_it_is() -> None:
    schema = made()
    parts = {"Summary": schema, **schema["$defs"]}  # type: ignore[dict-item]
    for name, part in parts.items():
        fields = part["properties"]  # type: ignore[index]
        assert all("description" in field for field in fields.values()), name


def test_exactly_the_parts_are_documented() -> None:
    text = (ROOT / "docs" / "summary.md").read_text()
    keys = [
        key
        for row in re.findall(r"^\| (`.*?) \|", text, re.M)
        for key in re.findall(r"`(\w+)`", row)
    ]
    assert keys == list(Summary.model_fields)


if __name__ == "__main__":
    SCHEMA.parent.mkdir(exist_ok=True)
    SCHEMA.write_text(json.dumps(made(), indent=2) + "\n")
