"""What a page draws, and whether it is sound."""

from __future__ import annotations

import json
import re
from typing import Any

import altair

Spec = dict[str, Any]


def check(chart: Spec) -> None:
    """Raises what is wrong with it, by Vega-Lite's own schema, which Altair has with it."""
    altair.Chart.from_dict(chart)


def data_of(page: str) -> dict[str, Any]:
    """What a page's script draws from."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    assert found is not None
    return dict(json.loads(found[1]))


def charts_of(page: str) -> dict[str, Spec]:
    return dict(data_of(page)["charts"])
