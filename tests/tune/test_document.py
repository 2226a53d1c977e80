"""`tune.json`: its schema is in step with the types. Renew it: `python -m tests.tune.test_document`."""

from __future__ import annotations

import json
from pathlib import Path

from hypertare.findings.tuning import Tuning

SCHEMA = Path(__file__).parents[2] / "schema" / "tune.schema.json"


def made() -> dict[str, object]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "hypertare/tune.schema.json",
        **Tuning.model_json_schema(mode="serialization"),
    }


def test_the_schema_is_in_step() -> None:
    assert json.loads(SCHEMA.read_text()) == made()


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(made(), indent=2) + "\n")
