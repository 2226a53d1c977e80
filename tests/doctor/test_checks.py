"""Every check on captured machines, each outcome."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hypertare.base.host_files import Ran
from hypertare.doctor.checks import CHECKS, disturbances, examine, verdict
from hypertare.doctor.finding import Finding
from tests.doctor.factory import QUIET, make_host

CPU = "/sys/devices/system/cpu"
CLOCK = "/sys/devices/system/clocksource/clocksource0"
OWN = Path(__file__).parents[2]
OWN_GROUP = {"/sys/fs/cgroup/user/cgroup.procs": ""}
GROUP = {"/proc/self/cgroup": "0::/user\n", "/sys/fs/cgroup/cgroup.controllers": "cpu memory"}
BUSY_PROCESS = "(make job) S 1 1 1 0 -1 0 0 0 0 0 {} 0 0 0 20"


@dataclass(frozen=True)
class Case:
    check: str
    status: str
    says: str
    files: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Ran] = field(default_factory=dict)
    later: dict[str, str] = field(default_factory=dict)
    does: str = ""
    free: int = 10 << 30


def meminfo(**kilobytes: int) -> dict[str, str]:
    pages = {k: v for k, v in kilobytes.items() if k.startswith("HugePages")}
    lines = [f"{k}:   {v}" if k in pages else f"{k}:   {v} kB" for k, v in kilobytes.items()]
    return {"/proc/meminfo": "\n".join(lines)}


def version(text: str) -> dict[str, Ran]:
    return {
        "--version": Ran(0, f"QEMU emulator version {text}\nCopyright"),
        "-accel help": Ran(0, "Accelerators supported in QEMU binary:\ntcg\nkvm\nxen\n"),
    }


FAILS = Ran(1, err="mount overlay: Operation not permitted\n")


def module(parameter, value):
    name = "kvm_amd" if parameter == "npt" else "kvm_intel"
    return {f"/sys/module/{name}/parameters/{parameter}": f"{value}\n"}


def pool(total, free, promised):
    folder = "/sys/kernel/mm/hugepages/hugepages-2048kB"
    found = {"nr": total, "free": free, "resv": promised}
    return {f"{folder}/{name}_hugepages": f"{count}\n" for name, count in found.items()}


CHANGED = (
    '{"module": {"name": "kvm_intel", "parameters": {"ept": "Y"}, "device": null},'
    ' "huge_pages": null}'
)

XEN = {"/sys/hypervisor/type": "xen", "/proc/xen/capabilities": "control_d\n"}


def xl(free: str, version: str = "4.17.7") -> dict[str, Ran]:
    """What `xl info` says, shortened."""
    reported = {"xen_version": version, "xen_scheduler": "credit", "free_memory": free}
    return {"xl info": Ran(0, "".join(f"{key:<23}: {value}\n" for key, value in reported.items()))}


CASES = [
    Case("qemu", "bad", "no QEMU", does="apt-get install qemu-system-x86"),
    Case("qemu", "ok", "QEMU 7.2.22, accelerators: kvm, tcg", answers=version("7.2.22 (Debian)")),
    Case("qemu", "warn", "older than 7.0", answers=version("5.2.0 (Debian)"), does="backports"),
    Case("nested", "ok", "not a virtual", {"/proc/cpuinfo": "flags\t\t: fpu vmx\n"}),
    Case("nested", "warn", "nested and slower", {"/proc/cpuinfo": "flags : svm hypervisor"}),
    Case("nested", "info", "without nested", {"/proc/cpuinfo": "flags : fpu hypervisor"}),
    Case("compiler", "ok", "gcc 12 and make", answers={"gcc": Ran(0, "12\n"), "make": Ran(0)}),
    Case("compiler", "info", "no make: ", answers={"gcc": Ran(0, "12\n")}, does="apt-get install"),
    Case("vhost_net", "ok", "the kernel moves the packets", {"/dev/vhost-net": ""}),
    Case("vhost_net", "info", "no /dev/vhost-net.*QEMU's process", does="modprobe vhost_net"),
    Case("user_namespaces", "ok", "of its own", answers={"attempts.py nothing": Ran(0)}),
    Case(
        *("user_namespaces", "bad", "Operation not permitted"),
        {"/proc/sys/kernel/unprivileged_userns_clone": "0"},
        {"attempts.py nothing": Ran(1, err="unshare failed: Operation not permitted")},
        does="sysctl kernel.unprivileged_userns_clone=1",
    ),
    Case(
        *("user_namespaces", "bad", "no namespaces"),
        {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
        does="sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    Case(
        *("user_namespaces", "bad", "no namespaces"),
        {"/proc/sys/user/max_user_namespaces": "0"},
        does="sysctl user.max_user_namespaces=10000",
    ),
    Case("user_namespaces", "bad", "not installed", does="apt-get install util-linux"),
    Case("tap", "ok", "can be made", answers={"attempts.py tap": Ran(0, "tare0")}),
    Case("tap", "warn", "a TAP fails", does="modprobe tun"),
    Case("tap", "warn", "a TAP fails", {"/dev/net/tun": ""}, does="chmod 0666 /dev/net/tun"),
    Case("overlay", "ok", "writes in memory", answers={"attempts.py overlay": Ran(0)}),
    Case("overlay", "warn", "not permitted", answers={"attempts.py": FAILS}, does="modprobe"),
    *(
        Case("cgroup", grade, said, {**GROUP, **OWN_GROUP, f"/sys/fs/cgroup/{place}": "cpu memory"})
        for place, grade, said in (
            ("user/cgroup.subtree_control", "ok", "that limit memory"),
            ("cgroup.subtree_control", "ok", "that limit memory"),
            ("user/cgroup.controllers", "warn", "none can be made that limits memory"),
        )
    ),
    Case("cgroup", "warn", "may not be written", GROUP, does="systemd-run"),
    Case(
        *("cgroup", "warn", "v1 holds the controllers: a container has no memory limit"),
        {"/sys/fs/cgroup/memory/tasks": "", "/sys/fs/cgroup/unified/cgroup.controllers": ""},
        does="unified_cgroup_hierarchy=1",
    ),
    Case(
        *("cgroup", "warn", "v1 alone, which is not used"),
        {"/sys/fs/cgroup/memory/tasks": ""},
        does="unified_cgroup_hierarchy=1",
    ),
    Case("cgroup", "warn", "no cgroups", does="mount -t cgroup2"),
    Case("governor", "ok", "performance", {f"{CPU}/cpu0/cpufreq/scaling_governor": "performance"}),
    Case(
        *("governor", "warn", "powersave"),
        {
            f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n",
            f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave\n",
        },
        does="echo performance",
    ),
    Case("governor", "info", "does not show"),
    Case("turbo", "ok", "off", {f"{CPU}/intel_pstate/no_turbo": "1"}),
    Case("turbo", "warn", "on", {f"{CPU}/intel_pstate/no_turbo": "0"}, does="echo 1"),
    Case("turbo", "ok", "off", {f"{CPU}/cpufreq/boost": "0"}),
    Case("turbo", "warn", "on", {f"{CPU}/cpufreq/boost": "1"}, does="echo 0"),
    Case("turbo", "info", "does not show"),
    Case("smt", "ok", "no two", {f"{CPU}/smt/active": "0"}),
    Case("smt", "warn", "share cores", {f"{CPU}/smt/active": "1"}, does="echo off"),
    Case("smt", "info", "does not show"),
    Case(
        *("steal", "ok", "0.0%"),
        {"/proc/stat": QUIET},
        later={"/proc/stat": "cpu  100 0 100 10400 0 0 0 0 0 0"},
    ),
    Case(
        *("steal", "warn", "25.0%"),
        {"/proc/stat": QUIET},
        later={"/proc/stat": "cpu  100 0 100 10300 0 0 0 100 0 0"},
        does="dedicated",
    ),
    Case("steal", "info", "does not show"),
    Case(
        *("load", "ok", "100% idle"),
        {"/proc/stat": QUIET},
        later={"/proc/stat": "cpu  101 0 100 10399 0 0 0 0 0 0"},
    ),
    Case(
        *("load", "warn", r"takes 50% .*make job"),
        {"/proc/stat": QUIET, "/proc/7/stat": f"7 {BUSY_PROCESS.format(100)}"},
        later={
            "/proc/stat": "cpu  250 0 150 10200 0 0 0 0 0 0",
            "/proc/7/stat": f"7 {BUSY_PROCESS.format(290)}",
        },
        does="top",
    ),
    Case("load", "info", "does not show"),
    Case("clocksource", "ok", "tsc", {f"{CLOCK}/current_clocksource": "tsc\n"}),
    Case(
        *("clocksource", "warn", "hpet"),
        {
            f"{CLOCK}/current_clocksource": "hpet\n",
            f"{CLOCK}/available_clocksource": "hpet tsc acpi_pm\n",
        },
        does="echo tsc",
    ),
    Case(
        *("clocksource", "warn", "acpi_pm"),
        {f"{CLOCK}/current_clocksource": "acpi_pm"},
        does="tsc=reliable",
    ),
    Case("clocksource", "info", "does not show"),
    Case("cpu_isolation", "ok", "CPUs 2-3", {f"{CPU}/isolated": "2-3\n"}),
    Case("cpu_isolation", "info", "no CPU", {f"{CPU}/isolated": "\n"}, does="isolcpus="),
    Case("time_sync", "ok", "chronyd", {"/proc/9/comm": "chronyd\n"}),
    Case("time_sync", "info", "nothing", {"/proc/9/comm": "bash\n"}, does="install chrony"),
    Case("memory", "ok", "8.0 GiB", meminfo(MemAvailable=8 << 20)),
    Case("memory", "warn", "few guests", meminfo(MemAvailable=1 << 20), does="--memory"),
    Case("memory", "bad", "need 0.5 GiB", meminfo(MemAvailable=100 << 10), does="--memory"),
    Case("swap", "ok", "no swap", meminfo(SwapTotal=0, SwapFree=0)),
    Case("swap", "ok", "unused", meminfo(SwapTotal=4096, SwapFree=4096)),
    Case("swap", "warn", "2 MiB", meminfo(SwapTotal=4096, SwapFree=2048), does="swapoff -a"),
    Case("paging", "ok", r"nested page tables \(kvm_intel with ept=Y\)", module("ept", "Y")),
    Case("paging", "ok", r"nested page tables \(kvm_amd with npt=1\)", module("npt", "1")),
    Case("paging", "warn", "shadow", module("ept", "N"), does="modprobe kvm_intel ept=1"),
    Case("paging", "warn", "shadow", module("npt", "0"), does="modprobe kvm_amd npt=1"),
    Case("paging", "info", "kvm_intel does not report", module("pml", "Y")),
    Case("paging", "info", "KVM is not loaded"),
    Case("huge_pages", "ok", "5 of 8 .* up to 10 MiB", pool(8, 6, 1)),
    Case("huge_pages", "info", "all of 8", pool(8, 1, 1), does="--allow-huge-pages"),
    Case("huge_pages", "info", "no huge", pool(0, 0, 0), does="vm.nr_hugepages"),
    Case("huge_pages", "info", "kernel has no pages of 2 MB"),
    Case("thp", "ok", "has no"),
    Case(
        *("thp", "ok", "madvise"),
        {"/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never"},
    ),
    Case(
        *("thp", "info", "always"),
        {"/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never"},
        does="echo madvise",
    ),
    Case("ksm", "ok", "not merged", {"/sys/kernel/mm/ksm/run": "0\n"}),
    Case("ksm", "warn", "are merged", {"/sys/kernel/mm/ksm/run": "1\n"}, does="echo 2"),
    Case("perf_events", "ok", "count", answers={"attempts.py perf": Ran(0, "9 cycles")}),
    Case(
        *("perf_events", "info", "forbidden"),
        {"/proc/sys/kernel/perf_event_paranoid": "3"},
        {"attempts.py perf": Ran(1, err="perf_event_open: Permission denied")},
        does="perf_event_paranoid=0",
    ),
    Case(
        *("perf_events", "info", "No such file"),
        {"/proc/sys/kernel/perf_event_paranoid": "2"},
        {"attempts.py perf": Ran(1, err="perf_event_open: No such file or directory")},
        does="pmu=on",
    ),
    Case("tracing", "ok", "can be read", {"/sys/kernel/tracing/events/enable": "0"}),
    Case("tracing", "ok", "debug", {"/sys/kernel/debug/tracing/events/enable": "0"}),
    Case("tracing", "info", "cannot", does="mount -t tracefs"),
    Case("disk", "ok", "10.0 GiB"),
    Case("disk", "warn", "0.1 GiB", free=100 << 20, does="image gc"),
    Case("kvm", "warn", "shows no virtualisation", does="switch virtualisation on in the firmware"),
    Case(
        *("kvm", "warn", "kvm_amd is not loaded"),
        {"/proc/cpuinfo": "flags\t\t: fpu svm npt\n"},
        does="modprobe kvm_amd",
    ),
    Case(
        *("kvm", "warn", "shows no virtualisation"),
        {"/proc/cpuinfo": "flags\t\t: fpu hypervisor\n"},
        does="nested virtualisation",
    ),
    Case("xen", "info", "does not run under Xen"),
    Case("xen", "info", "no control_d", {"/sys/hypervisor/type": "xen"}, does="emulated"),
    Case(*("xen", "ok", "4.17.7, scheduler credit, 498 MiB free"), XEN, xl("498")),
    Case("xen", "warn", "0 B free|0 free", XEN, xl("0"), does="dom0_mem"),
    Case("xen", "warn", "only Xen 4.17 is tested", XEN, xl("498", "4.19.0")),
    Case("xen", "info", "xl info: xl is not installed", XEN, does="xen-utils-common"),
    Case("host_settings", "ok", "no run has left"),
    Case(
        *("host_settings", "warn", "100 pages of 2 MB were set aside, now it is 228"),
        {
            **pool(228, 228, 0),
            "/run/hypertare/before.json": '{"module": null, "huge_pages": 100}',
        },
        does="hypertare doctor --put-back",
    ),
    Case(
        *("host_settings", "warn", "kvm_intel had ept=Y and now has kvm_intel with ept=N"),
        {**module("ept", "N"), "/run/hypertare/before.json": CHANGED},
        does="hypertare doctor --put-back",
    ),
    Case(
        *("host_settings", "warn", "cannot be read"),
        {"/run/hypertare/before.json": "{"},
        does="remove the file",
    ),
]
BY_NAME = {check.name: check for check in CHECKS}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check}-{case.status}-{case.says}")
def test_check(case, tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    host = make_host(tmp_path, case.files, case.answers, case.later, case.free)
    (finding,) = examine(host, (BY_NAME[case.check],))
    assert (finding.name, finding.status) == (case.check, case.status)
    assert re.search(case.says, finding.what)
    assert case.does in (finding.do or "")
    assert finding.do or finding.status in ("ok", "info")


def test_every_check_is_tested_both_ways():
    # The others need an agent and an image: test_own.py.
    elsewhere = {"agent", "image", "kvm", "emulator"}
    outcomes = {name: {c.status for c in CASES if c.check == name} for name in BY_NAME}
    single = {name for name, found in outcomes.items() if len(found) < 2}
    assert single <= elsewhere


def test_every_check_has_its_section_in_the_troubleshooting_guide():
    text = (OWN / "docs/troubleshooting.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (\w+)$", text, re.MULTILINE)
    assert sections == [check.name for check in CHECKS]


def test_busy_share_of_a_process_is_of_one_cpu(tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    files = {"/proc/stat": QUIET, "/proc/7/stat": f"7 {BUSY_PROCESS.format(0)}"}
    later = {
        "/proc/stat": "cpu  200 0 100 10300 0 0 0 0 0 0",
        "/proc/7/stat": f"7 {BUSY_PROCESS.format(50)}",
    }
    use = make_host(tmp_path, files, later=later).cpu_use
    assert use.busy == pytest.approx(0.25)
    assert use.processes == (("make job", pytest.approx(0.5)),)


def findings(**statuses):
    return [Finding(check.name, statuses.get(check.name, "ok"), "x") for check in CHECKS]


def test_verdict():
    assert verdict(findings()) == "This machine can weigh native, container and guest (KVM)."
    assert verdict(findings(kvm="warn", steal="warn", thp="info", tap="warn")) == (
        "This machine can weigh native, container and guest (emulated, tcg), without networks; "
        "numbers are disturbed by: steal."
    )
    assert "missing: agent, qemu" in verdict(findings(agent="bad", qemu="bad"))


def test_disturbances_are_only_what_moves_numbers():
    found = disturbances(findings(tap="warn", load="warn", governor="info"))
    assert [finding.name for finding in found] == ["load"]


def test_an_empty_machine_gives_every_finding(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERTARE_AGENT", str(tmp_path / "absent"))
    found = examine(make_host(tmp_path))
    assert [finding.name for finding in found] == [check.name for check in CHECKS]
