"""From what a tuner found, in log ratios, to `tune.json`: ratios, sentences, commands. Pure.

Knobs have their commands themselves; here are those of what a hypervisor gives, of the bench, and of
applications. Nothing here is run.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from hypertare import __version__
from hypertare.base.figures import level_text, percent, word
from hypertare.base.variables import Level, Response
from hypertare.findings.tuning import (
    Confirmation,
    EffectFound,
    Gain,
    KnobTried,
    Smallest,
    Step,
    Tried,
    Tuning,
)
from hypertare.knobs.registry import KINDS
from hypertare.machine_kinds.registry import find as find_machine
from hypertare.platforms.commands import (
    OLD,
    Entry,
    KnobChange,
    Maker,
    System,
    at_boot,
    edited,
    in_bytes,
    into,
    one_line,
    quoted,
    slug,
    sysctls,
)
from hypertare.platforms.guest_settings import COMMANDS as GUEST_COMMANDS
from hypertare.platforms.registry import find as find_platform
from hypertare.runs.machine_state import MachineState
from hypertare.stats import boots as booting
from hypertare.stats.interval import Interval
from hypertare.tune.space import LEFT, Knob, Setting
from hypertare.tune.tuner import Aims, Confirmed, Outcome

if TYPE_CHECKING:
    from hypertare.tune.session import Prepared


def steps(
    setting: Mapping[str, Level], default: Mapping[str, Level], system: System
) -> tuple[Step, ...]:
    """How to apply each change of a setting against the default, and how to take it back."""
    return tuple(
        step(path, level, default.get(path, LEFT), system)
        for path, level in setting.items()
        if level != default.get(path, LEFT)
    )


def step(path: str, level: Level, default: Level, system: System) -> Step:
    """How to set one knob. One that the table does not know is named in the study's words."""
    if level == LEFT:
        note = f"Leave it as the system has it: no longer {one_line(level_text(default))}."
        return Step(knob=path, level=level, where="study", note=note)
    old = OLD if default == LEFT else one_line(level_text(default))
    change = KnobChange(path, one_line(level_text(level)), old, system)
    maker = next((make for pattern, make in _TABLE.items() if _fits(pattern, path)), _unknown)
    entry = maker(change)
    where = entry.where or system.name
    return Step(knob=path, level=level, **{**vars(entry), "where": where})


def _fits(pattern: str, path: str) -> bool:
    names, parts = pattern.split("."), path.split(".")
    return len(names) == len(parts) and all(
        name in ("*", part) for name, part in zip(names, parts, strict=True)
    )


def _unknown(change: KnobChange) -> Entry:
    return Entry(
        "study",
        note=f"There is no command for it: in the study, {change.path} = {change.new} "
        f"(was {change.was}).",
    )


# --- what a hypervisor gives


def _by_hypervisor(virtual: Maker, otherwise: str) -> Maker:
    """Returns a maker of commands for systems with a hypervisor, and of the note `otherwise` for others."""

    def entry(change: KnobChange) -> Entry:
        if change.system.virtual:
            return virtual(change)
        return Entry(change.system.name, note=otherwise.format(level=change.new, old=change.was))

    return entry


def _vcpus(change: KnobChange) -> Entry:
    apply, undo = change.each(
        lambda v: (
            f"virsh setvcpus DOMAIN {shlex.quote(v)} --config --maximum && "
            f"virsh setvcpus DOMAIN {shlex.quote(v)} --config"
        )
    )
    return Entry(
        "host",
        ("virsh vcpucount DOMAIN",),
        (apply,),
        (),
        (undo,),
        f"<vcpu>{int(change.new)}</vcpu>",
        f"QEMU alone: -smp {change.new}. From the guest's next start; it stays.",
    )


def _memory(change: KnobChange) -> Entry:
    sizes = change.shown(in_bytes)
    apply, undo = sizes.each(
        lambda v: f"virsh setmaxmem DOMAIN {v}B --config && virsh setmem DOMAIN {v}B --config"
    )
    return Entry(
        "host",
        ("virsh dominfo DOMAIN",),
        (apply,),
        (),
        (undo,),
        f"<memory unit='b'>{sizes.new}</memory>",
        f"QEMU alone: -m size={sizes.new}B. From the guest's next start; it stays.",
    )


_XL_TSC = {"native": "native", "emulate": "always_emulate", "default": "default"}


def _tsc(change: KnobChange) -> Entry:
    """In the words of xl.cfg(5)."""
    new, was = (_XL_TSC.get(mode, mode) for mode in (change.new, change.was))
    return Entry(
        "host",
        ("xl list -l DOMAIN",),
        note=f"In the guest's xl.cfg(5): tsc_mode = {quoted(new)} (was {was}). From its next start.",
    )


