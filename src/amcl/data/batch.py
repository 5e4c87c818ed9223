"""A batch of decoded images, and how it travels from the process that decoded it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Batch:
    """Pixels uint8 (n, 3, H, W), true heights and widths (n, 2) unless none was squashed.

    `kept` are the places in the step that were read, where unreadable files left gaps.
    """

    pixels: torch.Tensor
    shapes: torch.Tensor | None
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    kept: torch.Tensor | None = None

    def of(self, values: torch.Tensor) -> torch.Tensor:
        """Those of the step's values, such as labels, whose images were read."""
        return values if self.kept is None else values[self.kept]


Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Parcel:
    """A batch on its way: pixels in shared memory or, where that is full, through the pipe.

    Shared memory spares a copy, but can be small: Docker gives a container 64 MB. Everything else
    is small and always goes through the pipe.
    """

    pixels: torch.Tensor | Array
    shapes: Array | None
    unreadable: list[tuple[str, str]]
    kept: Array | None

    @staticmethod
    def of(batch: Batch) -> "Parcel":
        pixels: torch.Tensor | Array
        try:
            # Here, not when it is sent: that is done by a thread whose errors nobody sees.
            pixels = batch.pixels.share_memory_()
        except RuntimeError:
            pixels = batch.pixels.numpy()
        shapes = None if batch.shapes is None else batch.shapes.numpy()
        kept = None if batch.kept is None else batch.kept.numpy()
        return Parcel(pixels, shapes, batch.unreadable, kept)

    @property
    def shared(self) -> bool:
        """Return whether there was room in shared memory."""
        return isinstance(self.pixels, torch.Tensor)

    def open(self) -> Batch:
        """The batch, as it was sent."""
        return Batch(
            torch.as_tensor(self.pixels),
            None if self.shapes is None else torch.from_numpy(self.shapes),
            self.unreadable,
            None if self.kept is None else torch.from_numpy(self.kept),
        )
