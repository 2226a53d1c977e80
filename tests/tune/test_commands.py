"""What a user types: for every knob there is, quoted, and undone."""

from __future__ import annotations

import shlex
import subprocess
import typing
from xml.etree import ElementTree

import pytest
from pydantic import BaseModel

from hypertare.base.variables import Level
from hypertare.knobs.registry import HOST_KNOBS, Knobs
from hypertare.platforms.commands import System
from hypertare.platforms.registry import find
from hypertare.tune.findings import step, steps
from hypertare.tune.space import LEFT

GUEST = System(find("guest"))
TABLES: dict[str, type[BaseModel]] = {
    name: one
    for name, field in Knobs.model_fields.items()
    for one in typing.get_args(field.annotation)
    if isinstance(one, type) and issubclass(one, BaseModel)
}
LEVELS: dict[str, Level] = {"offloads": True, "interrupt_cpus": "0-1", "receive_steering": "0,2-3"}


OPEN = {"offloads": ("tso",), "sysctls": ("net/ipv4/tcp_notsent_lowat",)}
"""Knobs whose keys are the kernel's."""


def paths() -> list[str]:
    """Every key of [knobs] as a path that one command sets in a guest or on its host."""
    found = []
    for name in Knobs.model_fields.keys() - {"driver_weight", "guest_weights", "traffic_classes"}:
        keys = TABLES[name].model_fields if name in TABLES else OPEN.get(name, ())
        found += [f"knobs.{name}.{key}" for key in keys] or [f"knobs.{name}"]
    return sorted(found)


@pytest.mark.parametrize("nic", ["virtio-net", "e1000"])
@pytest.mark.parametrize("path", paths())
def test_every_knob_is_applied_kept_and_undone(path: str, nic: str) -> None:
    level = LEVELS.get(path.split(".")[1], 8192)
    made = step(path, level, LEFT, System(find("guest"), nic))
    where = "host" if path.split(".")[1] in (*HOST_KNOBS, "line_ring") else "guest"
    assert made.where == where and made.look_first and made.apply and made.undo
    lasting = "modprobe.d" in made.apply[0]
    assert made.persist or lasting
    assert any("OLD" in line for line in made.undo) or lasting
    for line in (*made.look_first, *made.apply, *made.persist, *made.undo):
        checked = subprocess.run(["sh", "-n", "-c", line], capture_output=True)
        assert checked.returncode == 0, line


def test_pages_of_a_guest_are_the_hosts_setting_or_libvirts() -> None:
    small = step("sut.pages", "4K", LEFT, GUEST)
    assert small.where == "host"
    assert small.apply == ("echo never > /sys/kernel/mm/transparent_hugepage/enabled",)
    assert small.undo[0] == "echo OLD > /sys/kernel/mm/transparent_hugepage/enabled"
    huge = step("sut.pages", "2M", LEFT, GUEST)
    assert huge.xml and "<page size='2' unit='M'/>" in huge.xml.replace('"', "'")
    assert "hugetlbsize=2M" in (huge.note or "")


def test_merging_is_switched_off_for_good() -> None:
    assert "echo 2 > /sys/kernel/mm/ksm/run" in step("knobs.ksm", False, True, GUEST).apply
    assert "echo 1 > /sys/kernel/mm/ksm/run" in step("knobs.ksm", True, LEFT, GUEST).apply
    huge = step("knobs.thp", "always", "never", System(find("container")))
    assert huge.where == "host"
    assert huge.apply == ("echo always > /sys/kernel/mm/transparent_hugepage/enabled",)


def test_what_a_module_is_reported_at_once_it_is_reported_when_it_is_loaded_too() -> None:
    made = step("knobs.halt_poll_ns", 0, 200_000, GUEST)
    assert made.apply == ("echo 0 > /sys/module/kvm/parameters/halt_poll_ns",)
    assert "options kvm halt_poll_ns=0" in made.persist[0]
    assert made.undo[0] == "echo 200000 > /sys/module/kvm/parameters/halt_poll_ns"


def test_weights_of_a_scheduler_are_the_hypervisor_s() -> None:
    made = step("knobs.driver_weight", 2048, LEFT, System(find("xen")))
    assert made.where == "host" and made.apply == ("xl sched-credit -d Domain-0 -w 2048",)
    assert made.persist and "OLD" in made.undo[0]
    guests = step("knobs.guest_weights", "256,512", LEFT, System(find("xen")))
    assert guests.where == "host" and "256,512" in str(guests.note)


def test_what_is_hard_to_change_is_for_the_hypervisor() -> None:
    cpus = step("sut.cpus", 2, 1, GUEST)
    assert cpus.where == "host" and "setvcpus DOMAIN 2" in cpus.apply[0]
    assert "setvcpus DOMAIN 1" in cpus.undo[0]
    nic = step("sut.nic", "e1000", "virtio-net", GUEST)
    assert nic.xml is not None
    element = ElementTree.fromstring(nic.xml)
    assert element.find("model").attrib == {"type": "e1000"}  # type: ignore[union-attr]
    assert "virtio" in nic.undo[0]
    native = step("sut.cpus", 2, 1, System(find("native")))
    assert native.where == "host" and not native.apply and "taskset" in str(native.note)
    # An emulated machine is a guest itself.
    assert step("sut.cpus", 2, 1, System(find("native"), machine_is_virtual=True)).apply


