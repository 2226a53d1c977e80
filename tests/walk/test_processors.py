import json

import pytest

from hypertare.base.errors import InputError
from hypertare.walk import processors, run
from hypertare.walk.processors import Options


def test_every_shipped_processor_reads_and_is_named_as_its_file():
    assert len(processors.names()) == 5
    for name in processors.names():
        found = processors.find(name)
        assert found.name == name
        assert found.raw["sources"]
        assert found.assumed, "no maker publishes all of it"


def test_all_is_every_one_once():
    chosen = processors.chosen(["zen4", "all"])
    assert [found.name for found in chosen] == [
        "zen4",
        *(name for name in processors.names() if name != "zen4"),
    ]


def test_a_file_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\ntitle = "My own"\n')
    assert processors.find(str(file)).title == "My own"
    file.write_text('name = "zen4"\ntitle = "Not that"\n')
    with pytest.raises(InputError, match="Two processors are named zen4"):
        processors.chosen(["zen4", str(file)])


@pytest.mark.parametrize(
    ("text", "said"),
    [('title = "x"\n', "name is missing"), ("name = [", "no TOML file"), (None, "cannot be read")],
)
def test_what_is_no_description_is_said(tmp_path, text, said):
    file = tmp_path / "bad.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=said):
        processors.find(str(file))


def test_a_file_that_is_no_description_is_not_read_to_its_end(tmp_path):
    file = tmp_path / "large.toml"
    file.write_bytes(b"#" * (1 << 16) + b"\n")
    with pytest.raises(InputError, match="more than 65536 bytes"):
        processors.find(str(file))
    file.write_bytes(b"name = '\xff'\n")
    with pytest.raises(InputError, match="no TOML file"):
        processors.find(str(file))


def test_a_file_is_looked_for_from_the_study_s_folder(tmp_path):
    (tmp_path / "mine.toml").write_text('name = "mine"\ntitle = "My own"\nsources = ["me"]\n')
    found = processors.find("mine.toml", tmp_path)
    assert json.loads(found.hardware) == {"name": "mine", "title": "My own"}


def test_an_unknown_name_gets_the_known_ones():
    with pytest.raises(InputError) as caught:
        processors.find("pentium")
    assert "zen4" in str(caught.value)


def caches(found: processors.Description) -> list[tuple[str, int, int]]:
    return [(cache["name"], cache["size"], cache["ways"]) for cache in found.raw["caches"]]


def test_another_shared_cache_keeps_its_sets():
    own = processors.find("phenom2")
    assert own.with_shared_cache("own") is own
    none, small = own.with_shared_cache("none"), own.with_shared_cache("2M")
    assert caches(none) == [("L2", 524288, 16)]
    # 6 MB in 48 ways are 128 KB a way: 16 of them.
    assert caches(small) == [("L2", 524288, 16), ("L3", 2 << 20, 16)]
    assert caches(own) == [("L2", 524288, 16), ("L3", 6 << 20, 48)]
    names = [found.raw["name"] for found in (own, none, small)]
    assert (
        names
        == ["phenom2", "phenom2 none", "phenom2 2M"]
        == [found.key for found in (own, none, small)]
    )
    assert small.name == "phenom2"


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        ("athlon2", "6M", "athlon2 has no shared cache"),
        ("phenom2", "100K", "its ways are of 128 KiB each"),
        ("phenom2", "0", "cannot be of 0 B"),
        ("phenom2", "much", "or 'own', or 'none'"),
    ],
)
def test_a_shared_cache_that_cannot_be(name, asked, said):
    with pytest.raises(InputError, match=said):
        processors.find(name).with_shared_cache(asked)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "The command is empty"),
        ("folder", "folder is a directory"),
        ("./t.sh", r"\./t\.sh may not be executed"),
        ("no-such-program", "there is no such program"),
    ],
)
def test_what_is_no_program_is_said(tmp_path, monkeypatch, name, said):
    (tmp_path / "folder").mkdir()
    (tmp_path / "t.sh").write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        run.walk([name], [], Options(1.0, 0.25), lambda _accesses, _seconds: None)
