"""Nothing but a platform, or a kind of machine, knows which one it is: all else asks for a fact."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import hypertare
from hypertare.machine_kinds.registry import KINDS as MACHINES
from hypertare.platforms.registry import KINDS as PLATFORMS

SOURCE = Path(hypertare.__file__).parent
OWN = ("platforms", "machine_kinds")
NAMES = {*PLATFORMS, *MACHINES}
OTHER_WORDS = ("('driver', 'guest')", "self.peers != 'driver'", "{'given': given}")
"""Where peers are, and where a knob is set: by the driver domain or a guest, whatever is under test; and a
study's table of that name.
"""


def questions(text: str) -> Iterator[str]:
    """Where a name decides: it is compared, a case, or one of several to choose from."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare():
                asks = any(map(_named, [node.left, *node.comparators]))
            case ast.Match():
                of = ast.unparse(node.subject)
                about = any(word in of for word in ("platform", "machine"))
                asks = about and any(_named(case.pattern) for case in node.cases)
            case ast.Tuple() | ast.Set() | ast.List():
                asks = len(node.elts) > 1 and _are_names(node.elts)
            case ast.Dict():
                asks = _are_names(node.keys)
            case _:
                asks = False
        if asks and ast.unparse(node) not in OTHER_WORDS:
            yield f"line {node.lineno}: {ast.unparse(node)}"  # type: ignore[attr-defined]


def _named(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Constant) and one.value in NAMES for one in ast.walk(node))


def _are_names(found: Iterable[ast.expr | None]) -> bool:
    values = [one.value if isinstance(one, ast.Constant) else None for one in found]
    return bool(values) and all(value in NAMES for value in values)


@pytest.mark.parametrize(
    "text",
    [
        'variant.platform == "guest"',
        'if study.machine != "local" and routed: pass',
        'platform in ("xen", "vax")',
        '"guest" in study.sut.platforms',
        '{"guest", "xen"} & set(platforms)',
        'CLASSES = {"xen": XEN, "guest": KVM}',
        'match variant.platform:\n    case "guest": pass',
    ],
)
def test_questions_are_seen(text: str) -> None:
    assert list(questions(text))


@pytest.mark.parametrize(
    "text",
    [
        'MachineState(kind="emulated")',
        'places = ("guest",)',
        'match place:\n    case "guest": pass',
        'PLACES = ("link", "guest", "kernel")',
    ],
)
def test_other_words_are_passed_over(text: str) -> None:
    assert not list(questions(text))


def test_nobody_else_asks_which_one_it_is() -> None:
    files = [path.relative_to(SOURCE) for path in SOURCE.rglob("*.py")]
    others = [path for path in files if path.parts[0] not in OWN]
    found = [f"{path} {one}" for path in others for one in questions((SOURCE / path).read_text())]
    assert len(others) > 250 and not found
