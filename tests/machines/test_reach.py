"""Hosts that ssh reaches: what they say is bounded, and what they are sent is whole."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from hypertare.base.errors import MachineError
from hypertare.machines import remote
from hypertare.machines.reach import SSH, Sent, address_of, asked, look
from hypertare.machines.remote import reached
from hypertare.protocol.records import Survey

REACH = ("ssh", "lab2")
SURVEY = Survey(
    host_name="lab2",
    processor="Some CPU",
    kernel="6.1.0",
    architecture="x86_64",
    distribution="Some Linux",
    cpus=(0, 1),
    online=2,
    memory=1 << 30,
    available=1 << 29,
    load=0.5,
    qemu="7.2.22",
    absent={},
)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home elsewhere, where a shell of this host runs the last word of an ssh."""
    home = tmp_path / "home"
    home.mkdir()
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nfor last; do :; done\nHOME={home} exec /bin/sh -c "$last"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv(SSH, str(ssh))
    return home


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """One whose survey is the content of a file in its home."""
    file = tmp_path / "agent"
    file.write_text('#!/bin/sh\n[ "$1" = --version ] || cat "$HOME/survey"\n')
    file.chmod(0o755)
    return file


@pytest.mark.usefixtures("there")
def test_both_ends_of_a_long_file_are_heard() -> None:
    data = random.Random(1).randbytes(3 << 20)
    assert asked(REACH, "sha256sum | cut -c1-64", data, 60).strip() == _digest(data)
    with pytest.raises(MachineError, match="not today"):
        asked(REACH, "echo 'not today' >&2; exit 3", data, 60)


@pytest.mark.usefixtures("there")
def test_another_host_key_is_said_and_not_accepted() -> None:
    ssh_says = """
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
Host key verification failed.
"""
    with pytest.raises(MachineError) as refused:
        asked(REACH, f"echo '{ssh_says}' >&2; exit 255", b"", 60)
    assert refused.value.what == "ssh lab2: its host key is not the one that is known."
    assert refused.value.do is not None and "ssh-keygen -R HOST" in refused.value.do


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("to", ["", " >&2"])
def test_whoever_says_too_much_is_not_listened_to(to: str) -> None:
    with pytest.raises(MachineError, match="says more than the 65536 bytes"):
        asked(REACH, f"yes{to}", b"", 60)


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("script", ["sleep 60", "exec 1>&- 2>&-; sleep 60"])
def test_whoever_says_nothing_is_not_waited_for(script: str) -> None:
    with pytest.raises(MachineError, match=r"did not answer within 0.2 s"):
        asked(REACH, script, b"", 0.2)


def test_files_are_brought_once_and_mended(there: Path, agent: Path) -> None:
    sent = Sent(agent, "agent"), Sent(Path(__file__))
    found = look(REACH, sent, 1, "echo more that was asked")
    assert found["home"] == str(there) and found["more"] == "that was asked"
    kept = [there / ".cache" / "hypertare" / one.name for one in sent]
    assert [one.read_bytes() for one in kept] == [one.path.read_bytes() for one in sent]
    inode = kept[0].stat().st_ino
    kept[1].write_text("tampered with")
    assert look(REACH, sent, 1, "echo more again")["more"] == "again"
    assert kept[1].read_bytes() == sent[1].path.read_bytes() and kept[0].stat().st_ino == inode
    assert sorted(kept) == sorted(kept[0].parent.iterdir())


def test_a_survey_says_what_a_host_is(there: Path, agent: Path) -> None:
    (there / "survey").write_text(SURVEY.model_dump_json())
    host = reached(REACH, agent, (), None)
    assert host.survey == SURVEY and host.folder == there / ".cache" / "hypertare"
    broken = SURVEY.model_copy(update={"absent": {"sandbox": "no user namespaces"}})
    (there / "survey").write_text(broken.model_dump_json())
    with pytest.raises(MachineError, match="no bench can be made there: no user namespaces"):
        reached(REACH, agent, (), None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "survey",
        '{"record": "teardown", "seconds_s": 1}',
        SURVEY.model_copy(update={"cpus": ()}).model_dump_json(),
        SURVEY.model_copy(update={"host_name": "\x1b[2J"}).model_dump_json(),
        SURVEY.model_copy(update={"absent": {"kvm": "\x1b[2J"}}).model_dump_json(),
        json.dumps({**SURVEY.model_dump(mode="json"), "more": 1}),
    ],
)
def test_what_is_no_survey_is_refused(there: Path, agent: Path, text: str) -> None:
    (there / "survey").write_text(text)
    with pytest.raises(MachineError, match="survey is not to be read") as refused:
        reached(REACH, agent, (), None)
    assert "\x1b" not in str(refused.value)


def test_damaged_surveys_are_refused_or_can_be_shown() -> None:
    chance, line = random.Random(35), SURVEY.model_dump_json().encode()
    taken = 0
    for _ in range(2000):
        damaged = bytearray(line)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            found = remote._survey(REACH, damaged.decode(errors="replace"))
        except MachineError as error:
            assert str(error).isprintable() or error.do
            continue
        taken += 1
        assert found.host_name.isprintable() and found.cpus
    assert taken


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("configured", "address"),
    [
        ("hostname 192.0.2.10", "192.0.2.10"),
        ("hostname 2001:db8::1", "2001:db8::1"),
        # Through a port that is forwarded here, or through another host, nothing else reaches it.
        ("hostname 127.0.0.1", None),
        ("hostname 192.0.2.10\nproxyjump gate", None),
        ("hostname 192.0.2.10\nproxycommand nc gate 22", None),
        ("hostname nowhere.invalid", None),
    ],
)
def test_packets_go_where_ssh_connects_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: str, address: str | None
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\n[ \"$1\" = -G ] && echo '{configured}'\n")
    ssh.chmod(0o755)
    monkeypatch.setenv(SSH, str(ssh))
    assert address_of(REACH) == address
