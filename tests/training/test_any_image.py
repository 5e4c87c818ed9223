"""Runs on images that are not 8-bit RGB, and the form of the images that a run keeps."""

import inspect
import sys
from dataclasses import replace

import numpy as np
import pytest
import tifffile
import torch

from amcl.backbones import Backbone
from amcl.checkpoints import read_metrics
from amcl.checkpoints.load import open_model
from amcl.cli import main
from amcl.data import load_dataset
from amcl.data.pixel_format import RGB, PixelFormat
from amcl.errors import Interrupted, RunError
from amcl.evaluation.embed import embed
from amcl.training import pretrain
from amcl.training.pretrain import load_data
from amcl.training.trained_on import Trained
from image_files import png, random_values
from tiny_runs import interrupt_at, picture_folder, tiny_vit

needs_channels = pytest.mark.skipif(
    "channels" not in inspect.signature(Backbone).parameters,
    reason="networks take 3 channels only",
)


def bands(folder, count=24, channels=13, side=20):
    """TIFFs of 12 bits, each band darker than the one before it."""
    folder.mkdir(parents=True)
    for seed in range(count):
        values = random_values(side, side, channels, bits=12, seed=seed)
        values //= np.arange(1, channels + 1, dtype=values.dtype)
        path = folder / f"{seed:03}.tif"
        tifffile.imwrite(path, values, photometric="minisblack", planarconfig="contig")
    return folder


def gray(folder, count=24, bits=16, side=20):
    folder.mkdir(parents=True)
    for seed in range(count):
        values = random_values(side, side, 1, bits=bits, seed=seed)
        (folder / f"{seed:03}.png").write_bytes(png(values))
    return folder


def losses(run):
    return [row["loss"] for row in read_metrics(run) if row["kind"] == "step"]


@needs_channels
def test_a_run_on_bands_is_stopped_resumed_and_used_on_others(tmp_path, monkeypatch):
    config = tiny_vit("simclr", bands(tmp_path / "set"))
    pretrain(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=3)
        with pytest.raises(Interrupted):
            pretrain(config, tmp_path / "run")
    measured = []
    monkeypatch.setattr("amcl.data.file_dataset.measure", measured.append)
    monkeypatch.setattr("amcl.data.format_choice._measure_range", measured.append)
    pretrain(config, tmp_path / "run", resume=True)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    model = open_model(tmp_path / "run")
    pixels = PixelFormat(channels=13, type="uint16", value_range=(0, 4095))
    assert (model.pixels, len(model.mean), len(model.std)) == (pixels, 13, 13)
    brighter = bands(tmp_path / "brighter", count=4)
    tifffile.imwrite(brighter / "white.tif", np.full((9, 9, 13), 16383, np.uint16), **PLANAR)
    features = embed(model, str(brighter), tmp_path / "features.npz", workers=0)
    assert features.values.isfinite().all()
    assert len(features.values) == 5
    assert measured == []  # all of it is kept in the run
    with pytest.raises(ValueError, match="takes images of 13 channels, and these have 1"):
        embed(model, str(gray(tmp_path / "gray", count=2)), tmp_path / "gray.npz", workers=0)


PLANAR = {"photometric": "minisblack", "planarconfig": "contig"}


@needs_channels
def test_16_bits_are_not_squeezed_to_8(tmp_path):
    """Two pictures that are one in 8 bits have different features."""
    source = gray(tmp_path / "set")
    pretrain(tiny_vit("simclr", source), tmp_path / "run")
    model = open_model(tmp_path / "run")
    assert model.pixels == PixelFormat(channels=1, type="uint16", value_range=(0, 65535))
    values = random_values(20, 20, 1, bits=8).astype(np.uint16) * 256
    (tmp_path / "pair").mkdir()
    for number in range(2):
        (tmp_path / "pair" / f"{number}.png").write_bytes(png(values + np.uint16(number * 100)))
    pair = embed(model, str(tmp_path / "pair"), tmp_path / "pair.npz", workers=0).values
    assert not torch.equal(pair[0], pair[1])


