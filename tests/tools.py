"""The programs of `tools/` as modules: they have no suffix by which they could be imported."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).parents[1] / "tools"


def loaded(name: str) -> ModuleType:
    loader = SourceFileLoader(f"tools_{name.replace('-', '_')}", str(TOOLS / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
