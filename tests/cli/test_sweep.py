"""`amcl sweep`: what it takes, what it says, how it goes on."""

import re
import signal
from pathlib import Path

import pytest

from amcl import recipes
from amcl.cli import main
from amcl.cli.sweep import parse
from amcl.config import Config
from amcl.config.fields import with_values
from amcl.methods import Method
from amcl.sweep import SweepFolder
from amcl.views.channels import FITTED
from tiny_runs import interrupt_at

pytestmark = pytest.mark.usefixtures("few_images")

TINY = ["--epochs", "1", "--batch-size", "80", "--projector", "16", "8", "--knn-k", "20"]
TINY += ["--backbone", "resnet10t", "--width", "0.25", "--stem", "standard"]


def answer(capsys, *args: str) -> tuple[int, str, str]:
    """The exit code, and what is printed; tyro leaves by SystemExit."""
    try:
        code = main(["sweep", *args])
    except SystemExit as left:
        code = left.code
    said = capsys.readouterr()
    return code, said.out, re.sub(r"[\s│╭╮╰╯─]+", " ", said.err)


def runs_of(out: Path) -> dict[str, int]:
    """The runs that were begun, and how often."""
    return {
        run.name: len((run / "environment.jsonl").read_text().splitlines())
        for run in (out / "runs").iterdir()
    }


def test_a_sweep_from_beginning_to_end(tmp_path, capsys, monkeypatch):
    """Stopped in its second run; gone on with by --out alone; with a seed and a protocol more."""
    out = tmp_path / "a sweep"
    command = ["--grid", "tau=0.1", "seed=0,1", *TINY, "--out", str(out), "--protocols", "knn"]
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3, signal.SIGTERM)
        code, _, told = answer(capsys, *command)
    assert code == 143
    assert f"1 of 2 runs to go, everything is saved. Resume with: amcl sweep --out '{out}'" in told
    code, shown, told = answer(capsys, "--out", str(out), "--workers", "0", "--threads", "1")
    assert code == 0
    assert re.search(r"2/2 tau=0.1,seed=1 .* knn_top1_validation \d+\.\d%", told)
    assert re.search(r"0.1 +2 +\d+\.\d ± \d+\.\d%", shown)
    assert runs_of(out) == {"tau=0.1,seed=0": 1, "tau=0.1,seed=1": 2}
    command[2] = "seed=0,1,2"
    code, _, told = answer(capsys, *command[:-1], "unlabeled")
    assert code == 0
    assert re.search(r"2/3 tau=0.1,seed=0 .* 3/3 tau=0.1,seed=2", told)
    assert runs_of(out) == {"tau=0.1,seed=0": 1, "tau=0.1,seed=1": 2, "tau=0.1,seed=2": 1}
    judged = [
        {n.split("_")[0] for n in record.metrics if n.count("_") > 1}
        for record in SweepFolder(out).records()
    ]
    both = {"knn", "unlabeled"}
    assert [names & both for names in judged] == [both, both, {"unlabeled"}]
    code, _, told = answer(capsys, *command, "--epochs", "2")
    assert code == 1
    assert "would differ in epochs" in told


