"""Networks for images of any number of channels."""

import pytest
import timm
import torch
from safetensors.torch import save_file

from amcl.backbones import Backbone, BackboneSettings, backbone_of, load_backbone, stored_input
from amcl.checkpoints.files import export_backbone
from amcl.modules import MaskedDecoder

NETWORKS = [
    {"name": "resnet10t", "width": 0.25, "stem": "standard"},
    {"name": "resnet18", "width": 0.125},
    {"name": "resnet18", "width": 0.125, "stem": "standard"},
    {"name": "resnet18", "stem": "standard"},
    {"name": "test_vit"},
    {"name": "test_vit", "pool": "mean", "patch": 8},
    {"name": "test_convnext"},
]


@pytest.mark.parametrize("channels", [1, 4, 13])
@pytest.mark.parametrize("values", NETWORKS)
@pytest.mark.filterwarnings("ignore:.*keeps its stem")
def test_networks_take_the_channels(values, channels, tmp_path):
    backbone = Backbone(BackboneSettings(**values), 32, channels=channels).eval()
    images = torch.randn(2, channels, 32, 32)
    features = backbone(images)
    assert features.shape == (2, backbone.dim)
    assert backbone.metadata()["channels"] == channels
    assert not backbone.as_published
    assert torch.equal(backbone.copy_network().eval()(images), features)
    save_file(backbone.network.state_dict(), tmp_path / "w.safetensors")
    scope: dict[str, object] = {}
    exec(backbone.code(str(tmp_path / "w.safetensors")), scope)
    assert torch.equal(scope["model"](images), features)


@pytest.mark.filterwarnings("ignore:.*keeps its stem")
def test_the_stem_is_timms_own():
    for name in ("resnet18", "test_vit", "test_convnext"):
        backbone = Backbone(BackboneSettings(name=name, stem="standard"), 160, channels=5)
        shapes = {key: value.shape for key, value in backbone.network.state_dict().items()}
        size = {"img_size": 160} if name == "test_vit" else {}
        published = timm.create_model(name, in_chans=5, num_classes=0, **size).state_dict()
        assert shapes == {key: value.shape for key, value in published.items()}


def test_files_say_the_channels(tmp_path):
    backbone = Backbone(BackboneSettings(name="test_vit"), 32, channels=2)
    path = tmp_path / "backbone.safetensors"
    export_backbone(path, backbone, {"mean": (0.1, 0.2), "std": (0.3, 0.4)})
    loaded = load_backbone(path)
    assert (loaded.channels, loaded.normalization) == (2, ((0.1, 0.2), (0.3, 0.4)))
    assert stored_input(path) == (2, 32)
    wrong = {**backbone.metadata(), "mean": [0.1] * 3, "std": [0.2] * 3}
    with pytest.raises(ValueError, match="channels, mean and std are not of one number"):
        backbone_of(wrong, backbone.network.state_dict(), "here")


def test_other_channels_are_refused():
    bands = Backbone(BackboneSettings(name="test_vit"), 32, channels=13)
    with pytest.raises(ValueError, match=r"takes images \(N, 13, S, S\), got \(1, 3, 32, 32\)"):
        bands(torch.zeros(1, 3, 32, 32))
    with pytest.raises(ValueError, match="channels must be a whole number"):
        Backbone(BackboneSettings(name="test_vit"), 32, channels=0)


def test_a_masked_decoder_predicts_all_channels():
    decoder = MaskedDecoder(16, (4, 4), 2, channels=13, dim=8, depth=1, heads=2)
    masked = torch.arange(16).expand(2, 16) >= 4
    assert decoder(torch.randn(2, 4, 16), masked).shape == (2, 16, 2 * 2 * 13)
