"""Whether this host's kernel can move guests' packets, and what is said where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.base.errors import MachineError
from hypertare.base.host_files import Host
from hypertare.machines.host import settings
from hypertare.machines.host.settings import NOTHING, Needs, can_use_vhost
from tests.machines.host.test_needs import bench, guest


def test_a_host_without_it_is_refused_before_anything_starts(tmp_path: Path) -> None:
    needed = Needs.of(bench(guest(datapath="vhost")))
    assert needed == Needs(vhost=True)
    host = Host(root=tmp_path)
    with pytest.raises(MachineError, match="no /dev/vhost-net") as refused:
        settings.check(host, needed, NOTHING)
    assert refused.value.do is not None and "modprobe vhost_net" in refused.value.do


def test_a_host_with_it_can_use_it(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/vhost-net").touch()
    host = Host(root=tmp_path)
    assert can_use_vhost(host)
    wanted = Needs(vhost=True)
    assert settings.check(host, wanted, NOTHING), "no setting of this host is to be changed for it"
