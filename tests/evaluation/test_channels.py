"""Models of images that are not RGB, in every command that takes a model."""

import csv
import importlib

import numpy as np
import pytest
import torch

import amcl
from amcl.analysis import PairSettings, sample_of_run
from amcl.checkpoints import load_method, open_model
from amcl.checkpoints.export import export
from amcl.checkpoints.hub import HubBackbone
from amcl.cli import main
from amcl.data.pixel_format import PixelFormat
from amcl.evaluation.finetuning.plan import FinetuneSettings
from amcl.evaluation.finetuning.saved import load_classifier
from amcl.training import pretrain
from many_channels import SIZE, config_of, data_set, in_place_of_files

FORMAT = PixelFormat(channels=13, type="uint16", value_range=(0.0, 10000.0))


@pytest.fixture(scope="module")
def data():
    return data_set(13)


@pytest.fixture(scope="module")
def run(tmp_path_factory, data):
    out = tmp_path_factory.mktemp("channels") / "run"
    with in_place_of_files(data):
        pretrain(config_of(heads=2, temperature="adaptive"), out)
    return out


def test_features_are_judged(run, data, capsys):
    protocols = ("knn", "linear", "unlabeled")
    with in_place_of_files(data):
        assert main(["evaluate", str(run), "--protocols", *protocols, "--linear.epochs", "20"]) == 0
    shown = capsys.readouterr().out
    assert "abdehn" in shown  # of unlabeled, whose default is abcde
    assert "images have 13 channels: views are abdehn" in " ".join(shown.split())


def test_the_default_of_unlabeled_alone_is_changed(run, data, capsys):
    with in_place_of_files(data):
        command = ["evaluate", str(run), "--protocols", "unlabeled", "--unlabeled.views", "abce"]
        assert main(command) == 2
    assert "views abce have c" in capsys.readouterr().err


def test_a_fine_tuned_classifier_predicts(run, data, tmp_path):
    options = ["--finetune.epochs", "1", "--finetune.min-steps", "0", "--finetune.views", "adehn"]
    with in_place_of_files(data):
        assert main(["evaluate", str(run), "--protocols", "finetune", *options]) == 0
        out = tmp_path / "predictions.csv"
        assert main(["predict", str(run), "--data", "images", "--out", str(out)]) == 0
    assert len(list(csv.DictReader(out.read_text().splitlines()))) == 40
    (file,) = (run / "evaluation").glob("*.safetensors")
    saved = load_classifier(file)
    assert saved.transform.channels == 13
    assert saved.model(torch.zeros(1, 13, SIZE, SIZE)).shape == (1, 2)
    with in_place_of_files(data_set(3)):
        other = tmp_path / "other.csv"
        assert main(["predict", str(file), "--data", "images", "--out", str(other)]) == 2
        assert not other.exists()


def test_views_of_fine_tuning_follow_the_channels():
    settings = FinetuneSettings(views="ade")
    assert settings.view_settings(13).jitter == (0.4, 0.4, 0.0, 0.0)
    assert settings.view_settings().jitter == (0.4, 0.4, 0.4, 0.1)
    with pytest.raises(ValueError, match="views abcde have c"):
        FinetuneSettings(views="abcde").view_settings(13)
    with pytest.raises(ValueError, match="saturation"):
        FinetuneSettings(views="ade", jitter=(0.1, 0.1, 0.1, 0.1)).view_settings(4)


def test_embed_writes_features(run, data, tmp_path):
    with in_place_of_files(data):
        out = tmp_path / "features.npz"
        assert main(["embed", str(run), "--data", "images", "--out", str(out)]) == 0
    assert np.load(out)["features"].shape == (40, 64)


