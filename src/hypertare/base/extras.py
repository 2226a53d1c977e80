"""Libraries that only some verbs need, which an installation may leave out."""

from __future__ import annotations

from importlib.util import find_spec

from hypertare.base.errors import InputError

_MODULES = {"cluster": ("distributed",), "tune": ("optuna", "pyDOE3")}
"""What each extra of pyproject.toml brings, by the names under which it is imported."""


def check_extra(name: str, wanted_by: str) -> None:
    """Checks that the libraries of an extra are installed.

    Args:
        name: the name of the extra.
        wanted_by: the verb or option that needs it.

    Raises:
        InputError: one of its libraries is not installed.
    """
    missing = [module for module in _MODULES[name] if find_spec(module) is None]
    if missing:
        raise InputError(
            f"{wanted_by} needs {' and '.join(missing)}, not installed beside hypertare.",
            f"pip install 'hypertare[{name}]'",
        )
