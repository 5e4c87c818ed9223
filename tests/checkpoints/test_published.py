"""Published weights by name: files in the layouts of timm, the hub and torchvision, and no hub."""

import json
import time
from pathlib import Path

import pytest
import timm
import torch
import torchvision
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from timm.models._pretrained import DefaultCfg

from amcl.checkpoints import open_model, published
from amcl.checkpoints.hub import HubBackbone
from amcl.checkpoints.load import open_start
from amcl.checkpoints.published import is_published, of_torchvision

NAME = "test_vit"
REPOSITORY = "models--someone--small"
IMAGES = torch.randn(2, 3, 160, 160)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(3)
    return timm.create_model(NAME).eval()


@pytest.fixture
def repository(network, tmp_path):
    """A folder as timm pushes it to the hub."""
    timm.models.save_for_hf(network, tmp_path / "small", safe_serialization=True)
    return tmp_path / "small"


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No hub, and an empty cache."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "torch"))
    return tmp_path


def cached(repository: Path, cache: Path, name: str) -> Path:
    """Put a repository into a cache of the hub, as its library does."""
    folder = cache / f"models--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text("0" * 40)
    (folder / "snapshots").mkdir()
    return repository.rename(folder / "snapshots" / ("0" * 40))


@torch.no_grad()
def assert_same(model, network):
    expected = network.forward_head(network.forward_features(IMAGES), pre_logits=True)
    assert torch.equal(model.backbone(IMAGES), expected)


def test_a_folder_in_timms_layout(repository, network):
    for source in (str(repository), f"local-dir:{repository}"):
        model = open_model(source)
        assert_same(model, network)
        assert model.name == source
        assert model.mean == model.std == (0.5, 0.5, 0.5)  # of this model, not ImageNet's
        assert not model.untrained
        assert "left out its classifier: head.bias, head.weight" in model.notes


def test_a_repository_of_the_hub_from_its_cache(repository, network, offline):
    cached(repository, offline / "cache", "someone/small")
    for source in ("hf:someone/small", "hf-hub:someone/small", "hf:someone/small@main"):
        assert_same(open_model(source), network)


def test_a_pickle_in_a_repository_is_read_without_running_it(repository, network):
    (repository / "model.safetensors").unlink()
    torch.save(network.state_dict(), repository / "pytorch_model.bin")
    assert_same(open_model(repository), network)
    torch.save({"weights": print}, repository / "pytorch_model.bin")
    with pytest.raises(Exception, match=r"cannot|no checkpoint that can be read safely"):
        open_model(repository)


def test_timms_weights_from_the_cache_of_the_hub(repository, network, offline):
    cached(repository, offline / "cache", "timm/test_vit.r160_in1k")
    for source in (f"timm:{NAME}", f"timm:{NAME}.r160_in1k"):
        model = open_model(source)
        assert_same(model, network)
        assert model.notes[0] == "weights: r160_in1k"
        assert model.backbone.settings.name == NAME
    assert_same(open_model(NAME, pretrained=True), network)


def test_timms_weights_from_a_file_that_its_configuration_names(network, tmp_path, monkeypatch):
    torch.save({"state_dict": network.state_dict()}, tmp_path / "weights.pth")
    registered = timm.models._registry._model_default_cfgs
    config = timm.get_pretrained_cfg(NAME)
    changed = DefaultCfg()
    changed.tags.append("mine")
    changed.cfgs["mine"] = type(config)(
        **{**config.to_dict(), "file": str(tmp_path / "weights.pth"), "tag": "mine"}
    )
    monkeypatch.setitem(registered, NAME, changed)
    pretrained = timm.models._registry._model_pretrained_cfgs
    monkeypatch.setitem(pretrained, NAME, changed.cfgs["mine"])
    assert_same(open_model(f"timm:{NAME}"), network)


def test_other_images_and_patches_are_adapted_and_said(repository):
    model = open_model(repository, image_size=64, patch=8)
    assert model.backbone(torch.randn(2, 3, 64, 64)).shape == (2, 64)
    assert "patch embeddings resampled from 16×16 to 8×8 pixels" in model.notes
    assert "position embeddings resampled from 10×10 to 8×8 patches" in model.notes


@pytest.mark.parametrize("fault", ["missing", "one too many", "do not fit"])
def test_nothing_is_loaded_by_half(repository, fault):
    path = repository / "model.safetensors"
    tensors = load_file(path)
    if fault == "missing":
        del tensors["blocks.0.norm1.weight"]
    elif fault == "one too many":
        tensors["blocks.0.norm1.other"] = torch.zeros(2)
    else:
        tensors["blocks.0.norm1.weight"] = torch.zeros(3)
    save_file(tensors, path)
    with pytest.raises(
        ValueError, match=rf"not those of test_vit: blocks\.0\.norm1\.\S+ .*{fault}"
    ):
        open_model(repository)


