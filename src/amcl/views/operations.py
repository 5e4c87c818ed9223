"""The operations of a view as pure functions on batches, with parameters of their own per image.

Images are (C, N, H, W), float32, where 0 … 1 is the range of stored integers: a contiguous plane a
channel, so that color operations run over long stretches of memory. Each operation on RGB gives,
image by image, what torchvision's of that name gives, and an image's result does not depend on the
rest of the batch. Parameters may stay on the CPU while the images are elsewhere: choosing images
there waits for no other device.

They are written by hand because they measure at least twice as fast on a CPU as kornia's
(`benchmarks/results/views.md`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
_GRAY = (0.2989, 0.587, 0.114)  # ITU-R BT.601, to torchvision's digits
_TOUCH = 1e-3  # of a pixel: below it, a box that ends on a pixel's border does not touch the next
_THINNEST = 4 * _TOUCH  # of a pixel: a thinner stretch might touch no pixel at all


def planes(images: torch.Tensor) -> torch.Tensor:
    """Turn stored images (N, C, H, W) into float32 planes (C, N, H, W).

    The largest integer of uint8 and uint16 becomes 1; float32 stays as it is.
    """
    x = images.transpose(0, 1)
    if images.is_floating_point():
        return x.contiguous()
    top = torch.iinfo(images.dtype).max
    return x.to(torch.float32, memory_format=torch.contiguous_format).div_(top)


def apply_to(
    images: torch.Tensor,
    indices: torch.Tensor,
    operation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Apply an operation to the images with these indices (n,); in place."""
    if len(indices):
        indices = indices.to(images.device)
        images.index_copy_(1, indices, operation(images.index_select(1, indices)))
    return images


@dataclass(frozen=True)
class Taps:
    """Rows of an image that are summed to each row of the result, and their weights.

    Both are (…, N, S, T): T rows for each of S in each of N images.
    """

    index: torch.Tensor
    weight: torch.Tensor

    def select(self, images: slice) -> "Taps":
        """Return the taps of some of the images."""
        return Taps(self.index[..., images, :, :], self.weight[..., images, :, :])


def crop_taps(
    boxes: torch.Tensor, flip: torch.Tensor, shape: tuple[int, int], size: int
) -> tuple[Taps, Taps]:
    """Return the taps of `crop`, along the height and along the width.

    Pixels are weighed by a triangle, which is wider where the image shrinks.

    Args:
        boxes: V boxes of each image as fractions (top, left, height, width), (V, N, 4).
        flip: True to mirror left and right, (V, N).
        shape: Height and width of the images.
        size: Side of the result.
    """
    height, width = shape
    top, left, tall, wide = boxes.unbind(-1)
    rows = _resize_taps(top * height, tall * height, height, size)
    columns = _resize_taps(left * width, wide * width, width, size)
    mirrored = flip[..., None, None]
    index = torch.where(mirrored, columns.index.flip(-2), columns.index)
    weight = torch.where(mirrored, columns.weight.flip(-2), columns.weight)
    return rows, Taps(index, weight)


def crop(images: torch.Tensor, rows: Taps, columns: Taps) -> torch.Tensor:
    """Cut boxes out of each image, resize them with antialias and mirror them, by `crop_taps`.

    It is torchvision's bilinear `resized_crop`, for boxes between pixels too. V boxes an image
    give (C, V·N, size, size).
    """
    # Columns first: all views read the same transposed images.
    across = _weighted_rows(images.mT.contiguous(), columns)
    return _weighted_rows(across.mT.contiguous(), rows)


