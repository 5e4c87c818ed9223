"""What a user names becomes the right backbone, or an error that says what to do."""

import os
import shutil
from pathlib import Path

import pytest
import timm
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from amcl.backbones import Backbone, BackboneSettings, load_backbone
from amcl.checkpoints import RunFolder, load_method, open_model, published
from amcl.checkpoints.files import load_checkpoint, save_checkpoint, save_tensors
from amcl.data.builtin import builtin
from amcl.errors import RunError
from amcl.methods import MoCo
from amcl.seeds import seed_of
from amcl.tensor_files import read_safetensors
from amcl.views import IMAGENET_MEAN, IMAGENET_STD

DATA = builtin()
IMAGES = torch.randn(4, 3, 32, 32)


def assert_is_the_run(subject, run):
    """Weights of the query encoder, and how its images were prepared."""
    method = load_checkpoint(run / "checkpoints/last.pt")["method"]
    for name, value in subject.backbone.network.state_dict().items():
        assert torch.equal(value, method[f"backbone.network.{name}"]), name
    data = DATA
    assert (subject.mean, subject.std) == (data.mean, data.std)
    assert subject.backbone.normalization == (data.mean, data.std)
    assert subject.backbone.image_size == data.image_size
    assert not subject.backbone.training
    assert (subject.images, subject.step, subject.epoch) == (2000, 2, 1)
    assert subject.notes == ()


SOURCES = (
    "",
    "backbone.safetensors",
    "checkpoints/last.pt",
    "checkpoints/epoch-0001.pt",
)


@pytest.mark.parametrize("source", SOURCES)
def test_a_run_by_its_folder_or_one_of_its_files(trained, source):
    subject = open_model(trained / source)
    assert_is_the_run(subject, trained)
    assert subject.name == str(trained / source)
    assert subject.folder == trained
    assert subject.config == RunFolder(trained).read_config()
    kept = source if source.startswith("checkpoints") else "checkpoints/last.pt"
    assert subject.checkpoint == trained / kept


def test_a_run_by_a_path_relative_to_it(trained, monkeypatch):
    monkeypatch.chdir(trained)
    assert open_model(".").folder == Path(".")
    assert open_model("backbone.safetensors").config is not None
    monkeypatch.chdir(trained / "checkpoints")
    assert open_model("last.pt").folder == trained


def test_the_key_encoder_is_another(trained):
    """The test above would not tell query from key encoder if they were equal."""
    method = load_checkpoint(trained / "checkpoints/last.pt")["method"]
    query, key = (
        method[f"{place}network.conv1.0.weight"] for place in ("backbone.", "keys.module.0.")
    )
    assert not torch.equal(query, key)


@pytest.mark.parametrize("source", ["backbone.safetensors", "checkpoints/last.pt"])
def test_a_file_taken_out_of_its_run(trained, tmp_path, source):
    file = shutil.copy(trained / source, tmp_path)
    subject = open_model(file)
    assert_is_the_run(subject, trained)
    assert subject.folder is None
    assert (subject.config is None) == (source == "backbone.safetensors")


def test_opening_a_model_leaves_random_numbers_alone(trained):
    before = torch.random.get_rng_state()
    for source in (trained, trained / "checkpoints/last.pt", "resnet10t"):
        open_model(source)
    load_method(trained)
    load_backbone(trained)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_an_unfinished_run_names_its_checkpoint_and_how_to_finish(run):
    (run / "backbone.safetensors").unlink()
    with pytest.raises(RunError, match=r"has not ended.*checkpoints/last\.pt.*--resume .*run"):
        open_model(run)
    for name in ("last.pt", "last-1.pt"):
        (run / "checkpoints" / name).unlink()
    with pytest.raises(RunError, match=r"checkpoints/epoch-0001\.pt"):
        open_model(run)


def test_a_run_that_saved_nothing_yet(run):
    (run / "backbone.safetensors").unlink()
    shutil.rmtree(run / "checkpoints")
    for open_it in (open_model, load_method):
        with pytest.raises(RunError, match=r"has saved nothing yet.*amcl pretrain --resume"):
            open_it(run)


def test_a_folder_that_is_no_run(tmp_path):
    for open_it in (open_model, load_method):
        with pytest.raises(RunError, match=r"is no run folder.*config\.toml"):
            open_it(tmp_path)


def test_options_that_a_run_says_itself_are_refused(trained):
    with pytest.raises(ValueError, match=r"/first .*\bbackbone, width\b"):
        open_model(trained, backbone="resnet18", width=2.0)
    with pytest.raises(ValueError, match="leave out image_size"):
        open_model(trained / "checkpoints/last.pt", image_size=64)
    with pytest.raises(ValueError, match=r"backbone\.safetensors .*\bpretrained\b"):
        open_model(trained / "backbone.safetensors", pretrained=True)


