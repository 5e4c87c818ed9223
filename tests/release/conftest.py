"""The scripts of the folder release/."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def release(monkeypatch):
    """A function that loads a script of the folder release/."""
    monkeypatch.syspath_prepend(str(ROOT / "release"))
    for name in ("dependencies", "sbom", "lock"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def load(name):
        spec = importlib.util.spec_from_file_location(name, ROOT / "release" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
