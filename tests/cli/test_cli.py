"""The command line: options, errors, exit codes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from amcl.cli import main
from amcl.cli.pretrain import attempt, free_folder, parse
from amcl.training import Config, read_metrics

QUICK = ["--epochs", "1", "--batch-size", "1000", "--width", "0.125"]


def refused(capsys, *args: str) -> str:
    """What the command line says when it refuses; tyro leaves by SystemExit."""
    try:
        code = main(list(args))
    except SystemExit as left:
        code = left.code
    assert code == 2
    return re.sub(r"[\s│╭╮╰╯─]+", " ", capsys.readouterr().err)


def test_from_images_to_a_backbone_and_back(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = ["pretrain", "--data", "builtin", "--method", "moco", "--heads", "2", *QUICK]
    args += ["--queue", "2048"]
    assert main([*args, "--temperature", "adaptive", "--out", "runs/first"]) == 0
    config = Config.from_file("runs/first/config.toml")
    assert (config.method.name, config.method.heads) == ("moco", 2)
    assert config.method.temperature == "adaptive"
    assert Path("runs/first/backbone.safetensors").is_file()
    assert read_metrics("runs/first")[-1]["kind"] == "probe"
    assert main([*args, "--out", "runs/first"]) == 1
    assert "--resume runs/first" in capsys.readouterr().err
    assert main(["pretrain", "--resume", "runs/first", "--epochs", "5"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "--epochs would change it" in told
    assert "--config runs/first/config.toml" in told
    assert main(["pretrain", "--resume", "runs/first", "--workers", "0"]) == 0


def test_defaults_come_from_the_set_and_method():
    settings = parse(["--data", "cifar10", "--method", "barlow"]).settings
    assert settings.data.data == "cifar10"
    assert settings.optimiser.lr == 0.11
    assert parse(["--data", "some/pictures"]).settings.optimiser.optimiser == "adamw"


def test_a_recipe_can_be_overridden_in_every_part():
    settings = parse(
        [
            *("--recipe", "stl10-moco-amcl", "--epochs", "7", "--views", "ae", "--lr", "0.1"),
            *("--queue", "2048", "--jitter", "0.1", "0.2", "0.3", "0.05", "--width", "0.5"),
            *("--no-symmetric", "--projector", "64", "32", "--data-root", "here"),
        ]
    ).settings
    assert (settings.run.epochs, settings.views.views, settings.optimiser.lr) == (7, "ae", 0.1)
    assert (settings.method.queue, settings.method.symmetric) == (2048, False)
    assert settings.method.projector == (64, 32)
    assert settings.method.heads == 3
    assert settings.views.jitter == (0.1, 0.2, 0.3, 0.05)


def test_a_file_is_a_start_too(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('[method]\nname = "simsiam"\nheads = 2\n[run]\nepochs = 3\n')
    settings = parse(["--config", str(file), "--seed", "5"]).settings
    assert (settings.method.name, settings.run.epochs, settings.run.seed) == ("simsiam", 3, 5)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["pretrain", "--haeds", "3"], "Perhaps you meant: --heads INT"),
        (["pretrain", "--recpie", "x"], "--recipe"),
        (["pretrain", "--method", "simlcr"], "simclr"),
        (["pretrain", "--recipe", "cifar10-simlcr"], "did you mean cifar10-simclr"),
        (["pretrain", "--data", "cifar11"], "Did you mean 'cifar10'?"),
        (["pretrain", "--backbone", "resnt18"], "did you mean resnet18"),
        (["pretrain", "--config", "none.toml"], "there is no configuration file none.toml"),
        (["pretrain", "--recipe", "cifar10-moco", "--config", "a"], "both say where to start"),
        (["pretrain", "--recipe", "cifar10-moco", "--method", "simclr"], "does not go with"),
        (["pretrain", "--views", "abz"], "z"),
        (["pretrain", "--method", "moco", "--queue", "9"], "more than the queue of 9 holds"),
        (["pretrain", "--queue", "3"], "Unrecognized options: --queue"),
        (["pretrain", "--lr", "fast"], "fast"),
        (["pretrian"], "did you mean 'pretrain'?"),
        (["recipes", "show", "cifar10-simlcr"], "did you mean cifar10-simclr"),
        (["recipes", "shwo"], "usage: amcl recipes"),
        (["data", "cifar1"], "cifar10"),
    ],
)
def test_what_is_wrong_is_told_with_what_is_right(capsys, tmp_path, monkeypatch, args, told):
    monkeypatch.chdir(tmp_path)
    assert told in refused(capsys, *args)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_a_run_have_their_own_code(capsys, tmp_path):
    out = str(tmp_path / "run")
    assert main(["pretrain", "--batch-size", "5000", "--out", out]) == 1
    assert "--batch-size" in capsys.readouterr().err
    assert main(["pretrain", "--precision", "bf16", "--accelerator", "cpu", "--out", out]) == 1
    assert main(["pretrain", "--resume", str(tmp_path / "none")]) == 1
    assert "no run folder" in capsys.readouterr().err
    assert main(["pretrain", *QUICK, "--optimiser", "sgd", "--lr", "1e38", "--out", out]) == 3


def test_recipes_are_listed_and_shown_as_files(capsys, tmp_path):
    assert main(["recipes"]) == 0
    assert "stl10-moco-amcl" in capsys.readouterr().out
    assert main(["recipes", "show", "cifar10-simclr-amcl"]) == 0
    shown = capsys.readouterr().out
    assert Config.from_toml(shown).method.heads == 3


def test_help(capsys):
    assert main(["--help"]) == 0
    assert "amcl pretrain" in capsys.readouterr().out
    assert main([]) == 2
    with pytest.raises(SystemExit) as left:
        main(["pretrain", "--method", "moco", "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    for flag in ("--data", "--heads", "--temperature", "--queue", "--resume", "--recipe"):
        assert flag in shown


@pytest.mark.parametrize(
    ("name", "command"),
    [
        *((m, f"pretrain --method {m}") for m in ("simclr", "moco", "simsiam", "barlow")),
        *((name, name) for name in ("evaluate", "embed", "export", "compare")),
    ],
)
def test_options_are_frozen(capsys, monkeypatch, name, command):
    """Options are a promise to users' scripts: this list changes only on purpose."""
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    flags = sorted(set(re.findall(r"--[a-z][a-z0-9.-]*[a-z0-9]", capsys.readouterr().out)))
    frozen = Path(__file__).with_name(f"options_{name}.txt")
    if os.environ.get("AMCL_FREEZE"):
        frozen.write_text("\n".join(flags) + "\n")
    assert flags == frozen.read_text().split()


def test_run_folders_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = parse(["--data", "some pictures/of mine", "--temperature", "adaptive"]).settings
    assert free_folder(config) == Path("runs/of-mine-simclr-adaptive")
    Path("runs/of-mine-simclr-adaptive").mkdir(parents=True)
    assert free_folder(config) == Path("runs/of-mine-simclr-adaptive-2")


def test_importing_the_losses_stays_light():
    heavy = "('timm', 'torchvision', 'lightning_fabric', 'tyro', 'sklearn')"
    code = f"import sys, amcl; print(*[m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_closed_pipe_is_left_to_main(capsys):
    def work():
        raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        attempt("amcl export", work)
    assert capsys.readouterr().err == ""


def test_a_reader_that_has_seen_enough_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m amcl recipes | head -1", shell=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("builtin-simclr")
    assert done.stderr == ""
