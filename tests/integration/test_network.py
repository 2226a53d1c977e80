"""`weigh --network host`: commands that need the network have this host's, and can set nothing of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.integration.lab import Lab, statuses, summary

pytestmark = pytest.mark.runs

FEW = ("--warmup", "0", "--min-trials", "2", "--max-trials", "2", "--out", "run")
FETCH = """
from pathlib import Path
weight = Path("/proc/sys/net/core/dev_weight")
try:
    weight.write_text(weight.read_text())
except OSError:
    pass
else:
    raise SystemExit("it may set this host's network")
from urllib.request import ProxyHandler, build_opener
assert build_opener(ProxyHandler({})).open("http://127.0.0.1:%d/greeting", timeout=20).read() == b"hello"
"""


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """The port of a web server on this host's loopback."""
    (folder / "greeting").write_bytes(b"hello")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_a_command_has_this_hosts_network_natively_and_in_a_container(lab: Lab) -> None:
    with served(lab.home / "tmp") as port:
        ran = lab.run("weigh", "--network", "host", *FEW, "--", lab.python, "-c", FETCH % port)
    assert ran.status == 0, ran
    run = lab.work / "run"
    assert {p["platform"] for p in summary(run)["platforms"]} == {"native", "container"}
    assert statuses(run, "native", "command") | statuses(run, "container", "command") == {"ok"}
    assert "commands have this host's network, as asked" in ran.said


FORWARDS = "/proc/sys/net/ipv4/ip_forward"


def test_a_host_that_forwards_for_its_containers_still_does(lab: Lab) -> None:
    """As Docker sets it. In a network that is not this test's host's."""
    host = ("unshare", "--user", "--map-root-user", "--net", "sh", "-c")
    script = (
        f'ip link set lo up; echo 1 > {FORWARDS}; "$@"; status=$?; cat {FORWARDS} >&2; exit $status'
    )
    asked = ("weigh", "--network", "host", *FEW, "--", "true")
    ran = lab.run(*asked, wrap=(*host, script, "sh"))
    assert ran.status == 0, ran
    assert ran.err.splitlines()[-1] == "1"


def test_who_finds_no_network_hears_how_to_get_one(lab: Lab) -> None:
    connect = "exec 3<>/dev/tcp/192.0.2.1/80"
    ran = lab.run("weigh", "--on", "native", *FEW, "--", "bash", "-c", connect)
    assert ran.status != 0
    assert "Network is unreachable" in ran.said and "--network host" in ran.said, ran


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--on", "native,guest"),
            "guest has a kernel of its own and no way to this host's network",
        ),
        (("--image", "debian:12"), "has the network that the engine gives it"),
    ],
)
def test_who_cannot_have_it_is_reported_before_anything_starts(
    lab: Lab, words: tuple[str, ...], said: str
) -> None:
    ran = lab.run("weigh", "--network", "host", *words, "--", "true")
    assert ran.status == 2 and said in ran.said, ran


STUDY = """
name = "own-network"
question = "What goes together with this host's network?"
[sut]
platforms = ["native"]
network = "host"
[workloads.one]
"""


@pytest.mark.parametrize(
    ("rest", "strange"),
    [
        ('type = "stream"', "one"),
        ('type = "command"\ncommand = ["true"]\n[knobs]\nbusy_poll = 50', "knobs.busy_poll"),
    ],
)
def test_nothing_else_works_in_this_hosts_network(lab: Lab, rest: str, strange: str) -> None:
    ran = lab.run("run", lab.study(STUDY + rest))
    assert ran.status == 2, ran
    assert f"{strange} would work in this host's own network" in ran.said
