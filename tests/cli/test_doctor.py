"""What `amcl doctor` says of an installation."""

import json
from collections import namedtuple

import pytest
from packaging.requirements import Requirement

from amcl.cli import doctor, main


def test_it_shows_versions_devices_data_and_extras(tmp_path, capsys):
    assert main(["doctor", "--data-root", str(tmp_path), "--json", str(tmp_path / "all.json")]) == 0
    shown = capsys.readouterr().out
    assert "torch 2." in shown
    assert "  CPU: " in shown
    assert "missing: amcl data cifar10" in shown
    assert "Everything that is required is there." in shown
    state = json.loads((tmp_path / "all.json").read_text())
    assert {"tensorboard", "onnx", "wandb"} <= state["extras"].keys()
    assert not {"dev", "bench", "docs", "test"} & state["extras"].keys()
    assert state["problems"] == []
    assert main(["doctor", "--json", str(tmp_path / "all.json")]) == 2  # nothing is overwritten


@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        ("torch>=2", ""),
        ("torch>=99", "torch is 2.15.0, and >=99 is supported"),
        ("no-such-package>=1", "no-such-package is not installed"),
    ],
)
def test_what_is_wrong_with_a_package(requirement, problem, monkeypatch):
    monkeypatch.setattr(doctor, "_installed", lambda name: "2.15.0" if name == "torch" else None)
    assert doctor._problem(Requirement(requirement)) == problem


def test_a_missing_package_is_an_error(monkeypatch, capsys):
    required = {"nothing": Requirement("nothing>=1")}
    monkeypatch.setattr(doctor, "_requirements", lambda: (required, {}))
    assert main(["doctor"]) == 1
    shown = capsys.readouterr()
    assert "There are problems." in shown.out
    assert "nothing is not installed" in shown.err


def test_little_free_space_is_named(monkeypatch, capsys, tmp_path):
    usage = namedtuple("usage", "total used free")(2**40, 2**40, 2**30)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)
    assert main(["doctor", "--data-root", str(tmp_path / "new" / "folder")]) == 0
    assert "data folder     1 GiB (low" in capsys.readouterr().out
