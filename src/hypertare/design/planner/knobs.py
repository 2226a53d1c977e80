"""What is set for a trial, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.design.design import Variant
from hypertare.design.planner.addresses import HOST
from hypertare.design.planner.pairs import nodes_of
from hypertare.design.planner.surroundings import Surroundings
from hypertare.protocol import plan
from hypertare.study import BASELINE, Knobs, Study
from hypertare.workloads.pair import Pair


def knob_settings(
    study: Study, variant: Variant, working: Sequence[Pair], own_machine: bool, on: Surroundings
) -> list[plan.KnobSetting]:
    """All that is set; `own_machine`: whether what is under test is no part of this host."""
    nodes = nodes_of(working)
    settings = _network_knobs(study, working, own_machine)
    if variant.platform == "xen" or (variant.platform == "guest" and has_weights(study, on)):
        settings += _weights(study.knobs, nodes)
    if own_machine:
        settings += _memory_knobs(study.knobs, variant, nodes)
    return settings


def _network_knobs(
    study: Study, working: Sequence[Pair], own_machine: bool
) -> list[plan.KnobSetting]:
    own = [(pair.node, name) for pair in working for name in pair.interfaces]
    own = list(dict.fromkeys(own))
    others = [(node, "eth0") for pair in working for node in pair.others]
    settings = _link_knobs(study, [*own, *(others if study.needs_network else [])])
    steering = study.knobs.receive_steering
    for node, interface in own:
        if steering is not None:
            settings.append(_knob(node, plan.ReceiveSteering(interface=interface, cpus=steering)))
        if own_machine:
            settings += [_knob(node, knob) for knob in _polling_knobs(study.knobs, interface)]
    # What is of a node and not of its interface is set once.
    return list({repr(setting): setting for setting in settings}.values())


def _link_knobs(study: Study, ends: Sequence[tuple[str, str]]) -> list[plan.KnobSetting]:
    """At both ends of each link. A bench that is made for a larger MTU has it until it is told another."""
    knobs, mtu = study.knobs, study.knobs.mtu
    if mtu is None and study.largest_mtu > study.bench.mtu:
        mtu = study.bench.mtu
    settings: list[plan.KnobSetting] = []
    for node, interface in ends:
        if mtu is not None:
            settings.append(_knob(node, plan.Mtu(interface=interface, bytes=mtu)))
        for offload, set_to in knobs.offloads.items():
            knob = plan.Offload(interface=interface, offload=offload, on=set_to)
            settings.append(_knob(node, knob))
        if knobs.socket_buffers is not None:
            settings.append(_knob(node, plan.SocketBuffers(bytes=knobs.socket_buffers)))
    return settings


def has_weights(study: Study, on: Surroundings) -> bool:
    """Whether guests of this host have CPU weights, which a bench must be made for."""
    asked = any(
        getattr(study.knobs, name) is not None or f"knobs.{name}" in study.all_factors
        for name in ("driver_weight", "guest_weights")
    )
    return asked and "guest" in study.sut.platforms and on.chance is None


def _weights(knobs: Knobs, guests: Sequence[str]) -> Iterator[plan.KnobSetting]:
    """Of the driver domain, and of the guests that work: in Xen's scheduler, or of their cgroups."""
    if knobs.driver_weight is not None:
        yield _knob(HOST, plan.SchedulerWeight(weight=knobs.driver_weight))
    for guest, weight in zip(guests, knobs.guest_weights or (), strict=False):
        yield _knob(HOST, plan.SchedulerWeight(weight=weight, guest=guest))


_POLLING = (
    "interrupt_cpus",
    "napi_weight",
    "napi_budget",
    "dev_weight",
    "interrupt_coalescing",
    "busy_poll",
    "defer_hard_irqs",
)


def warnings(study: Study) -> list[str]:
    """What of the study does not reach every platform, or is not what it may seem."""
    return [*_unlike_the_users(study), *_out_of_reach(study)]


def _unlike_the_users(study: Study) -> list[str]:
    """How guests of this host differ from those that people have."""
    if study.machine != "local" or "guest" not in study.sut.platforms or not study.needs_network:
        return []
    return [
        "guests' packets go through QEMU's process (vhost=off, one queue): under libvirt, Proxmox or "
        "OpenStack the host's kernel moves those of virtio-net (vhost-net), which costs less"
    ]


def _out_of_reach(study: Study) -> list[str]:
    own_machines = ("guest", "xen")
    platforms = [platform for platform in study.sut.platforms if platform not in own_machines]
    if study.machine != "local" or not platforms:
        return []
    asked = [
        name
        for name in (*_POLLING, "thp")
        if getattr(study.knobs, name) is not None or f"knobs.{name}" in study.all_factors
    ]
    found = [
        f"knobs.{name} is for guests: {' and '.join(platforms)} share this host's, which is left alone"
        for name in asked
    ]
    if "xen" in study.sut.platforms:
        found.append(
            "native is this host's driver domain, which runs under Xen itself: what Xen takes from "
            "that is in no cost (machine = 'emulated' has a baseline without Xen)"
        )
    return found


def _polling_knobs(knobs: Knobs, interface: str) -> list[plan.Knob]:
    """Of how a machine takes packets from its NIC: where the system under test is no machine of its
    own, these are its host's to choose."""
    found: list[plan.Knob] = []
    if knobs.interrupt_cpus is not None:
        found.append(plan.InterruptCpus(interface=interface, cpus=knobs.interrupt_cpus))
    if knobs.napi_weight is not None:
        found.append(plan.NapiWeight(interface=interface, weight=knobs.napi_weight))
    if knobs.napi_budget is not None:
        found.append(plan.NapiBudget(**knobs.napi_budget.model_dump()))
    if knobs.dev_weight is not None:
        found.append(plan.DevWeight(packets=knobs.dev_weight))
    if knobs.interrupt_coalescing is not None:
        wanted = knobs.interrupt_coalescing.model_dump()
        found.append(plan.InterruptCoalescing(interface=interface, **wanted))
    if knobs.busy_poll is not None:
        found.append(plan.BusyPoll(microseconds=knobs.busy_poll))
    if knobs.defer_hard_irqs is not None:
        wanted = knobs.defer_hard_irqs.model_dump()
        found.append(plan.DeferHardIrqs(interface=interface, **wanted))
    return found


def _memory_knobs(knobs: Knobs, variant: Variant, nodes: Sequence[str]) -> list[plan.KnobSetting]:
    """Of the kernel that the work runs on, and of the machine below where that is another one."""
    own = (HOST,) if variant.platform in (BASELINE, "container") else nodes
    settings: list[plan.KnobSetting] = []
    if knobs.thp is not None:
        settings += [_knob(node, plan.Thp(**knobs.thp.model_dump())) for node in own]
    if variant.platform != "guest":
        return settings
    if knobs.host_thp is not None:
        settings.append(_knob(HOST, plan.Thp(**knobs.host_thp.model_dump())))
    if knobs.ksm is not None:
        settings.append(_knob(HOST, plan.Ksm(**knobs.ksm.model_dump())))
    return settings


def _knob(node: str, knob: plan.Knob) -> plan.KnobSetting:
    return plan.KnobSetting(node=node, knob=knob)
