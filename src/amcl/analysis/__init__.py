"""Analyses of a trained method: pairs of views, temperatures, heads, neighbors, a map."""

from amcl.analysis.crops import (
    CropPairs,
    CropSettings,
    RankCorrelation,
    crop_pairs,
    crop_pairs_of_run,
    rank_correlation,
)
from amcl.analysis.embedding import PlaneMethod, plane
from amcl.analysis.galleries import Pair, hard_negatives, neighbors, uncertain_positives
from amcl.analysis.heads import Agreement, Retrieval, agreement, retrieval
from amcl.analysis.overlap import CropOverlap, crop_overlap
from amcl.analysis.pairs import PairSample, PairSettings, negatives, pair_sample, positives
from amcl.analysis.run import sample_of_run
from amcl.analysis.separation import backbone_similarity, scaled, separations
from amcl.analysis.temperatures import (
    QUANTILES,
    HeadTemperatures,
    Temperatures,
    temperatures,
)

__all__ = [
    "QUANTILES",
    "Agreement",
    "CropOverlap",
    "CropPairs",
    "CropSettings",
    "HeadTemperatures",
    "Pair",
    "PairSample",
    "PairSettings",
    "PlaneMethod",
    "RankCorrelation",
    "Retrieval",
    "Temperatures",
    "agreement",
    "backbone_similarity",
    "crop_overlap",
    "crop_pairs",
    "crop_pairs_of_run",
    "hard_negatives",
    "negatives",
    "neighbors",
    "pair_sample",
    "plane",
    "positives",
    "rank_correlation",
    "retrieval",
    "sample_of_run",
    "scaled",
    "separations",
    "temperatures",
    "uncertain_positives",
]
