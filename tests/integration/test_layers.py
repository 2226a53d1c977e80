"""One read by layer on an emulated machine: who worked for it, in instructions, and what all that adds up
to; and a medium that takes time.
"""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from hypertare.protocol.records import NodeReady
from hypertare.runs.store import Store
from tests.integration.lab import Lab, summary

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated"), pytest.mark.timeout(900)]

STUDY = """
name = "layers"
question = "Who works for a read?"
machine = "emulated"
probes = ["kvm", "cpu_modes", "schedstat"]
[sut]
platforms = ["native", "guest"]
cpus = 2
guest_cpus = 1
memory = "128M"
disk_cache = "none"
disk_aio = "native"
pages = "2M"
[workloads.read]
type = "io"
span = "1M"
duration = "500ms"
[[bill]]
workload = "read"
response = "run_per_operation"
whole = true
instructions = true
items = [
    { name = "all layers", of = [
        "program_per_operation", "system_per_operation", "vcpu_user_per_operation",
        "vcpu_system_per_operation", "vmm_user_per_operation", "vmm_system_per_operation",
    ] },
]
[design]
warmup = 0
min_trials = 2
max_trials = 2
min_boots = 1
blocks_per_boot = 2
"""

MOST_OF_THE_MACHINE = 0.97
"""Of the time that tasks run beside a guest: what is left are agents and the kernel's own threads."""
SHORTEST_WAY_OUT = 500
"""Instructions of KVM and the host's kernel for an exit, at the least."""


def test_all_layers_of_a_read_add_up_to_what_ran(lab: Lab) -> None:
    ran = lab.run("run", lab.study(STUDY), "--out", "run", patience_s=600)
    assert ran.status == 0, ran
    found = summary(lab.work / "run")
    with Store.open(lab.work / "run") as store:
        nodes = [one for _, bench in store.benches() for one in bench if isinstance(one, NodeReady)]
    # All that the guest has touched is in huge pages.
    (backing,) = (one.backing for one in nodes if one.backing)
    assert backing.huge == backing.resident > 0
    native, guest = (values(found, platform) for platform in ("native", "guest"))
    layers = ("program", "system", "vcpu_user", "vcpu_system", "vmm_user", "vmm_system")
    own = native["program_per_operation"] + native["system_per_operation"]
    assert own == pytest.approx(native["task_cpu_per_operation"])
    assert own <= native["run_per_operation"]
    of_vcpu, of_vmm = (
        sum(guest[f"{name}_per_operation"] for name in some) for some in (layers[:4], layers[4:])
    )
    assert of_vcpu == pytest.approx(guest["guest_cpu_per_operation"])
    assert of_vmm == pytest.approx(guest["vmm_cpu_per_operation"])
    run = guest["run_per_operation"]
    assert MOST_OF_THE_MACHINE * run < of_vcpu + of_vmm <= run
    # The same program, and a kernel of the same kind, with a driver in the place of the medium itself.
    assert guest["program_per_operation"] == pytest.approx(native["program_per_operation"], rel=0.6)
    assert guest["system_per_operation"] > native["system_per_operation"]
    # Each exit is KVM's; a read wakes QEMU's thread, which asks its kernel.
    least = guest["exits_per_operation"] * SHORTEST_WAY_OUT * 8e-9
    assert guest["vcpu_system_per_operation"] > least > 0
    assert min(guest["vmm_user_per_operation"], guest["vmm_system_per_operation"]) > 0
    assert_bill(found, native, guest)


FIO = (
    "--name=r --filename=$HYPERTARE_DISK --rw=randread --bs=4k --size=4m --ioengine=io_uring --direct=1 "
    "--runtime=1 --time_based --thread --output-format=json --lat_percentiles=1 --clat_percentiles=0"
)
SLOW = """
name = "slow"
question = "Does io measure what fio measures?"
machine = "emulated"
[sut]
platforms = ["native"]
memory = "512M"
programs = ["compress", "{fio}"]
disk_latency = "1ms"
[emulated]
shift = 0
[workloads.io]
type = "io"
span = "4M"
duration = "1s"
[workloads.fio]
type = "command"
disk = "4M"
command = "fio {options}"
value = {{ find = '"{percentile}" : ([0-9]+)', better = "lower", unit = "ns", name = "latency" }}
[design]
warmup = 0
min_trials = 2
max_trials = 2
min_boots = 1
blocks_per_boot = 2
"""


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_where_the_medium_takes_the_time_io_measures_what_fio_measures(lab: Lab) -> None:
    """By a processor of 10^9 instructions a second, so that each tool's own are few."""
    fio = shutil.which("fio")
    for percentile, response in (("50.000000", "read_p50"), ("99.000000", "read_p99")):
        study = lab.study(SLOW.format(fio=fio, options=FIO, percentile=percentile))
        ran = lab.run("run", study, "--jobs", "1", "--out", response, patience_s=600)
        assert ran.status == 0, ran
        found = summary(lab.work / response)
        assert found["failed"] == []
        ours = values(found, "native", "io")[response]
        # The medium takes a millisecond, and the kernel some instructions more.
        assert 1e-3 < ours < 1.05e-3
        assert ours == pytest.approx(values(found, "native", "fio")["latency"] * 1e-9, rel=0.02)


def assert_bill(found: dict[str, Any], *of: dict[str, float]) -> None:
    assert [bill["platform"] for bill in found["bills"]] == ["native", "guest"]
    for bill, one in zip(found["bills"], of, strict=True):
        assert bill["unit"] == "instructions (virtual)" and bill["baseline"] is None
        run = bill["cost"]["estimate"]
        # An instruction takes 8 ns.
        assert run == pytest.approx(one["run_per_operation"] / 8e-9)
        (layers,) = bill["items"]
        assert layers["amount"]["estimate"] + bill["unexplained"]["estimate"] == pytest.approx(run)


def values(found: dict[str, Any], platform: str, workload: str = "read") -> dict[str, float]:
    return {
        one["response"]: one["estimate"]
        for one in found["estimates"]
        if one["platform"] == platform and one["cell"]["workload"] == workload
    }
