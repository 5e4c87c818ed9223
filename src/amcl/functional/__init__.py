"""The equations as pure functions on tensors. Only torch is imported here."""

from amcl.functional.contrastive import Contrast, Form, OmegaSet, contrast
from amcl.functional.cross_correlation import OmegaReduction, channels, cross_correlation
from amcl.functional.negative_cosine import negative_cosine
from amcl.functional.pair import pair_logit
from amcl.functional.similarity import all_pairs, paired, unit
from amcl.functional.temperature import (
    cosine_schedule_tau,
    literal_prior_tau,
    omega,
    sigma,
    uncertainty_tau,
)

__all__ = [
    "Contrast",
    "Form",
    "OmegaReduction",
    "OmegaSet",
    "all_pairs",
    "channels",
    "contrast",
    "cosine_schedule_tau",
    "cross_correlation",
    "literal_prior_tau",
    "negative_cosine",
    "omega",
    "pair_logit",
    "paired",
    "sigma",
    "uncertainty_tau",
    "unit",
]
