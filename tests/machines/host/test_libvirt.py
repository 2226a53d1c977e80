"""libvirt's domains in our words: by hand from its XML, and by virsh from its test driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hypertare.base.errors import InputError, MachineError
from hypertare.base.host_files import Host, Ran
from hypertare.machines.host import libvirt
from hypertare.machines.host.libvirt import Card, domains, parse
from tests.integration.lab import until

XML = """
<domain type='kvm'>
  <name>web-1</name>
  <memory unit='GiB'>4</memory>
  <currentMemory unit='MiB'>2048</currentMemory>
  <memoryBacking><hugepages><page size='2048' unit='KiB'/></hugepages></memoryBacking>
  <vcpu placement='static'>4</vcpu>
  <cputune><vcpupin vcpu='0' cpuset='2'/></cputune>
  <os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>
  <cpu mode='host-passthrough'/>
  <devices>
    <interface type='bridge'><model type='virtio'/><driver name='vhost' queues='4'/></interface>
    <interface type='vhostuser'><model type='virtio'/></interface>
    <interface type='network'><model type='e1000'/></interface>
  </devices>
</domain>
"""


def test_a_domain_is_read_from_its_description() -> None:
    found = parse(XML, "running")
    assert (found.name, found.hypervisor, found.cpus, found.memory) == ("web-1", "kvm", 4, 2 << 30)
    assert found.cards == (
        Card("virtio", "vhost", 4),
        Card("virtio", "vhost-user", None),
        Card("e1000", None, None),
    )
    assert found.what == (
        "kvm, pc-q35-7.2, host-passthrough, 4 vCPU (pinned), 2.0 GiB, 2048 KiB pages, "
        "virtio by vhost, 4 queues, virtio by vhost-user, e1000"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<network/>",
        "<domain/>",
        "<domain><memory unit='parsec'>1</memory></domain>",
        "<domain><memory>x</memory></domain>",
        "<!DOCTYPE a [<!ENTITY b '" + "c" * 100 + "'>]><domain>&b;</domain>",
        "x" * (1 << 21),
    ],
)
def test_what_is_no_description_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse(text, "")


def test_without_virsh_or_libvirt_it_says_what_to_do() -> None:
    for ran, said in (
        (Ran(None, err="virsh is not installed"), "libvirt-clients"),
        (Ran(1, err="error: failed to connect to the hypervisor"), "qemu+ssh://HOST/system"),
    ):
        with pytest.raises(MachineError) as refused:
            domains("qemu:///system", Host(run=lambda *_, ran=ran: ran))
        assert said in str(refused.value.do)


VIRSH = """#!/bin/sh
cd "${0%/*}"
for last; do :; done
case "$4" in
domstate) cat state; echo ;;
start) echo "start $last" >> log; [ ! -e broken ] || { echo 'error: no memory' >&2; exit 1; } ;;
shutdown) echo "shutdown $last" >> log ;;
esac
"""

STARTS = """
import sys, time
from hypertare.machines.host import libvirt
print(libvirt.start("qemu:///system", "web 1"), flush=True)
time.sleep(float(sys.argv[1]))
"""


@pytest.fixture
def virsh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of a virsh that notes what it is asked for."""
    (tmp_path / "virsh").write_text(VIRSH)
    (tmp_path / "virsh").chmod(0o755)
    (tmp_path / "state").write_text("shut off")
    (tmp_path / "log").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def noted(virsh: Path, count: int) -> list[str]:
    until(lambda: len((virsh / "log").read_text().splitlines()) >= count, "virsh to be asked", 20)
    return (virsh / "log").read_text().splitlines()


@pytest.mark.parametrize("kill", [False, True])
def test_what_was_off_is_shut_down_when_the_run_ends_whatever_ends_it(
    virsh: Path, kill: bool
) -> None:
    argv = [sys.executable, "-c", STARTS, "60" if kill else "0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"True\n"
        if kill:
            assert noted(virsh, 1) == ["start web 1"]
            process.kill()
    assert noted(virsh, 2) == ["start web 1", "shutdown web 1"]


def test_what_runs_is_left_alone_and_what_neither_runs_nor_is_off_is_named(virsh: Path) -> None:
    (virsh / "state").write_text("running")
    assert libvirt.start("qemu:///system", "web-1") is False
    (virsh / "state").write_text("paused")
    with pytest.raises(MachineError, match="web-1 is paused"):
        libvirt.start("qemu:///system", "web-1")
    assert (virsh / "log").read_text() == ""
    (virsh / "state").write_text("shut off")
    (virsh / "broken").touch()
    with pytest.raises(MachineError, match="no memory"):
        libvirt.start("qemu:///system", "web-1")
    assert noted(virsh, 1) == ["start web-1"]


def test_the_test_driver_runs_its_domain_and_knows_no_other() -> None:
    assert libvirt.start("test:///default", "test") is False
    with pytest.raises(MachineError, match="no-such"):
        libvirt.start("test:///default", "no-such")


def test_the_test_driver_has_one() -> None:
    argv = [sys.executable, "-m", "hypertare", "given", "list", "--connect", "test:///default"]
    ran = subprocess.run([*argv, "--json"], capture_output=True, text=True, check=True)
    (found,) = json.loads(ran.stdout)
    assert (found["name"], found["state"], found["cpus"]) == ("test", "running", 2)
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert "test" in shown and "2 vCPU" in shown
    wrong = subprocess.run([*argv[:-1], "nothing:///"], capture_output=True, text=True)
    assert wrong.returncode == 3 and "libvirt at nothing:///" in wrong.stderr
