"""Output for terminals that know no other letters than those of ASCII."""

from __future__ import annotations

from rich.console import Console, RenderableType

_PLAIN = str.maketrans(
    {
        "▲": "^",
        "▼": "v",
        "◆": "*",
        "✗": "x",
        "×": "x",
        "−": "-",
        "–": "-",
        "±": "+-",
        "µ": "u",
        "→": "->",
        "│": "|",
        "┿": "+",
        "━": "-",
        "●": "o",
    }
)
"""ASCII replacements of letters. In columns each is as wide as the letter that it replaces."""


def put(console: Console, shown: RenderableType) -> None:
    """Prints it, in letters that the encoding of the output has."""
    if console.encoding.startswith("utf"):
        console.print(shown)
        return
    with console.capture() as captured:
        console.print(shown)
    text = captured.get().translate(_PLAIN)
    console.file.write(text.encode(console.encoding, "replace").decode(console.encoding))
