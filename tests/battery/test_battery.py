"""Nothing of the host is touched, whatever a command tries, as root and as anybody else.

The same attempts natively, in a container and in a guest of this host. Inside each must be refused, or
end at what is the command's own; outside everything must be as it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.battery import inside
from tests.battery.outside import ORDINARY, Battered, outside

pytestmark = pytest.mark.timeout(600)
HOST, GUEST = "native,container", "native,guest"
LEAST = {"proc-sys": 300, "sys-files": 100}
"""Files that a sweep must have tried, on every kernel that there is."""

REAL = {
    "connection-to-the-host",
    "sockets-with-a-path",
    "semaphores",
    "shared-segment",
    "socket-without-a-path",
    "victim-affinity",
    "victim-kill",
    "victim-memory",
}
"""What no user needs any right for, where the thing is that user's."""

EQUAL = {
    "flags-changed",
    "folder-hidden",
    "folder-swapped",
    "locked",
    "owner-changed",
}
"""Leave no other file behind, or are only root's."""


def whose() -> list[pytest.param]:
    """Runs as root where the tests are root's, and as an ordinary user everywhere."""
    users = {"root": 0, "user": ORDINARY} if os.geteuid() == 0 else {"user": os.geteuid()}
    kinds = (("host", HOST, pytest.mark.runs), ("guest", GUEST, pytest.mark.guest))
    return [
        pytest.param((user, platforms), id=f"{name}-{kind}", marks=mark)
        for kind, platforms, mark in kinds
        for name, user in users.items()
    ]


@pytest.fixture(scope="module", params=whose())
def battered(request: pytest.FixtureRequest) -> Iterator[Battered]:
    user, platforms = request.param
    with outside(user, guest=platforms == GUEST) as here:
        yield here.weigh(platforms)


def test_every_attempt_was_made_everywhere(battered: Battered) -> None:
    assert battered.ran.status == 0, battered.ran
    assert len(inside.ATTEMPTS) >= 60
    for platform, trials in battered.reported.items():
        for reported in trials:
            made = {*reported["held"], *reported["through"], *reported["absent"]}
            assert made == set(inside.ATTEMPTS), platform
            for sweep, least in LEAST.items():
                if sweep in reported["held"]:
                    assert reported["counts"].get(sweep, 0) >= least, (platform, sweep)
    assert {len(trials) for trials in battered.reported.values()} == {2}


def test_nothing_got_through(battered: Battered) -> None:
    through = {
        f"{platform}: {name}: {what}"
        for platform, trials in battered.reported.items()
        for reported in trials
        for name, what in reported["through"].items()
    }
    assert not through, f"{len(through)} got through:\n" + "\n".join(sorted(through))


def test_the_host_is_as_it_was(battered: Battered) -> None:
    assert not battered.differences, "\n".join(battered.differences)


@pytest.mark.runs
def test_the_attempts_are_real() -> None:
    """Without a sandbox, an ordinary user's get through to what is that user's."""
    user = ORDINARY if os.geteuid() == 0 else os.geteuid()
    with outside(user, bare=True) as here:
        reported, differences = here.bare()
    assert reported["through"].keys() >= REAL, REAL - reported["through"].keys()
    changed = "\n".join(differences)
    for way in (f"file-{name}" for name in inside.WAYS if name not in EQUAL):
        assert f"/{way}" in changed, way
