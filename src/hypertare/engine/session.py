"""From a study to its results in a run directory: checks, sets up, carries out, sums up.

Everything that can be known to be wrong is found before anything is started.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from hypertare import __version__
from hypertare.base import interrupt, paths
from hypertare.base.errors import InputError, MachineError, writing
from hypertare.base.host_files import Host
from hypertare.base.units import human_size
from hypertare.design import pc, planner
from hypertare.design.design import Design, make
from hypertare.design.planner import Surroundings, files_memory, sut_cpus
from hypertare.design.profiles import DEFAULT_PROFILE, DOMAIN, EMULATED
from hypertare.doctor import quick
from hypertare.engine import capacity
from hypertare.engine import walks as walks
from hypertare.engine.batch_campaign import BatchCampaign
from hypertare.engine.batch_laboratory import BatchLaboratory
from hypertare.engine.campaign import Campaign, Observer
from hypertare.engine.laboratory import BenchLaboratory, Laboratory
from hypertare.findings.summarise import summarise
from hypertare.machines import batch, environment
from hypertare.machines.accelerator import QEMU, best_accelerator
from hypertare.machines.emulated import EmulatedMachine
from hypertare.machines.host import xen
from hypertare.machines.host.loan import Loan, NotPutBackError, recover
from hypertare.machines.host.needs import NOTHING, Needs, Permissions, check, require_root
from hypertare.machines.image import bird
from hypertare.machines.image import programs as real
from hypertare.machines.image.build import Image, build
from hypertare.machines.image.cache import Cache
from hypertare.machines.image.kernel import find_source
from hypertare.machines.image.programs import Choice
from hypertare.machines.local import AgentError, LocalMachine
from hypertare.protocol.plan import Accelerator
from hypertare.runs.store import Meta, Store
from hypertare.runs.summary import MachineState
from hypertare.search import plan as searches
from hypertare.search.plan import SearchPlan
from hypertare.search.rounds import FIRST, Rounds
from hypertare.study import (
    BASELINE,
    LEAST_DRIVER_DOMAIN,
    LEAST_EMULATED,
    Study,
    StudyFile,
    published,
)
from hypertare.study.programs import is_own
from hypertare.study.published import Point
from hypertare.walk.processors import Description
from hypertare.workloads.responses import HEADLINE, of_clock, of_workload

_UNSHARED = ("_", "PWD", "OLDPWD", "SHLVL", "TMPDIR")
"""Variables that belong to the shell that started us, not to the command."""


@dataclass(frozen=True)
class Prepared:
    """A study that was checked as far as can be without starting anything."""

    file: StudyFile
    study: Study
    design: Design
    cpus: tuple[int, ...]
    workdir: Path | None
    search: SearchPlan | None = None
    processors: tuple[Description, ...] = ()
    published: tuple[Point, ...] = ()

    @property
    def emulated(self) -> bool:
        return self.study.machine == "emulated"


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
        alone = prepared.study.clock == "wall"
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
    if prepared.emulated:
        raise InputError(
            f"{option} is for this host's own KVM; the emulated machine brings a KVM host of its own, "
            "whose settings the run chooses anyway.",
            f"Leave {option} out.",
        )
    key, _, value = wanted.replace('"', "").partition(" = ")
    levels = prepared.study.factors.get(key, (getattr(prepared.study.sut, key.partition(".")[2]),))
    if "guest" not in prepared.study.sut.platforms or not (
        value in levels if value else any(level is not None for level in levels)
    ):
        raise InputError(
            f"{option} has nothing to do: the study has no guest with {wanted}.",
            f"Leave {option} out, or set {wanted}{'' if value else ' to nested or shadow'}.",
        )
    require_root(option)


def prepare(file: StudyFile, seed: int) -> Prepared:
    """Checks a study against itself and this machine.

    Raises:
        InputError: something in it is wrong or does not fit this machine.
    """
    study = file.study()
    design = make(study, seed)
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    if study.machine == "emulated":
        levels = study.factors.get("sut.cpus", (study.sut.cpus,))
        cpus = tuple(range(max(study.sut.cpus, *map(int, levels), 1)))
    on = Surroundings(cpus, "tcg", {}, {}, daemon=bird.ON_EMULATED)
    workdir = _workdir(file, study)
    for plot in design.plots:
        cell = file.cell(plot.levels)
        check_memory(cell)
        sut_cpus(cell.sut.cpus, on)
        if study.machine == "emulated":
            batch.check_nics(file, plot, on)
        if workdir is not None:
            _check_size(workdir, cell.sut.memory)
    _check_devices(study)
    for name, settings in study.workloads.items():
        if settings.argv and study.needs_files:
            _check_command(name, settings.argv, workdir)
        elif settings.argv:
            _check_in_image(name, settings.programs, real.choose(programs_of(file, study)))
    _check_kernels(study)
    processors = tuple(study.walk.descriptions(file.folder)) if study.walk else ()
    walks.needs(file, study)
    return Prepared(
        file,
        study,
        design,
        cpus,
        workdir,
        searches.plan(file, study),
        processors,
        tuple(_published(file, study)),
    )


def _published(file: StudyFile, study: Study) -> Iterator[Point]:
    for wanted in study.published:
        yield from published.read(wanted, file.folder, BASELINE, tuple(study.workloads))


def check_memory(study: Study, host: Host | None = None) -> None:
    """Whether the guests of a bench fit into this host.

    Raises:
        InputError: they do not; it says how many would.
    """
    # What is this host's is not what Xen has left: see `host.xen`.
    if _on_users_xen(study) or not {"guest", "xen"} & set(study.sut.platforms):
        return
    available = (host or Host()).memory.get("MemAvailable")
    guests = pc.guests_memory(study, study.bench_guests)
    needed = pc.memory(study) if study.machine == "emulated" else guests
    if available is None or needed <= available:
        return
    fits = max(0, (available - (needed - guests)) // pc.guests_memory(study, 1))
    raise InputError(
        f"{study.bench_guests} guests of {human_size(study.sut.memory)} need "
        f"{human_size(needed)}, but this host has {human_size(available)} of memory available: "
        f"{fits} fit.",
        "Ask for fewer with sut.guests, or for less memory each with sut.memory.",
    )


def _workdir(file: StudyFile, study: Study) -> Path | None:
    if not study.needs_files:
        return None
    workdir = (file.folder / (study.sut.workdir or ".")).resolve()
    if not workdir.is_dir():
        raise InputError(f"the work directory {workdir} is not there", "Choose one: --workdir DIR.")
    return workdir


def _check_size(workdir: Path, memory: int) -> None:
    """The work directory is held in memory twice: as it was, and as the trial changes it."""
    room = files_memory(memory) // 2
    size = 0
    for folder, _, names in os.walk(workdir, onerror=None):
        for name in names:
            try:
                size += (Path(folder) / name).lstat().st_size
            except OSError:
                continue
            if size > room:
                raise InputError(
                    f"the work directory {workdir} is too large: every platform holds it in memory "
                    f"twice, and {human_size(memory)} of memory leave room for {human_size(room)}.",
                    "Choose a smaller one with --workdir DIR, or more memory with --memory.",
                )


def _check_devices(study: Study) -> None:
    for device in study.sut.devices:
        try:
            mode = device.stat().st_mode
        except OSError as error:
            raise InputError(
                f"sut.devices: {device} cannot be shown to commands: {error.strerror}.",
                "Name one that is there, or leave it out.",
            ) from None
        if not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
            raise InputError(
                f"sut.devices: {device} is no device.", "Files and directories are shown anyway."
            )


def _check_command(name: str, argv: tuple[str, ...], workdir: Path | None) -> None:
    program = argv[0]
    found = (
        os.access((workdir or Path.cwd()) / program, os.X_OK)
        if "/" in program
        else shutil.which(program) is not None
    )
    if not found:
        raise InputError(
            f"{name}: there is no program '{program}'.",
            f"Searched in PATH: {os.environ.get('PATH', '')}"
            if "/" not in program
            else f"Searched from the work directory {workdir}.",
        )


def programs_of(file: StudyFile, study: Study) -> tuple[str, ...]:
    """The study's programs; paths are relative to its file, and absolute here."""
    names = study.sut.programs
    return tuple(str(file.folder / name) if is_own(name) else name for name in names)


