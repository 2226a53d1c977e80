from pathlib import Path

import pytest

from hypertare.base import paths
from hypertare.base.errors import MachineError


def test_cache_follows_its_variables(monkeypatch, tmp_path):
    monkeypatch.delenv("HYPERTARE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert paths.cache_dir() == tmp_path / "xdg" / "hypertare"
    monkeypatch.setenv("HYPERTARE_CACHE", "here")
    assert paths.cache_dir() == Path.cwd() / "here"


def make(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    path.chmod(mode)
    return path


def test_agent_named_built_or_packaged(monkeypatch, tmp_path):
    monkeypatch.delenv("HYPERTARE_AGENT", raising=False)
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "src/hypertare")
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    with pytest.raises(MachineError, match="cargo build --release"):
        paths.agent_binary()
    packaged = make(tmp_path / "src/hypertare/bin/hypertare-agent")
    assert paths.agent_binary() == packaged
    built = make(tmp_path / "target/x86_64-unknown-linux-gnu/release/hypertare-agent")
    assert paths.agent_binary() == built
    named = make(tmp_path / "mine")
    monkeypatch.setenv("HYPERTARE_AGENT", str(named))
    assert paths.agent_binary() == named


def test_walk_plugin_is_found_as_the_agent_is(monkeypatch, tmp_path):
    monkeypatch.delenv("HYPERTARE_WALK_PLUGIN", raising=False)
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "src/hypertare")
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    with pytest.raises(MachineError, match=r"walk plugin is not built.*libhypertare_walk"):
        paths.walk_plugin()
    built = make(tmp_path / "target/x86_64-unknown-linux-gnu/release/libhypertare_walk.so", 0o644)
    assert paths.walk_plugin() == built
    monkeypatch.setenv("HYPERTARE_WALK_PLUGIN", str(tmp_path / "absent"))
    with pytest.raises(MachineError, match="HYPERTARE_WALK_PLUGIN names"):
        paths.walk_plugin()


def test_unusable_agent_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("HYPERTARE_AGENT", str(tmp_path / "absent"))
    with pytest.raises(MachineError, match="which is not there"):
        paths.agent_binary()
    monkeypatch.setenv("HYPERTARE_AGENT", str(make(tmp_path / "plain", 0o644)))
    with pytest.raises(MachineError, match="chmod"):
        paths.agent_binary()
