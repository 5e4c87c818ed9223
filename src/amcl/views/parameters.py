"""Random parameters of the views of each image."""

from dataclasses import dataclass, fields

import torch

from amcl.views.boxes import overlap


@dataclass(frozen=True)
class ViewParameters:
    """Random parameters of V views of n images; `Views.draw` makes them."""

    boxes: torch.Tensor
    """Crops as fractions of the image, (V, n, 4): top, left, height, width."""
    flip: torch.Tensor
    """True where the view is mirrored, (V, n)."""
    jitter: torch.Tensor
    """Factors of brightness, contrast, saturation, and the shift of hue, (V, n, 4)."""
    order: torch.Tensor
    """Which of these four comes first, second, third, last, (V, n, 4)."""
    gray: torch.Tensor
    """True where the colors are dropped, (V, n)."""
    sigma: torch.Tensor
    """σ of the blur, 0 for none, (V, n)."""
    solarize: torch.Tensor
    """True where the view is solarized, (V, n)."""

    def __len__(self) -> int:
        return self.boxes.shape[1]

    def rows(self, start: int, stop: int) -> "ViewParameters":
        """Those of images start … stop − 1: the part of a rank or of a micro-batch."""
        return self.of(slice(start, stop))

    def of(self, images: slice) -> "ViewParameters":
        """Those of a slice of the images."""
        return ViewParameters(*(value[:, images] for value in self._values()))

    def first(self) -> "ViewParameters":
        """Those of the first view alone: leading dimensions of 1."""
        return ViewParameters(*(value[:1] for value in self._values()))

    def to(self, device: torch.device | str) -> "ViewParameters":
        """The same on another device."""
        return ViewParameters(*(value.to(device) for value in self._values()))

    def overlap(self) -> torch.Tensor:
        """The area the two crops share, over that of the smaller, (n,)."""
        return overlap(*self.boxes)

    def _values(self) -> list[torch.Tensor]:
        return [getattr(self, field.name) for field in fields(self)]
