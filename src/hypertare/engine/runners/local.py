"""This host: benches that stand on it, one trial after the other."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hypertare.base import paths
from hypertare.base.errors import MachineError
from hypertare.base.figures import is_text
from hypertare.base.host_files import Host
from hypertare.design import planner
from hypertare.design.planner import Likeness, MachineResources
from hypertare.engine.campaign import Campaign
from hypertare.engine.prepare import Prepared, RunOptions, kernels
from hypertare.engine.runners.runner import Runner
from hypertare.engine.trial_runner import Asking, StepBackend, TrialRunner
from hypertare.machines import environment
from hypertare.machines.host import engine, libvirt, xen
from hypertare.machines.host.given import GivenMachines, address_towards, process_of
from hypertare.machines.host.keeper import SettingsLease, recover
from hypertare.machines.host.kvm import best_accelerator, require_qemu
from hypertare.machines.host.settings import Needs, Permissions, can_use_vhost, check
from hypertare.machines.local import LocalMachine
from hypertare.protocol import plan
from hypertare.protocol.plan import Accelerator
from hypertare.runs.machine_state import MachineState
from hypertare.study import Study
from hypertare.study.machines import PEER, GivenMachine

if TYPE_CHECKING:
    from hypertare.engine.session import Session
    from hypertare.machines.image.build import Image

_BOOT_S = 180.0
"""Seconds from the start of a domain of libvirt until its ssh must answer."""
_AGAIN_S = 1.0
_NOT_YET = ("refused", "No route", "timed out", "did not answer", "reset", "closed", "unreachable")
"""What ssh says of a machine that is booting."""
_UNSHARED = ("_", "PWD", "OLDPWD", "SHLVL", "TMPDIR")
"""Variables that belong to the shell that started us, not to the command."""


class Local(Runner):
    def resources(
        self, prepared: Prepared, notify: Callable[[str], None], allow: Permissions
    ) -> MachineResources:
        """Returns the resources of this host after checking that the benches of the study can be made on
        it.
        """
        study, file = prepared.study, prepared.file
        images: dict[tuple[str, str], Image] = {}
        accelerator: Accelerator = "tcg"
        for platform in study.platforms:
            if platform.uses_accelerator:
                require_qemu()
            if platform.under_hypervisor:
                xen.check(Host(), [file.cell(plot.levels) for plot in prepared.design.plots])
            if platform.image is not None:
                from hypertare.machines.image.build import build

                for kernel in kernels(study):
                    images[kernel, platform.image] = build(kernel, platform.image, progress=notify)
            if platform.uses_accelerator:
                # KVM may be what is missing of it.
                recover(Host(), notify)
                accelerator = _accelerator(study, next(iter(images.values())), notify)
        peers_of_given, processes_of_given = _look_at_given(study, notify)
        image = None
        if study.sut.image is not None:
            image = engine.find(study.sut.engine, study.sut.image, notify)
        own = _own_variables(notify)
        variables = own if image is None else image.environment
        daemon = None
        if study.speaks_ospf:
            from hypertare.machines.image import bird

            daemon = bird.build(notify)
        on = MachineResources(
            prepared.cpus,
            accelerator,
            images,
            variables,
            prepared.workdir,
            daemon=daemon,
            image=image,
            has_vhost=can_use_vhost(Host()),
            likeness=_likeness(),
            peers_of_given=peers_of_given,
            processes_of_given=processes_of_given,
        )
        for plot in prepared.design.plots:
            cells = {v.node: file.cell({**plot.levels, **v.levels}) for v in plot.variants}
            bench = planner.make_bench(file.cell(plot.levels), plot, cells, on)
            check(Host(), Needs.of(bench), allow)
        return on

    def state(self, prepared: Prepared, on: MachineResources) -> MachineState:
        return environment.machine_state()

    def run_cells(self, session: Session) -> bool:
        with _machine(session.run_options, session.prepared.study, session.on) as machine:
            return Campaign(session, machine).run()

    @contextmanager
    def trial_runner(self, asking: Asking, run_options: RunOptions) -> Iterator[TrialRunner]:
        with (
            _machine(run_options, asking.recorder.study, asking.on) as machine,
            StepBackend(asking, machine) as made,
        ):
            yield made


def _look_at_given(
    study: Study, notify: Callable[[str], None]
) -> tuple[dict[str, str], dict[str, int]]:
    """Starts those of the given machines that are domains of libvirt, and checks all before anything else
    begins.

    Returns:
        The address of each machine's peer, by the machine's address, if the study needs a network; and the
        process of this host in which a machine runs, by its `outside`.

    Raises:
        MachineError: some machines cannot be weighed; the message names them all.
    """
    cpus = max(study.levels("sut.cpus"))
    machines, peers = GivenMachines(paths.agent_binary()), dict[str, str]()
    processes: dict[str, int] = {}
    peer = study.given.get(PEER)
    asked = list(study.given_at_work.values())
    failed: list[MachineError] = []
    for machine in (*asked, *filter(None, [peer])):
        if failed and machine.start:
            # Nothing is started for a run that does not begin.
            continue
        try:
            was_off = False
            if machine.start and machine.domain is not None:
                notify(f"asking libvirt for {machine.domain}")
                was_off = libvirt.start(machine.connect, machine.domain)
                if was_off:
                    notify(f"started {machine.domain}; it is shut down when hypertare ends")
            notify(f"looking at {' '.join(machine.words)}")
            # One that is sent nothing may be reached by an address that is not its own.
            unsent = machine.model_copy(update={"address": None})
            looked_at = machine if study.needs_network else unsent
            least = 1 if machine is peer else cpus
            found = _look(machines, looked_at, least, _BOOT_S if was_off else 0.0)
            if machine.outside is not None:
                processes[machine.outside] = process_of(machine.outside)
        except MachineError as error:
            failed.append(error)
            continue
        if found is not None:
            notify(found)
    if failed:
        raise failed[0] if len(failed) == 1 else MachineError("\n".join(map(str, failed)))
    for machine in asked if study.needs_network else ():
        assert machine.address is not None
        to = peer.address if peer is not None else None
        peers[machine.address] = to or address_towards(machine.address)
    return peers, processes


def _look(
    machines: GivenMachines, machine: GivenMachine, cpus: int, patience_s: float
) -> str | None:
    """Checks a given machine; retries for `patience_s` seconds while its ssh does not answer."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return machines.look(machine.words, cpus, machine.address, settings=machine.settings)
        except MachineError as error:
            if time.monotonic() > deadline or not any(one in error.what for one in _NOT_YET):
                raise
        time.sleep(_AGAIN_S)