def _check_in_image(name: str, programs: tuple[str, ...], chosen: Choice) -> None:
    """An emulated machine does not see this host's files."""
    held = (*EMULATED.programs, *chosen.commands)
    for program in programs:
        folder, _, word = program.rpartition("/")
        if word in held or (chosen.sets and folder not in _PROGRAM_FOLDERS):
            continue
        raise InputError(
            f"{name}: the emulated machine has no program '{program}': its image holds "
            f"{', '.join(held)} and no other.",
            "Put a set of programs into it (sut.programs, for example "
            '["build"]: docs/programs.md), leave the workload out, give it a command of those, for '
            'example command = ["hypertare-agent", "burn", "--time", "1"], or take '
            'machine = "local".',
        )


_PROGRAM_FOLDERS = ("", "/bin", "/usr/bin", "/usr/local/bin")
"""What lies elsewhere may be what the commands make."""


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
    images: dict[tuple[str, str], Image] = {}
    accelerator: Accelerator = "tcg"
    if prepared.emulated:
        _require_qemu()
        daemon = _daemon(prepared.study, tell)
        for kernel in _kernels(prepared.study):
            programs = programs_of(prepared.file, prepared.study)
            for kind in pc.classes(prepared.study):
                image = build(kernel, kind.profile, programs=programs, progress=tell)
                if daemon:
                    further = daemon.carried if kind.has_guests else daemon.archive
                    image = replace(image, further=(further,))
                images[kernel, kind.profile] = image
        size = max((image.programs_size for image in images.values()), default=0)
        _check_memory(prepared, size)
        if prepared.study.walk is not None:
            walks.check(prepared.processors, prepared.study.walk)
        directory = Path(real.WORK) if prepared.study.sut.programs else None
        return Surroundings(
            prepared.cpus,
            accelerator,
            images,
            {},
            directory=directory,
            programs=size,
            daemon=bird.ON_EMULATED if daemon else None,
        )
    if "guest" in prepared.study.sut.platforms:
        _require_qemu()
        for kernel in _kernels(prepared.study):
            images[kernel, DEFAULT_PROFILE] = build(kernel, progress=tell)
        # KVM may be what is missing of it.
        recover(Host(), tell)
        accelerator = _accelerator(prepared.study, next(iter(images.values())), tell)
    if "xen" in prepared.study.sut.platforms:
        plots = prepared.design.plots
        xen.check(Host(), [prepared.file.cell(plot.levels) for plot in plots])
        for kernel in _kernels(prepared.study):
            images[kernel, DOMAIN.name] = build(kernel, DOMAIN.name, progress=tell)
    variables = {k: v for k, v in os.environ.items() if k not in _UNSHARED}
    daemon = _daemon(prepared.study, tell)
    on = Surroundings(
        prepared.cpus, accelerator, images, variables, prepared.workdir, daemon=daemon
    )
    for plot in prepared.design.plots:
        cells = {v.node: prepared.file.cell({**plot.levels, **v.levels}) for v in plot.variants}
        bench = planner.make_bench(prepared.file.cell(plot.levels), plot, cells, on)
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