def test_runs_start_from_recipes_methods_and_files(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(Config().to_toml())
    out = ["--out", str(tmp_path / "out"), "--epochs", "3"]

    def configs(*args):
        _, points = parse(["--grid", *args, *out])
        return {p.name: p.config for p in points}

    found = configs("recipe=builtin-simclr,builtin-moco-amcl", "seed=0,1")
    assert list(found)[2:] == ["recipe=builtin-moco-amcl,seed=0", "recipe=builtin-moco-amcl,seed=1"]
    given = {"epochs": 3, "fit": ("batch_size", *FITTED)}
    moco = {"seed": 1, "fit": ("batch_size", "queue", *FITTED)}
    expected = with_values(recipes.recipe("builtin-moco-amcl"), given | moco)
    assert found["recipe=builtin-moco-amcl,seed=1"] == expected
    found = configs("method=simclr,barlow")
    assert found["method=barlow"] == with_values(recipes.recipe("builtin-barlow-amcl"), given)
    # As `amcl pretrain --data` does, a set brings the settings of its recipe.
    found = configs("data=builtin,cifar10", "projector=64 32")
    expected = with_values(recipes.recipe("cifar10-simclr-amcl"), given)
    assert found["data=cifar10,projector=64-32"] == with_values(expected, {"projector": (64, 32)})
    (one,) = configs(f"config={file}").values()
    assert one == with_values(Config(), {"epochs": 3, "fit": FITTED})


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--grid", "tua=0.1"], "did you mean 'tau'"),
        (["--grid", "tau=low"], "tau must be float, got 'low'"),
        (["--grid", "tau=0.1", "tau=0.2"], "the grid has tau twice"),
        (["--grid", "tau=0.1", "--grid", "seed=0,1"], "--grid is given twice"),
        (["--grid", "tau=-1"], "tau must be a finite number above 0"),
        (["--grid", "tau"], "write a field and its values"),
        (["--grid", "projector=64 wide"], "projector must be int, got 'wide'"),
        (["--plain", "--grid", "beta=0.1,0.2"], "beta would change nothing"),
        (["--grid", "threads=1,2"], "which is unknown"),
        (["--grid", "queue=512", "method=moco,simclr"], "simclr is asked for a setting 'queue'"),
        (["--grid", "recipe=builtin-simlcr"], "did you mean builtin-simclr"),
        (["--grid", "recipe=builtin-simclr", "--recipe", "builtin-moco"], "give one of them"),
        (["--grid", "recipe=builtin-simclr", "--config", "a"], "both say where to start"),
        (["--grid", "recipe=builtin-simclr", "--method", "moco"], "does not go with --recipe"),
        (["--grid", "method=simlcr"], "simclr"),
        (["--grid", "config=none.toml"], "there is no configuration file none.toml"),
        (["--grid", "seed=0", "--recipe", "folder-simclr"], "name the folder of images"),
        (["--grid", "seed=0", "--tua", "1"], "--tau"),
        (["--grid", "seed=0", "--jobs", "0"], "jobs must be a whole number"),
        (["--grid", "seed=0", "--devices", "2"], "use --jobs"),
        (["--grid", "seed=0", "--protocols", "lienar"], "linear"),
        (["--grid", "seed=0", "--protocols", "knn", "--split", "test"], "has no labeled test"),
        ([], "there is no sweep in out to resume"),
        (["--epochs", "3"], "there is no sweep in out to resume"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_made(capsys, tmp_path, monkeypatch, args, told):
    monkeypatch.chdir(tmp_path)
    code, _, said = answer(capsys, *args, "--out", "out")
    assert (code, told in said) == (2, True), said
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_has_a_folder(capsys):
    code, _, told = answer(capsys, "--grid", "seed=0")
    assert code == 2
    assert "--out" in told


def test_without_a_grid_nothing_but_the_machine_may_change(tmp_path, capsys):
    _, points = parse(["--grid", "seed=0,1", *TINY, "--out", str(tmp_path / "out")])
    SweepFolder(tmp_path / "out").add(points, ["linear"], "auto")
    again = ["--out", str(tmp_path / "out")]
    options, found = parse([*again, "--workers", "7", "--threads", "3", "--protocols", "knn"])
    assert (options.protocols, options.split) == (("knn",), "auto")
    assert [p.name for p in found] == ["seed=0", "seed=1"]
    for now, before in zip(found, points, strict=True):
        assert (now.config.data.workers, now.config.hardware.threads) == (7, 3)
        assert (now.config.run, now.config.method) == (before.config.run, before.config.method)
    code, _, told = answer(capsys, *again, "--epochs", "9", "--tau", "0.7")
    assert code == 2
    assert "tau, epochs would change it" in told
    code, _, told = answer(capsys, *again, "--method", "moco")
    assert code == 2
    assert f"--method moco does not go with --out {tmp_path / 'out'}" in told


def test_runs_that_diverge_are_told_and_no_more(tmp_path, capsys, monkeypatch):
    """One of two leaves a table; where no run comes to its end, that is an error."""
    out = ["--out", str(tmp_path / "out")]
    fast = ["--optimizer", "sgd", "--warmup-epochs", "0", "--lr-scaling", "none"]
    code, shown, told = answer(capsys, "--grid", "lr=1e9,0.01", *TINY, *fast, *out)
    assert code == 0
    assert re.search(r"lr=1000000000.0 diverged: \S+ is not finite after step 2", told)
    assert re.search(r"1000000000.0 +1, 1 diverged", shown)

    def call(self, *args, **kwargs):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Method, "__call__", call)
    out = ["--out", str(tmp_path / "other")]
    code, shown, told = answer(capsys, "--grid", "seed=0", *TINY, *out)
    assert code == 1
    assert "1 failed" in shown
    assert "not one run came to its end" in told


def test_ctrl_c_between_runs(tmp_path, capsys, monkeypatch):
    def judge(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("amcl.sweep.runs.evaluate_run", judge)
    command = ["--grid", "seed=0", *TINY, "--protocols", "knn", "--out", str(tmp_path / "out")]
    code, _, told = answer(capsys, *command)
    assert code == 130
    assert "The same command resumes." in told
    monkeypatch.undo()
    assert answer(capsys, *command)[0] == 0
    assert runs_of(tmp_path / "out") == {"seed=0": 1}
