"""`amcl report` as a user types it."""

import os
import re
import shutil
from pathlib import Path

import pytest

from amcl.cli import main
from amcl.cli.known_options import KNOWN

pytestmark = pytest.mark.usefixtures("few_images")
QUICK = ["--epochs", "1", "--batch-size", "80", "--width", "0.125"]


@pytest.mark.slow
def test_from_a_run_to_its_page(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train = ["pretrain", "--data", "builtin", *QUICK, "--projector", "16", "8", "--out"]
    assert main([*train, "runs/one"]) == 0
    shutil.copytree("runs/one", "runs/two")
    assert main(["report", "runs/one", "--images", "8"]) == 0
    assert "runs/one/report.html (" in capsys.readouterr().out
    assert "8 images" in Path("runs/one/report.html").read_text()
    assert main(["report", "runs/one", "runs/two", "--images", "8"]) == 0
    assert "2 runs side by side" in Path("report.html").read_text()
    Path("mine.html").write_text("<p>mine")
    assert main(["report", "runs/one", "--out", "mine.html"]) == 1
    assert "is left as it is" in " ".join(capsys.readouterr().err.split())
    assert Path("mine.html").read_text() == "<p>mine"


def test_what_is_wrong_is_told(tmp_path, capsys):
    def told(*args):
        assert main(["report", *args]) in (1, 2)
        return " ".join(capsys.readouterr().err.split())

    assert "no run folder" in told(str(tmp_path))
    assert "RUN ... is missing" in told()


def test_the_options_are_these(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["report", "--help-all"])
    flags = sorted(set(re.findall(r"--[a-z][a-z0-9.-]*[a-z0-9]", capsys.readouterr().out)))
    frozen = KNOWN / "report.txt"
    if os.environ.get("AMCL_FREEZE"):
        frozen.write_text("\n".join(flags) + "\n")
    assert flags == frozen.read_text().split()
