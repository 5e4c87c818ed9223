"""Trained backbones that come with amcl: an index, and the weights and the card of each model.

They are written by `release/ship_weights.py`. Reading the index needs Python alone.
"""

from amcl.pretrained.index import PretrainedModel, checked_weights, names, pretrained_model

__all__ = ["PretrainedModel", "checked_weights", "names", "pretrained_model"]
