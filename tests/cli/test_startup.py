"""What a command imports before its first word: importing is what takes the time."""

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


def imported(arguments: str) -> set[str]:
    """The modules that a command line leaves imported."""
    code = (
        "import sys, contextlib, io\nfrom amcl.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()),"
        f" contextlib.suppress(SystemExit):\n    main({arguments.split()!r})\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "arguments",
    ["--help", "--version", "pretain", "pretrain --epochz 3", "evaluate --protocolz x"],
)
def test_what_needs_no_command_does_not_import_torch(arguments):
    modules = imported(arguments)
    assert "amcl.cli" in modules
    assert not modules & {"torch", "numpy", "tyro", "rich", *HEAVY}


@pytest.mark.parametrize("arguments", ["recipes", "pretrain --help", "evaluate --help"])
def test_lists_help_and_typing_errors_import_no_more_than_torch(arguments):
    modules = imported(arguments)
    assert "torch" in modules
    assert not modules & {*HEAVY, "torch._dynamo"}


def test_reports_and_searches_need_no_extra():
    file = Path(__file__).parents[2] / "pyproject.toml"
    requirements = tomllib.loads(file.read_text(encoding="utf-8"))["project"]["dependencies"]
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