def _nic_xml(nic: str) -> str:
    model = "virtio" if nic == "virtio-net" else nic
    return f"<interface> <model type={quoted(model)}/> </interface>"


def _nic_option(nic: str) -> str:
    device = "virtio-net-pci" if nic == "virtio-net" else nic
    return f"-device {shlex.quote(device)},netdev=... in place of the present one"


# --- bench and applications


def _bench_mtu(change: KnobChange) -> Entry:
    apply, undo = change.each(
        lambda value: f"for i in BRIDGE TAP; do ip link set dev $i mtu {shlex.quote(value)}; done"
    )
    keep, forget = at_boot(change.path, apply)
    return Entry(
        "host",
        ("ip link show",),
        (apply,),
        keep,
        (undo, *forget),
        f"<interface> <mtu size={quoted(change.new)}/> </interface>",
        f"At both ends too: ip link set dev IFACE mtu {change.new}.",
    )


def _asked_buffer(change: KnobChange) -> Entry:
    """Of one application: it asks, and the limits allow."""
    sizes = change.shown(in_bytes)
    limits = ("net.core.rmem_max", "net.core.wmem_max")
    entry = sysctls(limits)(replace(sizes, old=OLD))
    old = "leave them out again" if change.old == OLD else f"{sizes.old} bytes again"
    return replace(
        entry,
        # A larger limit is for others: it is never lowered.
        apply=tuple(
            f"[ $(sysctl -n {name}) -ge {sizes.new} ] || sysctl -w {name}={sizes.new}"
            for name in limits
        ),
        note=f"The application asks for it: setsockopt SO_RCVBUF and SO_SNDBUF of {sizes.new} bytes "
        f"(iperf3 -w {sizes.new}); to undo, {old}. The limits must be at least as large: keep and undo "
        "them only where they had to be raised.",
    )


def _program_on_cpus(change: KnobChange) -> Entry:
    """Which CPUs a program may use; where its packets come in is the NIC's."""
    apply, undo = change.each(lambda cpus: f"taskset -acp {shlex.quote(cpus)} $(pidof PROGRAM)")
    file = f"/etc/systemd/system/SERVICE.service.d/{slug(change.path)}.conf"
    return Entry(
        None,
        ("taskset -acp $(pidof PROGRAM)",),
        (apply,),
        (into(file, "[Service]", f"CPUAffinity={change.new}"), "systemctl daemon-reload"),
        (undo, f"rm -f {file}", "systemctl daemon-reload"),
        note="Which CPU takes the NIC's interrupts counts as well: grep IFACE /proc/interrupts shows it, "
        "ethtool -l IFACE how many queues there are to spread; irqbalance moves them, so stop it "
        "(systemctl stop irqbalance) before binding them.",
    )


def _application(what: str) -> Maker:
    return lambda change: Entry("application", note=f"{what}: {change.new} (was {change.was}).")


_TABLE: dict[str, Maker] = {
    **{
        ".".join(("knobs", kind.name, *key.split())): maker
        for kind in KINDS
        for key, maker in kind.commands.items()
    },
    "sut.cpus": _by_hypervisor(
        _vcpus,
        "Bind it to {level} CPUs (was {old}): a program with taskset -c, a service with AllowedCPUs= "
        "(systemd.resource-control(5)), a container with --cpuset-cpus (docker, podman).",
    ),
    "sut.memory": _by_hypervisor(
        _memory,
        "Limit it to {level} (was {old}): a service with MemoryMax=, a container with --memory; native "
        "programs have no limit.",
    ),
    "sut.nic": _by_hypervisor(
        edited(_nic_xml, _nic_option, "the model of its interface"), "There is no NIC to change."
    ),
    **{
        f"sut.{key}": _by_hypervisor(maker, f"There is no guest with sut.{key}.")
        for key, maker in GUEST_COMMANDS.items()
    },
    "sut.tsc": _by_hypervisor(
        _tsc, "There is no guest of Xen whose counter could be read otherwise."
    ),
    "sut.accelerator": _by_hypervisor(
        edited(
            lambda name: f"<domain type={quoted('kvm' if name == 'kvm' else 'qemu')}>",
            lambda name: f"-accel {shlex.quote(name)}",
            "its type",
        ),
        "There is no accelerator to choose.",
    ),
    "sut.kernel": _by_hypervisor(
        lambda change: Entry(
            "guest", note=f"Boot it with the kernel {change.new} (was {change.was})."
        ),
        "Boot with the kernel {level} (was {old}).",
    ),
    "bench.mtu": _bench_mtu,
    "workloads.*.socket_buffer": _asked_buffer,
    "workloads.*.receiver_cpus": _program_on_cpus,
    "workloads.*.sender_cpus": _program_on_cpus,
    "workloads.*.message": _application("What the application writes or sends in one call"),
    "workloads.*.batch": _application("Datagrams that the application hands over in one call"),
    "workloads.*.flows": _application("Connections at once"),
    "workloads.*.segmentation": _application("UDP_SEGMENT in the application's socket (udp(7))"),
    "workloads.*.nodelay": _application("TCP_NODELAY in the application's socket (tcp(7))"),
    "workloads.*.threads": _application("Threads at once"),
}
"""What is known of each knob, by path; `*` stands for one name."""


