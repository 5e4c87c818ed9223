"""Settings and first weights of masked methods."""

import math

import pytest
import torch

from amcl.backbones import Backbone, BackboneSettings
from amcl.methods import METHODS, CANSettings, LGPSettings, MAESettings, make_method
from reference import masked as literal
from toy_masked_methods import (
    SIDE,
    SIZE,
    SMALL,
    make,
)

# the start, and what is refused


@pytest.mark.parametrize("name", ["mae", "can"])
def test_weights_start_as_maes_and_positions_are_fixed(name):
    method = make(name)
    method.init_weights()
    network = method.backbone.network
    bounds = {"attn.qkv": (64, 192), "attn.proj": (64, 64), "mlp.fc1": (64, 192)}
    for part, (fan_in, fan_out) in bounds.items():
        for block in network.blocks:
            layer = block.get_submodule(part)
            bound = math.sqrt(6 / (fan_in + fan_out))
            assert layer.weight.abs().max().item() == pytest.approx(bound, rel=0.02)
            assert not layer.bias.any()
    places = torch.tensor(literal.positions(64, SIDE, SIDE, True), dtype=torch.float64)
    torch.testing.assert_close(network.pos_embed[0], places, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (MAESettings, {"mask_ratio": 0.0}, "mask_ratio must lie between 0 and 1, got 0.0: it is"),
        (MAESettings, {"mask_ratio": 1.0}, r"got 1.0: .* patches not seen, 0.75 in MAE and 0.5"),
        (CANSettings, {"mask_ratio": 2}, "mask_ratio must lie between 0 and 1, got 2"),
        (LGPSettings, {"mask_ratio": -0.5}, "mask_ratio must lie between 0 and 1, got -0.5"),
        (MAESettings, {"mask_ratio": math.nan}, "got nan"),
        (
            MAESettings,
            {"decoder_dim": 100, "decoder_heads": 16},
            "decoder_dim=100 must be a multiple of 4 and of decoder_heads=16: use 64 or a multiple",
        ),
        (CANSettings, {"decoder_dim": 6, "decoder_heads": 2}, "decoder_dim=6 must be a multiple"),
        (MAESettings, {"decoder_dim": 0}, "decoder_dim must be a whole number, at least 1, got 0"),
        (MAESettings, {"decoder_depth": 0}, "decoder_depth must be a whole number"),
        (MAESettings, {"decoder_heads": 1.5}, "decoder_heads must be a whole number"),
        (CANSettings, {"noise": -0.1}, "noise must be a finite number, at least 0, got -0.1: 0 sw"),
        (CANSettings, {"contrast_weight": -1}, "contrast_weight must be a finite number"),
        (CANSettings, {"denoising_weight": math.inf}, "denoising_weight must be a finite number"),
        (
            CANSettings,
            {"contrast_weight": 0, "reconstruction_weight": 0, "denoising_weight": 0},
            "contrast_weight, reconstruction_weight, denoising_weight are all 0: there is nothing",
        ),
        (CANSettings, {"heads": 0}, "heads must be a whole number"),
    ],
)
def test_settings_are_checked(cls, options, message):
    with pytest.raises(ValueError, match=message):
        cls(**options)


def test_published_settings():
    mae, can = MAESettings(), CANSettings()
    assert (mae.mask_ratio, mae.normalize_targets) == (0.75, True)
    assert (mae.decoder_dim, mae.decoder_depth, mae.decoder_heads) == (512, 8, 16)
    assert (can.mask_ratio, can.noise, can.temperature.tau) == (0.5, 0.05, 0.1)
    weights = (can.contrast_weight, can.reconstruction_weight, can.denoising_weight)
    assert weights == (0.03, 0.67, 0.30)
    assert (can.projector, can.projector_norm) == ((4096, 4096, 128), True)


@pytest.mark.parametrize("name", ["mae", "can", "lgp"])
def test_networks_without_patches_are_refused(name):
    backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), SIZE)
    settings = METHODS[name].settings_class(**SMALL[name])
    with pytest.raises(ValueError, match=r"a ResNet is not run as .* Choose a plain vision trans"):
        make_method(settings, backbone)
