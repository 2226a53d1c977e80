"""A lab elsewhere: how it may be reached, and what of a study fits it."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.study import StudyFile

TEXT = """
name = "elsewhere"
question = "?"
{before}
{remote}
[sut]
platforms = ["native", "{platform}"]
{sut}
[workloads.work]
{workload}
{after}
"""


def study(
    before: str = 'machine = "remote"',
    remote: str = '[remote]\nreach = "ssh lab2"',
    platform: str = "guest",
    sut: str = "",
    workload: str = 'type = "burn"',
    after: str = "",
) -> StudyFile:
    parts = {"before": before, "remote": remote, "platform": platform, "sut": sut}
    return StudyFile(TEXT.format(workload=workload, after=after, **parts), "remote.toml")


def test_benches_on_a_lab_elsewhere_are_those_of_a_host_that_is_somebodys() -> None:
    found = study(workload='type = "stream"').study()
    assert found.remote is not None and found.remote.hosts == (("ssh", "lab2"),)
    assert not found.needs_files and found.machine_kind.is_sandboxed
    assert study(workload='type = "command"\ncommand = ["true"]').study().needs_files


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"remote": ""}, r"say how it is reached, \[remote\]"),
        ({"before": ""}, r"\[remote\] is of machine = 'remote'"),
        ({"remote": '[remote]\nreach = "rsh lab2"'}, "is no ssh"),
        ({"remote": '[remote]\nreach = "ssh -o ProxyCommand=x lab2"'}, "your ~/.ssh/config"),
        ({"before": 'machine = "remote"\nclock = "virtual"'}, "has no virtual clock"),
        (
            {
                "remote": '[remote]\nreach = ["ssh a", "ssh b", "ssh c", "ssh d"]',
                "after": "[design]\nmin_trials = 2\nmax_trials = 6",
            },
            "names 4 hosts.* a cell has 3 at most: design.max_trials must be at least 8",
        ),
        ({"sut": 'paging = "shadow"'}, "those of a host elsewhere are not changed"),
        ({"sut": 'pages = "2M"'}, "those of a host elsewhere are not changed"),
        (
            {"before": 'machine = "remote"\nfactors."sut.pages" = ["4K", "2M"]'},
            "those of a host elsewhere are not changed",
        ),
        ({"platform": "xen"}, "needs a look at its hypervisor"),
        ({"platform": "given", "after": '[given.a]\nreach = "ssh a"'}, "take machine = 'local'"),
        ({"after": "[knobs]\nksm = true"}, "of a host elsewhere, which is left alone"),
        ({"sut": 'network = "host"'}, "take machine = 'local'"),
        ({"sut": 'disk_directory = "/tmp"'}, "the machine 'remote' sees none of those"),
        ({"sut": 'devices = ["/dev/null"]'}, "the machine 'remote' has devices of its own"),
        ({"sut": 'image = "debian"', "platform": "container"}, "take machine = 'local'"),
        (
            {
                "workload": 'type = "stream"',
                "after": '[bench]\ntopology = "routers"\nrouting = "ospf"',
            },
            "is not brought elsewhere",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_do(changed: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(**changed).study()


def test_which_host_it_is_is_no_factor() -> None:
    from hypertare.design.design import make

    file = study(before='machine = "remote"\nfactors."remote.reach" = ["ssh a", "ssh b"]')
    with pytest.raises(InputError, match="cannot be a factor"):
        make(file.study(), 1)


def test_it_may_be_several_hosts_each_once() -> None:
    found = study(remote='[remote]\nreach = ["ssh lab1", "ssh -p 22 lab2"]').study()
    assert found.remote is not None
    assert found.remote.hosts == (("ssh", "lab1"), ("ssh", "-p", "22", "lab2"))


@pytest.mark.parametrize(
    ("reach", "said"),
    [
        ("[]", "at least 1"),
        ('["ssh lab1", "ssh  lab1"]', "is there twice: name each host once"),
        ('["ssh lab1", "rsh lab2"]', "is no ssh"),
    ],
)
def test_hosts_that_are_none_are_refused(reach: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(remote=f"[remote]\nreach = {reach}").study()