def document(
    outcome: Outcome,
    prepared: Prepared,
    machine: MachineState,
    accelerator: str | None,
    started: datetime,
    ended: datetime,
    trials: int,
) -> Tuning:
    """What a tuning found on a machine in so many trials, in ratios and commands."""
    study, space, aims = prepared.run.study, prepared.space, prepared.aims
    proved = dict(outcome.recommended or {})
    proved |= {one.knob: one.level for one in outcome.smallest if one.level is not None}
    default = space.default
    setting = {path: level for path, level in proved.items() if level != default.get(path, LEFT)}
    return Tuning(
        hypertare=__version__,
        study=study.name,
        question=study.question,
        machine=machine,
        clock=aims.clock,
        accelerator=accelerator,
        seed=prepared.run.design.seed,
        started=started,
        ended=ended,
        platform=prepared.platform,
        workload=prepared.workload,
        budget=str(prepared.budget),
        trials=trials,
        throughput=aims.throughput.name,
        cpu=aims.cpu.name,
        goal=aims.goal,
        design=outcome.design.kind if outcome.design else None,
        knobs=tuple(_knob(knob, outcome) for knob in space.every),
        effects=tuple(_effects(outcome, aims)),
        left_out=outcome.left_out,
        tried=tuple(_tried(outcome, aims)),
        looks=tuple(outcome.looks),
        confirmation=_confirmation(outcome.confirmed, aims),
        smallest=tuple(outcome.smallest),
        keep_default=not setting,
        recommendation=setting,
        steps=steps(
            setting,
            default,
            System(
                find_platform(prepared.platform),
                str(setting.get("sut.nic", study.sut.nic)),
                find_machine(machine.kind).is_virtual,
            ),
        ),
        known=prepared.known.before if prepared.known else None,
        verdict=_verdict(outcome, aims, setting),
        warnings=tuple(outcome.warnings),
    )


def _knob(knob: Knob, outcome: Outcome) -> KnobTried:
    return KnobTried(
        path=knob.path,
        default=knob.default,
        levels=knob.levels,
        low=knob.range.low if knob.range else None,
        high=knob.range.high if knob.range else None,
        refused=outcome.refused.get(knob.path, {}),
    )


def _effects(outcome: Outcome, aims: Aims) -> list[EffectFound]:
    if outcome.design is None:
        return []
    knobs = {knob.path: knob for knob in outcome.design.knobs}
    return [
        EffectFound(
            knobs=effect.paths,
            levels=tuple((knobs[path].default, knobs[path].far) for path in effect.paths),
            response=response,
            change=math.expm1(effect.estimate),
            low=math.expm1(effect.low),
            high=math.expm1(effect.high),
            confidence=aims.confidence,
            p=effect.adjusted,
            shown=effect.shown,
            aliases=effect.aliases,
        )
        for response, effects in outcome.effects.items()
        for effect in effects
    ]


def _tried(outcome: Outcome, aims: Aims) -> list[Tried]:
    return [
        Tried(
            setting=seen.setting,
            throughput=throughput,
            cpu=cpu,
            n=len(seen.gains),
            front=place in outcome.front,
            knee=place == outcome.knee,
        )
        for place, seen in enumerate(outcome.seen)
        for throughput, cpu in [aims.changes(seen.mean)]
    ]


def _confirmation(confirmed: Confirmed | None, aims: Aims) -> Confirmation | None:
    if confirmed is None:
        return None
    interval = confirmed.mean.interval
    low, high = _ends(interval, aims)
    return Confirmation(
        setting=confirmed.setting,
        blocks=len(confirmed.duels),
        gain=math.expm1(interval.estimate),
        low=low,
        high=high,
        confidence=aims.confidence,
        threshold=aims.threshold,
        search_gain=None if confirmed.promised is None else math.expm1(confirmed.promised),
        by_block=tuple(math.expm1(aims.value(duel.gains)) for duel in confirmed.duels),
        confirmed=confirmed.verdict == "gains",
        changes=tuple(_changes(confirmed, aims)),
    )


