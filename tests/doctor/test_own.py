"""Checks of hypertare's own parts, the choice of an accelerator, and the command line."""

import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from hypertare.base.host_files import Host, Ran, run
from hypertare.cli.doctor import doctor
from hypertare.doctor import checks, own
from hypertare.doctor.checks import CHECKS
from hypertare.machines import environment
from hypertare.machines.asked import Asked
from hypertare.machines.host.kvm import best_accelerator
from hypertare.machines.image.build import Image, build
from hypertare.machines.image.cache import Cache
from tests.doctor.factory import counting, make_host, write
from tests.machines.image import factory as made

BOOTS = Ran(0)
SILENT = Ran(
    1, err="hypertare-agent: the guest did not answer within 8.0 s\nNothing was printed.\n"
)


@pytest.fixture
def agent(tmp_path, monkeypatch):
    path = tmp_path / "hypertare-agent"
    path.write_bytes(made.agent())
    path.chmod(0o755)
    monkeypatch.setenv("HYPERTARE_AGENT", str(path))
    return path


@pytest.fixture
def image(tmp_path):
    return Image(tmp_path / "vmlinux", tmp_path / "i.cpio", "6.1", "6.1 (x)", "d", frozenset())


def kvm_host(root, answer, boot_id="one"):
    host = make_host(root, {"/dev/kvm": "", "/proc/sys/kernel/random/boot_id": boot_id})
    host.run, asked = counting(answer)
    return host, asked


def boots(asked):
    return [argv for argv in asked if "guest" in argv]


def test_kvm_is_taken_when_a_guest_boots(tmp_path, agent, image):
    host, asked = kvm_host(tmp_path, BOOTS)
    assert best_accelerator(image, agent, host).accelerator == "kvm"
    (argv,) = boots(asked)
    assert argv[argv.index("--accelerator") + 1] == "kvm"
    assert argv[argv.index("--kernel") + 1] == str(image.kernel)
    assert argv[argv.index("--parent") + 1] == str(os.getpid())


def test_kvm_that_does_not_boot_is_not_taken(tmp_path, agent, image):
    host, _ = kvm_host(tmp_path, SILENT)
    choice = best_accelerator(image, agent, host)
    assert choice.accelerator == "tcg"
    assert choice.reason.endswith("the guest did not answer within 8.0 s")


@pytest.mark.parametrize("answer", [BOOTS, SILENT])
def test_the_answer_is_kept_for_one_boot_of_the_machine(tmp_path, agent, image, answer):
    host, asked = kvm_host(tmp_path, answer)
    first = best_accelerator(image, agent, host)
    assert best_accelerator(image, agent, host) == first
    assert len(boots(asked)) == 1
    write(tmp_path, {"/proc/sys/kernel/random/boot_id": "two"})
    best_accelerator(image, agent, host)
    assert len(boots(asked)) == 2


def test_a_damaged_or_unwritable_note_costs_only_a_boot(tmp_path, agent, image):
    host, asked = kvm_host(tmp_path, BOOTS)
    write(tmp_path, {"/cache/accelerator.json": "[1, 2"})
    assert best_accelerator(image, agent, host).accelerator == "kvm"
    host.cache = agent / "cache"
    assert best_accelerator(image, agent, host).accelerator == "kvm"
    assert len(boots(asked)) == 2


def test_agent(tmp_path, agent, monkeypatch):
    works = make_host(tmp_path / "host", answers={"--version": Ran(0, "hypertare-agent 9.9\n")})
    assert own.agent(works).what.startswith("hypertare-agent 9.9")
    assert own.agent(make_host(tmp_path / "host")).status == "bad"
    monkeypatch.setenv("HYPERTARE_AGENT", str(tmp_path / "absent"))
    finding = own.agent(works)
    assert (finding.status, "cargo build --release" in finding.do) == ("bad", True)


