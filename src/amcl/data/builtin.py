"""The built-in set: ten kinds of pattern, drawn where color, place, scale and blur say nothing."""

import math

import torch
import torch.nn.functional as F

from amcl.data.images import DataSet, Labeled, MemoryImages, Probe
from amcl.seeds import generator

SIZE = 32
CLASSES = (
    "stripes across",
    "stripes upright",
    "stripes aslant",
    "waves",
    "checks",
    "dots",
    "bricks",
    "rings",
    "rays",
    "clouds",
)
_TRAIN, _QUERIES = 2000, 500
_PALETTE = torch.tensor(
    [
        (0.15, 0.15, 0.20),
        (0.90, 0.90, 0.85),
        (0.75, 0.15, 0.15),
        (0.95, 0.75, 0.20),
        (0.15, 0.45, 0.20),
        (0.55, 0.85, 0.60),
        (0.15, 0.25, 0.65),
        (0.55, 0.75, 0.95),
    ]
)


def builtin() -> DataSet:
    """2,000 color images of 32 pixels in 10 classes, and 500 more to probe with. All are drawn.

    A class is a kind of pattern. Its two colors, its place, scale and slight turn, a shade over
    the image, blur and noise are random: crop, color, blur and flip change nothing that tells the
    class. The set is the same in every run, whatever the seed.
    """
    train, queries = _draw(_TRAIN, "train"), _draw(_QUERIES, "queries")
    mean, std = _statistics(train.images[torch.arange(_TRAIN)])
    return DataSet(
        name="builtin",
        train=train.images,
        probe=Probe(train, queries, CLASSES, "validation"),
        image_size=SIZE,
        mean=mean,
        std=std,
        notes=("patterns in random colors, places and scales",),
    )


def _draw(n: int, part: str) -> Labeled:
    chance = generator("builtin", part)
    labels = torch.arange(n) % len(CLASSES)
    pixels = _colored(_blurred(_patterns(labels, chance), chance), chance)
    return Labeled(MemoryImages((pixels.clamp(0, 1) * 255).round().to(torch.uint8)), labels)


def _patterns(labels: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Patterns (N, 1, 32, 32) in [0, 1]: 1 is ink, 0 is ground."""
    n = len(labels)

    def uniform(low: float, high: float) -> torch.Tensor:
        return (low + (high - low) * torch.rand(n, generator=chance)).view(n, 1, 1)

    # Coordinates in periods of the pattern: turned a little, 3 to 6 periods an image, moved.
    side = torch.linspace(-0.5, 0.5, SIZE)
    down, right = torch.meshgrid(side, side, indexing="ij")
    angle, periods = uniform(-0.35, 0.35), uniform(3.0, 9.0)
    aslant = (labels == CLASSES.index("stripes aslant")).view(n, 1, 1)
    left = torch.rand(n, 1, 1, generator=chance).lt(0.5)
    angle = angle + aslant * (left * (math.pi / 2) - math.pi / 4)
    y = periods * (down * angle.cos() - right * angle.sin()) + uniform(0, 1)
    x = periods * (down * angle.sin() + right * angle.cos()) + uniform(0, 1)
    # Rings and rays have a middle, somewhere in the image.
    dy, dx = down - uniform(-0.25, 0.25), right - uniform(-0.25, 0.25)
    radius, turn = (dy.square() + dx.square()).sqrt(), torch.atan2(dy, dx)
    rays = (3 + 5 * torch.rand(n, 1, 1, generator=chance)).floor()
    clouds = F.interpolate(
        torch.randn(n, 1, 6, 6, generator=chance), size=SIZE, mode="bicubic", align_corners=True
    ).squeeze(1)

    def wave(t: torch.Tensor) -> torch.Tensor:
        return (2 * math.pi * t).sin()

    row = y.floor() % 2
    kinds = [
        wave(y),
        wave(x),
        wave(y),
        wave(y + 0.35 * wave(x / 2)),
        wave(x / 2) * wave(y / 2) * 2,
        0.35 - torch.maximum(wave(x / 2).square(), wave(y / 2).square()),
        torch.minimum(wave(y / 2).abs(), wave(x / 4 + row / 4).abs()) - 0.35,
        wave(periods * radius),
        (rays * turn).sin(),
        0.8 * clouds,
    ]
    values = torch.stack(kinds)[labels, torch.arange(n)]
    # Half of each image is ink: how much of a color there is tells nothing of the class.
    values = values - values.flatten(1).median(1).values.view(n, 1, 1)
    return torch.sigmoid(6 * values).unsqueeze(1)


def _blurred(patterns: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Each pattern blurred by its own σ, up to a pixel."""
    n = len(patterns)
    sigma = 0.05 + torch.rand(n, 1, generator=chance)
    kernel = torch.exp(-0.5 * (torch.arange(-2.0, 3.0) / sigma).square())
    kernel = kernel / kernel.sum(1, keepdim=True)
    rows = F.pad(patterns, (2, 2, 2, 2), mode="replicate").view(1, n, SIZE + 4, SIZE + 4)
    rows = F.conv2d(rows, kernel.view(n, 1, 5, 1), groups=n)
    return F.conv2d(rows, kernel.view(n, 1, 1, 5), groups=n).view(n, 1, SIZE, SIZE)


def _colored(patterns: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Patterns (N, 1, 32, 32) in two colors, under a shade, with noise. Returns (N, 3, 32, 32).

    There are few colors, so that they do not tell images apart; the two of an image differ in
    brightness, so that grayscale leaves the pattern visible.
    """
    n = len(patterns)
    gray = _PALETTE @ torch.tensor([0.299, 0.587, 0.114])
    pairs = ((gray[:, None] - gray[None]).abs() > 0.3).nonzero()
    ink, ground = pairs[torch.randint(len(pairs), (n,), generator=chance)].T
    two = torch.lerp(_PALETTE[ground].view(n, 3, 1, 1), _PALETTE[ink].view(n, 3, 1, 1), patterns)
    corners = 0.2 * torch.rand(n, 1, 2, 2, generator=chance) - 0.1
    shade = F.interpolate(corners, size=SIZE, mode="bilinear", align_corners=True)
    return two + shade + 0.05 * torch.randn(n, 3, SIZE, SIZE, generator=chance)


def _statistics(
    pixels: torch.Tensor,
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    channels = pixels.transpose(0, 1).flatten(1).double() / 255
    mean, std = channels.mean(1).tolist(), channels.std(1).tolist()
    return (mean[0], mean[1], mean[2]), (std[0], std[1], std[2])
