"""All checks, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypertare.base.host_files import Host
from hypertare.doctor import guests, isolation, own, quiet
from hypertare.doctor.finding import Finding, Said


@dataclass(frozen=True)
class Check:
    """`quick` ones read a few files: they are repeated with every run. `disturbs`: a warning means
    that numbers move."""

    examine: Callable[[Host], Said]
    quick: bool = False
    disturbs: bool = False

    @property
    def name(self) -> str:
        return self.examine.__name__


CHECKS = (
    Check(own.agent),
    Check(guests.qemu),
    Check(own.image),
    Check(guests.compiler),
    Check(own.emulator),
    Check(own.kvm),
    Check(guests.xen),
    Check(guests.nested, quick=True),
    Check(guests.vhost_net, quick=True),
    Check(isolation.user_namespaces),
    Check(isolation.tap),
    Check(isolation.overlay),
    Check(isolation.cgroup, quick=True),
    Check(quiet.governor, quick=True, disturbs=True),
    Check(quiet.turbo, quick=True, disturbs=True),
    Check(quiet.smt, quick=True, disturbs=True),
    Check(quiet.steal, disturbs=True),
    Check(quiet.load, disturbs=True),
    Check(quiet.clocksource, quick=True, disturbs=True),
    Check(quiet.cpu_isolation, quick=True),
    Check(quiet.time_sync, quick=True),
    Check(quiet.memory, quick=True),
    Check(quiet.swap, quick=True, disturbs=True),
    Check(quiet.paging, quick=True),
    Check(quiet.huge_pages, quick=True),
    Check(quiet.thp, quick=True),
    Check(quiet.ksm, quick=True, disturbs=True),
    Check(isolation.perf_events),
    Check(isolation.tracing, quick=True),
    Check(own.disk, quick=True),
    Check(own.host_settings, quick=True, disturbs=True),
)


def examine(host: Host, checks: tuple[Check, ...] = CHECKS) -> list[Finding]:
    """Every check's finding, in order."""
    return [Finding(check.name, *check.examine(host)) for check in checks]


def disturbances(findings: list[Finding]) -> list[Finding]:
    """Those that move numbers."""
    disturbing = {check.name for check in CHECKS if check.disturbs}
    return [f for f in findings if f.name in disturbing and f.status in ("warn", "bad")]


def verdict(findings: list[Finding]) -> str:
    """One sentence: what can be weighed here, and what disturbs it."""
    by_name = {finding.name: finding for finding in findings}
    missing = [finding.name for finding in findings if finding.status == "bad"]
    if missing:
        return f"This machine is not ready; missing: {', '.join(missing)}."
    guests = {"ok": "KVM", "warn": "emulated, tcg"}.get(by_name["kvm"].status, "KVM not tried yet")
    what = f"This machine can weigh native, container and guest ({guests})"
    what += ", without networks" if by_name["tap"].status == "warn" else ""
    disturbing = ", ".join(finding.name for finding in disturbances(findings))
    return f"{what}; numbers are disturbed by: {disturbing}." if disturbing else f"{what}."


def warnings(host: Host | None = None) -> list[str]:
    """What disturbs numbers here and is known within milliseconds."""
    quick = tuple(check for check in CHECKS if check.quick and check.disturbs)
    return [finding.what for finding in disturbances(examine(host or Host(), quick))]
