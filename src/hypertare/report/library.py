"""The scripts that draw charts in a browser: bundled once, then kept in the cache.

Bundling takes seconds of CPU time, and a run that is interrupted shall end within a few. What bundles
brings an engine for JavaScript with it: it is loaded for that alone.
"""

from __future__ import annotations

from importlib.metadata import version

from hypertare.report.cached import cached_file, keep


def charting_library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    file = cached_file(f"charts-{version('vl-convert-python')}.js")
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        import vl_convert

        made = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # the stub lacks its default
        keep(file, made.encode())
        return made
