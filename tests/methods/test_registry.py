"""A method from outside the package: one file, an entry point, and everything works for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amcl.checkpoints import read_metrics
from amcl.cli import main
from amcl.methods import METHODS, Method, MethodSettings, SimCLR, SimCLRSettings, register_method

TOY = '''
"""A toy: features of all crops are pulled to those of the first view, and have unit variance."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl.methods import Method, MethodSettings, register_method


@dataclass(frozen=True, kw_only=True)
class PullSettings(MethodSettings):
    name: ClassVar[str] = "pull"
    title: ClassVar[str] = "Pull"
    multi_crop: ClassVar[bool] = True

    strength: float = 2.0
    """Weight of the pull."""


@register_method(PullSettings)
class Pull(Method):
    def forward(self, views, watch=False):
        first, *others = [self.backbone(view) for view in views]
        spread = (first.std(0) - 1).square().mean()
        pull = torch.stack([(other - first.detach()).square().mean() for other in others]).mean()
        if watch:
            self.terms = {"pull": pull.detach(), "crops": torch.tensor(float(len(views)))}
        return spread + self.settings.strength * pull
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package of the toy, as an installer would leave it."""
    site = tmp_path_factory.mktemp("site")
    (site / "amcl_pull.py").write_text(TOY, encoding="utf-8")
    info = site / "amcl_pull-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: amcl-pull\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[amcl.methods]\npull = amcl_pull\n")
    return site


def amcl(site: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "amcl", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


SMALL = ("--subset", "48", "--batch-size", "24", "--epochs", "1", "--threads", "1")


@pytest.mark.slow
def test_a_method_of_another_package_trains_from_the_command_line(installed, tmp_path):
    words = ("--method", "pull", "--strength", "0.5", "--local-crops", "2", *SMALL, "--out", "run")
    done = amcl(installed, "pretrain", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    config = (tmp_path / "run/config.toml").read_text(encoding="utf-8")
    assert 'name = "pull"' in config
    assert "strength = 0.5" in config
    rows = read_metrics(tmp_path / "run")
    epoch = next(row for row in rows if row["kind"] == "epoch")
    assert epoch["term/crops"] == 4.0
    assert epoch["term/pull"] > 0

    cost = amcl(installed, "cost", "run", cwd=tmp_path)
    assert cost.returncode == 0, cost.stderr
    assert "pull" in cost.stdout


@pytest.mark.slow
def test_its_page_and_help(installed, tmp_path):
    amcl(installed, "pretrain", "--method", "pull", *SMALL, "--out", "run", cwd=tmp_path)
    report = amcl(installed, "report", "run", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    text = amcl(installed, "pretrain", "--method", "pull", "--help-all", cwd=tmp_path).stdout
    assert "--strength" in text
    assert "--queue" not in text


def test_without_the_package_there_is_no_such_method(capsys):
    assert main(["pretrain", "--method", "pull"]) == 2
    assert "--method has no choice 'pull'" in " ".join(capsys.readouterr().err.split())


def test_a_name_is_registered_once():
    class Other(Method):
        pass

    with pytest.raises(ValueError, match="'simclr' is registered already"):
        register_method(SimCLRSettings)(Other)
    assert register_method(SimCLRSettings)(SimCLR) is SimCLR


def test_names_and_settings():
    assert "simclr" in METHODS
    assert METHODS["simclr"].settings_class is SimCLRSettings
    with pytest.raises(ValueError, match="did you mean 'simclr'"):
        METHODS["simclar"]
    assert issubclass(METHODS["mae"].settings_class, MethodSettings)
