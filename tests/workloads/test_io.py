"""Work on disks: what is refused before anything starts, and what trials say of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from hypertare.base.errors import InputError
from hypertare.base.variables import known
from hypertare.design import pc, planner
from hypertare.design.design import make
from hypertare.design.planner.network import pairs
from hypertare.engine.prepare import check_virtiofsd
from hypertare.protocol import plan
from hypertare.protocol.phase import PHASE, Phase
from hypertare.protocol.records import Histogram, ProbeValues, TaskResult
from hypertare.study import StudyFile
from hypertare.workloads.io import IO
from hypertare.workloads.workload import TaskInputs

TEXT = """
name = "disk"
question = "?"
machine = "{machine}"
[sut]
platforms = {platforms}
{sut}
[workloads.work]
type = "io"
{keys}
"""


def study(
    keys: str = "", sut: str = "", machine: str = "local", platforms: str = '["native", "guest"]'
) -> StudyFile:
    text = TEXT.format(keys=keys, sut=sut, machine=machine, platforms=platforms)
    return StudyFile(text, "disk.toml")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("block = 1000", "a multiple of 512"),
        ('block = "4K"\nspan = "6K"', "no multiple of 'block'"),
        ('engine = "pread"\ndepth = 2', "one operation at a time"),
        ('span = "64K"\ndepth = 9', "needs two for each"),
        ('span = "64K"\njobs = 16', "raise 'span'"),
        ("depth = 0", "depth"),
        ("read = 2", "percent"),
        ("rate = 0", "rate"),
        ("sync_every = 0", "sync_every"),
    ],
)
def test_nonsense_is_refused(keys: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(keys).study()


@pytest.mark.parametrize(
    ("sut", "said"),
    [
        ('disk_directory = "here"', "no path from the root"),
        ('disk_cache = "none"', "the disk is in memory"),
        ('disk_aio = "native"', "past the host's page cache"),
        ('disk_device = "nvme"\nmachine_type = "microvm"', "no PCI"),
        ('disk_device = "ahci"\ndisk_iothread = true', "disks of virtio"),
        ('disk_device = "ahci"\ndisk_queues = 1', "which has one"),
        ("disk_queues = 2", "the guest has 1 CPUs"),
        ("disk_queues = 0", "disk_queues"),
        ('disk_format = "vmdk"', "disk_format"),
        ('disk_cache = "fast"', "disk_cache"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(sut: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(sut=sut).study()


@pytest.mark.parametrize(
    ("sut", "said"),
    [
        ('files = "nfs"', "files"),
        ('files = "9p"\ndisk_cache = "unsafe"', r"sut.disk_cache is of a disk"),
        ('files = "9p"\ndisk_directory = "/tmp"', "leave one out"),
        ('files = "virtiofs"\npages = "thp"', "shared with what serves the guest"),
        ('files = "virtiofs"\ndatapath = "sidecore"\ncpus = 2', "take another datapath"),
    ],
)
def test_files_that_do_not_go_together_are_refused(sut: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(sut=sut).study()
    burning = study(sut='files = "9p"').text.replace('"io"', '"burn"')
    with pytest.raises(InputError, match="for the file that a workload of the type 'io' works on"):
        StudyFile(burning, "disk.toml").study()
    with pytest.raises(InputError, match=r"sut\.files"):
        study(sut='files = "9p"', platforms='["native", "container"]').study()


def test_virtiofs_needs_what_serves_it(tmp_path: Path) -> None:
    served = study(sut='files = "virtiofs"').study()
    with pytest.raises(InputError, match="apt-get install qemu-system-common"):
        check_virtiofsd(served, tmp_path / "none")
    check_virtiofsd(served, tmp_path)
    check_virtiofsd(study(sut='files = "9p"').study(), tmp_path / "none")
    check_virtiofsd(study(sut='files = "virtiofs"', machine="emulated").study(), tmp_path / "none")


def test_beside_a_guest_that_shares_files_all_work_on_files() -> None:
    text = study(machine="emulated").text
    varied = text.replace("[sut]", 'factors."sut.files" = ["none", "9p"]\n[sut]')
    file = StudyFile(varied, "disk.toml")
    image = SimpleNamespace(kernel=Path("/k"), initramfs=Path("/i"))
    on = planner.MachineResources(
        (0,), "kvm", {("debian", "guest"): image}, {}, chance=planner.Chance(1)
    )
    shared = []
    for plot in make(file.study(), 1).plots:
        study_of_plot = file.cell(plot.levels)
        cells = {v.node: file.cell({**plot.levels, **v.levels}) for v in plot.variants}
        bench = planner.make_bench(study_of_plot, plot, cells, on)
        media = [node.disk for node in bench.nodes if node.disk is not None]
        assert media and all(disk.is_file for disk in media)
        guests = [node.kind for node in bench.nodes if isinstance(node.kind, plan.Guest)]
        shared += [guest.settings.files for guest in guests]
    assert shared == [None, "9p"]


def test_who_has_no_disk_is_refused() -> None:
    xen = '["native", "xen"]'
    with pytest.raises(
        InputError, match="that of xen is a block device, which machine = 'emulated' has"
    ):
        study(platforms=xen).study()
    with pytest.raises(InputError, match=r"without sut\.files: leave them out"):
        study(
            machine="emulated", sut='files = "9p"', platforms='["native", "guest", "xen"]'
        ).study()
    with pytest.raises(InputError, match="the machine 'emulated' sees none of those"):
        study(machine="emulated", sut='disk_directory = "/tmp"', platforms='["native"]').study()
    burning = study(sut='disk_device = "nvme"').text.replace('"io"', '"burn"')
    with pytest.raises(InputError, match="for the disk that a workload of the type 'io' has"):
        StudyFile(burning, "disk.toml").study()


@pytest.mark.parametrize(
    "setting",
    [
        *('disk_device = "nvme"', 'disk_aio = "native"', 'disk_cache = "none"'),
        *("disk_iothread = true", "disk_queues = 1", 'disk_format = "qcow2"'),
    ],
)
def test_a_guest_of_xen_has_none_of_what_qemu_can_do_with_a_disk(setting: str) -> None:
    key = setting.split()[0]
    with pytest.raises(InputError, match=rf"sut\.{key} is of the platform guest"):
        study(machine="emulated", sut=setting, platforms='["native", "xen"]').study()


def test_the_medium_of_a_guest_of_xen_is_in_its_driver_domain() -> None:
    file = study('span = "8M"', "guests = 2", "emulated", '["native", "xen"]')
    sut = file.study().sut
    native, xen = (pc.make(kind, file.study(), 1, ()) for kind in pc.classes(file.study()))
    assert native.driver_memory is None
    assert xen.driver_memory == sut.driver_memory + (16 << 20)
    assert xen.memory >= xen.driver_memory + 2 * sut.memory


def test_every_system_under_test_has_a_disk_of_the_largest_span() -> None:
    keys = 'span = "1M"\nfactors = { "workloads.work.span" = ["1M", "8M"] }'
    file = study(keys, sut='disk_directory = "/tmp"', platforms='["native", "container"]')
    (plot, *_) = make(file.study(), 1).plots
    on = planner.MachineResources((0, 1), "tcg", {}, {})
    cells = {variant.node: file.cell(variant.levels) for variant in plot.variants}
    bench = planner.make_bench(file.study(), plot, cells, on)
    assert [node.disk for node in bench.nodes] == 2 * [
        plan.Disk(bytes=8 << 20, directory=Path("/tmp"))
    ]


def test_a_baseline_has_a_part_of_its_disk_for_each_guest() -> None:
    file = study('span = "1M"', sut="guests = 2", platforms='["native", "container"]')
    (plot, *_) = make(file.study(), 1).plots
    on = planner.MachineResources((0, 1), "tcg", {}, {})
    cells = {variant.node: file.cell(variant.levels) for variant in plot.variants}
    bench = planner.make_bench(file.study(), plot, cells, on)
    sizes = {node.name: node.disk.bytes for node in bench.nodes if node.disk is not None}
    assert sizes == {"host": 2 << 20, "container1-1": 1 << 20, "container1-2": 1 << 20}
    for variant, starts in zip(plot.variants, ([0, 1 << 20], [0, 0]), strict=True):
        works = [
            task.workload
            for pair in pairs(file.study(), variant, on)
            for task in file.study().workloads["work"].tasks(pair, TaskInputs({}))
        ]
        assert [one.start for one in works if isinstance(one, plan.Io)] == starts
        assert [one.start for one in works if isinstance(one, plan.IoFill)] == starts


def test_a_disk_in_memory_is_smaller_than_a_containers_memory(tmp_path: Path) -> None:
    large = study('span = "64M"', sut='memory = "64M"', platforms='["native", "container"]')
    with pytest.raises(InputError, match=r"a container's disk of 64 MiB in memory is a part"):
        large.study()
    native = study('span = "64M"', sut='memory = "64M"', platforms='["native"]')
    assert native.study().disk_bytes == 64 << 20
    elsewhere = f'memory = "64M"\ndisk_directory = "{tmp_path}"'
    study('span = "64M"', sut=elsewhere, platforms='["native", "container"]').study()


def test_commands_of_several_guests_do_not_share_a_disk() -> None:
    command = study('command = "true"\ndisk = "1M"', sut="guests = 2")
    command = StudyFile(command.text.replace('"io"', '"command"'), "disk.toml")
    with pytest.raises(InputError, match="would write to the one 'disk' of their host"):
        command.study()


def test_figures_come_from_what_the_task_counted() -> None:
    values = {
        "elapsed_s": 0.5,
        "operations": 1000.0,
        "bytes": 4096000.0,
        "user_s": 0.05,
        "system_s": 0.2,
        "read_p50_ns": 90_000.0,
        "read_p99_ns": 120_000.0,
    }
    purpose = plan.Purpose(role="io")
    result = TaskResult(
        node="host", trial=1, phase=PHASE, task="io", values=values, purpose=purpose
    )
    phase = Phase.of([result])
    found = IO.measure(phase)
    assert found["iops"] == 2000.0 and found["throughput"] == 8_192_000.0
    assert found["read_p50"] == pytest.approx(90e-6) and found["write_p50"] is None
    assert known(IO.measure_machine(phase, 0.5)) == {"cpu_per_operation": 0.5e-3}
    assert IO.measure_node(phase, "host") == {}
    assert found["task_cpu_per_operation"] == pytest.approx(0.25e-3)


def test_domains_of_xen_have_their_cpu_time_and_no_threads_of_a_vmm() -> None:
    """What serves the disk is the driver domain's."""
    purpose = plan.Purpose(role="io")
    worked = TaskResult(
        node="xen1", trial=1, phase=PHASE, task="io", values={"operations": 100.0}, purpose=purpose
    )
    counted = [
        ProbeValues(
            node=node, trial=1, phase=PHASE, probe="outside", elapsed_s=1.0, values={"cpu_s": cpu_s}
        )
        for node, cpu_s in (("xen1", 0.3), ("host", 0.5))
    ]
    phase = Phase.of([worked, *counted])
    assert known(IO.measure_node(phase, "xen1")) == {"guest_cpu_per_operation": 0.003}
    assert known(IO.measure_node(phase, "host")) == {}
    assert known(IO.measure_machine(phase, 0.8)) == {
        "cpu_per_operation": 0.008,
        "driver_cpu_per_operation": 0.005,
    }