def _check_kernels(study: Study) -> None:
    """Raises:
    InputError, MachineError: a kernel that is to be on this host is not.
    """
    if study.machine == "emulated" or {"guest", "xen"} & set(study.sut.platforms):
        for asked in _kernels(study):
            # The distribution's may have to be fetched first.
            if asked.partition(":")[0] != "debian":
                find_source(asked, Cache())


def _kernels(study: Study) -> list[str]:
    return [str(kernel) for kernel in study.factors.get("sut.kernel", (study.sut.kernel,))]


def carry_out(
    prepared: Prepared,
    on: Surroundings,
    folder: Path,
    observer: Observer,
    *,
    resume: bool = False,
    manner: Manner | None = None,
) -> bool:
    """Runs the study into a run directory and sums it up, also when it is interrupted.

    Returns:
        Whether Ctrl-C ended the run.

    Raises:
        NotPutBackError: the run is whole, but a setting of this host is not as it was before.
    """
    manner = (manner or Manner()).checked(prepared)
    store = Store.resume(folder) if resume else create(prepared, on, folder)
    interrupted = complete = False
    left: NotPutBackError | None = None
    with store:
        try:
            _model_walks(prepared, store, observer, manner)
            on = with_capacities(prepared, on, store, observer, manner)
            complete = _run_cells(prepared, on, store, observer, manner)
            _run_searches(prepared, on, store, observer, manner)
        except KeyboardInterrupt:
            interrupted = True
            interrupt.heard()
            store.add_event(
                f"the run was interrupted; `hypertare run --resume --out {folder}` goes on with it"
            )
        except NotPutBackError as error:
            left = error
            store.add_event(str(error))
        except AgentError as error:
            raise AgentError(
                error.what,
                f"Every trial before is kept: `hypertare report {folder}` shows them, "
                f"`hypertare run --resume --out {folder}` goes on.",
            ) from error
        finally:
            store.ended(complete)
        summary = summarise(store)
    with writing(folder):
        (folder / "summary.json").write_text(summary.model_dump_json(indent=2) + "\n")
    if left is not None:
        raise left
    return interrupted


