"""`amcl cost`: what it takes, what it shows, what it writes."""

import json
import re
from dataclasses import replace

import pytest

from amcl import recipes
from amcl.analysis.cost import StepCost
from amcl.backbones import Backbone
from amcl.checkpoints import RunFolder
from amcl.checkpoints.files import export_backbone
from amcl.cli import cost, main
from amcl.config import Config

TINY = ["--batch-size", "8", "--width", "0.125", "--projector", "16", "8"]


def answer(capsys, *args: str) -> tuple[int, str, str]:
    """The exit code, and what is printed; tyro leaves by SystemExit."""
    try:
        code = main(["cost", *args])
    except SystemExit as left:
        code = left.code
    said = capsys.readouterr()
    return code, said.out, re.sub(r"[\s│╭╮╰╯─]+", " ", said.err)


def numbers(shown: str, label: str) -> list[str]:
    """What a row of the table holds."""
    (line,) = [line for line in shown.splitlines() if line.strip().startswith(label)]
    return line.strip().removeprefix(label).split()


def test_a_method_as_published_beside_its_amcl_form(capsys, tmp_path):
    file = tmp_path / "cost.json"
    code, shown, _ = answer(capsys, "--data", "builtin", *TINY, "--json", str(file))
    assert code == 0
    assert "simclr, resnet10t ×0.125, 32 pixels, batches of 8" in shown
    assert re.search(r"baseline +\+ AMCL +ratio", shown)
    assert numbers(shown, "heads")[2] == "3.000"
    assert numbers(shown, "GFLOPs an image, inference")[2] == "1.000"
    assert float(numbers(shown, "GFLOPs an image, forward and backward")[2]) > 1
    assert "seconds a step" not in shown
    written = json.loads(file.read_text())
    base, amcl = written["columns"]
    assert (base["name"], amcl["name"]) == ("baseline", "+ AMCL")
    assert amcl["inference_flops"] == base["inference_flops"]
    ratio = amcl["step_flops"] / base["step_flops"]
    assert written["ratios"]["step_flops"] == pytest.approx(ratio)
    assert Config.from_toml(amcl["config"]).method.heads == 3
    code, _, told = answer(capsys, "--data", "builtin", *TINY, "--json", str(file))
    assert code == 2
    assert "exists already" in told


@pytest.mark.parametrize(
    ("args", "heads", "name"),
    [
        ([], [1, 3], "+ AMCL"),
        (["--heads", "2", "--temperature", "adaptive"], [1, 2], "+ AMCL"),
        (["--plain", "--heads", "4"], [1, 4], "4 heads, constant temperature"),
        (["--plain", "--temperature", "learnable"], [1, 1], "1 head, learnable temperature"),
    ],
)
def test_what_is_compared_with_what(args, heads, name):
    options = cost.parse(["--data", "builtin", "--method", "moco", *args])
    base, other = cost.sides(options.settings)
    assert [base.config.method.heads, other.config.method.heads] == heads
    assert base.config.method.temperature.name == "constant"
    assert (base.name, other.name) == ("baseline", name)
    assert replace(base.config, method=other.config.method) == other.config


def test_mae_stands_alone(capsys):
    code, shown, _ = answer(capsys, "--data", "builtin", "--method", "mae", "--batch-size", "8")
    assert code == 0
    assert "ratio" not in shown
    assert len(numbers(shown, "parameters in training, M")) == 1
    assert "mae has no heads, and so no AMCL form" in shown


def test_a_run_is_taken_with_its_settings(capsys, tmp_path):
    """Its images are gone, and its backbone says how large their views were."""
    config = recipes.default(str(tmp_path / "gone"), "moco")
    network = replace(config.backbone, name="resnet10t", width=0.125)
    method = replace(
        config.method.with_temperature("adaptive"), heads=2, projector=(16, 8), queue=64
    )
    run = replace(config.run, batch_size=8, accumulate=2)
    folder = RunFolder(tmp_path / "run")
    folder.create(replace(config, backbone=network, method=method, run=run))
    code, _, told = answer(capsys, str(folder.path))
    assert code == 2
    assert "gone' is neither a folder nor a known data set" in told
    made = {"image_size": 48, "mean": [0.5] * 3, "std": [0.25] * 3}
    export_backbone(folder.backbone, Backbone(network, 48), made)
    code, shown, _ = answer(capsys, str(folder.path))
    assert code == 0
    assert "moco, resnet10t ×0.125, 48 pixels, batches of 8, in parts of 4" in shown
    assert numbers(shown, "heads")[2] == "2.000"
    assert numbers(shown, "momentum copy, not trained, M")
    settings = cost.parse([str(folder.path), "--batch-size", "16", "--queue", "32"]).settings
    assert (settings.run.batch_size, settings.method.queue, settings.method.heads) == (16, 32, 2)