def test_image_and_kvm_before_and_after_a_build(tmp_path, agent):
    host, asked = kvm_host(tmp_path / "machine", BOOTS)
    assert (own.image(host).status, own.kvm(host).status) == ("info", "info")
    assert own.kvm(host).do == "hypertare image build"
    assert boots(asked) == []
    _cache_a_debian_kernel(tmp_path, host)
    assert (own.image(host).status, own.kvm(host).status) == ("ok", "ok")
    assert len(boots(asked)) == 1


def _cache_a_debian_kernel(tmp_path, host):
    cache = Cache(host.cache)

    def fill(place):
        made.host(place)
        return {"name": "linux-image-x", "version": "1"}

    cache.make("packages", "x", "package", fill)
    cache.make("names", "debian", "name", lambda _: {"key": "x"})
    build(cache=cache)


def test_kvm_without_permission(tmp_path, agent, monkeypatch):
    host, asked = kvm_host(tmp_path, BOOTS)
    monkeypatch.setattr("os.access", lambda path, mode: "kvm" not in str(path))
    finding = own.kvm(host)
    assert finding.status == "warn"
    assert "adduser USER kvm" in finding.do
    assert asked == []


def test_environment(tmp_path, agent):
    host = make_host(
        tmp_path,
        {
            "/proc/cpuinfo": "processor : 0\nmodel name : Made Up 9\nprocessor : 1\n",
            "/proc/meminfo": "MemTotal: 1024 kB\n",
            "/proc/sys/kernel/hostname": "scales\n",
            "/proc/sys/kernel/osrelease": "6.6.6\n",
            "/etc/os-release": 'NAME="X"\nPRETTY_NAME="Made Up Linux 1"\n',
            "/sys/kernel/mm/ksm/run": "1",
            "/dev/null-and-void": "",
        },
        {"hypertare-agent --version": Ran(0, "hypertare-agent 9.9.1\n")},
    )
    state = environment.machine_state(host)
    assert (state.hostname, state.cpu, state.cpus) == ("scales", "Made Up 9", 2)
    assert (state.memory, state.kernel) == (1 << 20, "6.6.6")
    assert state.distribution == "Made Up Linux 1"
    versions = environment.versions(agent, asked=Asked(host))
    assert versions["agent"] == "9.9.1"
    assert "qemu" not in versions
    (warning,) = checks.warnings(host)
    assert "KSM" in warning


def test_commands_that_hang_or_are_missing_end():
    assert run(("sleep", "30"), 0.2).status is None
    assert run(("no-such-command-here",), 1.0).said == "no-such-command-here is not installed"
    assert run(("sh", "-c", "echo a >&2; echo b >&2; exit 3"), 5.0) == Ran(3, "", "a\nb\n")


@pytest.mark.parametrize("name", ["nothing", "tap", "overlay", "perf"])
def test_an_attempt_works_or_says_why(name):
    ran = Host().attempt(name, inside=True)
    assert ran.status in (0, 1)
    assert ran.said != "no message"
    assert "Traceback" not in ran.err


def test_namespaces_of_an_attempt_are_fresh():
    """What is tried never touches the host's own network."""
    before = set(_links())
    Host().attempt("tap", inside=True)
    assert set(_links()) == before


def _links():
    return [line.split(":")[0] for line in Path("/proc/net/dev").read_text().splitlines()]


def test_command_line(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERTARE_CACHE", str(tmp_path))
    monkeypatch.setenv("HYPERTARE_AGENT", str(tmp_path / "absent"))
    app = typer.Typer()
    app.command()(doctor)
    shown = CliRunner().invoke(app, ["--json"])
    assert shown.exit_code == 3
    found = json.loads(shown.stdout)
    assert "agent" in found["verdict"]
    assert [finding["name"] for finding in found["findings"]] == [c.name for c in CHECKS]
    table = CliRunner().invoke(app, [])
    assert table.stdout.startswith(found["verdict"].split(";")[0])
