"""Training on images of any number of channels: every method, and starts from other weights."""

import logging
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from amcl.backbones import Backbone, BackboneSettings
from amcl.checkpoints import open_model, read_metrics
from amcl.config import Config
from amcl.config.fields import with_values
from amcl.data import stream
from amcl.errors import RunError
from amcl.methods import METHODS
from amcl.training import pretrain
from amcl.training.fit import fitted
from amcl.training.hardware import make_fabric
from amcl.training.plan import Plan
from amcl.training.pretraining_task import PretrainingTask
from amcl.training.start import method_to_train
from amcl.training.trainer import Trainer
from many_channels import SIZE, config_of, data_set, in_place_of_files
from tiny_runs import interrupt_at

TYPES = {1: torch.float32, 2: torch.uint8, 3: torch.uint16, 4: torch.uint16, 13: torch.uint16}


@pytest.mark.parametrize("channels", TYPES)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains(name, channels):
    data = data_set(channels, TYPES[channels])
    config, notes = fitted(config_of(name), 40, 1, channels)
    assert bool(notes) == (channels != 3 and "d" in config.views.operations)
    fabric = make_fabric(config.hardware)
    fabric.launch()
    plan = Plan.of(config, data, fabric)
    method = method_to_train(config, SIZE, None, channels)
    assert method.backbone.channels == channels
    trainer = Trainer(fabric, PretrainingTask(fabric, config, plan, data, method))
    before = {name: value.clone() for name, value in method.backbone.state_dict().items()}
    trainer.train_step(stream(data.train, plan.indices(0), workers=0))
    trainer.task.require_finite()
    first = next(name for name, value in before.items() if value.ndim == 4)
    assert before[first].shape[1] == channels
    if name != "mocov3":  # it freezes its patches
        assert not torch.equal(method.backbone.state_dict()[first], before[first])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"views": "abcde"}, r"views abcde have c.*13 channels"),
        ({"jitter": (0.4, 0.4, 0.4, 0.1)}, r"jitter 0.4 0.4 0.4 0.1 ends in"),
        ({"gray_p": 0.4}, r"--gray-p belongs to color dropping"),
        ({"solarize_p": (0.1, 0.1)}, r"--solarize-p belongs to solarize"),
    ],
)
def test_options_for_rgb_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        fitted(config_of(**values), 40, 1, 13)


def test_settings_of_a_file_or_of_python_are_adapted():
    config, notes = fitted(Config(), 40, 1, 13)
    assert config.views.operations == "abdehn"
    assert len(notes) == 2
    assert fitted(config, 40, 1, 13) == (config, [])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on 13 channels of 16 bits, resumed once."""
    out = tmp_path_factory.mktemp("channels") / "run"
    with in_place_of_files(data_set(13)), pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, step=3)
        with pytest.raises(RunError):
            pretrain(config_of(epochs=2), out)
    with in_place_of_files(data_set(13)):
        pretrain(Config.from_file(out / "config.toml"), out, resume=True)
    return out


def test_a_run_says_its_views_and_its_channels(run):
    assert Config.from_file(run / "config.toml").views.operations == "abdehn"
    for path in (run, run / "backbone.safetensors", run / "checkpoints" / "last.pt"):
        model = open_model(path)
        assert model.backbone.channels == len(model.mean) == len(model.std) == 13
        assert model.backbone(torch.zeros(2, 13, SIZE, SIZE)).shape == (2, model.backbone.dim)


def test_the_notes_are_logged(tmp_path, caplog):
    caplog.set_level(logging.INFO, "amcl")
    with in_place_of_files(data_set(2, torch.uint8)):
        pretrain(config_of(), tmp_path / "run")
    told = caplog.messages
    assert sum("images have 2 channels: views are abdehn" in line for line in told) == 1


def test_other_channels_do_not_resume(run, tmp_path):
    config = Config.from_file(run / "config.toml")
    with (
        in_place_of_files(data_set(4)),
        pytest.raises(RunError, match=r"images|channels"),
    ):
        pretrain(with_values(config, {"epochs": 9}), run, resume=True)
    with (
        in_place_of_files(data_set(4)),
        pytest.raises(RunError, match=r"images of 13 channels, and those of stripes have 4"),
    ):
        pretrain(with_values(config, {"epochs": 9}), run, resume=True, accept_changes=True)


def test_images_without_labels_train(tmp_path):
    with in_place_of_files(replace(data_set(2), probe=None, labels=None)):
        pretrain(config_of(), tmp_path / "run")
    assert open_model(tmp_path / "run").backbone.channels == 2


def test_weights_of_rgb_are_adapted(tmp_path, caplog):
    caplog.set_level(logging.INFO, "amcl")
    data = data_set(3, torch.uint8)
    with in_place_of_files(data):
        pretrain(config_of(), tmp_path / "rgb")
    other = data_set(13)
    with in_place_of_files(other):
        pretrain(config_of(init=str(tmp_path / "rgb")), tmp_path / "bands")
    told = " ".join(caplog.messages)
    assert "takes 13 channels instead of 3: the three in turn, scaled" in told
    assert "images are normalized by their own mean and spread" in told
    assert open_model(tmp_path / "bands").mean == pytest.approx(other.mean)
    with (
        in_place_of_files(data),
        pytest.raises(ValueError, match=r"takes 13 channels, and this network takes 3.*images of"),
    ):
        pretrain(config_of(init=str(tmp_path / "bands")), tmp_path / "back")


def test_weights_of_the_same_channels_keep_their_normalization(run, tmp_path):
    other = data_set(13, torch.uint8)
    with in_place_of_files(other):
        pretrain(config_of(init=str(run)), tmp_path / "again")
    assert open_model(tmp_path / "again").mean == open_model(run).mean


def test_a_file_of_others_says_its_channels_by_its_weights(tmp_path, caplog):
    caplog.set_level(logging.INFO, "amcl")
    settings = BackboneSettings(name="resnet10t", width=0.125, stem="standard")
    network = Backbone(settings, SIZE, channels=13).network
    save_file(network.state_dict(), tmp_path / "others.safetensors")
    data = data_set(13)
    with in_place_of_files(data):
        pretrain(config_of(init=str(tmp_path / "others.safetensors")), tmp_path / "run")
    told = " ".join(caplog.messages)
    assert "channels instead of" not in told
    assert open_model(tmp_path / "run").mean == pytest.approx(data.mean)
    options = {"backbone": "resnet10t", "width": 0.125, "stem": "standard", "image_size": SIZE}
    with pytest.raises(ValueError, match=r"images of 13 channels: give 13 means"):
        open_model(tmp_path / "others.safetensors", **options)
    model = open_model(tmp_path / "others.safetensors", mean=data.mean, std=data.std, **options)
    assert model.backbone.channels == 13


@pytest.mark.slow
def test_what_the_last_channels_show_is_learned(tmp_path):
    """Stripes in 3 of 13 channels, which none of the first ten has, tell the classes apart."""
    values = {"heads": 3, "temperature": "adaptive", "epochs": 6, "batch_size": 50, "width": 0.25}
    ends = {}
    for first in (10, 13):
        out = tmp_path / f"from-{first}"
        with in_place_of_files(data_set(13, n=400, first=first)):
            pretrain(config_of(**values, warmup_epochs=1.0, knn_k=20), out)
        rows = [row for row in read_metrics(out) if row["kind"] == "probe"]
        ends[first] = rows[-1]["knn_validation"]
    assert ends[10] > 0.8
    assert ends[13] < 0.6