def jitter(images: torch.Tensor, factors: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Change brightness, contrast, saturation and hue of RGB images, each in its order; in place.

    factors: (N, 4), of which 1 (hue: 0) changes nothing; order: (N, 4), the index of the first,
    second, third and last operation. Hue goes before, between or after the other three, which are
    one operation, `blend`.
    """
    is_hue = order == HUE
    hue_position = is_hue.to(torch.uint8).argmax(-1)
    blends = order[~is_hue].view(-1, 3)
    shift = factors[:, HUE]
    for position in range(4):
        shifted = ((hue_position == position) & (shift != 0)).nonzero().squeeze(1)
        apply_to(images, shifted, partial(shift_hue, shift=shift[shifted]))
        if position < 3:
            kind = blends[:, position]
            blend(images, factors.gather(1, kind[:, None]).squeeze(1), kind)
    return images


def blend(images: torch.Tensor, factor: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
    """Set x ← clamp(f·x + (1 − f)·m) with each image's factor f and kind of m, both (N,); in place.

    m is 0 for BRIGHTNESS, the image's mean gray for CONTRAST, the pixel's gray for SATURATION.
    """
    rest = 1 - factor
    scales = torch.stack([factor, rest * (kind == CONTRAST), rest * (kind == SATURATION)])
    factor, mean_factor, gray_factor = scales.to(images.device)[..., None, None]
    other = gray(images)
    # One side after the other: threads would split the sum over a whole image when N is 1.
    mean = other.mean(-1, keepdim=True).mean(-2, keepdim=True)
    other.mul_(gray_factor).add_(mean * mean_factor)
    return images.mul_(factor).add_(other).clamp_(0, 1)


def shift_hue(images: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """Rotate the hue of each image by shift (N,) of the circle, keep value and chroma; in place.

    With h in [0, 6) and the smallest channel m, R = m + chroma · clamp(|h − 3| − 1), and G and B
    are m + chroma · clamp(2 − |h − 2|) and the same with 4 for 2: no branch a sixth.
    """
    red, green, blue = images.unbind(0)
    largest = images.amax(0)
    least = images.amin(0)
    chroma = largest - least
    hue = (red - green).add_(chroma, alpha=4)
    hue.lerp_((blue - red).add_(chroma, alpha=2), _equal(green, largest))
    hue.lerp_(green - blue, _equal(red, largest))
    hue.div_(chroma.clamp_min(1e-12))  # gray pixels: 0 / tiny, and no chroma to show a hue
    hue.add_(6 * shift.to(images.device)[:, None, None])
    hue.sub_(hue.div(6).floor_().mul_(6))
    ramps = (
        hue.sub(3).abs_().sub_(1),
        hue.sub(2).abs_().neg_().add_(2),
        hue.sub_(4).abs_().neg_().add_(2),
    )
    for channel, ramp in zip((red, green, blue), ramps, strict=True):
        torch.addcmul(least, ramp.clamp_(0, 1), chroma, out=channel)
    return images


def gray(images: torch.Tensor) -> torch.Tensor:
    """Return the gray of each pixel: (3, N, H, W) to (N, H, W)."""
    red, green, blue = images.unbind(0)
    return red.mul(_GRAY[0]).add_(green, alpha=_GRAY[1]).add_(blue, alpha=_GRAY[2])


def drop_color(images: torch.Tensor) -> torch.Tensor:
    """Set all three channels to the gray of the pixel."""
    return gray(images).expand_as(images)


def blur(images: torch.Tensor, sigma: torch.Tensor, taps: int) -> torch.Tensor:
    """Blur square images by a Gaussian of their σ (N,) with `taps` pixels and mirrored edges."""
    size = images.shape[-1]
    sigma = sigma.to(images.device)
    offsets = torch.arange(taps, device=images.device) - taps // 2
    weight = torch.exp(-0.5 * (offsets / sigma[:, None]).square())
    weight = (weight / weight.sum(-1, keepdim=True))[:, None].expand(-1, size, -1)
    index = (torch.arange(size, device=images.device)[:, None] + offsets).abs()
    index = (size - 1) - (size - 1 - index).abs()
    kernel = Taps(index.to(torch.int32).expand_as(weight), weight)
    return _weighted_rows(_weighted_rows(images, kernel).mT.contiguous(), kernel).mT


def solarize(images: torch.Tensor, threshold: float) -> torch.Tensor:
    """Invert the values that are at least `threshold`."""
    bright = torch.ge(images, threshold, out=torch.empty_like(images))
    return torch.lerp(images, 1 - images, bright)


def scale_contrast(images: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Change brightness and contrast of images of any channels; in place.

    x ← b · (c·x + (1 − c)·m), with m the mean of each channel of each image. No value is cut off,
    so that ranges other than [0, 1] stay as they are, and the order of the two does not matter.

    factors: b and c of each image, (N, 2), of which 1 changes nothing.
    """
    brightness, contrast = factors.to(images.device).mT[..., None, None]
    mean = images.mean(-1, keepdim=True).mean(-2, keepdim=True)
    return images.mul_(brightness * contrast).add_(mean * (brightness * (1 - contrast)))


def add_noise(images: torch.Tensor, sigma: torch.Tensor, seeds: torch.Tensor) -> torch.Tensor:
    """Add Gaussian noise.

    The noise of an image follows from its seed alone, on each kind of device.

    sigma: σ in each channel of each image, (C, N); seeds: (N,).
    """
    noise = torch.empty_like(images.transpose(0, 1), memory_format=torch.contiguous_format)
    generator = torch.Generator(images.device)
    for image, seed in zip(noise, seeds.tolist(), strict=True):
        image.normal_(generator=generator.manual_seed(seed))
    return images.addcmul(noise.transpose(0, 1), sigma.to(images.device)[..., None, None])


def set_channels(images: torch.Tensor, chosen: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Set some channels of some images to a value; in place.

    chosen: True for these channels, (N, C); values: a value for each channel, (C,).
    """
    rows, channels = chosen.nonzero(as_tuple=True)
    channels = channels.to(images.device)
    values = values.to(images.device)[channels, None, None]
    images[channels, rows.to(images.device)] = values.expand(-1, *images.shape[2:])
    return images


def _equal(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return 1.0 where equal, else 0.0: `lerp` by it is several times as fast as `where`."""
    return torch.eq(a, b, out=torch.empty_like(a))


def _resize_taps(start: torch.Tensor, length: torch.Tensor, pixels: int, size: int) -> Taps:
    """Return the taps that resize a stretch of `pixels` to `size` outputs.

    start, length: (V, N) in pixels. T is enough for any stretch.
    """
    start, length = _at_least_thinnest(start, length, pixels)
    scale = length / size
    support = scale.clamp_min(1)[..., None, None]
    centers = torch.arange(size, device=start.device) + 0.5
    center = (start[..., None] + centers * scale[..., None])[..., None]
    taps = torch.arange(math.ceil(2 * max(1, pixels / size)), device=start.device)
    pixel = (center - support + 0.5).floor() + taps
    weight = (1 - (pixel + 0.5 - center).abs() / support).clamp_min_(0)
    begin = start[..., None, None]
    end = (start + length)[..., None, None]
    weight *= (pixel > begin - 1 + _TOUCH) & (pixel < end - _TOUCH)
    weight /= weight.sum(-1, keepdim=True)
    return Taps(pixel.clamp_(0, pixels - 1).to(torch.int32), weight)


def _at_least_thinnest(
    start: torch.Tensor, length: torch.Tensor, pixels: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Widen stretches of almost no length, as crops of very long and thin images have."""
    thin = length < _THINNEST
    widened = (start + length / 2 - _THINNEST / 2).clamp(0, pixels - _THINNEST)
    return torch.where(thin, widened, start), length.clamp_min(_THINNEST)


def _weighted_rows(images: torch.Tensor, taps: Taps) -> torch.Tensor:
    """Return weighted sums of rows: (C, N, H, W) and taps (…, N, S, T) to (C, …·N, S, W).

    It is the product with a matrix that is zero but for T entries a row, which `embedding_bag` does
    without the zeros.
    """
    channels, n, height, width = images.shape
    size, num_taps = taps.index.shape[-2:]
    first = torch.arange(0, channels * n * height, height, dtype=torch.int32, device=images.device)
    rows = first.view(channels, 1, n, 1, 1) + taps.index.reshape(-1, n, size, num_taps)
    weights = taps.weight.reshape(-1, n, size, num_taps).expand_as(rows)
    sums = F.embedding_bag(
        rows.view(-1, num_taps),
        images.view(-1, width),
        mode="sum",
        per_sample_weights=weights.reshape(-1, num_taps),
    )
    return sums.view(channels, -1, size, width)
