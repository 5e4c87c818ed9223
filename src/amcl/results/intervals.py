"""95% intervals of accuracies, of means over seeds and of differences."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from amcl.metrics.scores import wilson

Interval = tuple[float, float]
CONFIDENCE = 0.95

accuracy_interval = wilson


def standard_error(accuracy: float, images: int) -> float:
    """Return the binomial standard error of an accuracy on a number of images.

    Example:
        >>> round(standard_error(0.5, 100), 3)
        0.05
    """
    return math.sqrt(accuracy * (1 - accuracy) / images)


def accuracy_difference(first: float, second: float, images: int) -> Interval:
    """Return Newcombe's interval of `first` − `second`, each an accuracy on the same images.

    Two models agree on many of the images, so the true interval is mostly narrower: accuracies
    that this interval tells apart are apart.

    Example:
        >>> [round(end, 3) for end in accuracy_difference(6 / 28, 4 / 28, 28)]
        [-0.134, 0.272]
    """
    low, high = accuracy_interval(first, images)
    other_low, other_high = accuracy_interval(second, images)
    difference = first - second
    return (
        difference - math.hypot(first - low, other_high - second),
        difference + math.hypot(high - first, second - other_low),
    )


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Return the interval of Student's t for the mean; None for fewer than two values.

    Example:
        >>> [round(end, 4) for end in mean_interval([0.01, 0.03])]
        [-0.1071, 0.1471]
    """
    from scipy.special import stdtrit  # here: pre-training needs none of it

    if len(values) < 2:
        return None
    n = len(values)
    mean = fmean(values)
    reach = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * stdev(values) / math.sqrt(n)
    return mean - reach, mean + reach


def excludes_zero(interval: Interval | None) -> bool:
    """Return True if the interval of a difference lies on one side of zero.

    Example:
        >>> excludes_zero((0.1, 0.3)), excludes_zero((-0.1, 0.3)), excludes_zero(None)
        (True, False, False)
    """
    return interval is not None and (interval[0] > 0 or interval[1] < 0)
