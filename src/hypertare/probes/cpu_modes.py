"""`cpu_modes`: in which mode a machine's CPUs worked and for whom, by samples."""

from __future__ import annotations

from hypertare.base.variables import Values
from hypertare.probes.outside import OUTSIDE
from hypertare.probes.probe import HOST, ProbeKind
from hypertare.protocol.phase import Phase, sum_of_known


class CpuModes(ProbeKind):
    name = "cpu_modes"
    places = ("host",)
    is_optional = True

    def layers(self, phase: Phase, task: float | None) -> Values:
        """CPU time by layer: exact times of threads, split by the samples of the same threads; nothing
        where these do not say whose they are.

        `program` and `system`: of guests in user mode and in their kernels; without guests, of the task,
        whose CPU time is given, by the samples of all threads.
        `vcpu_*` and `vmm_*`: of virtual CPUs' and of VMMs' other threads, in user mode and in the kernel.
        """
        asked = [node for node, probe in phase.probes if probe == OUTSIDE.name]
        vcpu, vmm = (
            sum_of_known(phase.probe(node, OUTSIDE.name, f"{part}_s") for node in asked)
            for part in ("vcpu", "vmm")
        )
        if vcpu is None or vmm is None:
            return self._split(phase, task, {"program": "other_user", "system": "other_kernel"})
        if not phase.probe(HOST, self.name, "guest_kernel"):
            # Guests of QEMU alone: their code is its.
            return {}
        of_vcpus = {
            "program": "guest_user",
            "system": "guest_kernel",
            "vcpu_user": "vcpu_user",
            "vcpu_system": "vcpu_kernel",
        }
        of_vmms = {"vmm_user": "vmm_user", "vmm_system": "vmm_kernel"}
        return self._split(phase, vcpu, of_vcpus) | self._split(phase, vmm, of_vmms)

    def _split(self, phase: Phase, time: float | None, parts: dict[str, str]) -> Values:
        counts = {name: phase.probe(HOST, self.name, value) for name, value in parts.items()}
        found = {name: count for name, count in counts.items() if count is not None}
        total = sum(found.values())
        if time is None or len(found) < len(parts) or not total:
            return {}
        return {name: time * count / total for name, count in found.items()}


CPU_MODES = CpuModes()
