"""Every platform there is: a new one is entered here, in both places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from hypertare.base.errors import InputError
from hypertare.platforms.container import CONTAINER
from hypertare.platforms.driver import DRIVER
from hypertare.platforms.given import GIVEN
from hypertare.platforms.guest import GUEST
from hypertare.platforms.native import NATIVE
from hypertare.platforms.platform import Platform
from hypertare.platforms.xen import XEN

KINDS: dict[str, Platform] = {
    kind.name: kind for kind in (NATIVE, CONTAINER, GUEST, DRIVER, XEN, GIVEN)
}
"""By name, in the order in which errors name them."""

PlatformName = Literal["native", "container", "guest", "driver", "xen", "given"]
"""As `sut.platforms` of a study has them."""

BASELINE: PlatformName = "native"


def find(name: str) -> Platform:
    """The platform of this name, as a study or the file of a run has it.

    Raises:
        InputError: there is none.
    """
    if name not in KINDS:
        raise InputError(
            f"There is no platform {name!r}; there are: {', '.join(KINDS)}.",
            "Is it of a newer hypertare? Read it with that one.",
        )
    return KINDS[name]


def names_of(fact: Callable[[Platform], bool]) -> str:
    """The platforms of which something is so, as errors name them."""
    return " or ".join(kind.name for kind in KINDS.values() if fact(kind))


def is_own_setting(path: str) -> bool:
    """Whether a setting is of `sut` and only some platforms have it."""
    return any(has_own(kind, path) for kind in KINDS.values())


def has_own(platform: Platform, path: str) -> bool:
    """Whether this platform has a setting that others have not."""
    table, _, key = path.partition(".")
    return table == "sut" and key in platform.own_settings
