"""Options of a run that change no result, and the check that they fit its study."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hypertare.base.errors import InputError
from hypertare.engine.prepare import Prepared
from hypertare.machines.host.needs import NOTHING, Permissions, require_root

if TYPE_CHECKING:
    from hypertare.machines.executor import Executor


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that change no result.

    For an emulated machine: `jobs` is the number of boots at once, by default one per CPU in virtual time
    and one by the wall clock. `fresh` boots batches whose records are known and compares the records.
    `cluster` is the address of a Dask scheduler whose workers boot, and `executor` the connection to it.
    For this host: `allow` names the settings that the run may change.
    """

    jobs: int | None = None
    fresh: bool = False
    allow: Permissions = NOTHING
    cluster: str | None = None
    executor: Executor | None = None

    def checked(self, prepared: Prepared) -> RunOptions:
        """Checks the options against the study; returns them with the number of jobs filled in.

        Raises:
            InputError: an option does not fit the study's machine or clock.
        """
        alone = not prepared.study.clock_kind.repeats
        if alone and ((self.jobs or 1) > 1 or self.fresh):
            raise InputError(
                "--jobs and --fresh are for virtual time: by the wall clock, trials that run at the "
                "same time disturb each other, and none repeats.",
                "Leave them out, or set machine = 'emulated' and clock = 'virtual'.",
            )
        if self.cluster is not None:
            from hypertare.machines.cluster.scheduler import check_address

            check_address(self.cluster)
            if alone:
                raise InputError(
                    "--cluster is for virtual time: by the wall clock a figure is one host's, and boots "
                    "on several hosts are not replicates of each other.",
                    "Leave it out, or set machine = 'emulated' and clock = 'virtual'.",
                )
            if self.jobs is not None and self.executor is None:
                raise InputError(
                    "--jobs says how many boots this host carries out at a time; with --cluster its "
                    "workers do, each as many as it has threads.",
                    "Leave --jobs out, and start workers with --nthreads N.",
                )
        for option, allowed, wanted in (
            ("--allow-module-reload", self.allow.module_reload, "sut.paging"),
            ("--allow-huge-pages", self.allow.huge_pages, 'sut.pages = "2M"'),
        ):
            if allowed:
                _check_allowed(option, wanted, prepared)
        jobs = self.jobs or (1 if alone else len(os.sched_getaffinity(0)))
        return replace(self, jobs=jobs)

    @contextmanager
    def connected(self, notify: Callable[[str], None]) -> Iterator[RunOptions]:
        """Gives the options with a connection to their cluster, if they name one; `notify` reports workers.

        Raises:
            InputError: Dask's `distributed` is not installed.
            MachineError: the scheduler does not answer, or a worker does not fit.
        """
        if self.cluster is None:
            yield self
            return
        from hypertare.machines.cluster.scheduler import connected

        with connected(self.cluster, notify) as cluster:
            yield replace(self, executor=cluster)


def _check_allowed(option: str, wanted: str, prepared: Prepared) -> None:
    """Checks that an option which permits changes of this host has a use in the study.

    Raises:
        InputError: it has no use.
        MachineError: this user is not root.
    """
    if not prepared.study.machine_kind.is_this_host:
        raise InputError(
            f"{option} is for this host's own KVM; the machine '{prepared.study.machine}' is another, "
            "whose settings are its own.",
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