def _model_walks(prepared: Prepared, store: Store, observer: Observer, manner: Manner) -> None:
    """Runs the workloads once under the model of page walks, which virtual time leaves out."""
    file, study = prepared.file, prepared.study
    if study.walk is None:
        return
    stage = walks.Stage(
        study.walk,
        prepared.processors,
        real.choose(programs_of(file, study)),
        store,
        observer.tell,
        jobs=manner.jobs or 1,
        fresh=manner.fresh,
    )
    stage.carry_out(walks.needs(file, study))


def with_capacities(
    prepared: Prepared, on: Surroundings, store: Store, observer: Observer, manner: Manner
) -> Surroundings:
    """Measures what rates are shares of, one workload on one platform after the other."""
    wanted = capacity.needs(prepared.file, prepared.study, prepared.design)
    known = list(store.trials())
    missing = [need for need in wanted if capacity.measured(need, known) is None]
    kinds = {(need.workload, v.platform): None for need in missing for v in need.plot.variants}
    for workload, platform in kinds:
        blocks = [
            [need.ask(variant, replicate)]
            for need in missing
            for variant in need.plot.variants
            for replicate in range(capacity.TRIALS[prepared.study.clock])
            if (need.workload, variant.platform) == (workload, platform)
        ]
        first = max(capacity.FIRST, store.next_trial_id)
        with laboratory(
            prepared, workload, platform, on, store, observer, manner, first=first
        ) as lab:
            lab.blocks(blocks, "capacity")
    known = list(store.trials())
    found = (capacity.measured(need, known) for need in wanted)
    return replace(on, capacities=tuple(one for one in found if one is not None))


def _run_cells(
    prepared: Prepared, on: Surroundings, store: Store, observer: Observer, manner: Manner
) -> bool:
    """Carries the design out; whether every cell came to its end."""
    if prepared.search is not None and prepared.search.settings.only:
        return True
    with _machine(prepared, on, manner) as machine:
        campaign = (BatchCampaign if prepared.emulated else Campaign)(
            prepared.file, prepared.study, prepared.design, machine, store, observer, on
        )
        return campaign.run()


