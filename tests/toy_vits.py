"""Small vision transformers and masks."""

import torch
from torch import nn

from amcl.backbones import Backbone, BackboneSettings
from amcl.modules import (
    MaskedDecoder,
    NoiseEmbedding,
    random_mask,
)
from amcl.seeds import generator

SIZE, PATCH, L = 32, 4, 64
NETWORKS = {
    "vit_tiny_patch16_224": 1.0,
    "test_vit": 1.0,  # sizes are dynamic
    "deit3_small_patch16_224": 0.17,  # the class token has no position; scaled layers
    "vit_base_patch16_clip_quickgelu_224": 0.09,  # a norm before the blocks
    "vit_base_patch16_siglip_gap_224": 0.09,  # no class token
    "vit_base_patch16_rpn_224": 0.09,  # no class token, the last norm behind the pooling
}


def network_of(name="test_vit"):
    """A network whose parameters are all unlike their start, so that each leaves its mark."""
    settings = BackboneSettings(name=name, width=NETWORKS.get(name, 1.0))
    return shaken(Backbone(settings, SIZE).network)


def shaken(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return module


def some_images(n=3):
    return torch.randn(n, 3, SIZE, SIZE)


def mask_of(ratio, n=3):
    return random_mask(n, L, ratio, generator("mask"))


# decoder


def a_decoder(**options):
    sizes = {"dim": 32, "depth": 2, "heads": 4} | options
    return MaskedDecoder(64, (8, 8), PATCH, **sizes)


def parts():
    return nn.ModuleDict(
        {"network": network_of(), "decoder": a_decoder(), "noise": NoiseEmbedding(64)}
    )
