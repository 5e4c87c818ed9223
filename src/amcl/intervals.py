"""How far a number is from what it estimates: 95 % intervals of accuracies and of differences."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

Interval = tuple[float, float]
CONFIDENCE = 0.95
_Z = 1.959964  # of the standard normal distribution, for that confidence


def standard_error(accuracy: float, images: int) -> float:
    """The binomial standard error of an accuracy on so many images.

    >>> round(standard_error(0.5, 100), 3)
    0.05
    """
    return math.sqrt(accuracy * (1 - accuracy) / images)


def accuracy_interval(accuracy: float, images: int) -> Interval:
    """Wilson's binomial interval of an accuracy: how it could come out on other images.

    >>> [round(end, 3) for end in accuracy_interval(5 / 28, 28)]
    [0.079, 0.356]
    """
    spread = _Z**2 / images
    middle = (accuracy + spread / 2) / (1 + spread)
    reach = math.sqrt(spread * accuracy * (1 - accuracy) + spread**2 / 4) / (1 + spread)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def accuracy_difference(first: float, second: float, images: int) -> Interval:
    """Newcombe's interval of `first` − `second`, each an accuracy on so many images.

    Two models on the same images agree on many of them, so the true interval is mostly narrower:
    what this tells apart is apart.

    >>> [round(end, 3) for end in accuracy_difference(6 / 28, 4 / 28, 28)]
    [-0.134, 0.272]
    """
    (low, high), (other_low, other_high) = (
        accuracy_interval(accuracy, images) for accuracy in (first, second)
    )
    difference = first - second
    return (
        difference - math.hypot(first - low, other_high - second),
        difference + math.hypot(high - first, second - other_low),
    )


def mean_interval(values: Sequence[float]) -> Interval | None:
    """The interval of Student's t for the mean of these values; None for fewer than two.

    >>> [round(end, 4) for end in mean_interval([0.01, 0.03])]
    [-0.1071, 0.1471]
    """
    from scipy.special import stdtrit  # here: pre-training needs none of it

    if len(values) < 2:
        return None
    n, mean = len(values), fmean(values)
    reach = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * stdev(values) / math.sqrt(n)
    return mean - reach, mean + reach


def excludes_zero(interval: Interval | None) -> bool:
    """Whether an interval of a difference says that there is one.

    >>> excludes_zero((0.1, 0.3)), excludes_zero((-0.1, 0.3)), excludes_zero(None)
    (True, False, False)
    """
    return interval is not None and (interval[0] > 0 or interval[1] < 0)
