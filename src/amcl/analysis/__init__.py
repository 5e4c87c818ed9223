"""Analyses of a trained method: pairs of views, temperatures, heads, neighbors, a map."""

from amcl.analysis.embedding import PlaneMethod, plane
from amcl.analysis.galleries import Pair, hard_negatives, neighbors, uncertain_positives
from amcl.analysis.heads import Agreement, Retrieval, agreement, retrieval
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
    "HeadTemperatures",
    "Pair",
    "PairSample",
    "PairSettings",
    "PlaneMethod",
    "Retrieval",
    "Temperatures",
    "agreement",
    "backbone_similarity",
    "hard_negatives",
    "negatives",
    "neighbors",
    "pair_sample",
    "plane",
    "positives",
    "retrieval",
    "sample_of_run",
    "scaled",
    "separations",
    "temperatures",
    "uncertain_positives",
]