def _run_searches(
    prepared: Prepared, on: Surroundings, store: Store, observer: Observer, manner: Manner
) -> None:
    """Searches loss-free rates, one platform after the other, the settings of each side by side."""
    plan = prepared.search
    for platform in plan.platforms if plan is not None else ():
        assert plan is not None
        rounds = Rounds(plan, platform, store.trials())
        if not rounds.trials_left:
            continue
        first = max(FIRST, store.next_trial_id)
        workload = plan.settings.workload
        with laboratory(
            prepared, workload, platform, on, store, observer, manner, first=first
        ) as lab:
            rounds.run(lab)


@contextmanager
def laboratory(
    prepared: Prepared,
    workload: str,
    platform: str,
    on: Surroundings,
    store: Store,
    observer: Observer,
    manner: Manner,
    *,
    first: int | None = None,
) -> Iterator[Laboratory]:
    """A laboratory on the study's machine, for whoever decides as answers come what to ask next."""
    kind: type[Any] = BatchLaboratory if prepared.emulated else BenchLaboratory
    with (
        _machine(prepared, on, manner) as machine,
        kind(
            prepared.file,
            workload,
            platform,
            machine,
            store,
            observer,
            on,
            prepared.design.seed,
            first=first,
        ) as made,
    ):
        yield made


def _machine(prepared: Prepared, on: Surroundings, manner: Manner) -> Any:
    agent = paths.agent_binary()
    if not prepared.emulated:
        return LocalMachine(agent, Loan(manner.allow))
    return EmulatedMachine(agent, dict(on.images), jobs=manner.jobs or 1, fresh=manner.fresh)


def create(prepared: Prepared, on: Surroundings, folder: Path) -> Store:
    """Starts the file of a run in its directory."""
    study = prepared.study
    meta = Meta(
        hypertare=__version__,
        study=study.name,
        question=study.question,
        study_text=prepared.file.text,
        settings=prepared.file.raw,
        folder=str(prepared.file.folder),
        argv=tuple(sys.argv),
        seed=prepared.design.seed,
        machine=_machine_state(prepared, on),
        clock=study.clock,
        accelerator=on.accelerator if on.images and not _on_users_xen(study) else None,
        versions=environment.versions(paths.agent_binary(), next(iter(on.images.values()), None)),
        platforms=study.sut.platforms,
        baseline=BASELINE,
        responses={
            name: tuple(
                of_clock(one, study.clock)
                for one in of_workload(work.type, walked=name in study.walked)
            )
            for name, work in study.workloads.items()
        },
        headline={name: HEADLINE[work.type] for name, work in study.workloads.items()},
        threshold=study.design.threshold,
        published=prepared.published,
    )
    store = Store.create(folder, meta)
    # A busy host cannot change what is measured in virtual time.
    for text in quick.warnings() if study.clock == "wall" else ():
        store.add_event(text)
    for text in planner.warnings(study):
        store.add_event(text)
    return store


def _on_users_xen(study: Study) -> bool:
    return study.machine == "local" and "xen" in study.sut.platforms


def _machine_state(prepared: Prepared, on: Surroundings) -> MachineState:
    """The emulated machine is the study's own; nothing of this host is in its numbers."""
    if not prepared.emulated:
        return environment.machine_state()
    study, image = prepared.study, next(iter(on.images.values()))
    return MachineState(
        kind="emulated",
        hostname="emulated",
        cpu=f"QEMU TCG {study.sut.cpu_model or 'max'}",
        cpus=study.sut.cpus,
        memory=pc.memory(study, on.programs),
        kernel=getattr(image, "kernel_release", "unknown"),
        architecture="x86_64",
        distribution="none: the agent is its init",
    )


def new_folder(name: str, base: Path) -> Path:
    """Makes a run directory: study, date, time, and a number where several begin in one second.

    Raises:
        MachineError: it cannot be made.
    """
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        folder = base / (f"{name}-{stamp}" if number == 1 else f"{name}-{stamp}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise MachineError(
                f"The run directory {folder} cannot be made: {error.strerror}.",
                "Give another place with `--out`.",
            ) from error
        return folder
    raise MachineError(f"There is no free name for a run in {base}.", "Give one with `--out`.")
