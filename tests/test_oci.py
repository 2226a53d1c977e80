"""The image that `make oci` writes is one: every blob is what its name and its manifest say."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.tools import loaded


@pytest.fixture(scope="module")
def oci() -> ModuleType:
    return loaded("oci")


@pytest.fixture
def image(oci: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files of an image of a root with one file."""
    monkeypatch.setattr(oci, "DIST", tmp_path / "dist")
    root = tmp_path / "root.tar"
    with tarfile.open(root, "w") as archive:
        entry = tarfile.TarInfo("etc/hello")
        entry.size = 3
        archive.addfile(entry, io.BytesIO(b"hi\n"))
    blobs = oci.Blobs(tmp_path / "blobs")
    oci.pack(tmp_path / "image.tar", blobs, oci.describe(blobs, root, "1.2.3"), "1.2.3")
    with tarfile.open(tmp_path / "image.tar") as archive:
        return {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]


def blob(image: dict[str, bytes], named: dict[str, Any]) -> bytes:
    """What a descriptor names, checked against it."""
    kind, _, digest = named["digest"].partition(":")
    content = image[f"blobs/{kind}/{digest}"]
    assert hashlib.sha256(content).hexdigest() == digest
    assert len(content) == named["size"]
    return content


def test_every_blob_is_what_it_is_called(image: dict[str, bytes]) -> None:
    assert json.loads(image["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (named,) = json.loads(image["index.json"])["manifests"]
    assert named["annotations"]["org.opencontainers.image.ref.name"] == "hypertare:1.2.3"
    manifest = json.loads(blob(image, named))
    config = json.loads(blob(image, manifest["config"]))
    (layer,) = manifest["layers"]
    plain = gzip.decompress(blob(image, layer))
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(plain).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(plain)) as root:
        assert root.getnames() == ["etc/hello"]
    assert config["config"]["Entrypoint"] == ["hypertare"]
    assert len([name for name in image if name.startswith("blobs/")]) == 3
