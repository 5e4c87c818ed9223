"""Random crop boxes of each image.

A box is (top, left, height, width) in fractions of the image's sides.
"""

import math
from dataclasses import dataclass, replace

import torch

Range = tuple[float, float]
_ATTEMPTS = 10  # as torchvision's RandomResizedCrop
_ROUNDS = 20
_ROUNDING = 1e-6


def full_boxes(n: int) -> torch.Tensor:
    """Return boxes (n, 4) that are all of the image."""
    return torch.tensor([0.0, 0.0, 1.0, 1.0]).repeat(n, 1)


def central_boxes(n: int, shapes: torch.Tensor | None, share: float) -> torch.Tensor:
    """Return square boxes in the center, (n, 4).

    Args:
        n: Number of images.
        shapes: True heights and widths (n, 2); None for square images.
        share: Share of the shorter side that a box takes.

    Returns:
        The boxes, (n, 4).

    Example:
        >>> central_boxes(1, torch.tensor([[100, 200]]), share=0.8)
        tensor([[0.1000, 0.3000, 0.8000, 0.4000]])
    """
    sides = torch.ones(n, 2) if shapes is None else shapes.float()
    size = share * sides.min(1, keepdim=True).values / sides
    return torch.cat([(1 - size) / 2, size], 1)


