"""The equations as pure functions on tensors. Only torch is imported here."""

from amcl.functional.contrastive import (
    OmegaPlace,
    OmegaSet,
    Similarity,
    let_positive_compete,
    mean_contrast,
    most_similar,
    negative_level,
    omega_of_set,
    softmax_contrast,
)
from amcl.functional.cross_correlation import OmegaReduction, channels, cross_correlation
from amcl.functional.dino import centered_targets, prototype_cross_entropy, sinkhorn_targets
from amcl.functional.masked import (
    masked_reconstruction,
    noise_prediction,
    normalized_patches,
    patchify,
    sincos_levels,
    sincos_positions,
    unpatchify,
)
from amcl.functional.negative_cosine import negative_cosine
from amcl.functional.pair import pair_logit, pair_logsumexp
from amcl.functional.similarity import all_pairs, mean_cosine, paired, unit
from amcl.functional.temperature import (
    cosine_schedule_tau,
    literal_prior_tau,
    omega,
    sigma,
    uncertainty_tau,
)

__all__ = [
    "OmegaPlace",
    "OmegaReduction",
    "OmegaSet",
    "Similarity",
    "all_pairs",
    "centered_targets",
    "channels",
    "cosine_schedule_tau",
    "cross_correlation",
    "let_positive_compete",
    "literal_prior_tau",
    "masked_reconstruction",
    "mean_contrast",
    "mean_cosine",
    "most_similar",
    "negative_cosine",
    "negative_level",
    "noise_prediction",
    "normalized_patches",
    "omega",
    "omega_of_set",
    "pair_logit",
    "pair_logsumexp",
    "paired",
    "patchify",
    "prototype_cross_entropy",
    "sigma",
    "sincos_levels",
    "sincos_positions",
    "sinkhorn_targets",
    "softmax_contrast",
    "uncertainty_tau",
    "unit",
    "unpatchify",
]