def test_measured_steps_are_shown_and_written(capsys, tmp_path, monkeypatch):
    asked = []

    def measured(configs, steps, image_size, channels):
        asked.append(([config.method.heads for config in configs], steps, image_size))
        assert channels == 3
        return [
            StepCost(device="cpu", batch_size=8, seconds=(second,) * steps, peak_memory=2**20)
            for second in (0.5, 0.75)
        ]

    monkeypatch.setattr(cost, "measure_in_turns", measured)
    file = tmp_path / "cost.json"
    command = ["--data", "builtin", *TINY, "--measure", "--steps", "3", "--json", str(file)]
    code, shown, told = answer(capsys, *command)
    assert code == 0
    assert asked == [([1, 3], 3, 32)]
    assert numbers(shown, "seconds a step") == ["0.5", "0.75", "1.500"]
    assert numbers(shown, "images a second") == ["16", "10.67", "0.667"]
    assert numbers(shown, "peak memory, MiB") == ["1", "1", "1.000"]
    assert "3 steps of each" in told
    assert json.loads(file.read_text())["columns"][1]["measured"]["median"] == 0.75


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--haeds", "3"], "did you mean --heads"),
        (["--recipe", "imagenet-simlcr"], "did you mean imagenet-simclr"),
        (["imagenet-simclr"], "write --recipe imagenet-simclr"),
        (["--measure", "runs/first"], "name the run first: amcl cost runs/first"),
        (["runs/first", "--recipe", "builtin-moco"], "both say where to start"),
        (["--recipe", "folder-simclr"], "name the folder of images"),
        (["--steps", "0"], "steps must be a whole number"),
        (["--method", "mae", "--heads", "3"], "--heads belongs to barlow, byol, can"),
        (["--method", "can", "--backbone", "resnet18"], "vit_tiny_patch16_224"),
        (["--image-size", "0"], "--image-size must be a whole number"),
    ],
)
def test_what_is_wrong_is_told(capsys, tmp_path, monkeypatch, args, told):
    monkeypatch.chdir(tmp_path)
    code, _, said = answer(capsys, *args)
    assert (code, told in said) == (2, True), said
    assert list(tmp_path.iterdir()) == []


def test_a_run_has_a_folder_and_one_method(capsys, tmp_path):
    code, _, told = answer(capsys, str(tmp_path / "none"))
    assert code == 1
    assert "none does not exist" in told
    RunFolder(tmp_path / "run").create(recipes.recipe("builtin-moco"))
    code, _, told = answer(capsys, str(tmp_path / "run"), "--method", "simclr")
    assert code == 2
    assert "which is of moco" in told


def test_a_folder_needs_no_images_where_their_size_is_said():
    settings = cost.parse(["--recipe", "folder-simclr", "--image-size", "32"]).settings
    assert settings.data.image_size == 32


def test_many_gpus_are_estimated(capsys, tmp_path):
    file = tmp_path / "cost.json"
    network = ["--backbone", "test_vit", "--batch-size", "8", "--projector", "16", "8"]
    devices = ["--devices", "1", "4", "--gpu", "h100", "--utilization", "0.3"]
    code, shown, _ = answer(capsys, "--data", "builtin", *network, *devices, "--json", str(file))
    assert code == 0
    text = " ".join(shown.split())
    assert "Estimated steps of simclr" in text
    assert "An estimate, not a measurement, for H100 SXM 80 GB" in text
    assert "of which 30% are reached" in text
    written = json.loads(file.read_text())
    steps = [
        (row["devices"], row["strategy"], row["checkpointing"]) for row in written["estimates"]
    ]
    assert steps[:3] == [(1, "ddp", False), (1, "ddp", True), (4, "ddp", False)]
    assert len(steps) == 6
    assert written["assumptions"][0].startswith("An estimate")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--devices", "--devices takes numbers of GPUs, such as 1 8 64, got none"),
        ("--devices 1 x", "got 1 x"),
        ("--devices 0", "got 0"),
        ("--devices 8 --utilization 2", "--utilization must be at most 1, got 2"),
        ("--devices 3 --batch-size 8", "8 does not divide among 3 GPUs and 1 part: choose"),
        ("--devices 8 --gpu v100", "--gpu has no choice 'v100'"),
    ],
)
def test_devices_that_cannot_be_estimated_are_errors(capsys, args, message):
    code, _, told = answer(capsys, "--data", "builtin", *TINY[2:], *args.split())
    assert code == 2
    assert message in told
