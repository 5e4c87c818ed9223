"""Files with 13 bands of 16 bits, from training to pages, by the commands alone."""

import csv

import numpy as np
import pytest
import torch
from PIL import Image

from amcl.checkpoints import open_model
from amcl.cli import main
from amcl.config import Config
from amcl.data.pixel_format import PixelFormat
from many_channels import striped

TINY = ["--backbone", "resnet10t", "--width", "0.125", "--epochs", "2", "--batch-size", "20"]
TINY += ["--warmup-epochs", "0", "--workers", "0"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sixty arrays in a folder for each class, and forty RGB pictures."""
    root = tmp_path_factory.mktemp("files")
    data = striped(13, n=60)
    pixels = data.images[torch.arange(60)].numpy()
    for index, (image, label) in enumerate(zip(pixels, data.labels.tolist(), strict=True)):
        path = root / "bands" / ("along", "across")[label] / f"{index}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, image)
    (root / "rgb").mkdir()
    for index in range(40):
        noise = np.random.default_rng(index).integers(256, size=(16, 16, 3), dtype=np.uint8)
        Image.fromarray(noise).save(root / "rgb" / f"{index}.png")
    return root


@pytest.fixture(scope="module")
def run(folder):
    command = ["pretrain", "--data", str(folder / "bands"), "--out", str(folder / "run")]
    assert main([*command, *TINY]) == 0
    return folder / "run"


def test_a_run_says_all_of_its_images(run):
    assert Config.from_file(run / "config.toml").views.operations == "abdehn"
    model = open_model(run)
    assert model.backbone.channels == 13
    assert isinstance(model.pixels, PixelFormat)
    assert (model.pixels.channels, model.pixels.type) == (13, "uint16")


def test_every_command_reads_them_as_in_training(run, folder, capsys):
    bands = ["--data", str(folder / "bands"), "--workers", "0"]
    finetune = ["--finetune.epochs", "1", "--finetune.min-steps", "0"]
    protocols = ["--protocols", "knn", "unlabeled", "finetune", *finetune]
    assert main(["evaluate", str(run), *bands, *protocols]) == 0
    assert main(["predict", str(run), *bands, "--out", str(folder / "predictions.csv")]) == 0
    assert len(list(csv.DictReader((folder / "predictions.csv").read_text().splitlines()))) == 60
    assert main(["embed", str(run), *bands, "--out", str(folder / "features.npz")]) == 0
    assert np.load(folder / "features.npz")["features"].shape == (60, 64)
    assert main(["export", str(run)]) == 0
    card = (run / "export" / "README.md").read_text()
    assert "values from 0 to 65535 of the files as 0 to 1 (kept as uint16)" in card
    assert open_model(run / "export" / "backbone.safetensors").pixels == open_model(run).pixels
    assert main(["cost", str(run)]) == 0
    assert "32 pixels and 13 channels" in capsys.readouterr().out


def test_pages_show_bands(run, folder):
    show = ["--bands", "4", "3", "2"]
    assert main(["report", str(run), "--images", "20", *show]) == 0
    assert "bands 4, 3 and 2 of 13 as red, green and blue" in (run / "report.html").read_text()
    out = folder / "curation"
    data = ["--data", str(folder / "bands"), "--out", str(out), "--workers", "0"]
    assert main(["curate", str(run), *data, *show]) == 0
    assert (out / "curation.html").read_text().count("data:image/") >= 60


def test_weights_of_rgb_go_on_and_not_back(run, folder, capsys):
    rgb = ["--data", str(folder / "rgb"), "--workers", "0", "--epochs", "1"]
    assert main(["pretrain", "--data", str(folder / "rgb"), "--out", str(folder / "3"), *TINY]) == 0
    start = ["--init", str(folder / "3"), "--out", str(folder / "13"), "--workers", "0"]
    assert main(["pretrain", "--data", str(folder / "bands"), *start, "--epochs", "1"]) == 0
    assert "takes 13 channels instead of 3" in " ".join(capsys.readouterr().err.split())
    assert main(["pretrain", *rgb, "--init", str(run), "--out", str(folder / "back")]) == 2
    assert "Use images of 13 channels" in " ".join(capsys.readouterr().err.split())
    assert main(["embed", str(run), *rgb[:4], "--out", str(folder / "none.npz")]) == 2
    assert not (folder / "back").exists()


@pytest.mark.parametrize("option", [["--gray-p", "0.5"], ["--views", "abcde"]])
def test_options_for_rgb_are_errors(folder, capsys, option):
    command = ["pretrain", "--data", str(folder / "bands"), "--out", str(folder / "none")]
    assert main([*command, *TINY, *option]) == 2
    assert "13 channels" in capsys.readouterr().err
    assert not (folder / "none").exists()
