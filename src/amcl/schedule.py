"""Numbers over a run: the learning rate with its warm-up, and half cosines of others."""

import math
from typing import Literal

Schedule = Literal["cosine", "constant"]


def lr_factor(
    position: float,
    length: float,
    warmup: float = 0.0,
    schedule: Schedule = "cosine",
    final: float = 0.0,
) -> float:
    """Return the learning rate at a position of a run, as a share of its peak.

    Args:
        position: Position in the run, in epochs or steps.
        length: Length of the run, in the same unit.
        warmup: Length of the warm-up, over which the rate rises from 0 to its peak.
        schedule: After the warm-up, a half cosine down to `final`, or the peak throughout.
        final: The share of the peak at which the cosine ends.

    Returns:
        A share from 0 to 1.

    Example:
        >>> [round(lr_factor(step, 8, warmup=2), 2) for step in (0, 1, 2, 5, 8)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    warmup = min(warmup, length)
    if position < warmup:
        return position / warmup
    if schedule == "constant" or length == warmup:
        return 1.0
    progress = min((position - warmup) / (length - warmup), 1.0)
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))


def half_cosine(start: float, end: float, progress: float) -> float:
    """Return a number that moves from `start` to `end` along a half cosine.

    Args:
        start: Value at the start of training.
        end: Value at the end of training.
        progress: Share of the training that is done, from 0 to 1.

    Returns:
        The value.

    Example:
        >>> [round(half_cosine(0.04, 0.4, progress), 3) for progress in (0.0, 0.5, 1.0)]
        [0.04, 0.22, 0.4]
    """
    return end - (end - start) * 0.5 * (1.0 + math.cos(math.pi * progress))