def _ends(interval: Interval, aims: Aims) -> tuple[float | None, float | None]:
    """The ends of an interval of log ratios as changes; exact ones in virtual time."""
    if interval.constant and aims.clock == "virtual":
        return math.expm1(interval.estimate), math.expm1(interval.estimate)
    if interval.low is None or interval.high is None:
        return None, None
    return math.expm1(interval.low), math.expm1(interval.high)


def _changes(confirmed: Confirmed, aims: Aims) -> list[Gain]:
    """Of the responses that every trial of the confirmation has."""
    trials = [trial for duel in confirmed.duels for trial in (duel.winner, duel.default)]
    return [
        _response(confirmed, response, aims)
        for response in aims.responses
        if all(trial.values.get(response.name, 0.0) > 0 for trial in trials)
    ]


def _response(confirmed: Confirmed, response: Response, aims: Aims) -> Gain:
    name = response.name
    winner = [duel.winner.values[name] for duel in confirmed.duels]
    default = [duel.default.values[name] for duel in confirmed.duels]
    logs = [math.log(a / b) for a, b in zip(winner, default, strict=True)]
    boots = [duel.winner.planned.boot for duel in confirmed.duels]
    mean = booting.mean(logs, boots, aims.confidence)
    low, high = _ends(mean.interval, aims)
    return Gain(
        response=name,
        unit=response.unit,
        better=response.better,
        default=sum(default) / len(default),
        winner=sum(winner) / len(winner),
        change=math.expm1(mean.interval.estimate),
        low=low,
        high=high,
        verdict=aims.judge(mean, 1 if response.better == "higher" else -1),
    )


def _verdict(outcome: Outcome, aims: Aims, setting: Setting) -> str:
    """A sentence for the winner, and one for each knob that is to be small."""
    sentences = [_about_winner(outcome, aims, setting)] if outcome.space.knobs else []
    sentences += [_about(one) for one in outcome.smallest]
    return " ".join(sentences) or "Keep the default: no knob is left that could be tuned."


def _about_winner(outcome: Outcome, aims: Aims, setting: Setting) -> str:
    confirmed = outcome.confirmed
    if confirmed is not None:
        if aims.goal == "balance":
            name = f"mean gain of {word(aims.throughput.name)} and {word(aims.cpu.name)}"
        else:
            name = f"gain of {word(aims.wanted[0].name)}"
        figures = f"{_gain(confirmed, aims)} over {len(confirmed.duels)} fresh blocks"
        if confirmed.promised is not None:
            figures += f"; the search had promised {percent(math.expm1(confirmed.promised))}"
        if confirmed.verdict == "gains":
            changed = ", ".join(
                f"{path} = {level_text(level)}"
                for path, level in confirmed.setting.items()
                if path in setting
            )
            return f"{changed}: {name} {figures}.{_price(confirmed, aims)}"
        return f"Keep the default: the best that was found was not confirmed, {name} {figures}."
    if len(outcome.left_out) == len(outcome.space.knobs):
        return "Keep the default: no knob was shown to matter."
    if outcome.promised is None:
        return "Keep the default: no setting could be compared with it."
    if outcome.promised > math.log1p(aims.threshold):
        return "Keep the default: nothing better was confirmed."
    if outcome.promised <= 0:
        return "Keep the default: nothing that was tried was better."
    return (
        f"Keep the default: the best that was tried promised {percent(math.expm1(outcome.promised))} "
        f"at most, and less than {percent(aims.threshold)} does not matter."
    )


def _gain(confirmed: Confirmed, aims: Aims) -> str:
    interval = confirmed.mean.interval
    gain = percent(math.expm1(interval.estimate))
    low, high = _ends(interval, aims)
    if low is None or high is None:
        return f"{gain} in every block, without any spread,"
    if low == high:
        return f"{gain}, exactly,"
    return f"{gain} ({100 * aims.confidence:g} % interval {percent(low)} to {percent(high)})"


def _price(confirmed: Confirmed, aims: Aims) -> str:
    """What the gain costs of the response that the goal is not about."""
    wanted = [response.name for response in aims.wanted]
    costs = [
        f"{word(change.response)} {percent(change.change)}"
        for change in _changes(confirmed, aims)
        if change.verdict == "costs" and change.response not in wanted
    ]
    return f" It costs: {', '.join(costs)}." if costs else ""


def _about(one: Smallest) -> str:
    path = one.knob
    if one.level is None:
        return f"{path}: even {level_text(one.below or '')} loses, so none is recommended."
    found = (
        f"{path} = {level_text(one.level)} is the smallest that loses nothing "
        f"(in {one.clean} fresh trials)"
    )
    if one.below is None:
        return f"{found}; there is none below."
    if one.below_loss:
        return f"{found}; {level_text(one.below)} loses {100 * one.below_loss:.2g} %."
    return f"{found}; {level_text(one.below)} lost in the search, and not beside it."