def test_exits_are_counted_by_what_they_are_for() -> None:
    """A write to a register of a device faults with a reserved bit: codes are those of the processor."""
    purpose = plan.Purpose(role="io")
    worked = TaskResult(
        node="guest1",
        trial=1,
        phase=PHASE,
        task="io",
        values={"operations": 100.0},
        purpose=purpose,
    )
    # Of these codes one is a write to a register; the others are a reading of one and writes to memory.
    codes = ((0x10000000E, 101), (0x10000000C, 3), (0x100000007, 5), (0x200000006, 2))

    def reported(exits: dict[str, float]) -> dict[str, float]:
        probes = {
            "outside": ({"vcpu_s": 0.3, "vmm_s": 0.2}, {}),
            "kvm": ({"exits": 240.0, "halt_exits": 102.0}, {}),
            "kvm_exits": (exits, {"page_faults": Histogram(unit="error code", buckets=codes)}),
        }
        counted = [
            ProbeValues(
                node="guest1",
                trial=1,
                phase=PHASE,
                probe=name,  # type: ignore[arg-type]
                elapsed_s=1.0,
                values=values,
                histograms=histograms,
            )
            for name, (values, histograms) in probes.items()
        ]
        return known(IO.measure_node(Phase.of([worked, *counted]), "guest1"))

    amds = reported({"exits_npf": 111.0})
    assert amds["exits_per_operation"] == 2.4 and amds["halts_per_operation"] == 1.02
    assert amds["kicks_per_operation"] == 1.01
    assert "kicks_per_operation" not in reported({"exits_ept_misconfig": 101.0})