@pytest.mark.parametrize("command", ["embed", "evaluate", "curate"])
def test_other_channels_are_one_clear_error(run, tmp_path, capsys, command):
    with in_place_of_files(data_set(4)):
        out = tmp_path / "out.npz"
        assert main([command, str(run), "--data", "images", "--out", str(out)]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "takes images of 13 channels, and these have 4: name images of 13 channels, or" in told


def test_models_that_do_not_say_their_channels_take_them_from_the_means(data, capsys):
    mean, std = ([f"{value:.4f}" for value in values] for values in (data.mean, data.std))
    command = ["evaluate", "resnet10t", "--data", "images", "--protocols", "knn"]
    options = ["--image-size", str(SIZE), "--width", "0.125", "--mean", *mean, "--std", *std]
    with in_place_of_files(data):
        assert main([*command, *options]) == 0
        assert main([*command, "--image-size", str(SIZE)]) == 2
    assert "takes images of 3 channels, and these have 13" in capsys.readouterr().err


def test_an_export_says_all_of_its_input(run, tmp_path):
    model = open_model(run)
    described = type(model)(**{**vars(model), "pixels": FORMAT})
    folder = tmp_path / "out"
    export(described, folder)
    card = (folder / "README.md").read_text()
    assert "pixels and 13 channels into" in card
    assert "(N, 13, 16, 16)" in card
    assert "values from 0 to 10000 of the files as 0 to 1 (kept as uint16)" in card
    assert f"| 13 | {model.mean[12]!r} | {model.std[12]!r} |" in card
    again = open_model(folder / "backbone.safetensors")
    assert (again.pixels, again.mean, again.std) == (FORMAT, model.mean, model.std)
    assert open_model(folder / "method.safetensors").pixels == FORMAT
    assert load_method(folder).backbone.channels == 13
    backbone = amcl.load(folder / "backbone.safetensors")
    assert backbone.channels == 13
    images = torch.randn(2, 13, SIZE, SIZE)
    assert torch.equal(backbone(images), model.backbone(images))


def test_the_hub_keeps_the_channels(run, tmp_path):
    model = open_model(run)
    HubBackbone.of(type(model)(**{**vars(model), "pixels": FORMAT})).save_pretrained(tmp_path)
    hub = HubBackbone.from_pretrained(str(tmp_path))
    images = torch.randn(2, 13, SIZE, SIZE)
    assert torch.equal(hub(images), model.backbone(images))
    assert hub.loaded_model.pixels == FORMAT
    assert "13 channels" in (tmp_path / "README.md").read_text()
    assert open_model(f"local-dir:{tmp_path}").backbone.channels == 13


def test_pixels_of_other_channels_are_damage(run):
    model = open_model(run)
    wrong = {
        **model.metadata(),
        "pixels": {"channels": 4, "type": "uint8", "value_range": (0, 255)},
    }
    with pytest.raises(ValueError, match="4 channels, with 13 means"):
        type(model).from_metadata("here", model.backbone, wrong)


def test_cost_counts_the_channels(run, data, capsys):
    with in_place_of_files(data):
        assert main(["cost", str(run)]) == 0
    assert "16 pixels and 13 channels" in capsys.readouterr().out


def test_pictures_of_pairs_show_bands(run, data):
    with in_place_of_files(data):
        sample = sample_of_run(run, PairSettings(images=8, bands=(4, 3, 2)))
    assert (sample.views.shape, sample.views.dtype) == ((2, 8, 3, SIZE, SIZE), torch.uint8)
    assert sample.images.shape == (8, 3, SIZE, SIZE)
    assert sample.images.float().std() > 40  # the images lie in a third of the range
    assert sample.shown == "bands 4, 3 and 2 of 13 as red, green and blue, stretched"
    with in_place_of_files(data_set(4)), pytest.raises(ValueError, match="13 channels, and these"):
        sample_of_run(run)


@pytest.mark.slow
def test_a_report_shows_bands(run, data, tmp_path, capsys):
    page = tmp_path / "report.html"
    with in_place_of_files(data):
        options = ["--images", "20", "--out", str(page)]
        assert main(["report", str(run), *options, "--bands", "4", "3", "2"]) == 0
        text = page.read_text()
        assert "bands 4, 3 and 2 of 13 as red, green and blue, stretched" in text
        assert text.count("data:image/png") > 20
        assert main(["report", str(run), *options, "--bands", "4", "3", "14"]) == 2
    assert (
        "--bands 4 3 14 must be three numbers of channels from 1 to 13" in capsys.readouterr().err
    )


def test_detection_is_for_rgb(run):
    detector = importlib.import_module("amcl.evaluation.detection.networks").detector
    settings = importlib.import_module("amcl.evaluation.detection").DetectorSettings()
    with pytest.raises(ValueError, match=r"detection reads RGB images alone.*13 channels"):
        detector(
            open_model(run).backbone,
            2,
            settings,
            image_size=64,
            mean=(0,) * 13,
            std=(1,) * 13,
            masks=False,
        )


@pytest.mark.slow
def test_few_labels_are_enough_to_judge_it(run, data):
    with in_place_of_files(data):
        protocols = ["few-labels", "logistic"]
        assert main(["evaluate", str(run), "--protocols", *protocols]) == 0


@pytest.mark.slow
def test_an_onnx_file_says_all_of_its_input(run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = open_model(run)
    described = type(model)(**{**vars(model), "pixels": FORMAT})
    export(described, tmp_path / "out", onnx=True, heads=False)
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / "backbone.onnx"))
    assert session.get_inputs()[0].shape[1:] == [13, SIZE, SIZE]
    about = session.get_modelmeta().custom_metadata_map
    assert about["channels"] == "13"
    assert '"value_range": [0.0, 10000.0]' in about["pixels"]
    images = torch.randn(3, 13, SIZE, SIZE)
    (features,) = session.run(None, {"images": images.numpy()})
    torch.testing.assert_close(torch.from_numpy(features), model.backbone(images))
