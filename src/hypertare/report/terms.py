"""Words of experiments that readers of a page may meet for the first time, with their meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable

TERMS = {
    "block": "trials of all platforms, taken close together, in random order; only these are compared",
    "boot": "one start of a guest, a container or a machine; trials of one boot may resemble each other",
    "cell": "one level of each factor: a workload with its settings",
    "noise floor": "how much the baseline differed from itself; nothing smaller can be seen",
    "machine cpu": "CPU time of the whole machine: the work, the VMM, the host, and whatever else ran",
}


def terms_in(texts: Iterable[str]) -> list[tuple[str, str]]:
    """The words that occur in what a reader has before him, each with its meaning."""
    text = " ".join(texts)
    return [(w, said) for w, said in TERMS.items() if re.search(rf"\b{w}s?\b", text, re.I)]
