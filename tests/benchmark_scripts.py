"""Scripts of benchmarks/, loaded as modules."""

import importlib.util
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def load_script(monkeypatch, name):
    """Return the module of a script, which may import its neighbors."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # where dataclasses look it up
    spec.loader.exec_module(module)
    return module
