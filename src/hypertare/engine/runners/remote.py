"""Labs elsewhere: benches that stand on them by turns, one trial after the other, as on this host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from hypertare.base import paths
from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError
from hypertare.design.planner import Likeness, MachineResources
from hypertare.engine.campaign import Campaign
from hypertare.engine.prepare import Prepared, RunOptions, check_fits, kernels
from hypertare.engine.runners.runner import Runner
from hypertare.engine.trial_runner import Asking, StepBackend, TrialRunner
from hypertare.machines import environment
from hypertare.machines.asked import Asked
from hypertare.machines.host.settings import Permissions
from hypertare.machines.reach import Sent
from hypertare.machines.remote import RemoteHost, RemoteMachine, reached
from hypertare.protocol.plan import Accelerator
from hypertare.runs.machine_state import MachineState
from hypertare.study import Study

if TYPE_CHECKING:
    from hypertare.engine.session import Session
    from hypertare.machines.image.build import Image

_BUSY = 0.5
"""Share of a host's CPUs; a load average above it is reported."""


class Remote(Runner):
    def resources(
        self, prepared: Prepared, notify: Callable[[str], None], allow: Permissions
    ) -> MachineResources:
        """Returns the resources of the hosts, as their agents report them. Images are built here and sent
        there.

        Raises:
            MachineError: some hosts cannot be used; the message names them all.
        """
        study = prepared.study
        assert study.remote is not None
        from hypertare.machines.image.build import build

        profiles = [platform.image for platform in study.platforms if platform.image is not None]
        images = {
            (kernel, profile): build(kernel, profile, progress=notify)
            for kernel in kernels(study)
            for profile in profiles
        }
        found: list[MachineResources] = []
        failed: list[MachineError] = []
        for reach in study.remote.hosts:
            notify(f"looking at {' '.join(reach)}")
            try:
                found.append(_resources(prepared, reach, images))
            except MachineError as error:
                failed.append(error)
        if failed:
            raise failed[0] if len(failed) == 1 else MachineError("\n".join(map(str, failed)))
        first, *further = found
        return replace(first, further=tuple(further))

    def state(self, prepared: Prepared, on: MachineResources) -> MachineState:
        found = _host(on).survey
        return MachineState(
            kind="remote",
            hostname=found.host_name,
            cpu=found.processor,
            cpus=found.online,
            memory=found.memory,
            kernel=found.kernel,
            architecture=found.architecture,
            distribution=found.distribution,
        )

    def versions(self, on: MachineResources, asked: Asked | None) -> dict[str, str]:
        """Programs are those of that host."""
        found = super().versions(on, asked)
        here = {name: one for name, one in found.items() if name not in environment.OF_THE_HOST}
        qemu = _host(on).survey.qemu
        return here | ({"qemu": qemu} if qemu else {})

    def warnings(self, prepared: Prepared, on: MachineResources) -> list[str]:
        hosts = [_host(one) for one in on.hosts]
        busy = [
            f"{host.described} is busy: its load average was {host.survey.load:g} before the run, with "
            f"{len(host.survey.cpus)} CPUs"
            for host in hosts
            if host.survey.load > _BUSY * len(host.survey.cpus)
        ]
        return [*busy, *_unlike(hosts)]

    def run_cells(self, session: Session) -> bool:
        with ExitStack() as stack:
            hosts = map(_host, session.on.hosts)
            machine, *further = [stack.enter_context(RemoteMachine(host)) for host in hosts]
            return Campaign(session, machine, further).run()

    @contextmanager
    def trial_runner(self, asking: Asking, run_options: RunOptions) -> Iterator[TrialRunner]:
        # Of several hosts on the first: what is asked there is compared with nothing of another.
        alone = replace(asking, on=replace(asking.on, further=()))
        with RemoteMachine(_host(asking.on)) as machine, StepBackend(alone, machine) as made:
            yield made


def _resources(
    prepared: Prepared, reach: tuple[str, ...], images: Mapping[tuple[str, str], Image]
) -> MachineResources:
    """Returns the resources of one host."""
    study = prepared.study
    sent = {key: (Sent(one.kernel), Sent(one.initramfs)) for key, one in images.items()}
    tried = next(iter(sent.values()), None) if _may_have_kvm(study) else None
    files = [file for pair in sent.values() for file in pair]
    host = reached(reach, paths.agent_binary(), files, tried, prepared.workdir)
    check_fits(prepared.file, prepared.design, tuple(host.survey.cpus), host.survey.available)
    _check_abilities(study, host)
    there = {
        key: replace(image, kernel=host.place(sent[key][0]), initramfs=host.place(sent[key][1]))
        for key, image in images.items()
    }
    return MachineResources(
        tuple(host.survey.cpus),
        _accelerator(study, host) if images else "tcg",
        there,
        host.environment,
        host.workdir if study.needs_files else None,
        likeness=Likeness(host.survey.host_name),
        has_vhost=host.why_not("vhost") is None,
        elsewhere=host,
    )


def _unlike(hosts: Sequence[RemoteHost]) -> Iterator[str]:
    """Yields a warning for each difference between hosts. Costs do not contain it: both sides ran on one
    host.
    """
    for what, values in (
        ("processors", [host.survey.processor for host in hosts]),
        ("CPUs", [str(len(host.survey.cpus)) for host in hosts]),
        ("kernels", [host.survey.kernel for host in hosts]),
    ):
        if len(set(values)) > 1:
            named = (f"{host.described} {value}" for host, value in zip(hosts, values, strict=True))
            yield f"hosts are not alike, {what}: {', '.join(named)}. Each block is of one host alone."


def _host(on: MachineResources) -> RemoteHost:
    assert isinstance(on.elsewhere, RemoteHost)
    return on.elsewhere


def _may_have_kvm(study: Study) -> bool:
    return set(study.levels("sut.accelerator")) != {"tcg"}


def _accelerator(study: Study, host: RemoteHost) -> Accelerator:
    """Returns the accelerator that the host's guests have.

    Raises:
        MachineError: the study needs KVM, which the host lacks.
    """
    why = host.why_not("kvm") if _may_have_kvm(study) else "it was not asked for"
    if why is not None and "kvm" in study.levels("sut.accelerator"):
        raise MachineError(
            f'{host.described}: sut.accelerator = "kvm" needs KVM, which cannot be used there: {why}',
            "Take tcg, or another host.",
        )
    return "kvm" if why is None else "tcg"


def _check_abilities(study: Study, host: RemoteHost) -> None:
    """Checks that the host can have the study's platforms.

    Raises:
        MachineError: it lacks something that they need.
    """
    guests = [platform.name for platform in study.platforms if platform.uses_accelerator]
    if not guests:
        return
    needed = {"qemu": f"Install QEMU there (Debian, root: apt-get install {ARCH.qemu_package})"}
    if study.needs_network:
        needed["tun"] = "As root there: modprobe tun"
    if "vhost" in study.levels("sut.datapath"):
        needed["vhost"] = "As root there: modprobe vhost_net, or adduser USER kvm"
    for ability, do in needed.items():
        if reason := host.why_not(ability):
            raise MachineError(
                f"{host.described}: the platform {' and '.join(guests)} cannot be had there: {reason}",
                f"{do}, or leave it out of sut.platforms.",
            )


RUNNER = Remote()
