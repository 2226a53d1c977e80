"""What the machine gives a run: images, the accelerator that really works, CPUs, environment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hypertare.base import paths
from hypertare.base.errors import InputError, MachineError
from hypertare.base.host_files import Host
from hypertare.base.units import human_size
from hypertare.design import pc, planner
from hypertare.design.planner import Surroundings
from hypertare.design.profiles import DEFAULT_PROFILE, DOMAIN
from hypertare.engine import walks
from hypertare.engine.prepare import Prepared, kernels, programs_of
from hypertare.machines.accelerator import QEMU, best_accelerator
from hypertare.machines.host import xen
from hypertare.machines.host.loan import recover
from hypertare.machines.host.needs import NOTHING, Needs, Permissions, check
from hypertare.machines.image import bird
from hypertare.machines.image import programs as real
from hypertare.machines.image.build import Image, build
from hypertare.protocol.plan import Accelerator
from hypertare.study import LEAST_DRIVER_DOMAIN, LEAST_EMULATED, Study

_UNSHARED = ("_", "PWD", "OLDPWD", "SHLVL", "TMPDIR")
"""Variables that belong to the shell that started us, not to the command."""


def surroundings(
    prepared: Prepared, tell: Callable[[str], None], allow: Permissions = NOTHING
) -> Surroundings:
    """What the machine gives: guest images, the accelerator that really works, CPUs, environment.

    Args:
        prepared: the study.
        tell: hears what is done.
        allow: what of this host may be changed for the run; nothing is, here.

    Raises:
        MachineError: something that a platform needs is missing.
    """
    paths.agent_binary()
    return _of_emulated(prepared, tell) if prepared.emulated else _of_host(prepared, tell, allow)


def _of_emulated(prepared: Prepared, tell: Callable[[str], None]) -> Surroundings:
    """Nothing of this host's but QEMU."""
    study = prepared.study
    _require_qemu()
    daemon = _daemon(study, tell)
    images: dict[tuple[str, str], Image] = {}
    for kernel in kernels(study):
        programs = programs_of(prepared.file, study)
        for kind in pc.classes(study):
            image = build(kernel, kind.profile, programs=programs, progress=tell)
            if daemon:
                further = daemon.carried if kind.has_guests else daemon.archive
                image = replace(image, further=(further,))
            images[kernel, kind.profile] = image
    size = max((image.programs_size for image in images.values()), default=0)
    _check_memory(prepared, size)
    if study.walk is not None:
        walks.check(prepared.processors, study.walk)
    return Surroundings(
        prepared.cpus,
        "tcg",
        images,
        {},
        directory=Path(real.WORK) if study.sut.programs else None,
        programs=size,
        daemon=bird.ON_EMULATED if daemon else None,
    )


def _of_host(prepared: Prepared, tell: Callable[[str], None], allow: Permissions) -> Surroundings:
    """What of this host's the run works with; its benches are checked to be possible."""
    study, file = prepared.study, prepared.file
    images: dict[tuple[str, str], Image] = {}
    accelerator: Accelerator = "tcg"
    if "guest" in study.sut.platforms:
        _require_qemu()
        for kernel in kernels(study):
            images[kernel, DEFAULT_PROFILE] = build(kernel, progress=tell)
        # KVM may be what is missing of it.
        recover(Host(), tell)
        accelerator = _accelerator(study, next(iter(images.values())), tell)
    if "xen" in study.sut.platforms:
        xen.check(Host(), [file.cell(plot.levels) for plot in prepared.design.plots])
        for kernel in kernels(study):
            images[kernel, DOMAIN.name] = build(kernel, DOMAIN.name, progress=tell)
    variables = {k: v for k, v in os.environ.items() if k not in _UNSHARED}
    daemon = _daemon(study, tell)
    on = Surroundings(
        prepared.cpus, accelerator, images, variables, prepared.workdir, daemon=daemon
    )
    for plot in prepared.design.plots:
        cells = {v.node: file.cell({**plot.levels, **v.levels}) for v in plot.variants}
        bench = planner.make_bench(file.cell(plot.levels), plot, cells, on)
        check(Host(), Needs.of(bench), allow)
    return on


def _daemon(study: Study, tell: Callable[[str], None]) -> bird.Bird | None:
    """What routers learn networks by, where one may have to."""
    return bird.build(tell) if study.speaks_ospf else None


def _accelerator(study: Study, image: Image, tell: Callable[[str], None]) -> Accelerator:
    """What `auto` means here. That what needs KVM has it is seen to before anything is started."""
    asked = study.factors.get("sut.accelerator", (study.sut.accelerator,))
    paging = study.factors.get("sut.paging", (study.sut.paging,))
    needs = ["sut.paging"] if any(level is not None for level in paging) else []
    needs += ['sut.accelerator = "kvm"'] if "kvm" in asked else []
    if "auto" not in asked and not needs:
        return "tcg"
    tell("accelerator: KVM counts only if a guest boots with it")
    choice = best_accelerator(image)
    if needs and choice.accelerator != "kvm":
        raise MachineError(
            f"{' and '.join(needs)} need{'s' * (len(needs) == 1)} KVM, which cannot be used here: "
            f"{choice.reason}.",
            choice.do,
        )
    return choice.accelerator


def _check_memory(prepared: Prepared, programs: int) -> None:
    """Programs that do not fit are no error to the kernel that unpacks them."""
    unpacking = pc.UNPACKING * programs
    for plot in prepared.design.plots if programs else ():
        sut = prepared.file.cell(plot.levels).sut
        needs = [("memory", sut.memory, LEAST_EMULATED + unpacking)]
        if "xen" in sut.platforms:
            needs.append(("driver_memory", sut.driver_memory, LEAST_DRIVER_DOMAIN + unpacking))
        for key, given, least in needs:
            if given < least:
                raise InputError(
                    f"sut.{key} is {human_size(given)}, but with the programs "
                    f"{', '.join(sut.programs)} an emulated machine needs {human_size(least)}.",
                    "Give it more, or leave programs out of sut.programs.",
                )


def _require_qemu() -> None:
    if shutil.which(QEMU) is None:
        raise MachineError(
            "QEMU is not installed; the platform 'guest' and the machine 'emulated' need it.",
            "Install it (Debian: apt-get install qemu-system-x86), or leave the guest out: "
            '--on native,container (weigh) or --set \'sut.platforms=["native","container"]\'.',
        )
