import pytest

from hypertare.base.units import (
    human_duration,
    human_size,
    parse_duration,
    parse_rate,
    parse_share,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), (4096, 4096), ("64K", 65536), ("512M", 2**29), ("1.5GiB", 3 * 2**29)],
)
def test_sizes_are_binary(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "rate"), [("100M", 1e8), ("2.5G", 2.5e9), ("10Mb/s", 1e7), ("64kbit/s", 64e3)]
)
def test_rates_are_decimal(text: object, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("1ns", 1e-9), ("2s", 2), (2, 2), ("5m", 300), ("1.5h", 5400)],
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


def test_shares() -> None:
    assert parse_share("2%") == pytest.approx(0.02)
    assert parse_share(0.5) == 0.5


@pytest.mark.parametrize("parse", [parse_size, parse_rate, parse_duration, parse_share])
@pytest.mark.parametrize("text", ["", "many", "-1", "1x", "1 2", True])
def test_nonsense_is_refused_with_an_example(parse, text: object) -> None:
    with pytest.raises(ValueError, match="for example"):
        parse(text)


def test_people_read_durations_and_sizes() -> None:
    assert human_duration(4.21) == "4.2 s"
    assert human_duration(185) == "3 min 5 s"
    assert human_duration(7200) == "2 h 0 min"
    assert human_size(512 << 20) == "512 MiB"
    assert human_size(1536) == "1.5 KiB"