def reported(node: str, probe: str, values: dict[str, float]) -> ProbeValues:
    return ProbeValues(
        node=node,
        trial=1,
        phase=PHASE,
        probe=probe,  # type: ignore[arg-type]
        elapsed_s=1.0,
        values=values,
    )


MODES = {
    **dict.fromkeys(("guest_user", "vcpu_user", "vmm_user", "vmm_kernel"), 0.0),
    **dict.fromkeys(("guest_kernel", "vcpu_kernel"), 0.0),
    "other_user": 30.0,
    "other_kernel": 70.0,
}
WORKED = TaskResult(
    node="guest1",
    trial=1,
    phase=PHASE,
    task="io",
    values={"operations": 1000.0, "user_s": 0.5, "system_s": 0.4},
    purpose=plan.Purpose(role="io"),
)


def test_layers_are_exact_times_split_by_samples() -> None:
    run = reported("host", "schedstat", {"run_s": 1.0})
    native = Phase.of([WORKED, run, reported("host", "cpu_modes", MODES)])
    assert known(IO.measure_machine(native, 1.5)) == pytest.approx(
        {
            "cpu_per_operation": 1.5e-3,
            "run_per_operation": 1e-3,
            "program_per_operation": 0.27e-3,
            "system_per_operation": 0.63e-3,
        }
    )
    counted = {
        "guest_user": 5,
        "guest_kernel": 25,
        "vcpu_kernel": 20,
        "vmm_user": 1,
        "vmm_kernel": 3,
    }
    modes = reported("host", "cpu_modes", MODES | counted)
    outside = reported("guest1", "outside", {"vcpu_s": 0.5, "vmm_s": 0.4})
    found = known(IO.measure_machine(Phase.of([WORKED, run, outside, modes]), 1.5))
    layers = {name.removesuffix("_per_operation"): 1000 * s for name, s in found.items()}
    assert layers == pytest.approx(
        {
            "cpu": 1.5,
            "run": 1.0,
            "program": 0.05,
            "system": 0.25,
            "vcpu_user": 0.0,
            "vcpu_system": 0.2,
            "vmm_user": 0.1,
            "vmm_system": 0.3,
        }
    )


