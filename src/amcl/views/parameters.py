"""Random parameters of the views of each image."""

from dataclasses import dataclass, fields

import torch

from amcl.views.boxes import iou, overlap


@dataclass(frozen=True)
class ViewParameters:
    """Random parameters of V views of n images; `Views.draw` makes them.

    Example:
        >>> from amcl.views import Views
        >>> parameters = Views(32).draw(8, generator=torch.Generator().manual_seed(0))
        >>> len(parameters), len(parameters.rows(0, 4)), parameters.first().flip.shape
        (8, 4, torch.Size([1, 8]))
    """

    boxes: torch.Tensor
    """Crops as fractions of the image, (V, n, 4): top, left, height, width."""
    flip: torch.Tensor
    """True where the view is mirrored, (V, n)."""
    jitter: torch.Tensor
    """Factors of brightness, contrast, saturation, and the shift of hue, (V, n, 4)."""
    order: torch.Tensor
    """Index of the first, second, third and last of these four, (V, n, 4)."""
    gray: torch.Tensor
    """True where the colors are dropped, (V, n)."""
    sigma: torch.Tensor
    """σ of the blur, 0 for none, (V, n)."""
    solarize: torch.Tensor
    """True where the view is solarized, (V, n)."""
    dropped: torch.Tensor
    """True for channels that become their mean, (V, n, C)."""
    noise: torch.Tensor
    """σ of the noise in standard deviations of each channel, 0 for none, (V, n)."""
    noise_seed: torch.Tensor
    """Seed of the noise, (V, n)."""

    def __len__(self) -> int:
        return self.boxes.shape[1]

    def rows(self, start: int, stop: int) -> "ViewParameters":
        """Return those of images start … stop − 1, the part of a rank or of a micro-batch."""
        return ViewParameters(*(value[:, start:stop] for value in self._values()))

    def first(self) -> "ViewParameters":
        """Return those of the first view alone: V is 1."""
        return ViewParameters(*(value[:1] for value in self._values()))

    def to(self, device: torch.device | str) -> "ViewParameters":
        """Return the same on another device."""
        return ViewParameters(*(value.to(device) for value in self._values()))

    def overlap(self) -> torch.Tensor:
        """Return the area that the two crops share over that of the smaller, (n,)."""
        return overlap(*self.boxes)

    def iou(self) -> torch.Tensor:
        """Return the area that the two crops share over that of their union, (n,)."""
        return iou(*self.boxes)

    def _values(self) -> list[torch.Tensor]:
        return [getattr(self, field.name) for field in fields(self)]