def test_a_repository_of_amcl(repository, tmp_path, offline):
    model = open_model("resnet10t", width=0.125, image_size=32)
    HubBackbone.of(model).save_pretrained(tmp_path / "mine")
    images = torch.randn(2, 3, 32, 32)
    expected = model.backbone(images)
    assert torch.equal(open_model(tmp_path / "mine").backbone(images), expected)
    cached(tmp_path / "mine", offline / "cache", "someone/mine")
    assert torch.equal(open_model("hf:someone/mine").backbone(images), expected)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "dinov2"}, "is a dinov2 of transformers.*timm:NAME"),
        ({}, "says no architecture"),
        ({"architecture": "resnet81"}, r"config\.json of .*there is no timm model .*did you mean"),
        ({"architecture": NAME, "model_args": {"embed_dim": 32}}, "changes embed_dim of test_vit"),
        ({"architecture": NAME, "model_args": {"img_size": "x"}}, "img_size in .* is damaged"),
        ({"architecture": NAME, "pretrained_cfg": {"mean": 3}}, "is damaged: mean is 3"),
        ({"architecture": 3}, "is damaged: architecture is 3"),
    ],
    ids=str,
)
def test_repositories_that_cannot_be_read(repository, config, message):
    (repository / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        open_model(repository)


def test_a_repository_without_weights(repository):
    (repository / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"has no model\.safetensors or pytorch_model\.bin"):
        open_model(repository)


# -- torchvision


def test_torchvisions_weights_from_its_cache(offline):
    torch.manual_seed(1)
    network = torchvision.models.resnet18()
    folder = offline / "torch/checkpoints"
    folder.mkdir(parents=True)
    torch.save(network.state_dict(), folder / "resnet18-f37072fd.pth")
    model = open_model("torchvision:resnet18")
    network.fc = torch.nn.Identity()
    images = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(model.backbone(images), network.eval()(images))
    assert model.notes[:2] == (
        "weights: IMAGENET1K_V1",
        "left out its classifier: fc.weight, fc.bias",
    )
    assert model.backbone.image_size == 224
    assert open_model("torchvision:resnet18.IMAGENET1K_V1").backbone.settings == (
        model.backbone.settings
    )


@pytest.mark.parametrize("name", published.TORCHVISION)
def test_networks_of_torchvision_have_the_tensors_of_timms(name):
    with torch.device("meta"):
        ours, theirs = timm.create_model(name), torchvision.models.get_model(name)
    shapes = [{k: v.shape for k, v in n.state_dict().items()} for n in (ours, theirs)]
    assert shapes[0] == shapes[1]


def test_networks_that_torchvision_names_otherwise():
    with pytest.raises(
        ValueError, match=r"'resnet51' is none of .*did you mean resnet50.*timm:NAME"
    ):
        of_torchvision("resnet51", "torchvision:resnet51")
    with pytest.raises(ValueError, match=r"are IMAGENET1K_V1, IMAGENET1K_V2, DEFAULT, got 'V3'"):
        of_torchvision("resnet50.V3", "torchvision:resnet50.V3")


# -- hubs that cannot be reached, and other names that lead nowhere


@pytest.mark.parametrize(
    "source", ["timm:resnet10t", "hf:someone/small", "torchvision:resnet18"], ids=str
)
def test_a_hub_that_cannot_be_reached_is_one_line_at_once(source, offline, monkeypatch):
    """The library of the hub alone would try for half a minute for each file."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(published, "urlopen", refuse)
    began = time.monotonic()
    with pytest.raises(ConnectionError, match=r"could not get .*not online.*--backbone") as told:
        open_model(source)
    assert "\n" not in str(told.value)
    assert time.monotonic() - began < 5


def refuse(*args, **kwargs):
    raise OSError("unreachable")


def test_offline_mode_says_so(offline):
    with pytest.raises(ConnectionError, match="offline mode"):
        open_model("hf:someone/small")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("timm:resnet81", "no timm model called 'resnet81': did you mean"),
        ("timm:resnet18.best", r"no 'resnet18\.best': timm's weights of resnet18 are"),
        ("hf:small", r"names no repository of the hub: write hf:OWNER/NAME"),
        ("keras:resnet50", "'keras' is none of timm, hf, .*timm:NAME"),
        ("local-dir:nowhere", "no folder 'nowhere'"),
    ],
)
def test_names_that_lead_nowhere(source, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        open_model(source)


def test_published_networks_are_taken_as_they_are(repository):
    with pytest.raises(ValueError, match="is the network as published: leave out width"):
        open_model(repository, width=0.5)
    with pytest.raises(ValueError, match="says itself which network it is of: leave out backbone"):
        open_model("timm:resnet18", backbone="resnet18")


def test_a_file_comes_before_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_published("timm:resnet18")
    Path("timm:resnet18").touch()
    assert not is_published("timm:resnet18")


# -- starts


def test_a_name_without_weights_is_no_start():
    with pytest.raises(ValueError, match=r"without weights: timm:resnet10t takes those of timm"):
        open_start("resnet10t")


def test_published_weights_take_the_channels_of_the_means(repository):
    model = open_model(f"local-dir:{repository}", mean=(0.1,) * 13, std=(0.2,) * 13)
    assert model.backbone.channels == 13
    assert (
        "the first layer takes 13 channels instead of 3: the three in turn, scaled" in model.notes
    )
    assert model.backbone(torch.zeros(1, 13, 160, 160)).shape == (1, 64)
