"""`weigh` with a peer: what it asks for before anything is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_permissions import ask

SERVER = ("--peer", "sleep 1")
FEW = ("--accelerator", "tcg", "--memory", "160M")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--datapath", "qemu"), "--peer 'iperf3 -s' --datapath qemu"),
        (("--peer", " "), "--peer: the peer's server is empty"),
        ((*SERVER, "--datapath", "qemu,tap"), "'tap' is not allowed here"),
        ((*SERVER, "--datapath", "tap"), "--datapath: 'tap' is not allowed here"),
        ((*SERVER, "--datapath", "qemu", "--on", "native,container"), "add it to --on"),
        ((*SERVER, "--datapath", "auto,qemu", "--on", "native"), "add it to --on"),
        (("--value", "("), "--value: '(' is no regular expression"),
        (("--value", "(a)(b)"), "--value: '(a)(b)' has 2 groups"),
        (("--value", "a", "--value-json", "b"), "--value and --value-json are two figures"),
        (("--higher-is-better",), "Name it: --value"),
        (("--value", "a", "--value-name", "Two Words"), "--value-name: "),
        ((*SERVER, "--network", "host"), "the peer of command would work in this host's own"),
        (("--disk", "/dev/null"), "--disk: /dev/null is no directory of this host"),
        (("--disk", "/proc"), "Ask for a smaller --disk-size, or for another place with --disk."),
        ((*SERVER, "--image", "debian:12"), "--image: the network of an engine's containers"),
    ],
)
def test_what_cannot_be_is_refused_in_words_of_weigh(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    status, reported = ask(tmp_path, "weigh", *FEW, *words, "--", "true")
    assert status == 2 and said in reported, reported
    assert "sut." not in reported and "Traceback" not in reported, reported


def test_each_datapath_is_a_guest_of_its_own_beside_one_native(tmp_path: Path) -> None:
    words = (*FEW, *SERVER, "--datapath", "qemu,vhost-user", "--json", "-")
    status, reported = ask(tmp_path, "weigh", *words, "--", "true")
    assert status == 0, reported
    design = json.loads(reported[reported.index("{") : reported.rindex("}") + 1])
    assert design["study"] == "weigh"
    assert "vhost-user" in reported


@pytest.mark.skipif(Path("/dev/vhost-net").exists(), reason="this host has vhost")
def test_of_several_datapaths_the_one_that_the_host_lacks_is_said_and_left_out(
    tmp_path: Path,
) -> None:
    words = (*FEW, *SERVER, "--datapath", "qemu,vhost,vhost-user")
    status, reported = ask(tmp_path, "weigh", *words, "--", "true")
    assert status == 0 and "this host has no /dev/vhost-net. Only qemu, vhost-user" in reported, (
        reported
    )
    assert "modprobe vhost_net" in reported and "(datapath = vhost)" not in reported
    assert "(datapath = vhost-user)" in reported
