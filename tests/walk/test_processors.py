import pytest

from hypertare.errors import InputError
from hypertare.walk import processors


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


def test_an_unknown_name_gets_the_known_ones():
    with pytest.raises(InputError) as caught:
        processors.find("pentium")
    assert "zen4" in str(caught.value)
