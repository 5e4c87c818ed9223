"""What a trained method sees: pairs of views, temperatures, heads, neighbors, a map."""

from amcl.analysis.embedding import PlaneMethod, plane
from amcl.analysis.galleries import Pair, hard_negatives, neighbors, uncertain_positives
from amcl.analysis.heads import Agreement, Retrieval, agreement, retrieval
from amcl.analysis.pairs import PairSample, PairSettings, negatives, pair_sample, positives
from amcl.analysis.run import sample_of_run
from amcl.analysis.separation import (
    PairSeparation,
    backbone_similarity,
    scaled,
    separation_of,
)
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
    "PairSeparation",
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
    "separation_of",
    "temperatures",
    "uncertain_positives",
]
