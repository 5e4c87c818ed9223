"""Estimates of the time of experiments, by the FLOPs of their backbones."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from amcl.analysis.cost import backbone_flops, image_size_of
from amcl.config import Config
from amcl.sweep import Point

IMAGES = {
    "builtin": 2000,
    "cifar10": 50_000,
    "cifar100": 50_000,
    "stl10": 100_000,
    "tinyimagenet": 100_000,
    "imagenet": 1_281_167,
}
CPU = 6e10
"""FLOPs a second of two cores with narrow networks, measured with ResNet-18 of a quarter width."""
GPU = 5e13
"""FLOPs a second that one GPU of a data center gets out of a ResNet."""
OVERHEAD = 3.0
"""Seconds that a run spends on starting and on its evaluation."""


def seconds(points: Sequence[Point], gpu: bool) -> float | None:
    """Return the time of training, one run after the other; None for data sets of unknown size.

    An image counts as two views forward and backward, which is three times forward.
    """
    total = 0.0
    for point in points:
        data = point.config.data
        run = point.config.run
        images = data.subset or IMAGES.get(data.source)
        if images is None:
            return None
        passes = 6.0 * run.epochs
        if run.init is None:  # a first stage sees one view, a quarter of it, and has a decoder
            passes += point.config.method.first_stage_epochs or 0
        total += passes * _flops_of(point.config) * images / (GPU if gpu else CPU)
        total += OVERHEAD
    return total


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
