"""Mean and standard deviation of the channels of a set, for sets that bring none."""

from contextlib import closing

import torch

from amcl.data.images import Images, PerChannel
from amcl.data.pixel_format import TOP, format_of
from amcl.data.stream import CHUNK, stream
from amcl.progress import Progress

MOST = 4096  # images that are measured


def measure(images: Images, *, workers: int = 0) -> tuple[PerChannel, PerChannel, int]:
    """Measure the mean and the standard deviation of each channel.

    Args:
        images: The images. Up to 4,096 of them, from all over the set, are measured.
        workers: Number of processes that decode files.

    Returns:
        The means and the standard deviations, for values in [0, 1], and the number of images that
        were measured. The deviation of a channel that is constant is 1.

    Example:
        >>> from amcl.data.images import MemoryImages
        >>> images = torch.tensor([0, 255], dtype=torch.uint8).expand(10, 1, 4, 2)
        >>> measure(MemoryImages(images))
        ((0.5,), (0.5,), 10)
    """
    indices = torch.linspace(0, len(images) - 1, min(len(images), MOST)).round().long()
    steps = indices.split(CHUNK)
    top = TOP[format_of(images.channels, images.dtype).type]
    sums = torch.zeros(2, images.channels, dtype=torch.float64)
    pixels = 0
    measured = 0
    batches = stream(images, steps, workers=min(workers, len(steps) - 1), replace=False)
    with closing(batches), Progress("measuring mean and deviation", len(indices)) as progress:
        for step, batch in zip(steps, batches, strict=True):
            for image in batch.pixels:
                values = image.flatten(1).double() / top
                sums += torch.stack([values.sum(1), values.square().sum(1)])
            measured += len(batch.pixels)
            pixels += batch.pixels[:, 0].numel()
            progress.advance(len(step))
    mean, square = sums / max(1, pixels)
    std = (square - mean.square()).clamp(min=0).sqrt()
    std[std < 1e-6] = 1
    return _rounded(mean), _rounded(std), measured


def _rounded(values: torch.Tensor) -> PerChannel:
    return tuple(float(f"{value:.6g}") for value in values.tolist())
