import json

import pytest
from typer.testing import CliRunner

from hypertare.cli.image import image_app


@pytest.fixture
def call(bench, monkeypatch):
    bench.agent.chmod(0o755)
    monkeypatch.setenv("HYPERTARE_AGENT", str(bench.agent))
    monkeypatch.setenv("HYPERTARE_CACHE", str(bench.cache.root))

    def invoke(*argv):
        return CliRunner().invoke(image_app, argv, catch_exceptions=False)

    return invoke


def kinds(shown):
    return sorted(entry["kind"] for entry in json.loads(shown.stdout))


def test_build_list_and_collect(call, bench):
    assert kinds(call("list", "--json")) == []
    built = call("build", "--kernel", str(bench.kernel))
    assert built.exit_code == 0
    assert "vmlinux" in built.stdout
    assert "initramfs.cpio" in built.stdout
    assert kinds(call("list", "--json")) == ["images", "kernels", "modules"]
    assert "guest initramfs" in " ".join(call("list", "--all").stdout.split())
    sums = call("list").stdout
    assert "guests' kernels" in sums and sums.splitlines()[-2].split()[:3] == ["in", "all", "3"]
    assert "0 MB freed" in call("gc").stdout
    assert "would be freed" in call("gc", "--all", "--dry-run").stdout
    assert kinds(call("list", "--json")) == ["images", "kernels", "modules"]
    assert "removed" in call("gc", "--all").stdout
    assert kinds(call("list", "--json")) == []
