"""The scripts that draw charts in a browser: bundled once, then kept in the cache.

Bundling takes seconds of CPU time, and a run that is interrupted shall end within a few. What bundles
brings an engine for JavaScript with it: it is loaded for that alone.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from hypertare.base.paths import cache_dir


def charting_library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    kept = cache_dir() / "scripts" / f"charts-{version('vl-convert-python')}.js"
    try:
        return kept.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        import vl_convert

        made = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # the stub lacks its default
        _keep(kept, made)
        return made


def _keep(place: Path, text: str) -> None:
    """Gives the file its name once it is whole: until then it has none that could be left behind.

    A cache that cannot be written costs the seconds again next time, no more.
    """
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(place.parent, os.O_TMPFILE | os.O_WRONLY, 0o644)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            # With a directory's descriptor, which an absolute path does not need, links are followed.
            os.link(f"/proc/self/fd/{handle}", place, src_dir_fd=handle)
