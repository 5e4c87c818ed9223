"""Pyramids: strides, published layers, convolutional networks of every kind, frozen norms."""

import pytest
import timm
import torch
from torch import nn
from torchvision.ops import FeaturePyramidNetwork

from amcl.backbones import Backbone, BackboneSettings
from amcl.evaluation.detection.pyramid import (
    BatchNorm,
    ConvolutionalMaps,
    FeaturePyramid,
    SimplePyramid,
    group_norm,
    head_norm,
    rescaling,
)


def kinds(module):
    return [type(layer).__name__ for layer in module.modules() if not list(layer.children())]


@pytest.mark.parametrize("patch", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("kind", [FeaturePyramid, SimplePyramid])
def test_maps_of_every_patch_come_to_the_same_strides(kind, patch):
    pyramid = kind([16] * 4, [patch] * 4, 8)
    maps = [torch.randn(2, 16, 128 // patch, 128 // patch, requires_grad=True) for _ in range(4)]
    levels = pyramid(maps)
    assert list(levels) == ["0", "1", "2", "3", "pool"]
    assert [x.shape for x in levels.values()] == [(2, 8, n, n) for n in (32, 16, 8, 4, 2)]
    torch.stack([x.square().sum() for x in levels.values()]).sum().backward()
    assert all(p.grad is not None for p in pyramid.parameters())
    assert [x.grad is not None for x in maps] == [kind is FeaturePyramid] * 3 + [True]


def test_scaling_is_as_published():
    up = rescaling(64, 16, 4, group_norm)
    assert kinds(up) == ["ConvTranspose2d", "GroupNorm", "GELU", "ConvTranspose2d"]
    assert [m.out_channels for m in up if hasattr(m, "out_channels")] == [64, 64]
    simple = SimplePyramid([64] * 4, [16] * 4, 8).levels
    scaled = [kinds(level[0]) for level in simple]
    assert scaled == [
        ["ConvTranspose2d", "LayerNorm2d", "GELU", "ConvTranspose2d"],
        ["ConvTranspose2d"],
        ["Identity"],
        ["MaxPool2d"],
    ]
    assert [level[1].in_channels for level in simple] == [16, 32, 64, 64]
    rest = ["Conv2d", "LayerNorm2d", "Conv2d", "LayerNorm2d"]
    assert all(kinds(level[1:]) == rest for level in simple)
    x = torch.randn(1, 8, 4, 4)
    pooled = rescaling(8, 4, 32, group_norm)(x.repeat_interleave(8, 2).repeat_interleave(8, 3))
    assert torch.equal(pooled, x)


def test_maps_of_convolutional_networks_are_not_scaled():
    pyramid = FeaturePyramid([8, 16, 32, 64], [4, 8, 16, 32], 8)
    assert kinds(pyramid.scales) == ["Identity"] * 4
    plain = FeaturePyramidNetwork([8, 16, 32, 64], 8)
    plain.load_state_dict(pyramid.fpn.state_dict())
    maps = [torch.randn(1, 8 * 2**i, 16 >> i, 16 >> i) for i in range(4)]
    expected = plain({str(i): x for i, x in enumerate(maps)})
    levels = pyramid(maps)
    for name, x in expected.items():
        assert torch.equal(levels[name], x)
    assert torch.equal(levels["pool"], expected["3"][:, :, ::2, ::2])


@pytest.mark.parametrize("name", ["group", "batch"])
def test_norms_take_no_boxes_and_learn_nothing_from_them(name):
    norm = head_norm(name)(8)
    x = torch.zeros(0, 8, 4, 4, requires_grad=True)
    norm(x).sum().backward()
    assert all((p.grad == 0).all() for p in norm.parameters())
    some = torch.randn(3, 8, 4, 4)
    plain = nn.GroupNorm(8, 8) if name == "group" else nn.BatchNorm2d(8)
    assert torch.equal(norm(some), plain(some))
    assert isinstance(norm, nn.GroupNorm if name == "group" else BatchNorm)


@pytest.mark.parametrize(
    ("name", "width", "stem"),
    [
        ("resnet10t", 0.25, "small"),
        ("resnet10t", 0.25, "standard"),
        ("resnet18", 0.125, "small"),
        ("resnet18", 0.125, "standard"),
        ("resnet50", 0.125, "standard"),
    ],
)
def test_resnets_give_the_maps_of_timm(name, width, stem):
    settings = BackboneSettings(name=name, width=width, stem=stem)
    network = Backbone(settings, image_size=96).network
    before = {key: value.clone() for key, value in network.state_dict().items()}
    maps = ConvolutionalMaps(network)
    assert network.training
    after = network.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items())
    assert list(after) == list(before)
    assert bool(maps.notes) == (stem == "small")
    images = torch.randn(2, 3, 96, 96)
    x = network.eval().act1(network.bn1(network.conv1(images)))
    assert x.shape[-1] == 48
    x = network.maxpool(x)
    for found, width, side, layer in zip(
        maps(images), maps.widths, (24, 12, 6, 3), range(1, 5), strict=True
    ):
        x = getattr(network, f"layer{layer}")(x)
        assert torch.equal(found, x)
        assert found.shape == (2, width, side, side)


@pytest.mark.parametrize(
    "name", ["test_convnext", "test_efficientnet", "ghostnet_050", "regnetx_002", "fastvit_t8"]
)
def test_other_networks_keep_what_their_maps_need(name):
    network = timm.create_model(name, num_classes=10)
    names = set(network.state_dict())
    maps = ConvolutionalMaps(network)
    assert set(network.state_dict()) < names
    torch.stack([x.square().mean() for x in maps(torch.randn(2, 3, 96, 64))]).sum().backward()
    assert [n for n, p in maps.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize("name", ["densenet121", "swin_tiny_patch4_window7_224", "test_mlp"])
def test_networks_without_such_maps_are_an_error(name):
    mlp = nn.Sequential(nn.Flatten(), nn.LazyLinear(8))
    network = mlp if name == "test_mlp" else timm.create_model(name, num_classes=0)
    with pytest.raises(ValueError, match=r"no maps of strides 4, 8, 16 and 32.*resnet50"):
        ConvolutionalMaps(network)
