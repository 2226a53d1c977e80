"""The pages' templates. Importing this compiles those of a run's page: beside a warm-up, if it can be."""

from __future__ import annotations

from pathlib import Path

import jinja2

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_OF_RUNS = ("report.html.j2", "page.html.j2", "figure.html.j2")


def find(name: str) -> jinja2.Template:
    """By its file in this folder."""
    return _ENVIRONMENT.get_template(name)


for _name in _OF_RUNS:
    find(_name)
