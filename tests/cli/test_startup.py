"""What a command imports before its first word: importing is what takes the time."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import amcl
from amcl import recipes
from amcl.backbones import USUAL

HEAVY = ("timm", "torchvision", "sklearn", "scipy", "matplotlib", "lightning_fabric", "optuna")


WITHOUT_TORCH = [
    "--help",
    "--version",
    "pretain",
    "pretrain --epochz 3",
    "evaluate --protocolz x",
    "models",
]
WITH_TORCH = ["recipes", "pretrain --help", "evaluate --help"]
TRAINING = "import amcl.training"

# Commands run in turn in one process, which imports torch once; after each, its modules are
# printed. What a command imports stays, so that the first that imports too much is the first to
# fail. Fabric loads torchmetrics where it finds it, and SciPy and matplotlib with it.
PROGRAM = f"""
import contextlib, io, json, sys
sys.modules["torchmetrics"] = None
import amcl
modules = {{"import amcl": list(sys.modules)}}
from amcl.cli import main
for arguments in {[*WITHOUT_TORCH, *WITH_TORCH]!r}:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.suppress(SystemExit):
            main(arguments.split())
    modules[arguments] = list(sys.modules)
import amcl.training
modules[{TRAINING!r}] = list(sys.modules)
print(json.dumps(modules))
"""


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """The modules that are imported after each command line."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    return {name: set(modules) for name, modules in json.loads(done.stdout).items()}


@pytest.mark.parametrize("arguments", ["import amcl", *WITHOUT_TORCH])
def test_what_needs_no_command_does_not_import_torch(imported, arguments):
    modules = imported[arguments]
    assert "amcl" in modules
    assert not modules & {"torch", "numpy", "tyro", "rich", *HEAVY}


@pytest.mark.parametrize("arguments", WITH_TORCH)
def test_lists_help_and_typing_errors_import_no_more_than_torch(imported, arguments):
    modules = imported[arguments]
    assert "torch" in modules
    assert not modules & {*HEAVY, "torch._dynamo"}


def test_training_imports_no_more_than_it_uses(imported):
    assert "amcl.training.loop" in imported[TRAINING]
    assert not imported[TRAINING] & {"sklearn", "scipy", "matplotlib", "optuna"}


def test_reports_and_searches_need_the_extra_train_alone():
    file = Path(__file__).parents[2] / "pyproject.toml"
    requirements = tomllib.loads(file.read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]["train"]
    names = {re.split("[<>=]", requirement)[0] for requirement in requirements}
    assert {"jinja2", "matplotlib", "optuna"} <= names


def test_timm_has_the_models_that_are_not_looked_up():
    import timm

    assert all(timm.is_model(name) for name in USUAL)
    assert {recipes.recipe(name).backbone.name for name in recipes.names()} <= USUAL


def test_the_package_shows_what_it_offers_and_nothing_else():
    assert set(dir(amcl)) == {*amcl.__all__, "__version__"}
    assert all(getattr(amcl, name) is not None for name in dir(amcl))
    code = "import amcl; print(*[n for n in vars(amcl) if not n.startswith('_')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
    with pytest.raises(AttributeError, match="module 'amcl' has no attribute 'AMCLoss'"):
        _ = amcl.AMCLoss
