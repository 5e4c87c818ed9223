"""Batches of decoded images, and the form in which worker processes send them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Batch:
    """The decoded images of one step.

    Args:
        pixels: uint8, uint16 or float32 (n, C, H, W).
        shapes: True heights and widths (n, 2) of the images; None if none was squashed.
        unreadable: Path and reason of each file that could not be read.
        positions: Positions (n,) within the step of the images that were read; None if all were.
        indices: Indices (n,) of the images in their set. A file that could not be read may have
            been replaced by another, whose index counts. None where they are not known.

    Example:
        >>> pixels = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
        >>> batch = Batch(pixels, None, [("b.png", "empty file")], positions=torch.tensor([0, 2]))
        >>> batch.select(torch.tensor([7, 8, 9]))
        tensor([7, 9])
    """

    pixels: torch.Tensor
    shapes: torch.Tensor | None
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    positions: torch.Tensor | None = None
    indices: torch.Tensor | None = None

    def select(self, values: torch.Tensor) -> torch.Tensor:
        """Return those of the step's values, such as labels, whose images were read."""
        return values if self.positions is None else values[self.positions]

    def pack(self) -> "PackedBatch":
        """Make the batch ready to be sent to another process."""
        return PackedBatch(
            in_shared_memory(self.pixels),
            _as_array(self.shapes),
            self.unreadable,
            _as_array(self.positions),
            _as_array(self.indices),
        )


class PackedPixels:
    """A batch in the form in which processes send it, whose pixels are in shared memory or not."""

    pixels: torch.Tensor | Array

    @property
    def is_shared(self) -> bool:
        """Return whether the pixels are in shared memory."""
        return isinstance(self.pixels, torch.Tensor)

    @property
    def nbytes(self) -> int:
        """Return the size of the pixels in bytes."""
        return self.pixels.nbytes


@dataclass(frozen=True)
class PackedBatch(PackedPixels):
    """A batch between two processes: pixels in shared memory or, if that is full, in the pipe.

    Shared memory spares a copy, but can be small: Docker gives a container 64 MB. Everything else
    is small and always goes through the pipe, which takes arrays: tensors need shared memory.
    """

    pixels: torch.Tensor | Array
    shapes: Array | None
    unreadable: list[tuple[str, str]]
    positions: Array | None
    indices: Array | None

    def unpack(self) -> Batch:
        """Return the batch that was packed."""
        return Batch(
            torch.as_tensor(self.pixels),
            _as_tensor(self.shapes),
            self.unreadable,
            _as_tensor(self.positions),
            _as_tensor(self.indices),
        )


def in_shared_memory(tensor: torch.Tensor) -> torch.Tensor | Array:
    """Return a tensor in memory that processes share, or where that is full an array."""
    try:
        # Not when it is sent: that is done by a thread whose errors nobody sees.
        shared: torch.Tensor = tensor.share_memory_()
        return shared
    except RuntimeError:
        array: Array = tensor.numpy()
        return array


def _as_array(tensor: torch.Tensor | None) -> Array | None:
    return None if tensor is None else tensor.numpy()


def _as_tensor(array: Array | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(array)