def test_a_run_keeps_the_form_of_its_images(tmp_path):
    folder = picture_folder(tmp_path / "set", count=24)
    config = tiny_vit("simclr", folder)
    pretrain(replace(config, run=replace(config.run, epochs=1)), tmp_path / "run")
    metadata = open_model(tmp_path / "run").metadata()
    assert "pixels" not in metadata  # as of runs of earlier versions
    trained = Trained(RGB, ((0.5,) * 3, (0.25,) * 3))
    data = load_data(config, trained)
    assert (data.pixels, data.mean, data.std) == (RGB, (0.5,) * 3, (0.25,) * 3)
    deep = Trained(PixelFormat(type="uint16", value_range=(0, 4095)), trained.normalization)
    other_range = replace(config, data=replace(config.data, value_range=(0.0, 1023.0)))
    assert load_data(config, deep).pixels == deep.pixels
    assert load_data(other_range, deep).pixels.value_range == (0, 1023)
    with pytest.raises(RunError, match=r"--channels 1: the run is trained on images of 3 channels"):
        load_data(replace(config, data=replace(config.data, channels=1)), trained)


def test_a_run_of_an_earlier_version_on_16_bits_stays_8_bit_rgb(tmp_path, monkeypatch):
    """Its checkpoints say nothing of pixels, and its network has three channels."""
    source = gray(tmp_path / "set")
    config = tiny_vit("simclr", source)
    config = replace(config, run=replace(config.run, epochs=1))
    with monkeypatch.context() as patch:
        patch.setattr(
            sys.modules["amcl.training.pretrain"],
            "load_data",
            lambda config, _=None: load_data(config, Trained(RGB, ((0.5,) * 3, (0.25,) * 3))),
        )
        pretrain(config, tmp_path / "run")
    longer = replace(config, run=replace(config.run, epochs=2))
    pretrain(longer, tmp_path / "run", resume=True)
    model = open_model(tmp_path / "run")
    assert (model.pixels or RGB, model.mean) == (RGB, (0.5,) * 3)
    assert load_dataset(str(source), workers=0).channels == 1


@needs_channels
@pytest.mark.slow
@pytest.mark.parametrize(("make", "channels"), [(bands, 13), (gray, 1)])
def test_commands_on_any_image(tmp_path, monkeypatch, capsys, make, channels):
    """Pre-training, evaluation, prediction, features, curation and export, one after another."""
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        make(tmp_path / "set" / f"class{number}", count=16, side=40)
    small = "--backbone resnet10t --width 0.125 --batch-size 16 --epochs 2 --threads 1"
    main(["pretrain", "--data", "set", "--out", "run", "--validation", "6", *small.split()])
    shown = capsys.readouterr()
    assert f"images of {channels} channel" in shown.out + shown.err
    main(["evaluate", "run", "--protocols", "knn", "finetune", "--finetune.epochs", "1"])
    classifier = next((tmp_path / "run" / "evaluation").glob("finetune*.safetensors"))
    main(["predict", str(classifier), "--data", "set/class0", "--out", "classes.csv"])
    assert len((tmp_path / "classes.csv").read_text().splitlines()) == 17
    main(["embed", "run", "--data", "set", "--out", "features.csv"])
    assert len((tmp_path / "features.csv").read_text().splitlines()) == 49
    main(["curate", "run", "--data", "set", "--out", "curation"])
    assert (tmp_path / "curation" / "curation.csv").is_file()
    main(["export", "run", "--out", "exported"])
    assert open_model(tmp_path / "exported" / "backbone.safetensors").pixels == (
        open_model(tmp_path / "run").pixels
    )
    main(["pretrain", "--resume", "run", "--epochs", "3"])
    assert read_metrics(tmp_path / "run")[-1]["epoch"] == 3
