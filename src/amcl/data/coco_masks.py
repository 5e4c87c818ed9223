"""Masks of objects, polygons and run lengths, as COCO's files have them."""

import importlib
from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from amcl.errors import RunError
from amcl.extras import missing, needed

Rle = dict[str, Any]
"""Run lengths of a mask, column by column: {"size": [height, width], "counts": bytes}."""

_FAR = 10**6  # pixels: a coordinate beyond is a mistake, and integers in C would overflow
_OVERSHOOT = 2  # size of a polygon, at most, as a multiple of that of its image
_LONGEST_OUTLINE = 1 << 23  # pixels: each takes 80 bytes in C


def require_coco_evaluator(what: str) -> None:
    """Raise an error that says what to install, if faster-coco-eval is missing.

    Args:
        what: The thing that needs it.

    Raises:
        RunError: It is not installed.
    """
    if missing("faster_coco_eval"):
        raise RunError(needed(what, "faster-coco-eval", "detection"))


def _functions() -> Any:
    """Return the functions of COCO's mask library, which is loaded at its first use."""
    require_coco_evaluator("reading masks of objects")
    return importlib.import_module("faster_coco_eval.core.mask")


def dense_masks(masks: Sequence[Rle], size: tuple[int, int]) -> Tensor:
    """Return masks as images of zeros and ones.

    Args:
        masks: Run lengths of n masks.
        size: Height and width of their image.

    Returns:
        uint8 (n, H, W).

    Example:
        >>> dense_masks([{"size": [2, 3], "counts": b"132"}], (2, 3))
        tensor([[[0, 1, 0],
                 [1, 1, 0]]], dtype=torch.uint8)
    """
    for mask in masks:
        if tuple(mask["size"]) != tuple(size):
            raise ValueError(f"a mask of {mask['size']} does not fit an image of {list(size)}.")
    if not masks:
        return torch.zeros(0, *size, dtype=torch.uint8)
    pixels = _functions().decode(list(masks))  # (H, W, n)
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


def run_lengths(masks: Tensor) -> list[Rle]:
    """Return the run lengths of masks, from which `dense_masks` makes the same masks.

    Args:
        masks: Masks (n, H, W); what is not 0 belongs to the object.

    Returns:
        Run lengths of n masks.

    Example:
        >>> run_lengths(torch.tensor([[[0, 1, 0], [1, 1, 0]]]))
        [{'size': [2, 3], 'counts': b'132'}]
    """
    if not len(masks):
        return []
    pixels = (masks != 0).to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    encoded: list[Rle] = _functions().encode(np.asfortranarray(pixels))
    return encoded


def mask_areas(masks: Sequence[Rle]) -> NDArray[np.float64]:
    """Return the number of pixels of each mask.

    >>> mask_areas([{"size": [2, 3], "counts": b"132"}])
    array([3.])
    """
    return np.array(_functions().area(list(masks)) if masks else [], np.float64)


class Segmentations:
    """Masks of many objects in four arrays, which worker processes share.

    Polygons stay what they are until `rle` is asked for one of them.
    """

    def __init__(
        self,
        numbers: NDArray[np.float64],
        ring_ends: NDArray[np.int64],
        rings: NDArray[np.int64],
        counts: NDArray[np.uint8],
        count_ends: NDArray[np.int64],
    ) -> None:
        self._numbers = numbers  # x and y of all polygons
        self._ring_ends = ring_ends  # the end of each polygon in the numbers, after a 0
        self._rings = rings  # the end of each object in the polygons, after a 0
        self._counts = counts  # compressed run lengths
        self._count_ends = count_ends  # the end of each object in the run lengths, after a 0

    def rle(self, index: int, size: tuple[int, int]) -> Rle:
        """Return the run lengths of an object.

        Args:
            index: The object.
            size: Height and width of its image.

        Returns:
            Run lengths; an object without a polygon of three points has no pixels.
        """
        height, width = size
        start, stop = self._count_ends[index : index + 2]
        if start < stop:
            return {"size": [height, width], "counts": self._counts[start:stop].tobytes()}
        functions = _functions()
        first, last = self._rings[index : index + 2]
        ends = self._ring_ends[first : last + 1].tolist()
        rings = [self._numbers[a:b].tolist() for a, b in pairwise(ends)]
        if not rings:
            empty = {"size": [height, width], "counts": [height * width]}
            merged: Rle = functions.frPyObjects(empty, height, width)
        else:
            merged = functions.merge(functions.frPyObjects(rings, height, width))
        return merged

    def parts(self) -> list[memoryview]:
        """Return the bytes of all arrays, for a fingerprint."""
        arrays = (self._numbers, self._ring_ends, self._rings, self._counts, self._count_ends)
        return [values.data for values in arrays]


