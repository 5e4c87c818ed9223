"""Backbones: any timm model by name, with a stem for small images and a width multiplier."""

from amcl.backbones.backbone import Backbone, some
from amcl.backbones.files import backbone_of, load_backbone, stored_input
from amcl.backbones.model_names import check_model, unknown_model
from amcl.backbones.randomness import own_randomness
from amcl.backbones.settings import SMALL, USUAL, BackboneSettings, Pool, Stem

__all__ = [
    "SMALL",
    "USUAL",
    "Backbone",
    "BackboneSettings",
    "Pool",
    "Stem",
    "backbone_of",
    "check_model",
    "load_backbone",
    "own_randomness",
    "some",
    "stored_input",
    "unknown_model",
]
