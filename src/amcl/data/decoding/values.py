"""Ranges of the values in images: bits in use, least and greatest values."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEPTHS = (8, 10, 12, 14, 16)  # bits that cameras and microscopes have
_SCALES = (4, 257)  # factors by which 14 and 8 bits are scaled up to 16


def count_values(parts: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    """Return how often each value of 16 bits occurs."""
    counts = np.zeros(2**16, dtype=np.int64)
    for part in parts:
        counts += np.bincount(part.ravel(), minlength=2**16)
    return counts


def depth_in_use(largest: int, count: Callable[[], NDArray[np.int64]]) -> int:
    """Return the number of bits that values of 16 bits make use of.

    Values that are all multiples of 4 or of 257 have been scaled up to 16 bits. Others, a camera's
    or a microscope's, have the smallest of the usual depths that holds the largest of them.

    Args:
        largest: The largest value.
        count: Function that returns how often each value occurs; called if that matters.
    """
    depth = next(depth for depth in DEPTHS if largest < 2**depth)
    if depth < 16 and _is_scaled_up(count()):
        return 16
    return depth


def _is_scaled_up(counts: NDArray[np.int64]) -> bool:
    levels = np.flatnonzero(counts)
    return len(levels) > 2 and any(not (levels % step).any() for step in _SCALES)


def check_finite(values: NDArray[Any]) -> None:
    """Raise an error if any value is infinite or not a number."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError("pixels that are not finite numbers")
