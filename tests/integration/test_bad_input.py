"""What is wrong is said in a sentence with what to do, before anything is started."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.integration.lab import Lab, Ran, Traces, without

STUDY = """
name = "small"
question = "Does it work?"
[sut]
platforms = ["native", "container"]
[workloads.work]
type = "command"
command = ["true"]
[design]
warmup = 0
min_trials = 2
max_trials = 2
"""
WEIGH = ("weigh", "--on", "native,container")

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount and to limit namespaces")


def assert_refused(lab: Lab, ran: Ran, status: int, *words: str) -> None:
    """The exit status, every word on standard error, nothing shown, nothing made."""
    assert ran.status == status, ran
    assert "hypertare: " in ran.err
    said = " ".join(ran.err.split())
    for word in words:
        assert word in said, f"{word!r} is not in: {said}"
    assert ran.out == ""
    assert not (lab.work / "hypertare-runs").exists()
    assert not (lab.home / "home" / ".local").exists()


WRONG = {
    "key": ("[sut]", "[sut]\ncpu = 2", "study.toml:5: sut.cpu", "Did you mean 'cpus'?"),
    "value": ('"container"]', '"contaner"]', "study.toml:5: sut.platforms", "'container'"),
    "type": ('"command"\n', '"comand"\n', "study.toml", "Did you mean 'command'?"),
    "missing": ('question = "Does it work?"', "", "study.toml", "question", "missing"),
    "range": ("max_trials = 2", "max_trials = 1", "study.toml:12: design.max_trials", "2"),
    "unit": ("warmup = 0", 'time_limit = "soon"', "study.toml:10: design.time_limit", "soon"),
    "toml": ("[design]", "[design", "study.toml", "no valid TOML"),
    "factor": (
        "[design]",
        '[factors]\n"design.warmup" = [1]\n[design]',
        "design.warmup",
        "cannot be a factor",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_study_file_is_answered_with_its_line(lab: Lab, what: str) -> None:
    right, wrong, *words = WRONG[what]
    path = lab.study(STUDY.replace(right, wrong))
    assert_refused(lab, lab.run("run", path.name), 2, *words)


REFUSED: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    "unknown study": (("run", "frist-look"), 2, ("Did you mean 'first-look'?",)),
    "no study": (("run",), 2, ("Which study?", "hypertare studies")),
    "set": (("run", "study.toml", "--set", "sut.cpsu=2"), 2, ("sut.cpsu", "Did you mean 'cpus'?")),
    "resume nothing": (("run", "--resume", "--out", "void"), 2, ("There is no run at void",)),
    "resume where": (("run", "--resume"), 2, ("--out DIR",)),
    "unknown command": (
        ("weigh", "--", "no-such-program"),
        2,
        ("there is no program 'no-such-program'", "PATH"),
    ),
    "too many CPUs": (("weigh", "--cpus", "999", "--", "true"), 2, ("999 CPUs", "at most")),
    "CPUs": (("weigh", "--cpus", "1,x", "--", "true"), 2, ("--cpus 1,x", "--cpus 1,2")),
    "platform": (("weigh", "--on", "gest", "--", "true"), 2, ("'gest'", "'guest'")),
    "no work directory": (("weigh", "--workdir", "void", "--", "true"), 2, ("void is not there",)),
    "no device": ((*WEIGH, "--device", "/dev/void", "--", "true"), 2, ("--device", "/dev/void")),
    "a directory of devices": (
        (*WEIGH, "--device", "/dev/shm", "--", "true"),
        2,
        ("--device: /dev/shm is no device",),
    ),
    "a file as a device": (
        (*WEIGH, "--device", "/etc/passwd", "--", "true"),
        2,
        ("--device", "/etc/passwd", "write /dev/NAME"),
    ),
    "a way out of /dev": (
        (*WEIGH, "--device", "/dev/../etc", "--", "true"),
        2,
        ("--device", "write /dev/NAME"),
    ),
    "devices of nobody": (
        (
            "run",
            "study.toml",
            "--set",
            'sut.devices=["/dev/null"]',
            "--set",
            'workloads.work={type="burn",duration="1s"}',
        ),
        2,
        ("sut.devices is for workloads of the type command",),
    ),
    "devices of an emulated machine": (
        (
            "run",
            "study.toml",
            "--set",
            'sut.devices=["/dev/null"]',
            "--set",
            "machine=emulated",
            "--set",
            'sut.platforms=["native"]',
        ),
        2,
        ("sut.devices are of this host",),
    ),
    "no report": (("report", "void"), 2, ("There is no run void",)),
    "JSON": ((*WEIGH, "--json", "void/s.json", "--", "true"), 2, ("void is not there",)),
    "kernel": (("weigh", "--kernel", "void", "--", "true"), 2, ("There is no kernel void",)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused(lab: Lab, what: str) -> None:
    argv, status, words = REFUSED[what]
    lab.study(STUDY)
    assert_refused(lab, lab.run(*argv), status, *words)


def test_a_huge_work_directory(lab: Lab) -> None:
    with (lab.work / "huge").open("wb") as file:
        file.truncate(1 << 40)
    ran = lab.run(*WEIGH, "--", "true")
    assert_refused(lab, ran, 2, "too large", "--workdir DIR", "--memory")


def test_a_directory_that_holds_a_run(lab: Lab) -> None:
    lab.study(STUDY)
    (lab.work / "run").mkdir()
    (lab.work / "run" / "run.sqlite").write_bytes(b"SQLite format 3\0 and so on")
    ran = lab.run("run", "study.toml", "--out", "run")
    assert_refused(lab, ran, 2, "run holds a run already", "--resume", "--out")


def test_without_qemu(lab: Lab) -> None:
    with without(lab, "qemu-system-x86_64") as path:
        ran = lab.run("weigh", "--", "true", PATH=path)
    assert_refused(lab, ran, 3, "QEMU is not installed", "apt-get install", "--on native,container")


def test_without_an_agent(lab: Lab) -> None:
    ran = lab.run(*WEIGH, "--", "true", HYPERTARE_AGENT="/there/is/none")
    assert_refused(lab, ran, 3, "HYPERTARE_AGENT names /there/is/none", "cargo build --release")


def test_an_agent_that_is_something_else(lab: Lab) -> None:
    ran = lab.run(*WEIGH, "--", "true", HYPERTARE_AGENT="/bin/echo")
    assert ran.status == 3
    assert "/bin/echo does not work" in ran.err and "cargo build --release" in ran.err


# --- what the machine lacks, in namespaces where it does


def in_namespace(setup: str) -> tuple[str, ...]:
    """Begins a command line that first changes the mounts, for itself only."""
    return ("unshare", "--mount", "sh", "-c", f'{setup} && exec "$@"', "sh")


def in_user_namespace(setup: str) -> tuple[str, ...]:
    return ("unshare", "--user", "--map-root-user", *in_namespace(setup)[1:])


def test_without_user_namespaces(lab: Lab) -> None:
    wrap = in_user_namespace("echo 0 > /proc/sys/user/max_user_namespaces")
    ran = lab.run(*WEIGH, "--", "true", wrap=wrap)
    assert ran.status == 3, ran
    assert "user.max_user_namespaces is 0" in ran.err
    assert "sysctl user.max_user_namespaces" in ran.err


@root
@pytest.mark.parametrize("where", ["run directory", "JSON"])
def test_a_read_only_place(lab: Lab, where: str) -> None:
    lab.study(STUDY)
    (lab.work / "fixed").mkdir()
    wrap = in_namespace("mount --bind fixed fixed && mount -o remount,bind,ro fixed")
    if where == "JSON":
        ran = lab.run(*WEIGH, "--json", "fixed/s.json", "--", "true", wrap=wrap)
        assert_refused(lab, ran, 2, "fixed/s.json may not be written", "elsewhere")
    else:
        ran = lab.run("run", "study.toml", "--out", "fixed/run", wrap=wrap)
        assert_refused(lab, ran, 3, "fixed/run cannot be made", "--out")


@root
def test_a_read_only_cache_that_lacks_the_kernel(lab: Lab) -> None:
    (lab.home / "cache").mkdir()
    wrap = in_namespace("mount --bind ../cache ../cache && mount -o remount,bind,ro ../cache")
    ran = lab.run("weigh", "--", "true", wrap=wrap, HYPERTARE_CACHE=str(lab.home / "cache"))
    assert_refused(lab, ran, 3, "cache", "cannot be written", "Name another directory")


@root
def test_a_full_cache(lab: Lab) -> None:
    (lab.home / "cache").mkdir()
    wrap = in_namespace("mount -t tmpfs -o size=64k,nr_inodes=3 none ../cache")
    ran = lab.run("weigh", "--", "true", wrap=wrap, HYPERTARE_CACHE=str(lab.home / "cache"))
    assert_refused(lab, ran, 3, "No room in the cache directory", "HYPERTARE_CACHE")


@root
@pytest.mark.runs
def test_a_full_disk_keeps_what_was_measured(lab: Lab) -> None:
    """The run directory fills up while the run goes on: what fits is there, and can go on."""
    lab.study(STUDY.replace("max_trials = 2", "max_trials = 400\nprecision = 0.00001"))
    (lab.work / "small").mkdir()
    setup = "mount -t tmpfs -o size=192k none small"
    wrap = in_namespace(f'{setup} && "$@"; s=$?; cp -r small kept; exit $s; :')
    ran = lab.run("run", "study.toml", "--out", "small/run", wrap=wrap)
    assert ran.status == 3, ran
    assert "disk is full" in ran.err and "Make room" in ran.err and "--resume" in ran.err
    report = lab.run("report", "kept/run", "--format", "csv")
    assert report.status == 0
    assert "native" in report.out


@root
@pytest.mark.guest
def test_without_tap_devices_only_the_guest_fails(lab: Lab) -> None:
    lab.study(
        STUDY.replace('"container"]', '"container", "guest"]').replace(
            'type = "command"\ncommand = ["true"]',
            'type = "ping"\nduration = "50ms"',
        )
    )
    wrap = in_namespace("mount -t tmpfs none /dev/net")
    before = Traces.now()
    ran = lab.run("run", "study.toml", "--out", "run", wrap=wrap)
    assert ran.status == 1, ran
    assert "/dev/net/tun is not there" in ran.said and "modprobe tun" in ran.said
    assert "No trial succeeded on guest" in ran.err
    lab.assert_nothing_left(before)


def test_what_is_no_utf8_is_refused_or_left_out_by_name(lab: Lab) -> None:
    strange = os.fsdecode(b"a\xffb")
    ran = lab.run(*WEIGH, "--", "echo", strange)
    assert_refused(lab, ran, 2, "no UTF-8: 'a\\udcffb'", "shell script")
    (lab.work / strange).mkdir()
    program = ("-m", "hypertare", *WEIGH, "--", "true")
    done = subprocess.run(
        [lab.python, *program], cwd=lab.work / strange, env=lab.env, capture_output=True, text=True
    )
    assert done.returncode == 2 and "the work directory's name is no UTF-8" in done.stderr, done
    ran = lab.run(
        "weigh", "--on", "native", "--max-trials", "2", "--min-trials", "2", "--", "true", A=strange
    )
    assert ran.status == 0 and "no UTF-8: A" in ran.said, ran