def test_sizes_and_switches_are_in_the_tool_s_own_words() -> None:
    buffers = step("knobs.socket_buffers", "64K", LEFT, GUEST)
    assert "sysctl -w net.core.rmem_max=65536" in buffers.apply
    assert "sysctl -w 'net.ipv4.tcp_rmem=4096 65536 65536'" in buffers.apply
    assert step("knobs.offloads.gro", False, LEFT, GUEST).apply == ("ethtool -K IFACE gro off",)
    coalescing = step("knobs.interrupt_coalescing.rx_usecs", 50, 3, GUEST)
    assert coalescing.apply == ("ethtool -C IFACE rx-usecs 50",)
    assert coalescing.undo[0] == "ethtool -C IFACE rx-usecs 3"
    rings = step("knobs.ring_sizes.rx", 1024, LEFT, GUEST)
    assert rings.look_first == ("ethtool -g IFACE",)
    assert rings.apply == ("ethtool -G IFACE rx 1024",)
    steering = step("knobs.receive_steering", "0,2-3", LEFT, GUEST)
    assert "echo d > $q/rps_cpus" in steering.apply[0]


def test_a_program_is_bound_and_its_interrupts_are_spoken_of() -> None:
    made = step("workloads.load.receiver_cpus", "1,2", "1", GUEST)
    assert made.where == "guest" and made.apply == ("taskset -acp 1,2 $(pidof PROGRAM)",)
    assert made.undo[0] == "taskset -acp 1 $(pidof PROGRAM)"
    assert "CPUAffinity=1,2" in made.persist[0]
    assert "irqbalance" in str(made.note) and "ethtool -l IFACE" in str(made.note)
    for line in (*made.look_first, *made.apply, *made.persist, *made.undo):
        assert subprocess.run(["sh", "-n", "-c", line], check=False).returncode == 0, line


@pytest.mark.parametrize("nasty", ["x; reboot", "$(reboot)", "`reboot`", "a'b", "x\nreboot"])
def test_a_study_cannot_put_words_into_a_shell(nasty: str) -> None:
    names = step(f"knobs.offloads.{nasty}", True, LEFT, GUEST)
    assert shlex.split(names.apply[0])[:3] == ["ethtool", "-K", "IFACE"]
    assert len(shlex.split(names.apply[0])) == 5
    model = step("sut.cpu_model", nasty, "host", GUEST)
    assert not any("\n" in line for line in model.apply + model.undo)
    assert ElementTree.fromstring(str(model.xml)).find("model") is not None


def test_a_small_buffer_lowers_nobody_s_limit() -> None:
    made = step("workloads.udp.socket_buffer", "4K", LEFT, GUEST)
    assert all("-ge 4096 ] || sysctl -w" in line for line in made.apply)


def test_a_knob_without_a_command_says_what_to_do_instead() -> None:
    message = step("workloads.tcp.message", "64K", "4K", GUEST)
    assert message.where == "application" and "64K (was 4K)" in str(message.note)
    unknown = step("emulated.shift", 2, 3, GUEST)
    assert unknown.where == "study" and "emulated.shift = 2" in str(unknown.note)
    left = step("knobs.mtu", LEFT, 9000, GUEST)
    assert not left.apply and "9000" in str(left.note)


def test_only_what_changes_has_steps() -> None:
    assert steps({"knobs.mtu": 1500, "sut.cpus": 2}, {"knobs.mtu": 1500, "sut.cpus": 1}, GUEST) == (
        step("sut.cpus", 2, 1, GUEST),
    )


@pytest.mark.parametrize(
    ("new", "old", "driver", "was"),
    [("vhost", "qemu", "vhost", "qemu"), ("qemu", "vhost", "qemu", "vhost")],
)
def test_who_moves_packets_is_said_in_libvirt_s_words_and_qemu_s(
    new: str, old: str, driver: str, was: str
) -> None:
    made = step("sut.datapath", new, old, GUEST)
    assert made.where == "host" and made.look_first == ("virsh dumpxml DOMAIN",)
    element = ElementTree.fromstring(str(made.xml)).find("driver")
    assert element is not None and element.attrib == {"name": driver}
    assert f'<driver name="{was}"/>' in made.undo[0]
    assert f"vhost={'on' if new == 'vhost' else 'off'}" in str(made.note)


def test_a_back_end_of_others_is_a_socket_and_shared_memory() -> None:
    for path in ("vhost-user", "sidecore"):
        made = step("sut.datapath", path, "auto", GUEST)
        element = ElementTree.fromstring(str(made.xml))
        source = element.find("source")
        assert element.attrib == {"type": "vhostuser"} and source is not None
        assert source.attrib["type"] == "unix" and source.attrib["mode"] == "client"
        note = str(made.note)
        assert "share=on" in note and "access mode='shared'" in note and "chardev=way0" in note
        assert ("pmd-cpu-mask" in note) == (path == "sidecore")
        # What libvirt does by itself, again.
        assert "<interface> <model type='virtio'/> </interface>" in made.undo[0]


def test_queues_and_how_long_vhost_polls() -> None:
    queues = step("sut.queues", 4, 1, GUEST)
    element = ElementTree.fromstring(str(queues.xml)).find("driver")
    assert element is not None and element.attrib == {"queues": "4"}
    assert '<driver queues="1"/>' in queues.undo[0]
    assert "queues=4" in str(queues.note) and "vectors=10" in str(queues.note)
    polls = step("sut.poll_us", 50, LEFT, GUEST)
    assert "poll-us=50" in str(polls.note) and "leave poll-us out again" in str(polls.note)
    assert "poll-us=50 again" in str(step("sut.poll_us", 0, 50, GUEST).note)
    assert "libvirt has no word for it" in str(polls.note) and not polls.apply
    for path in ("sut.datapath", "sut.queues", "sut.poll_us"):
        native = step(path, 2, 1, System(find("native")))
        assert not native.apply and "no guest" in str(native.note)
