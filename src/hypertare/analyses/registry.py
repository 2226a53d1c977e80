"""Every analysis there is: each file of this folder with a subclass of `Analysis` has one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import create_model

from hypertare.analyses.analysis import Analysis
from hypertare.base.closed import Settings


def _found() -> Iterator[Analysis[Any]]:
    package = __name__.rpartition(".")[0]
    for one in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        if one.name == __name__:
            continue
        for made in vars(importlib.import_module(one.name)).values():
            is_kind = isinstance(made, type) and issubclass(made, Analysis) and made is not Analysis
            if is_kind and made.__module__ == one.name:
                yield made()


KINDS: dict[str, Analysis[Any]] = {kind.name: kind for kind in _found()}
"""All analyses, by the name of their table in a study."""

if TYPE_CHECKING:

    class AnalysisTables(Settings):
        """The tables of a study that ask for analyses: a field for each analysis, None where the table is
        absent.
        """

else:
    AnalysisTables = create_model(
        "AnalysisTables",
        __base__=Settings,
        **{name: (kind.settings | None, None) for name, kind in KINDS.items()},
    )


def asked(tables: AnalysisTables) -> Iterator[tuple[Analysis[Any], Any]]:
    """The analyses that a study has a table of, with their settings."""
    for name, kind in KINDS.items():
        if (settings := getattr(tables, name)) is not None:
            yield kind, settings