def test_a_guest_without_kvm_has_no_layers() -> None:
    """Its code is QEMU's, and no sample says which part of that is the program."""
    outside = reported("guest1", "outside", {"vcpu_s": 0.5, "vmm_s": 0.4})
    modes = reported("host", "cpu_modes", MODES)
    found = known(IO.measure_machine(Phase.of([WORKED, outside, modes]), 1.5))
    assert set(found) == {"cpu_per_operation"}


def test_a_medium_takes_time_where_it_is_a_device() -> None:
    keys = 'span = "1M"'
    slow = study(keys, 'disk_latency = "100us"', "emulated", '["native"]')
    (plot, *_) = make(slow.study(), 1).plots
    on = planner.MachineResources((0,), "kvm", {}, {}, chance=planner.Chance(1))
    cells = {variant.node: slow.cell(variant.levels) for variant in plot.variants}
    bench = planner.make_bench(slow.study(), plot, cells, on)
    assert [node.disk.latency_ns for node in bench.nodes if node.disk] == [100_000]
    for machine, sut in (
        ("local", 'disk_latency = "100us"'),
        ("emulated", 'disk_latency = "100us"\nfiles = "9p"'),
    ):
        with pytest.raises(InputError, match=r"sut\.disk_latency is 0.0001 s"):
            study(sut=sut, machine=machine).study()
    with pytest.raises(InputError, match="disk_latency"):
        study(sut='disk_latency = "2s"', machine="emulated").study()
