"""Layers of a backbone by depth: their rates, and which are frozen at first."""

from dataclasses import replace

import pytest
import timm
from torch import nn

from amcl.backbones import Backbone, BackboneSettings
from amcl.config import OptimizerSettings
from amcl.evaluation.finetuning.classifier import classifier
from amcl.evaluation.finetuning.classifier import parameter_groups as groups_of_finetuning
from amcl.methods import LGPSettings, SimCLRSettings, make_method
from amcl.training.layers import distances, frozen_at_first, lr_scales
from amcl.training.optimizers import make_optimizer, parameter_groups

NETWORKS = [
    BackboneSettings(name="resnet10t", width=0.125, stem="standard"),
    BackboneSettings(name="resnet18", width=0.125, stem="small"),
    BackboneSettings(name="test_vit"),
    BackboneSettings(name="test_vit", pool="mean"),
    BackboneSettings(name="test_convnext"),
]


def names(backbone, parameters):
    found = {id(p) for p in parameters}
    return [name for name, p in backbone.network.named_parameters() if id(p) in found]


@pytest.mark.filterwarnings("ignore:.*keeps its stem")
@pytest.mark.parametrize("settings", NETWORKS, ids=lambda s: f"{s.name}-{s.stem}-{s.pool}")
def test_rates_are_those_of_fine_tuning(settings):
    """Heads are where fine-tuning has its classifier."""
    backbone = Backbone(settings, 32)
    tuned = classifier(backbone, 7, image_size=32)
    groups = groups_of_finetuning(tuned, 0.1, 0.5)
    expected = {id(p): group["lr_scale"] for group in groups for p in group["params"]}
    by_name = {name: expected[id(p)] for name, p in tuned.named_parameters()}
    method = make_method(SimCLRSettings(projector=(8, 6)), backbone)
    scales = lr_scales(method, OptimizerSettings(layer_decay=0.5))
    for name, parameter in backbone.network.named_parameters():
        assert scales[parameter] == pytest.approx(by_name[name]), name
    assert not any(p in scales for p in method.heads.parameters())


def test_the_optimizer_has_them():
    backbone = Backbone(BackboneSettings(name="test_vit"), 32)
    method = make_method(SimCLRSettings(projector=(8, 6)), backbone)
    settings = OptimizerSettings(name="adamw", layer_decay=0.5, bias_lr_scale=0.5)
    optimizer = make_optimizer(method, settings, 32)
    found = {id(p): group["lr_scale"] for group in optimizer.param_groups for p in group["params"]}
    assert found[id(backbone.network.blocks[-1].attn.qkv.weight)] == 0.5
    assert found[id(backbone.network.blocks[-1].attn.qkv.bias)] == 0.25
    assert found[id(backbone.network.norm.weight)] == 0.25  # with the last block
    assert found[id(backbone.network.pos_embed)] == 0.5 ** (len(backbone.network.blocks) + 1)
    assert all(found[id(p)] in (1.0, 0.5) for p in method.heads.parameters())
    plain = parameter_groups(method, replace(settings, layer_decay=None, bias_lr_scale=1.0))
    assert {group["lr_scale"] for group in plain} == {1.0}


def test_scales_of_a_method_come_first():
    backbone = Backbone(BackboneSettings(name="test_vit"), 32)
    settings = LGPSettings(projector=(8, 6), predictor=8, thirds=(0.1, 0.5, 1.0))
    method = make_method(settings, backbone)
    assert lr_scales(method, OptimizerSettings()) == method.lr_scales()
    scales = lr_scales(method, OptimizerSettings(layer_decay=0.5))
    depth = len(backbone.network.blocks)
    assert scales[backbone.network.blocks[0].norm1.weight] == pytest.approx(0.1 * 0.5**depth)


@pytest.mark.parametrize(
    ("share", "first", "last"),
    [
        (None, "cls_token", "norm.bias"),
        (1.0, "cls_token", "norm.bias"),
        (0.5, "cls_token", "blocks.2.mlp.fc2.bias"),
        (0.1, "cls_token", "patch_embed.proj.bias"),
    ],
)
def test_layers_are_frozen_from_the_input_on(share, first, last):
    backbone = Backbone(BackboneSettings(name="test_vit"), 32)
    assert len(backbone.network.blocks) == 6
    settings = OptimizerSettings(freeze_epochs=1.0, freeze_depth=share)
    frozen = names(backbone, frozen_at_first(backbone, settings))
    assert (frozen[0], frozen[-1]) == (first, last)
    assert frozen_at_first(backbone, OptimizerSettings()) == []


def test_a_network_whose_layers_are_unknown():
    backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), 32)
    backbone.network = nn.Conv2d(3, 2, 1)
    with pytest.raises(ValueError, match=r"layers of 'resnet10t' by depth: .*--layer-decay"):
        distances(backbone)


@pytest.mark.parametrize("name", ["vit_small_patch14_dinov2", "swin_tiny_patch4_window7_224"])
def test_every_layer_has_its_distance(name):
    backbone = Backbone(BackboneSettings(name=name), timm.get_pretrained_cfg(name).input_size[-1])
    found = set(distances(backbone).values())
    assert found == set(range(min(found), max(found) + 1))
    assert max(found) >= 12


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"layer_decay": 0.0}, "layer_decay must be a finite number above 0"),
        ({"layer_decay": 1.5}, r"layer_decay must lie in \(0, 1\], got 1.5"),
        ({"freeze_depth": 2.0}, r"freeze_depth must lie in \(0, 1\], got 2"),
        ({"freeze_epochs": -1.0}, "freeze_epochs must be a finite number, at least 0"),
    ],
    ids=str,
)
def test_settings_are_checked(values, message):
    with pytest.raises(ValueError, match=message):
        OptimizerSettings(**values)
