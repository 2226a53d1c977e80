"""Checks a study, and how it is to be run, against itself and this machine before anything starts."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hypertare.base.errors import InputError
from hypertare.base.figures import is_text
from hypertare.base.host_files import Host
from hypertare.base.units import human_size
from hypertare.design import pc
from hypertare.design.design import Design, make
from hypertare.design.planner import MachineResources, files_memory, sut_cpus
from hypertare.design.profiles import EMULATED
from hypertare.machines.host.settings import NOTHING, Permissions, require_root
from hypertare.protocol.constants import VIRTIOFSD
from hypertare.runs.store import is_run
from hypertare.search import plan as searches
from hypertare.search.plan import SearchPlan
from hypertare.study import BASELINE, Study, StudyFile, published
from hypertare.study.published import Point
from hypertare.study.sut import is_own_program
from hypertare.walk import processors
from hypertare.walk.processors import Description

if TYPE_CHECKING:
    from hypertare.machines.executor import Executor


@dataclass(frozen=True)
class Prepared:
    """A study that was checked as far as can be without starting anything.

    `processors` are those of `[walk]`; `walks` those of `emulated.walks`, by what the study calls them.
    """

    file: StudyFile
    study: Study
    design: Design
    cpus: tuple[int, ...]
    workdir: Path | None
    search: SearchPlan | None = None
    processors: tuple[Description, ...] = ()
    walks: Mapping[str, Description] = field(default_factory=dict)
    published: tuple[Point, ...] = ()


def prepare(file: StudyFile, seed: int) -> Prepared:
    """Checks a study against itself and this machine.

    Raises:
        InputError: something in it is wrong or does not fit this machine.
    """
    study = file.study()
    design = make(study, seed)
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    if not study.machine_kind.is_this_host:
        # Of one elsewhere it is seen later how many it has.
        levels = study.factors.get("sut.cpus", (study.sut.cpus,))
        cpus = tuple(range(max(study.sut.cpus, *map(int, levels), 1)))
    on = MachineResources(cpus, "tcg", {}, {})
    workdir = _workdir(file, study)
    available = None if study.machine_kind.is_reached else Host().memory.get("MemAvailable")
    check_fits(file, design, cpus, available)
    if workdir is not None:
        for plot in design.plots:
            _check_size(workdir, file.cell(plot.levels).sut.memory)
    if study.machine_kind.boots_whole_pcs:
        from hypertare.machines import batch
        from hypertare.machines.image import bird

        for plot in design.plots:
            batch.check_nics(file, plot, replace(on, daemon=bird.ON_EMULATED))
    check_virtiofsd(study)
    _check_devices(study)
    for name, settings in study.workloads.items():
        if settings.input_file is not None:
            _check_input(name, settings.input_file, workdir)
        if study.sut.image is not None or study.machine_kind.is_reached:
            # Programs of an image or of a host elsewhere are known when its files are: the agent says what
            # is not there.
            continue
        if settings.argv and study.needs_files:
            for program in dict.fromkeys(settings.programs):
                _check_command(name, program, workdir)
        elif settings.argv:
            _check_in_image(name, settings.programs, programs_of(file, study))
    _check_kernels(study)
    modelled = tuple(study.walk.descriptions(file.folder)) if study.walk else ()
    if study.walk is not None:
        from hypertare.engine import walks

        walks.needs(file, study)
    return Prepared(
        file,
        study,
        design,
        cpus,
        workdir,
        searches.plan(file, study),
        modelled,
        _walks(file, design),
        tuple(
            point
            for wanted in study.published
            for point in published.read(wanted, file.folder, BASELINE, tuple(study.workloads))
        ),
    )


def _walks(file: StudyFile, design: Design) -> dict[str, Description]:
    """Reads the processors of `emulated.walks`, by their names in the study.

    Raises:
        InputError: a processor does not exist.
    """
    cells = (file.cell(plot.levels).emulated for plot in design.plots)
    words = dict.fromkeys(cell.walks for cell in cells if cell.walks_take_time)
    return {word: processors.find(word, file.folder) for word in words}


def check_fits(
    file: StudyFile, design: Design, cpus: tuple[int, ...], available: int | None
) -> None:
    """Whether benches fit into the machine with these CPUs, and as far as is known so much memory.

    Raises:
        InputError: one does not.
    """
    on = MachineResources(cpus, "tcg", {}, {})
    for plot in design.plots:
        cell = file.cell(plot.levels)
        check_memory(cell, available)
        sut_cpus(cell.sut.cpus, on)
        _check_room(cell, sum(variant.guests for variant in plot.variants), available)


def check_memory(study: Study, available: int | None) -> None:
    """Whether the guests of a bench fit into the memory of the machine that they stand on.

    Raises:
        InputError: they do not; it says how many would.
    """
    # What is this host's is not what Xen has left: see `host.xen`.
    if on_users_xen(study) or not _has_guests(study):
        return
    guests = pc.guests_memory(study, study.bench_guests)
    needed = pc.memory(study) if study.machine_kind.boots_whole_pcs else guests
    if available is None or needed <= available:
        return
    if study.most_beside > study.nodes_beside:
        raise InputError(
            f"{study.most_beside} guests of {human_size(study.sut.memory)} more need "
            f"{human_size(needed)}, but there are {human_size(available)} of memory available.",
            "Ask for fewer with 'most' of the workload, or for less memory each with sut.memory.",
        )
    fits = max(0, (available - (needed - guests)) // pc.guests_memory(study, 1))
    raise InputError(
        f"{study.bench_guests} guests of {human_size(study.sut.memory)} need "
        f"{human_size(needed)}, but there are {human_size(available)} of memory available: {fits} fit.",
        "Ask for fewer with sut.guests, or for less memory each with sut.memory.",
    )


def on_users_xen(study: Study) -> bool:
    there = any(platform.under_hypervisor for platform in study.platforms)
    return there and study.machine_kind.is_this_host


def _has_guests(study: Study) -> bool:
    return any(platform.image is not None for platform in study.platforms)


def _workdir(file: StudyFile, study: Study) -> Path | None:
    if not study.needs_files:
        return None
    workdir = (file.folder / (study.sut.workdir or ".")).resolve()
    if not is_text(str(workdir)):
        raise InputError(
            f"the work directory's name is no UTF-8: {str(workdir)!a}",
            "Rename it, or: --workdir DIR.",
        )
    if not workdir.is_dir():
        raise InputError(f"the work directory {workdir} is not there", "Choose one: --workdir DIR.")
    return workdir


def check_virtiofsd(study: Study, place: Path = Path(VIRTIOFSD)) -> None:
    """Checks that this host has virtiofsd if guests share files by it. An emulated machine's image has its
    own.

    Raises:
        InputError: it is missing.
    """
    if not study.machine_kind.is_this_host or not study.files_by("virtiofs") or place.exists():
        return
    raise InputError(
        f"sut.files = 'virtiofs' needs virtiofsd at {place}, which is not there",
        "Debian 12: apt-get install qemu-system-common; or take '9p'.",
    )


def _check_room(study: Study, disks: int, available: int | None) -> None:
    """Checks the room for disks, one for each guest, in a directory of this host or in the machine's
    memory.

    Raises:
        InputError: they do not fit, or the directory does not exist.
    """
    directory, needed = study.sut.disk_directory, disks * study.disk_bytes
    if not needed or study.machine_kind.boots_whole_pcs:
        return
    if directory is None:
        room, place = needed if available is None else available, "the machine's memory"
    elif not directory.is_dir():
        raise InputError(
            f"sut.disk_directory: {directory} is no directory of this host",
            "Name one that is, or leave it out: then disks are in memory.",
        )
    else:
        space = os.statvfs(directory)
        room, place = space.f_bavail * space.f_frsize, str(directory)
    if needed > room:
        raise InputError(
            f"{disks} disks of {human_size(study.disk_bytes)} need {human_size(needed)}, and {place} has "
            f"{human_size(room)}.",
            "Ask for a smaller 'span', or for another place with sut.disk_directory.",
        )


_BLOCK = 512
"""Bytes of a block in `st_blocks` of stat(2)."""


_MOST_WITH_HOLES = 4 << 30
"""Bytes of a file: a guest reads its holes too, for 9p knows nothing of them."""


def _check_size(workdir: Path, memory: int) -> None:
    """Checks that the work directory, without the runs in it, fits into memory twice.

    A trial holds the original and a copy that it changes.

    Raises:
        InputError: it does not fit.
    """
    room = files_memory(memory) // 2
    size, several = 0, set[tuple[int, int]]()
    for folder, folders, names in os.walk(workdir, onerror=None):
        folders[:] = [name for name in folders if not is_run(Path(folder) / name)]
        for name in names:
            try:
                found = (Path(folder) / name).lstat()
            except OSError:
                continue
            # A hole takes no memory, and a file of several names takes it once.
            if (found.st_dev, found.st_ino) not in several:
                size += min(found.st_size, found.st_blocks * _BLOCK)
            if found.st_size > _MOST_WITH_HOLES:
                size += found.st_size
            if found.st_nlink > 1:
                several.add((found.st_dev, found.st_ino))
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


def _check_input(name: str, given: str, workdir: Path | None) -> None:
    place = f"workloads.{name}.input:"
    if workdir is None:
        raise InputError(
            f"{place} an emulated machine does not see this host's files.",
            'Take machine = "local".',
        )
    file = workdir / given
    if not file.is_file():
        raise InputError(f"{place} there is no file {file}.", "Name one that stays there.")
    if not os.access(file, os.R_OK):
        raise InputError(f"{place} {file} cannot be read.", "Give yourself the right to.")


def _check_command(name: str, program: str, workdir: Path | None) -> None:
    if "/" in program:
        found = os.access((workdir or Path.cwd()) / program, os.X_OK)
        do = f"Searched from the work directory {workdir}."
    else:
        found = shutil.which(program) is not None
        do = f"Searched in PATH: {os.environ.get('PATH', '')}"
    if any(character.isspace() for character in program):
        do = (
            "After -- the first word is the program. A command line in quotes is for a shell: leave "
            f"out the --, as in hypertare weigh '{program}'."
        )
    if not found:
        raise InputError(f"{name}: there is no program '{program}'.", do)


def programs_of(file: StudyFile, study: Study) -> tuple[str, ...]:
    """The study's programs; paths are relative to its file, and absolute here."""
    names = study.sut.programs
    return tuple(str(file.folder / name) if is_own_program(name) else name for name in names)


def _check_in_image(name: str, programs: tuple[str, ...], sets: tuple[str, ...]) -> None:
    """Checks that the image of the emulated machine holds a workload's programs: it sees no files of this
    host.

    Raises:
        InputError: a program is missing.
    """
    from hypertare.machines.image.programs import choose

    chosen = choose(sets)
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
"""Folders in which a program must come from the image; a command may make programs in any other folder."""


def _check_kernels(study: Study) -> None:
    """Checks that the kernels which the study expects on this host exist.

    Raises:
        InputError, MachineError: one does not.
    """
    if study.machine_kind.boots_whole_pcs or _has_guests(study):
        from hypertare.machines.image.cache import Cache
        from hypertare.machines.image.kernel import find_source

        for asked in kernels(study):
            # The distribution's may have to be fetched first.
            if asked.partition(":")[0] != "debian":
                find_source(asked, Cache())


def kernels(study: Study) -> list[str]:
    return [str(kernel) for kernel in study.factors.get("sut.kernel", (study.sut.kernel,))]


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
