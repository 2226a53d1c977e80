"""How a run goes about its machine, and whether that fits its study."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from hypertare.base.errors import InputError
from hypertare.engine.prepare import Prepared
from hypertare.machines.host.needs import NOTHING, Permissions, require_root


@dataclass(frozen=True)
class Manner:
    """How a run goes about its machine; it changes no result.

    Of an emulated machine's batches `jobs`: how many at once, by default one a CPU in virtual time and
    one in all by the wall clock; `fresh`: run what is known already, and compare. Of this host
    `allow`: what may be changed for the run.
    """

    jobs: int | None = None
    fresh: bool = False
    allow: Permissions = NOTHING

    def checked(self, prepared: Prepared) -> Manner:
        """With the number of jobs filled in.

        Raises:
            InputError: it does not fit the study's machine and clock.
        """
        alone = not prepared.study.clock_kind.repeats
        if alone and ((self.jobs or 1) > 1 or self.fresh):
            raise InputError(
                "--jobs and --fresh are for virtual time: by the wall clock, trials that run at the "
                "same time disturb each other, and none repeats.",
                "Leave them out, or set machine = 'emulated' and clock = 'virtual'.",
            )
        for option, allowed, wanted in (
            ("--allow-module-reload", self.allow.module_reload, "sut.paging"),
            ("--allow-huge-pages", self.allow.huge_pages, 'sut.pages = "2M"'),
        ):
            if allowed:
                _check_allowed(option, wanted, prepared)
        jobs = self.jobs or (1 if alone else len(os.sched_getaffinity(0)))
        return replace(self, jobs=jobs)


def _check_allowed(option: str, wanted: str, prepared: Prepared) -> None:
    """Raises:
    InputError: there is nothing for it to do.
    MachineError: this is not root.
    """
    if not prepared.study.machine_kind.is_this_host:
        raise InputError(
            f"{option} is for this host's own KVM; the emulated machine brings a KVM host of its own, "
            "whose settings the run chooses anyway.",
            f"Leave {option} out.",
        )
    key, _, value = wanted.replace('"', "").partition(" = ")
    levels = prepared.study.factors.get(key, (getattr(prepared.study.sut, key.partition(".")[2]),))
    guests = any(platform.translates_twice for platform in prepared.study.platforms)
    if not guests or not (value in levels if value else any(level is not None for level in levels)):
        raise InputError(
            f"{option} has nothing to do: the study has no guest with {wanted}.",
            f"Leave {option} out, or set {wanted}{'' if value else ' to nested or shadow'}.",
        )
    require_root(option)
