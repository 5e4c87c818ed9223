"""The built-in set: ten kinds of pattern whose color, position, scale and blur are random."""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F

from amcl.data.images import DataSet, Labeled, MemoryImages, Probe
from amcl.data.options import LoadOptions
from amcl.data.split import choose_subset
from amcl.seeds import generator as named_generator

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
_TRAIN = 2000
_QUERIES = 500
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
    """Draw 2,000 color images of 32 pixels in 10 classes, and 500 more to probe with.

    A class is a kind of pattern. Its two colors, its position, scale and slight rotation, a shade
    over the image, blur and noise are random: crop, color, blur and flip change nothing that tells
    the class. The set is the same in every run, whatever the seed.
    """
    train = _draw(_TRAIN, "train")
    queries = _draw(_QUERIES, "queries")
    mean, std = _statistics(train.images[torch.arange(_TRAIN)])
    return DataSet(
        name="builtin",
        train=train.images,
        probe=Probe(train, queries, CLASSES, "validation"),
        image_size=SIZE,
        mean=mean,
        std=std,
        notes=("patterns in random colors, positions and scales",),
    )


def load_builtin(options: LoadOptions) -> DataSet:
    """Return the built-in set with the options of `load_dataset`."""
    if options.probe == "test":
        raise ValueError("The built-in set has no test split: use probe='validation'.")
    data = builtin()
    options.check_canvas(data.train)
    options.check_pixels(data.train)
    if data.probe is None:
        raise RuntimeError("the built-in set has labels")
    bank = data.probe.bank.subset(choose_subset(data.probe.bank.labels, options.subset))
    probe = replace(data.probe, bank=bank) if options.uses_labels else None
    image_size = options.image_size or data.image_size
    labels = bank.labels if options.train_labels else None
    return replace(data, train=bank.images, labels=labels, probe=probe, image_size=image_size)


def _draw(n: int, split: str) -> Labeled:
    generator = named_generator("builtin", split)
    labels = torch.arange(n) % len(CLASSES)
    pixels = _colorize(_blur(_patterns(labels, generator), generator), generator)
    return Labeled(MemoryImages((pixels.clamp(0, 1) * 255).round().to(torch.uint8)), labels)


def _patterns(labels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw patterns (N, 1, 32, 32) in [0, 1]: 1 is foreground, 0 is background."""
    n = len(labels)

    def uniform(low: float, high: float) -> torch.Tensor:
        return (low + (high - low) * torch.rand(n, generator=generator)).view(n, 1, 1)

    # Coordinates in periods of the pattern: rotated a little, 3 to 9 periods an image, shifted.
    side = torch.linspace(-0.5, 0.5, SIZE)
    down, right = torch.meshgrid(side, side, indexing="ij")
    angle = uniform(-0.35, 0.35)
    periods = uniform(3.0, 9.0)
    is_aslant = (labels == CLASSES.index("stripes aslant")).view(n, 1, 1)
    to_the_left = torch.rand(n, 1, 1, generator=generator).lt(0.5)
    angle = angle + is_aslant * (to_the_left * (math.pi / 2) - math.pi / 4)
    y = periods * (down * angle.cos() - right * angle.sin()) + uniform(0, 1)
    x = periods * (down * angle.sin() + right * angle.cos()) + uniform(0, 1)
    # Rings and rays have a center, somewhere in the image.
    dy = down - uniform(-0.25, 0.25)
    dx = right - uniform(-0.25, 0.25)
    radius = (dy.square() + dx.square()).sqrt()
    polar_angle = torch.atan2(dy, dx)
    rays = (3 + 5 * torch.rand(n, 1, 1, generator=generator)).floor()
    clouds = F.interpolate(
        torch.randn(n, 1, 6, 6, generator=generator), size=SIZE, mode="bicubic", align_corners=True
    ).squeeze(1)

    def wave(t: torch.Tensor) -> torch.Tensor:
        return (2 * math.pi * t).sin()

    row = y.floor() % 2
    kinds = [  # in the order of CLASSES
        wave(y),
        wave(x),
        wave(y),
        wave(y + 0.35 * wave(x / 2)),
        wave(x / 2) * wave(y / 2) * 2,
        0.35 - torch.maximum(wave(x / 2).square(), wave(y / 2).square()),
        torch.minimum(wave(y / 2).abs(), wave(x / 4 + row / 4).abs()) - 0.35,
        wave(periods * radius),
        (rays * polar_angle).sin(),
        0.8 * clouds,
    ]
    values = torch.stack(kinds)[labels, torch.arange(n)]
    # Half of each image is foreground: the share of a color tells nothing of the class.
    values = values - values.flatten(1).median(1).values.view(n, 1, 1)
    return torch.sigmoid(6 * values).unsqueeze(1)


def _blur(patterns: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Blur each pattern by its own σ, up to a pixel."""
    n = len(patterns)
    sigma = 0.05 + torch.rand(n, 1, generator=generator)
    kernel = torch.exp(-0.5 * (torch.arange(-2.0, 3.0) / sigma).square())
    kernel = kernel / kernel.sum(1, keepdim=True)
    rows = F.pad(patterns, (2, 2, 2, 2), mode="replicate").view(1, n, SIZE + 4, SIZE + 4)
    rows = F.conv2d(rows, kernel.view(n, 1, 5, 1), groups=n)
    return F.conv2d(rows, kernel.view(n, 1, 1, 5), groups=n).view(n, 1, SIZE, SIZE)


def _colorize(patterns: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Give patterns (N, 1, 32, 32) two colors, a shade and noise. Returns (N, 3, 32, 32).

    There are few colors, so that they do not tell images apart; the two of an image differ in
    brightness, so that grayscale leaves the pattern visible.
    """
    n = len(patterns)
    gray = _PALETTE @ torch.tensor([0.299, 0.587, 0.114])
    pairs = ((gray[:, None] - gray[None]).abs() > 0.3).nonzero()
    foreground, background = pairs[torch.randint(len(pairs), (n,), generator=generator)].T
    start = _PALETTE[background].view(n, 3, 1, 1)
    end = _PALETTE[foreground].view(n, 3, 1, 1)
    colored = torch.lerp(start, end, patterns)
    corners = 0.2 * torch.rand(n, 1, 2, 2, generator=generator) - 0.1
    shade = F.interpolate(corners, size=SIZE, mode="bilinear", align_corners=True)
    return colored + shade + 0.05 * torch.randn(n, 3, SIZE, SIZE, generator=generator)


def _statistics(
    pixels: torch.Tensor,
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    channels = pixels.transpose(0, 1).flatten(1).double() / 255
    mean = channels.mean(1).tolist()
    std = channels.std(1).tolist()
    return (mean[0], mean[1], mean[2]), (std[0], std[1], std[2])
