"""Estimates of the time of experiments, by the FLOPs of their backbones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from amcl.analysis.cost import backbone_flops, image_size_of
from amcl.config import Config
from amcl.evaluation import PROTOCOLS
from amcl.sweep import Point

IMAGES = {
    "builtin": 2000,
    "cifar10": 50_000,
    "cifar100": 50_000,
    "stl10": 100_000,
    "tinyimagenet": 100_000,
    "imagenet": 1_281_167,
}
CORES = 2
"""Cores that estimates for a CPU are for, with a run on each."""
CPU = 1.5e11
"""FLOPs a second that one core gets out of narrow networks."""
GPU = 5e13
"""FLOPs a second that one GPU of a data center gets out of a ResNet."""
VIEWS = 2e-4
"""Seconds of a core for two views of an image, and everything else but networks and heads."""
HEAD = 7e-5
"""Seconds of a core for an image in a head, with its part of the loss."""
START = 3.0
"""Seconds that a run spends on starting, and on its last probe."""
EVALUATION = {"knn": 1.0, "linear": 3.0, "few-labels": 6.0, "pairs": 3.0}
"""Seconds of a core for features of 15,000 small images and what is made of them; no other protocol
than those that train a network takes longer."""
DETECTION = 0.03
"""Seconds of a core for an image of a detector's training."""


@dataclass(frozen=True)
class Work:
    """A run and the sources of its numbers: protocols, "pairs" and "course".

    Args:
        point: The run.
        sources: Names of the sources.
    """

    point: Point
    sources: frozenset[str]


def seconds(work: Sequence[Work], protocols: Mapping[str, Any], gpu: bool) -> float | None:
    """Return the time of runs and their evaluation; None for data sets of unknown size.

    On a CPU, one run is on each of `CORES`; on a GPU, one follows the other.

    Args:
        work: The runs, each once.
        protocols: Settings of protocols by name.
        gpu: Whether it is for a GPU.
    """
    total = 0.0
    for each in work:
        config = each.point.config
        images = config.data.subset or IMAGES.get(config.data.source)
        if images is None:
            return None
        total += START + _training(config, images, gpu)
        for source in each.sources:
            settings = protocols.get(source) or (
                PROTOCOLS[source].settings() if source in PROTOCOLS else None
            )
            total += _evaluation(source, settings, config, images, gpu)
    return total if gpu else total / CORES


def _training(config: Config, images: int, gpu: bool) -> float:
    """Return the time of training: two views forward and backward are six times forward."""
    run = config.run
    passes = 6.0 * run.epochs
    if run.init is None:  # a first stage sees one view, a quarter of it, and has a decoder
        passes += config.method.first_stage_epochs or 0
    time = passes * images * _flops_of(config) / (GPU if gpu else CPU)
    if not gpu:
        heads: int = getattr(config.method, "heads", 1)
        time += run.epochs * images * (VIEWS + heads * HEAD)
    return time


def _evaluation(source: str, settings: Any, config: Config, images: int, gpu: bool) -> float:
    """Return the time of one source of numbers."""
    if source == "finetune":  # one view, forward and backward
        time: float = settings.epochs * images * 3.0 * _flops_of(config) / (GPU if gpu else CPU)
        return time if gpu else time + settings.epochs * images * VIEWS / 2
    if gpu:
        return 0.0
    if source == "detect":
        passes: int = (settings.epochs or 0) * (settings.subset or 0)
        return DETECTION * passes
    return EVALUATION.get(source, 0.0)


def format_time(time: float | None) -> str:
    """Return a time in a suitable unit.

    >>> [format_time(seconds) for seconds in (40, 600, 2e4, 1e6, None)]
    ['1 min', '10 min', '6 h', '12 days', 'unknown']
    """
    if time is None:
        return "unknown"
    for unit, length in (("days", 86400), ("h", 3600)):
        if time > 1.5 * length:
            return f"{time / length:.0f} {unit}"
    return f"{max(1, time / 60):.0f} min"


def _flops_of(config: Config) -> int:
    return _flops(replace(config.backbone, pool="auto"), image_size_of(config))


_flops = cache(backbone_flops)