def test_a_checkpoint_of_an_early_version_needs_to_be_told(run):
    path = run / "checkpoints/last.pt"
    state = load_checkpoint(path)
    del state["trained"], state["format"]
    save_checkpoint(path, state)
    with pytest.raises(ValueError, match="give image_size, mean and std"):
        open_model(path)
    with pytest.raises(ValueError, match=r"last\.pt .*\bimage_size, mean and std\b"):
        load_method(path)
    told = {"image_size": 32, "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
    subject = open_model(path, **told)
    assert (subject.mean, subject.std) == (told["mean"], told["std"])
    assert torch.equal(subject.backbone(IMAGES), open_model(run).backbone(IMAGES))


def test_a_checkpoint_of_a_later_version_is_refused(run):
    path = run / "checkpoints/last.pt"
    torch.save(load_checkpoint(path) | {"format": 99}, path)
    with pytest.raises(RunError, match=r"last\.pt .*version of amcl"):
        open_model(path)


def test_damaged_files_are_named(run):
    whole = (run / "backbone.safetensors").read_bytes()
    (run / "backbone.safetensors").write_bytes(whole[:1000])
    with pytest.raises(ValueError, match=r"backbone\.safetensors is no safetensors file, or damag"):
        open_model(run)
    (run / "checkpoints/last.pt").write_bytes(b"half")
    with pytest.raises(RunError, match=r"last\.pt is no checkpoint that can be read safely"):
        open_model(run / "checkpoints/last.pt")


@pytest.mark.parametrize("fault", ["missing", "one too many", "instead of"])
def test_weights_that_do_not_fit_are_never_taken_in_part(run, fault):
    path = run / "backbone.safetensors"
    tensors, metadata = read_safetensors(path)
    if fault == "missing":
        del tensors["bn1.weight"]
    elif fault == "one too many":
        tensors["fc.weight"] = torch.zeros(2)
    else:
        tensors["bn1.weight"] = torch.zeros(3)
    save_tensors(path, tensors, metadata)
    with pytest.raises(ValueError, match=rf"not those of resnet10t.*weight is .*{fault}"):
        open_model(run)


def test_metadata_that_says_too_little(run):
    path = run / "backbone.safetensors"
    made = {"backbone": "resnet10t", "width": 0.125, "stem": "auto", "image_size": 32}
    save_tensors(path, load_file(path), made)
    with pytest.raises(ValueError, match=r"backbone\.safetensors .*\bmean, std\b"):
        open_model(run)


@pytest.mark.parametrize("text", ["[]", "3", '"text"', "null", "[" * 100_000])
def test_metadata_that_are_no_table(run, text):
    path = run / "backbone.safetensors"
    save_file(load_file(path), path, {"amcl": text})
    with pytest.raises(ValueError, match=r"metadata of .*backbone\.safetensors is damaged"):
        open_model(run)


@pytest.mark.parametrize(
    ("name", "value"),
    [("mean", 3), ("mean", ["x"] * 3), ("std", "text"), ("backbone", ["x"]), ("width", {})],
)
def test_metadata_of_another_type(run, name, value):
    path = run / "backbone.safetensors"
    tensors, metadata = read_safetensors(path)
    save_tensors(path, tensors, metadata | {name: value})
    with pytest.raises(ValueError, match=rf"metadata of .* is damaged: {name}\S* is .* instead of"):
        open_model(run)


# -- methods


@pytest.mark.parametrize("source", ["", "checkpoints/last.pt", "checkpoints/epoch-0001.pt"])
def test_the_whole_method_of_a_run(trained, source):
    method = load_method(trained / source)
    assert isinstance(method, MoCo)
    assert not method.training
    state = load_checkpoint(trained / "checkpoints/last.pt")["method"]
    assert method.state_dict().keys() == state.keys()
    for name, value in method.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert method.project(IMAGES).shape[:2] == (3, 4)
    assert method.backbone.normalization == (DATA.mean, DATA.std)


def test_a_method_whose_settings_are_no_text(trained, tmp_path):
    tensors = load_checkpoint(trained / "checkpoints/last.pt")["method"]
    save_tensors(tmp_path / "method.safetensors", tensors, {"config": ["x"]})
    with pytest.raises(ValueError, match=r"the configuration in .*method\.safetensors is damaged"):
        load_method(tmp_path / "method.safetensors")


def test_a_backbone_alone_is_no_method(run, tmp_path):
    with pytest.raises(ValueError, match=r"method\.safetensors .*`amcl export`"):
        load_method(run / "backbone.safetensors")
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(RunError, match=r"/run .*checkpoint"):
        load_method(run)
    with pytest.raises(FileNotFoundError, match=r"/nowhere\.pt'"):
        load_method(tmp_path / "nowhere.pt")


def test_a_method_that_does_not_fit_its_configuration(run):
    path = run / "checkpoints/last.pt"
    state = load_checkpoint(path)
    state["config"] = state["config"].replace("heads = 3", "heads = 2")
    save_checkpoint(path, {k: v for k, v in state.items() if k != "format"})
    with pytest.raises(ValueError, match=r"last\.pt .*'heads\.layers\.0\.weight'.*amcl"):
        load_method(path)


# -- timm's models


def test_a_timm_model_is_random_and_says_so():
    first, again, other = (open_model("resnet10t", seed=seed) for seed in (0, 0, 1))
    assert first.notes[0] == "untrained: random weights (seed 0)"
    assert first.name == "resnet10t"
    assert first.backbone.image_size == 176  # its own
    assert "images of 176 pixels" in first.notes[1]
    assert (first.mean, first.std) == (IMAGENET_MEAN, IMAGENET_STD)
    assert first.backbone.normalization == (IMAGENET_MEAN, IMAGENET_STD)
    weights = [s.backbone.network.state_dict()["conv1.0.weight"] for s in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_its_random_weights_are_those_a_run_starts_from():
    torch.manual_seed(seed_of(3, "weights"))
    expected = Backbone(BackboneSettings(name="resnet10t", width=0.125), 32)
    subject = open_model("resnet10t", width=0.125, image_size=32, seed=3)
    for name, value in expected.network.state_dict().items():
        assert torch.equal(subject.backbone.network.state_dict()[name], value), name


def test_a_timm_model_as_it_is_asked_for():
    mean, std = [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]
    subject = open_model("resnet18", width=0.25, image_size=48, stem="standard", mean=mean, std=std)
    assert subject.backbone.settings == BackboneSettings(
        name="resnet18", width=0.25, stem="standard"
    )
    assert subject.backbone.image_size == 48
    assert subject.backbone.normalization == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    assert subject.notes == ("untrained: random weights (seed 0)",)


def test_pretrained_weights_come_from_timm_with_its_normalization(monkeypatch, tmp_path):
    """Without the network: a file in the place of that of the hub."""
    network = timm.create_model("vit_tiny_patch16_224")
    torch.nn.init.constant_(network.norm.weight, 7.0)
    save_file(network.state_dict(), tmp_path / "model.safetensors")
    monkeypatch.setattr(
        published, "_from_hub", lambda repository, names, what: tmp_path / "model.safetensors"
    )
    subject = open_model("vit_tiny_patch16_224", pretrained=True)
    assert subject.backbone.network.norm.weight.eq(7.0).all()
    assert subject.mean == subject.std == (0.5, 0.5, 0.5)  # this model's, not ImageNet's
    assert subject.notes[:2] == (
        "weights: augreg_in21k_ft_in1k",
        "left out its classifier: head.bias, head.weight",
    )


def test_pretrained_weights_without_a_network_are_one_clear_line(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConnectionError, match=r"could not get timm's weights of resnet10t: ") as e:
        open_model("resnet10t", pretrained=True)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("options", [{"width": 0.5}, {"stem": "small"}], ids=str)
def test_pretrained_weights_are_for_the_network_as_published(options):
    with pytest.raises(
        ValueError, match=f"is the network as published: leave out {next(iter(options))}"
    ):
        open_model("resnet10t", pretrained=True, **options)


def test_a_model_without_pretrained_weights():
    names = timm.list_models("resnet*")
    name = next(n for n in names if not timm.get_pretrained_cfg(n).has_weights)
    with pytest.raises(ValueError, match=f"timm has no pretrained weights of {name}"):
        open_model(name, pretrained=True)


# -- names that lead nowhere


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("resnet81", ValueError, r"no file or folder 'resnet81', and .* did you mean .*resnet"),
        ("runs/frist", FileNotFoundError, r"there is no file or folder 'runs/frist'"),
        ("weights.pth", FileNotFoundError, r"there is no file or folder 'weights.pth'"),
        ("", FileNotFoundError, r"there is no file or folder ''"),
        ("resnet18.best", ValueError, r"no 'resnet18.best': .*resnet18.a1_in1k"),
    ],
)
def test_names_that_lead_nowhere(source, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        open_model(source)


def test_what_lies_there_comes_before_timms_names(run, monkeypatch):
    os.rename(run, run.parent / "resnet10t")
    monkeypatch.chdir(run.parent)
    assert open_model("resnet10t").backbone.dim == 64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean": (0.5, 0.5, 0.5)}, "mean and std go together"),
        ({"mean": (0.5,), "std": (0.5, 0.5)}, "mean has 1 numbers and std has 2"),
        ({"mean": (), "std": ()}, "mean must be a number for each channel"),
        ({"mean": (0.5,) * 3, "std": (0.5, 0, 0.5)}, "std must be a finite number above 0"),
        ({"backbone": "resnet50"}, r"^resnet10t .*\bbackbone\b"),
        ({"image_size": 0}, "image_size must be a whole number"),
    ],
    ids=str,
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        open_model("resnet10t", **options)


def test_safetensors_of_others_need_a_name(tmp_path):
    save_file({"a": torch.zeros(1)}, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=r"does not say which network.*backbone='resnet18'"):
        open_model(tmp_path / "a.safetensors")
