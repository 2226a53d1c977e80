"""A whole PC in QEMU: boots with all their trials, several at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hypertare.base import paths
from hypertare.base.arch import ARCH
from hypertare.base.errors import InputError, MachineError
from hypertare.base.units import human_size
from hypertare.design import pc
from hypertare.design.planner import MachineResources
from hypertare.engine import walks
from hypertare.engine.batch_backend import BatchBackend
from hypertare.engine.prepare import Prepared, RunOptions, kernels, programs_of
from hypertare.engine.runners.runner import Runner
from hypertare.engine.trial_runner import Asking, TrialRunner
from hypertare.engine.waves import Waves
from hypertare.machines.emulated import EmulatedMachine, check_processor
from hypertare.machines.executor import Threads
from hypertare.machines.host.kvm import require_qemu
from hypertare.machines.host.settings import Permissions
from hypertare.machines.image import bird, emulator
from hypertare.machines.image import programs as real
from hypertare.machines.image.build import Image, build
from hypertare.machines.image.emulator import Emulator
from hypertare.runs.machine_state import MachineState
from hypertare.study.emulated import LEAST_EMULATED
from hypertare.study.emulated import Emulated as Settings
from hypertare.study.sut import LEAST_DRIVER_DOMAIN

if TYPE_CHECKING:
    from hypertare.engine.session import Session

_STAND_IN = (
    "hypertare's own emulator cannot be had here (why: hypertare image build emulator), so this was made "
    "with the distribution's QEMU: its figures differ a little from the emulator's, and some trials with "
    "guests of KVM fail because their guest is lost"
)


class Emulated(Runner):
    def resources(
        self, prepared: Prepared, notify: Callable[[str], None], allow: Permissions
    ) -> MachineResources:
        """Returns the resources of the emulated machine. QEMU is all that it uses of this host."""
        study = prepared.study
        require_qemu()
        daemon = bird.build(notify) if study.speaks_ospf else None
        images: dict[tuple[str, str], Image] = {}
        for kernel in kernels(study):
            programs = programs_of(prepared.file, study)
            for kind in pc.classes(study):
                image = build(kernel, kind.profile, programs=programs, progress=notify)
                if daemon:
                    further = daemon.carried if kind.has_guests else daemon.archive
                    image = replace(image, further=(further,))
                images[kernel, kind.profile] = image
        size = max((image.programs_size for image in images.values()), default=0)
        _check_memory(prepared, size)
        if study.walk is not None:
            walks.check(prepared.processors, study.walk)
        processors = {word: one.hardware for word, one in prepared.walks.items()}
        for cell in _cells(prepared):
            if processor := processors.get(cell.walks):
                check_processor(paths.agent_binary(), processor, cell)
        return MachineResources(
            prepared.cpus,
            "tcg",
            images,
            {},
            directory=Path(real.WORK) if study.sut.programs else None,
            programs=size,
            daemon=bird.ON_EMULATED if daemon else None,
            emulator=_emulator(prepared, notify),
            processors=processors,
        )

    def state(self, prepared: Prepared, on: MachineResources) -> MachineState:
        """Returns the state of the emulated PC, which follows from the study and not from this host."""
        study, image = prepared.study, next(iter(on.images.values()))
        return MachineState(
            kind="emulated",
            hostname="emulated",
            cpu=f"QEMU TCG {study.sut.cpu_model or 'max'}{_of_ours(on)}",
            walks=tuple(dict.fromkeys(cell.walks for cell in _cells(prepared)))
            if prepared.walks
            else (),
            cpus=study.sut.cpus,
            memory=pc.memory(study, on.programs),
            kernel=getattr(image, "kernel_release", "unknown"),
            architecture=ARCH.machine,
            distribution="none: the agent is its init",
        )

    def warnings(self, prepared: Prepared, on: MachineResources) -> list[str]:
        if on.emulator or not prepared.study.clock_kind.counts_instructions:
            return []
        return [_STAND_IN]

    def run_cells(self, session: Session) -> bool:
        with _machine(session.on, session.run_options) as machine:
            return Waves(session, machine).run()

    @contextmanager
    def trial_runner(self, asking: Asking, run_options: RunOptions) -> Iterator[TrialRunner]:
        with (
            _machine(asking.on, run_options) as machine,
            BatchBackend(asking, machine) as made,
        ):
            yield made


def _machine(on: MachineResources, run_options: RunOptions) -> EmulatedMachine:
    return EmulatedMachine(
        paths.agent_binary(),
        dict(on.images),
        executor=run_options.executor or Threads(run_options.jobs or 1),
        fresh=run_options.fresh,
        emulator=on.emulator,
    )


def _emulator(prepared: Prepared, notify: Callable[[str], None]) -> Emulator | None:
    """Returns hypertare's own emulator, or None if the clock does not need it.

    If it cannot be built, returns None for a study with one CPU and without page walks that take time: the
    distribution's QEMU suffices for that.

    Raises:
        MachineError: it cannot be built, and the study has several CPUs or page walks that take time.
    """
    if not prepared.study.clock_kind.counts_instructions:
        return None
    try:
        return emulator.build(notify)
    except MachineError as error:
        if len(prepared.cpus) == 1 and not prepared.walks:
            return None
        what = "page walks that take time (emulated.walks)" if prepared.walks else "several CPUs"
        raise MachineError(
            f"In virtual time {what} need hypertare's own emulator. {error.what}", error.do
        ) from error


def _cells(prepared: Prepared) -> list[Settings]:
    """The settings of the machine that the run boots, each once."""
    cells = (prepared.file.cell(plot.levels).emulated for plot in prepared.design.plots)
    return list(dict.fromkeys(cells))


def _of_ours(on: MachineResources) -> str:
    """Returns words for the machine's CPU if the emulator is hypertare's own."""
    return "" if on.emulator is None else ", hypertare's emulator"


def _check_memory(prepared: Prepared, programs: int) -> None:
    """Checks that the programs of the image fit into memory: the kernel unpacks a part of them without an
    error.

    Raises:
        InputError: they do not fit.
    """
    unpacking = pc.UNPACKING * programs
    for plot in prepared.design.plots if programs else ():
        study = prepared.file.cell(plot.levels)
        needs = [("memory", study.sut.memory, LEAST_EMULATED + unpacking)]
        if any(kind.has_driver_domain for kind in pc.classes(study)):
            least = LEAST_DRIVER_DOMAIN + unpacking
            needs.append(("driver_memory", study.sut.driver_memory, least))
        for key, given, least in needs:
            if given < least:
                raise InputError(
                    f"sut.{key} is {human_size(given)}, but with the programs "
                    f"{', '.join(study.sut.programs)} an emulated machine needs {human_size(least)}.",
                    "Give it more, or leave programs out of sut.programs.",
                )


RUNNER = Emulated()