def overlap(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the area that two boxes (…, 4) share over that of the smaller: 1 if it is inside."""
    return _shared(first, second) / torch.minimum(first[..., 2:].prod(-1), second[..., 2:].prod(-1))


def iou(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the area that two boxes (…, 4) share over that of their union.

    >>> whole = torch.tensor([0.0, 0.0, 1.0, 1.0])
    >>> iou(whole, torch.tensor([0.5, 0.5, 0.5, 0.5]))
    tensor(0.2500)
    """
    shared = _shared(first, second)
    return shared / (first[..., 2:].prod(-1) + second[..., 2:].prod(-1) - shared)


@dataclass(frozen=True)
class BoxSampler:
    """Draws random boxes for N images.

    Args:
        shapes: Heights and widths (N, 2).
        scale: Least and greatest area of a box, as a fraction of the image.
        ratio: Least and greatest width / height of a box, in the true shape of the image.
        generator: Source of randomness.
    """

    shapes: torch.Tensor
    scale: Range
    ratio: Range
    generator: torch.Generator

    def boxes(self) -> torch.Tensor:
        """Draw a box for each image, (N, 4), as torchvision's RandomResizedCrop does.

        Its area is uniform in `scale`, the logarithm of its width / height in that of `ratio`, its
        position in the image; where no attempt fits, it is the largest central one within
        `ratio`. Sides are not rounded to pixels.
        """
        size, fits = self._sizes()
        position = torch.rand(len(size), 2, generator=self.generator)
        return torch.cat([torch.where(fits[:, None], position, 0.5) * (1 - size), size], -1)

    def pair(self, min_overlap: float = 0.0) -> torch.Tensor:
        """Draw two boxes for each image, (2, N, 4), that overlap by at least `min_overlap`.

        Pairs that overlap less are drawn again, both boxes. Those that never fit become two boxes
        of one size, shifted to an overlap that is uniform from `min_overlap` to 1.
        """
        pair = torch.stack([self.boxes(), self.boxes()])
        for _ in range(_ROUNDS):
            short = _rows(overlap(*pair) < min_overlap - _ROUNDING)
            if not len(short):
                return pair
            sampler = replace(self, shapes=self.shapes[short])
            pair[:, short] = torch.stack([sampler.boxes(), sampler.boxes()])
        short = _rows(overlap(*pair) < min_overlap - _ROUNDING)
        shared = torch.rand(len(short), generator=self.generator)
        shared = min_overlap + (1 - min_overlap) * shared
        pair[:, short] = _shifted(pair[0, short, 2:], shared, self.generator)
        return pair

    def pair_with_overlap(self, shared: float) -> torch.Tensor:
        """Draw two boxes for each image, (2, N, 4), of one size, that overlap by exactly `shared`.

        The size is drawn as in `boxes`, and again if the image has no room to move two boxes of
        that size so far apart. The position is random, either box to either side of the other.
        """
        size, _ = self._sizes()
        for _ in range(_ROUNDS):
            large = _rows(_least_shares(size).prod(-1) > shared)
            if not len(large):
                break
            size[large], _ = replace(self, shapes=self.shapes[large])._sizes()
        large = _rows(_least_shares(size).prod(-1) > shared)
        size[large] = _easiest_sizes(self.shapes[large], self.scale, self.ratio)
        least = _least_shares(size).prod(-1)
        if (least > shared + _ROUNDING).any():
            raise ValueError(
                f"overlap = {shared} is out of reach: crops of crop_scale = {self.scale} share "
                f"{least.max():.2f} at least. Lower crop_scale's first value or raise overlap."
            )
        return _shifted(size, torch.full((len(size),), shared), self.generator)

    def _sizes(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return heights and widths (N, 2) of boxes, and True (N,) where a random one fits."""
        area, log_ratio = torch.rand(2, len(self.shapes), _ATTEMPTS, generator=self.generator)
        area = self.scale[0] + (self.scale[1] - self.scale[0]) * area
        low, high = map(math.log, self.ratio)
        squash = _squash(self.shapes)
        sizes = _sides(area, (low + (high - low) * log_ratio).exp() * squash)
        fits = (sizes <= 1).all(-1)
        chosen = sizes[torch.arange(len(sizes)), fits.to(torch.uint8).argmax(-1)]
        nearest = torch.ones_like(squash).clamp(self.ratio[0] * squash, self.ratio[1] * squash)
        central = torch.cat([1 / nearest, nearest], -1).clamp_max(1)
        fits = fits.any(-1)
        return torch.where(fits[:, None], chosen, central), fits


def least_overlap(scale: Range, ratio: Range) -> float:
    """Return the least overlap that two boxes of one size can have in a square image."""
    return _least_shares(_easiest_sizes(torch.ones(1, 2), scale, ratio)).prod().item()


def _shared(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    start = torch.maximum(first[..., :2], second[..., :2])
    end = torch.minimum(first[..., :2] + first[..., 2:], second[..., :2] + second[..., 2:])
    return (end - start).clamp_min(0).prod(-1)


def _rows(mask: torch.Tensor) -> torch.Tensor:
    return mask.nonzero().squeeze(1)


def _squash(shapes: torch.Tensor) -> torch.Tensor:
    """Return the factors (N, 1) from width / height in pixels to the same in fractions."""
    return (shapes[:, :1] / shapes[:, 1:]).float()


def _sides(area: torch.Tensor | float, ratio: torch.Tensor) -> torch.Tensor:
    """Return height and width of boxes (…, 2) from area and width / height in fractions."""
    return torch.stack([(area / ratio).sqrt(), (area * ratio).sqrt()], -1)


def _least_shares(size: torch.Tensor) -> torch.Tensor:
    """Return the least share of its length that a stretch has in common with an equal one."""
    return (2 - 1 / size).clamp_min(0)


def _easiest_sizes(shapes: torch.Tensor, scale: Range, ratio: Range) -> torch.Tensor:
    """Return the sizes (N, 2) of the least possible overlap: of least area, as long as fits."""
    ends = (_squash(shapes) * torch.tensor(ratio)).clamp(scale[0], 1 / scale[0])
    sizes = _sides(scale[0], ends)
    easier = _least_shares(sizes).prod(-1).argmin(-1)
    return sizes[torch.arange(len(shapes)), easier].clamp_max(1)


def _shifted(size: torch.Tensor, shared: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return two boxes (2, N, 4) of one size (N, 2) that overlap by `shared` (N,), or the least.

    The overlap is the product of what they share along each side: x = xᵗ · x¹⁻ᵗ, with t uniform
    where the image has room for both shifts.
    """
    least = _least_shares(size)
    shared = torch.maximum(shared, least.prod(-1))
    log_shared = shared.log().clamp_max(-_ROUNDING)
    most = (least.log() / log_shared[:, None]).clamp(0, 1)
    t, side, position = torch.rand(3, len(size), 2, generator=generator)
    t = most[:, 0].lerp(1 - most[:, 1], t[:, 0])
    shares = shared[:, None] ** torch.stack([t, 1 - t], -1)
    room = 1 - size
    shift = torch.minimum((1 - shares) * size, room)
    start = position * (room - shift)
    end = start + shift
    first = torch.where(side < 0.5, start, end)
    second = start + end - first
    return torch.stack([torch.cat([corner, size], -1) for corner in (first, second)])
