"""Responses of fork, touch and the probes of memory, from records."""

from __future__ import annotations

from hypertare.probes.kvm_exits import SVM_EXITS, VMX_EXITS
from hypertare.protocol.records import ProbeValues, Record, TaskResult
from hypertare.workloads import responses
from tests.made_tasks import purpose_of


def task(name: str, node: str, **values: float) -> TaskResult:
    return TaskResult(
        node=node, trial=1, phase="measure", task=name, values=values, purpose=purpose_of(name)
    )


def probe(node: str, name: str, values: dict[str, float], **more: str) -> ProbeValues:
    return ProbeValues(
        node=node,
        trial=1,
        phase="measure",
        probe=name,  # type: ignore[arg-type]
        elapsed_s=2.0,
        values=values,
        **more,  # type: ignore[arg-type]
    )


FORK = task("fork", "guest1", elapsed_s=4.0, forks=100.0, minor_faults=27e3, user_s=1, system_s=2)
KVM = {
    "exits": 69354.0,
    "pf_taken": 63911.0,
    "tlb_flush": 6334.0,
    "mmu_shadow_zapped": 2011.0,
    "mmu_pte_write": 2131.0,
    "pages_4k_level": 9348.0,
    "pages_2m_level": 39.0,
}
EXITS = {"exits_pf_excp": 64675.0, "exits_cpuid": 35.0, "exits_rsm": 2.0, "exits_0x3e7": 1.0}
RECORDS: list[Record] = [
    FORK,
    probe("guest1", "kvm", KVM),
    probe("guest1", "kvm_exits", {**EXITS, "page_faults": 64675.0}),
    probe("guest1", "memory", {"thp_fault_alloc": 16.0}),
    probe("host", "memory", {"ksm_saved_bytes_level": 4096.0, "cow_ksm": 3.0, "ksmd_s": 0.5}),
    probe("host", "hardware", {"dtlb_load_misses": 5.0, "cycles": 9.0}),
]


def measured(records: list[Record], platform: str = "guest") -> dict[str, float]:
    return responses.measure("fork", platform, ("guest1",), records)


def test_pages_of_hugetlb_are_memory_of_the_vmm_too() -> None:
    levels = {"rss_bytes_level": 50e6, "pss_bytes_level": 40e6, "hugetlb_bytes_level": 200e6}
    values = measured([FORK, probe("guest1", "vmm_memory", levels)])
    assert (values["vmm_resident"], values["vmm_proportional"]) == (250e6, 240e6)
    del levels["pss_bytes_level"]
    values = measured([FORK, probe("guest1", "vmm_memory", levels)])
    assert values["vmm_resident"] == 250e6 and "vmm_proportional" not in values
    assert "vmm_resident" not in measured([FORK, probe("xen1", "vmm_memory", {})], "xen")


def test_of_a_guest_under_kvm() -> None:
    values = measured(RECORDS)
    assert (values["elapsed"], values["fork_rate"]) == (4.0, 25.0)
    assert (values["exits"], values["exit_rate"]) == (69354.0, 34677.0)
    assert (values["guest_faults"], values["shadow_zapped"]) == (63911.0, 2011.0)
    assert (values["mapped_4k"], values["mapped_2m"]) == (9348.0, 39.0)
    assert (values["thp_faults"], values["ksm_saved"], values["ksm_cpu"]) == (16.0, 4096.0, 0.5)
    assert "host_thp_faults" not in values


def test_exits_by_reason_are_whole() -> None:
    values = measured(RECORDS)
    assert (values["exits_pf_excp"], values["exits_cpuid"]) == (64675.0, 35.0)
    # What is rare has no response of its own, and is not lost.
    assert values["exits_other"] == 3.0
    assert values["exits_npf"] == 0.0
    by_reason = {name for name in values if name.startswith("exits_")}
    assert sum(values[name] for name in by_reason) == sum(EXITS.values())
    assert by_reason == {f"exits_{reason}" for reason in (*SVM_EXITS, "other")}
    intel = probe("guest1", "kvm_exits", {"exits_ept_violation": 5.0, "exits_cpuid": 2.0})
    by_intel = {name: v for name, v in measured([FORK, intel]).items() if name.startswith("exits_")}
    assert set(by_intel) == {f"exits_{reason}" for reason in (*VMX_EXITS, "other")}
    assert sum(by_intel.values()) == 7.0


def test_what_was_not_counted_is_absent_and_not_zero() -> None:
    unavailable = probe("guest1", "kvm_exits", {}, unavailable="no rights")
    values = measured([FORK, unavailable, probe("host", "hardware", {"dtlb_load_misses": 5.0})])
    assert not any(name.startswith("exits") for name in values)
    # Half of a sum is no sum.
    assert "dtlb_misses" not in values and "walk_cycles" not in values


def test_natively_the_machine_s_own_kernel_is_meant() -> None:
    host = probe("host", "memory", {"thp_fault_alloc": 4.0, "ksmd_s": 0.1})
    values = measured([FORK, host], "native")
    assert values["thp_faults"] == 4.0
    assert not any(name.startswith(("ksm", "exits", "host_thp")) for name in values)


def test_of_touch() -> None:
    touch = task(
        "touch",
        "host",
        elapsed_s=2.0,
        accesses=1e6,
        minor_faults=1,
        setup_s=0.5,
        setup_faults=512,
        memory_bytes=4e6,
        huge_bytes=1e6,
    )
    values = responses.measure("touch", "native", ("host",), [touch])
    assert values["access_rate"] == 5e5 and values["huge_share"] == 0.25
    assert values["setup_time"] == 0.5 and values["setup_faults"] == 512


def test_every_one_is_declared_with_unit_and_direction() -> None:
    values = measured(RECORDS)
    declared = {response.name: response for response in responses.RESPONSES["fork"]}
    assert set(values) <= set(declared)
    assert declared["mapped_2m"].better == "higher" and declared["ksm_saved"].unit == "B"
