"""Tables of the smaller verbs: a path that is wider than its column is folded, and not cut."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hypertare.cli import doctor, image

LONG = "/a" + "/very-long-name" * 9 + "/end"


@dataclass(frozen=True)
class Finding:
    name: str = "cache"
    status: str = "ok"
    what: str = LONG
    do: str = ""


@dataclass(frozen=True)
class Listed:
    what: str = LONG
    size: int = 10
    made: float = 0.0
    used: float = 0.0


@pytest.mark.parametrize("width", [60, 80])
def test_a_path_is_whole(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    doctor._print("fine", [Finding()])
    image._print_table("cache", [Listed()])
    said = capsys.readouterr().out
    assert "…" not in said
    pieces = "".join(c for c in said if c not in " \n┃│┏┓┡┩└┘━─┬┴╇┳")
    assert pieces.count("/end") == 2
