"""The equations as pure functions on tensors. Only torch is imported here."""

from amcl.functional.agreement import head_agreement, mean_agreement
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
    supervised_contrast,
)
from amcl.functional.cross_correlation import OmegaReduction, channels, cross_correlation
from amcl.functional.decoupled import mises_fisher_weights
from amcl.functional.dino import centered_targets, prototype_cross_entropy, sinkhorn_targets
from amcl.functional.hard import hard_contrast
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
from amcl.functional.sigmoid import sigmoid_contrast
from amcl.functional.similarity import all_pairs, mean_cosine, nearest, paired, unit
from amcl.functional.temperature import (
    Prior,
    alignment_tau,
    artanh_tau,
    cosine_schedule_tau,
    literal_prior_tau,
    omega,
    sigma,
    similarity_tau,
    uncertainty_tau,
)
from amcl.functional.variance_covariance import covariance, invariance, variance_hinge

__all__ = [
    "OmegaPlace",
    "OmegaReduction",
    "OmegaSet",
    "Prior",
    "Similarity",
    "alignment_tau",
    "all_pairs",
    "artanh_tau",
    "centered_targets",
    "channels",
    "cosine_schedule_tau",
    "covariance",
    "cross_correlation",
    "hard_contrast",
    "head_agreement",
    "invariance",
    "let_positive_compete",
    "literal_prior_tau",
    "masked_reconstruction",
    "mean_agreement",
    "mean_contrast",
    "mean_cosine",
    "mises_fisher_weights",
    "most_similar",
    "nearest",
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
    "sigmoid_contrast",
    "similarity_tau",
    "sincos_levels",
    "sincos_positions",
    "sinkhorn_targets",
    "softmax_contrast",
    "supervised_contrast",
    "uncertainty_tau",
    "unit",
    "unpatchify",
    "variance_hinge",
]