_LIMITS: dict[plan.LimitedResource, int] = {
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "pending_signals": resource.RLIMIT_SIGPENDING,
    "locked_memory": resource.RLIMIT_MEMLOCK,
    "stack": resource.RLIMIT_STACK,
}


def _likeness() -> Likeness:
    """Returns this host's name and this process's limits, for guests to have the same."""
    limits = []
    for name, number in _LIMITS.items():
        soft, hard = (
            None if end == resource.RLIM_INFINITY else end for end in resource.getrlimit(number)
        )
        limits.append(plan.ResourceLimit(resource=name, soft=soft, hard=hard))
    return Likeness(socket.gethostname() or None, tuple(limits))


def _own_variables(notify: Callable[[str], None]) -> dict[str, str]:
    """What commands find in their environment. Plans are text: a value that is none stays here."""
    own = {k: v for k, v in os.environ.items() if k not in _UNSHARED}
    strange = sorted(name for name, value in own.items() if not (is_text(name) and is_text(value)))
    if strange:
        named = ", ".join(ascii(name)[1:-1] for name in strange)
        notify(f"left out of the environment, for their values are no UTF-8: {named}")
    return {name: value for name, value in own.items() if name not in strange}


def _machine(run_options: RunOptions, study: Study, on: MachineResources) -> LocalMachine:
    image = on.image if isinstance(on.image, engine.EngineImage) else None
    return LocalMachine(
        paths.agent_binary(), SettingsLease(run_options.allow), image, study.sut.network
    )


def _accelerator(study: Study, image: Image, notify: Callable[[str], None]) -> Accelerator:
    """Returns the accelerator that `auto` means on this host.

    Raises:
        MachineError: the study needs KVM, which cannot be used.
    """
    asked = study.factors.get("sut.accelerator", (study.sut.accelerator,))
    paging = study.factors.get("sut.paging", (study.sut.paging,))
    needs = ["sut.paging"] if any(level is not None for level in paging) else []
    needs += ['sut.accelerator = "kvm"'] if "kvm" in asked else []
    if "auto" not in asked and not needs:
        return "tcg"
    notify("accelerator: KVM counts only if a guest boots with it")
    choice = best_accelerator(image)
    if needs and choice.accelerator != "kvm":
        raise MachineError(
            f"{' and '.join(needs)} need{'s' * (len(needs) == 1)} KVM, which cannot be used here: "
            f"{choice.reason}.",
            choice.do,
        )
    return choice.accelerator


RUNNER = Local()
