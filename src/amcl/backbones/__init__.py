"""Backbones: any timm model by name, with a stem for small images and a width multiplier."""

from amcl.backbones.backbone import Backbone
from amcl.backbones.backbone import some as some
from amcl.backbones.files import backbone_of as backbone_of
from amcl.backbones.files import load_backbone as load_backbone
from amcl.backbones.files import stored_input as stored_input
from amcl.backbones.model_names import check_model as check_model
from amcl.backbones.model_names import unknown_model as unknown_model
from amcl.backbones.randomness import own_randomness as own_randomness
from amcl.backbones.settings import SMALL as SMALL
from amcl.backbones.settings import USUAL as USUAL
from amcl.backbones.settings import BackboneSettings, Pool, Stem

__all__ = ["Backbone", "BackboneSettings", "Pool", "Stem"]