class SegmentationReader:
    """Checks the segmentations of a file one after the other, and packs them."""

    def __init__(self) -> None:
        self._numbers = array("d")
        self._ring_ends = array("q", [0])
        self._rings = array("q", [0])
        self._counts = bytearray()
        self._count_ends = array("q", [0])

    def add(self, value: Any, size: tuple[int, int]) -> None:
        """Add the segmentation of the next object.

        Args:
            value: Polygons, run lengths as a list or as text; None or an empty list for none.
            size: Height and width of its image.

        Raises:
            ValueError: It is none of these; the message is the end of a sentence.
        """
        if isinstance(value, dict):
            self._counts += _compressed(value, size)
        elif isinstance(value, list):
            for ring in value:
                self._add_ring(ring, size)
        elif value is not None:
            raise ValueError(f"its segmentation is {value!r:.60} instead of polygons or an RLE")
        self._rings.append(len(self._ring_ends) - 1)
        self._count_ends.append(len(self._counts))

    def _add_ring(self, ring: Any, size: tuple[int, int]) -> None:
        if not isinstance(ring, list) or len(ring) % 2:
            raise ValueError(
                f"its segmentation has {ring!r:.60} instead of a polygon [x, y, x, y, …]"
            )
        try:
            if len(ring) < 6:  # no pixels; four numbers would be taken for a box
                array("d", ring)
                return
            low, high = min(ring), max(ring)
            if not -_FAR <= low <= high <= _FAR:
                raise ValueError(
                    f"its polygon has the coordinate {low if low < -_FAR else high:g}: "
                    "coordinates are in pixels"
                )
            self._numbers.extend(ring)
        except TypeError:
            raise ValueError("its polygon has something else than numbers") from None
        except OverflowError:  # a whole number that no float holds
            raise ValueError("its polygon has a coordinate beyond any image") from None
        if (high - low) * len(ring) > _LONGEST_OUTLINE:  # as long as it could be at most
            points = np.array(ring).reshape(-1, 2)
            length = np.abs(points - np.roll(points, 1, axis=0)).max(1).sum()
            if length > _LONGEST_OUTLINE:
                raise ValueError(f"its polygon has an outline of {length:,.0f} pixels")
        if high - low > min(size):  # else it fits
            _check_extent(ring, size)
        self._ring_ends.append(len(self._numbers))

    def finish(self) -> Segmentations:
        """Return the segmentations."""
        return Segmentations(
            np.frombuffer(self._numbers),
            np.frombuffer(self._ring_ends, np.int64),
            np.frombuffer(self._rings, np.int64),
            np.frombuffer(self._counts, np.uint8),
            np.frombuffer(self._count_ends, np.int64),
        )


def _check_extent(ring: list[float], size: tuple[int, int]) -> None:
    """Raise an error if a polygon is much larger than its image: some points may be outside."""
    height, width = size
    wide, high = (max(ring[axis::2]) - min(ring[axis::2]) for axis in (0, 1))
    if wide > _OVERSHOOT * width + 1 or high > _OVERSHOOT * height + 1:
        raise ValueError(
            f"its mask, a polygon, is {wide:,.0f} × {high:,.0f} pixels large and its image "
            f"{width} × {height}: it may be of the image before that was resized"
        )


def _compressed(value: dict[str, Any], size: tuple[int, int]) -> bytes:
    """Return the compressed run lengths of an RLE that covers its image exactly.

    Code in C reads and writes beyond its memory for some of those that do not.
    """
    height, width = size
    given, counts = value.get("size"), value.get("counts")
    if (
        not isinstance(given, list)
        or len(given) != 2
        or any(type(side) is not int for side in given)
    ):
        raise ValueError(f"the size of its mask is {given!r:.60} instead of [height, width]")
    if given != [height, width]:
        raise ValueError(
            f"its mask has {given[1]} × {given[0]} pixels and its image {width} × {height}: both "
            "must be of one size, width × height"
        )
    if isinstance(counts, list):
        if any(type(run) is not int or run < 0 for run in counts):
            raise ValueError("the counts of its mask are not all whole numbers from 0")
        if sum(counts) != height * width:
            raise ValueError(_wrong_sum(sum(counts), height * width))
        rle = {"size": [height, width], "counts": counts}
        compressed: bytes = _functions().frPyObjects(rle, height, width)["counts"]
        return compressed
    if not isinstance(counts, str):
        raise ValueError(f"the counts of its mask are {counts!r:.60} instead of a list or text")
    text = counts.encode(errors="replace")
    runs = _decompressed(text)
    if runs is None or (runs < 0).any() or (runs > height * width).any():
        raise ValueError("the counts of its mask are no compressed RLE")
    if runs.sum() != height * width:
        raise ValueError(_wrong_sum(int(runs.sum()), height * width))
    return text


def _wrong_sum(found: int, expected: int) -> str:
    return f"the counts of its mask add up to {found} instead of {expected} pixels"


def _decompressed(text: bytes) -> NDArray[np.int64] | None:
    """Return the run lengths in a compressed text; None if it is no such text.

    A number is written in groups of 5 bits, the lowest first, one to a character; bit 5 says that
    there are more. From the fourth on, it is the difference to the last but one.
    """
    codes = np.frombuffer(text, np.uint8).astype(np.int64) - 48
    if not len(codes) or codes.min() < 0 or codes.max() > 63 or codes[-1] & 32:
        return None
    ends = np.flatnonzero((codes & 32) == 0)
    starts = np.concatenate([[0], ends[:-1] + 1])
    if (ends - starts).max() > 6:  # more than 35 bits
        return None
    position = np.arange(len(codes)) - np.repeat(starts, ends - starts + 1)
    values: NDArray[np.int64] = np.add.reduceat((codes & 31) << (5 * position), starts)
    negative = (codes[ends] & 16) != 0
    values = values - (negative.astype(np.int64) << (5 * (ends - starts + 1)))
    values[1::2] = values[1::2].cumsum()
    values[2::2] = values[2::2].cumsum()
    return values
