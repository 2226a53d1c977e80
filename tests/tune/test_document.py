"""`tune.json` and `over.json`: their schemas are in step with the types. Renew them:
`python -m tests.tune.test_document`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hypertare.base.closed import Closed
from hypertare.findings.tuning import Tuning, TuningOver

FOLDER = Path(__file__).parents[2] / "schema"
SCHEMAS: dict[str, type[Closed]] = {
    "tune.schema.json": Tuning,
    "tune-over.schema.json": TuningOver,
}


def made(name: str) -> dict[str, object]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"hypertare/{name}",
        **SCHEMAS[name].model_json_schema(mode="serialization"),
    }


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_is_in_step(name: str) -> None:
    assert json.loads((FOLDER / name).read_text()) == made(name)


if __name__ == "__main__":
    for schema in SCHEMAS:
        (FOLDER / schema).write_text(json.dumps(made(schema), indent=2) + "\n")
