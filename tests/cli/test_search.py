"""`amcl search` as a user types it."""

import pytest

import amcl.sweep.single_run
from amcl.cli import main
from amcl.config import Config
from amcl.search import study
from search.studies import Runs

pytestmark = pytest.mark.usefixtures("few_images")
TOY = ["--recipe", "builtin-simclr-amcl", "--epochs", "2", "--probe-every", "1"]


@pytest.fixture
def runs(monkeypatch):
    made = Runs()
    monkeypatch.setattr(amcl.sweep.single_run, "pretrain", made)
    monkeypatch.setattr(study, "save_plots", lambda *args: ([], {}))
    return made


def test_a_study_from_its_begin_to_its_end(tmp_path, capsys, runs):
    out = tmp_path / "studies/first"
    assert main(["search", *TOY, "--trials", "2", "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "1/2  trial 0  kNN accuracy" in shown.err
    assert f"amcl pretrain --config {out}/best.toml" in shown.out
    assert set(Config.from_file(out / "best.toml").method.projector) == {256, 64}
    # By its folder alone it goes on, as it began.
    assert main(["search", "--out", str(out)]) == 0
    assert len(runs.begun) == 2
    assert main(["search", "--trials", "3", "--out", str(out)]) == 0
    assert main(["search", "--out", str(out)]) == 0
    assert len(runs.begun) == 3
    assert Config.from_file(out / "trials/0002/config.toml").run.epochs == 2


def test_what_is_wrong_is_told_before_anything_runs(tmp_path, capsys, runs):
    out = str(tmp_path / "s")

    def told(*args):
        code = main(["search", *args, "--out", out])
        assert code in (1, 2)
        return " ".join(capsys.readouterr().err.split())

    assert "did you mean 'beta'" in told(*TOY, "--space", "bta=0:1")
    assert "start from a recipe that ends in -amcl" in told("--recipe", "builtin-simclr")
    assert "--probe test" in told(*TOY, "--probe", "test")
    assert "trials must be a whole number" in told(*TOY, "--trials", "0")
    assert "there is no recipe" in told("--recipe", "builtin-simclr-amlc")
    assert "name the folder" in told("--recipe", "folder-simclr-amcl")
    assert not runs.begun
    assert not (tmp_path / "s").exists()
    assert "there is no option --trails: did you mean --trials" in told(*TOY, "--trails", "3")


def test_a_study_does_not_change_its_method(tmp_path, capsys, runs):
    out = str(tmp_path / "s")
    assert main(["search", *TOY, "--trials", "1", "--out", out]) == 0
    assert main(["search", "--method", "moco", "--out", out]) == 2
    assert "--method moco does not go with" in " ".join(capsys.readouterr().err.split())
    assert main(["search", "--lr", "3", "--out", out]) == 1
    assert "other settings: lr" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_two_processes_share_a_study(tmp_path, capsys):
    """Real runs: each trial is carried out once, and both processes have done some."""
    out = tmp_path / "s"
    quick = ["--epochs", "1", "--projector", "16", "8", "--trials", "4", "--jobs", "2"]
    assert main(["search", *TOY, *quick, "--out", str(out)]) == 0
    assert sorted(path.name for path in (out / "trials").iterdir()) == [
        *("0000", "0001", "0002", "0003")
    ]
    assert "4/4" in capsys.readouterr().err
    for i in range(2):
        assert "epoch 1" in (out / f"logs/worker-{i}.log").read_text()
