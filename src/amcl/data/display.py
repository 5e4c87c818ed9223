"""Stored images of any channels and type as pictures for people: RGB with 8 bits."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

Bands = tuple[int, int, int]
"""Numbers of the channels that are shown as red, green and blue, counted from 1."""

_SHARE = 0.01  # of the values of a band that are shown as black, and as white
_SAMPLE = 2**20  # values of a band, at most, from which the stretch is measured


@dataclass(frozen=True)
class Display:
    """The way in which images of a set are shown; `Display.of` chooses it for some images.

    8-bit values are shown as they are. Others are stretched, band by band: the darkest and the
    brightest hundredth of the values of these images become black and white.

    Args:
        channels: Indices of the channels that are red, green and blue; one three times is gray.
        low: Value of each of the three that is black, where integers count from 0 to 1.
        high: Value of each that is white.

    Example:
        >>> images = torch.randint(4096, (5, 13, 8, 8)).to(torch.uint16)
        >>> display = Display.of(images, bands=(4, 3, 2))
        >>> display(images).shape, display(images).dtype
        (torch.Size([5, 3, 8, 8]), torch.uint8)
        >>> display.channels
        (3, 2, 1)
    """

    channels: tuple[int, int, int]
    low: tuple[float, float, float] = (0.0, 0.0, 0.0)
    high: tuple[float, float, float] = (1.0, 1.0, 1.0)

    @staticmethod
    def of(images: torch.Tensor, bands: Sequence[int] | None = None) -> "Display":
        """Choose how images are shown.

        Args:
            images: uint8, uint16 or float32 (N, C, H, W), as they are stored.
            bands: Numbers of three channels, counted from 1; None for the first three, and for the
                first in gray where there are one or two.
        """
        channels = band_indices(bands, images.shape[1])
        if images.dtype == torch.uint8:
            return Display(channels)
        limits = {index: _limits(images[:, index]) for index in set(channels)}
        low, high = zip(*(limits[index] for index in channels), strict=True)
        return Display(channels, low, high)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Return stored images (…, C, H, W) as pictures, uint8 (…, 3, H, W)."""
        if images.dtype == torch.uint8:
            if self.channels == (0, 1, 2) and images.shape[-3] == 3:
                return images
            return images[..., list(self.channels), :, :]
        # Not by a list of indices: torch 2.6 takes none for uint16.
        chosen = torch.stack([images[..., channel, :, :] for channel in self.channels], dim=-3)
        return self.values(_unit(chosen), chosen=True)

    def values(self, images: torch.Tensor, *, chosen: bool = False) -> torch.Tensor:
        """Return images whose integers count from 0 to 1 as pictures, uint8 (…, 3, H, W).

        Args:
            images: float32 (…, C, H, W), such as views before they are normalized.
            chosen: The images have the three channels alone.
        """
        if not chosen:
            images = images[..., list(self.channels), :, :]
        low, high = (
            torch.tensor(ends, device=images.device)[:, None, None]
            for ends in (self.low, self.high)
        )
        stretched = (images - low) / (high - low)
        return stretched.nan_to_num(0.0).mul(255).round_().clamp_(0, 255).to(torch.uint8)

    def describe(self, channels: int) -> str:
        """Return how images of a number of channels are shown, in words; "" for 8-bit RGB."""
        stretch = (self.low, self.high) != ((0.0,) * 3, (1.0,) * 3)
        if channels == 3 and self.channels == (0, 1, 2) and not stretch:
            return ""
        bands = [str(index + 1) for index in self.channels]
        text = f"bands {', '.join(bands[:2])} and {bands[2]} of {channels} as red, green and blue"
        if len(set(bands)) == 1:
            text = f"band {bands[0]} of {channels} in gray"
        return f"{text}, stretched" if stretch else text


def thumbnail(
    image: torch.Tensor,
    size: int,
    bands: Sequence[int] | None = None,
    display: Display | None = None,
) -> torch.Tensor:
    """Return a small picture of a stored image.

    Args:
        image: uint8, uint16 or float32 (C, H, W).
        size: Pixels of its longer side, at most.
        bands: Numbers of the channels to show; see `Display.of`.
        display: The way in which all images of a set are shown; None stretches this one alone.

    Returns:
        The picture, uint8 (3, h, w).

    Example:
        >>> thumbnail(torch.rand(2, 40, 80), size=20).shape
        torch.Size([3, 10, 20])
    """
    display = display or Display.of(image[None], bands)
    picture = display(image)
    height, width = picture.shape[1:]
    scale = size / max(height, width)
    if scale >= 1:
        return picture
    shape = [max(1, round(height * scale)), max(1, round(width * scale))]
    small = torch.nn.functional.interpolate(
        picture[None].float(), size=shape, mode="bilinear", antialias=True
    )
    return small[0].round_().clamp_(0, 255).to(torch.uint8)


def band_indices(bands: Sequence[int] | None, channels: int) -> tuple[int, int, int]:
    """Return the indices of the channels to show, or raise an error if there are no such channels.

    Args:
        bands: Numbers of three channels, counted from 1; None for the usual ones.
        channels: Number of channels.

    Example:
        >>> band_indices(None, 13), band_indices(None, 2), band_indices((4, 3, 2), 13)
        ((0, 1, 2), (0, 0, 0), (3, 2, 1))
    """
    if bands is None:
        return (0, 1, 2) if channels >= 3 else (0, 0, 0)
    if len(bands) != 3 or not all(1 <= band <= channels for band in bands):
        chosen = " ".join(map(str, bands))
        raise ValueError(
            f"--bands {chosen} must be three numbers of channels from 1 to {channels}, as many as "
            "the images have: one each for red, green and blue."
        )
    red, green, blue = (band - 1 for band in bands)
    return red, green, blue


def _unit(images: torch.Tensor) -> torch.Tensor:
    """Return stored values as float32, where the largest integer is 1."""
    if images.is_floating_point():
        return images.float()
    return images.to(torch.float32) / torch.iinfo(images.dtype).max


def _limits(band: torch.Tensor) -> tuple[float, float]:
    """Return the values (N, H, W) of a band that are shown as black and as white."""
    flat = band.flatten()
    values = _unit(flat[:: max(1, len(flat) // _SAMPLE)])
    values = values[values.isfinite()].sort().values
    if not len(values):
        return 0.0, 1.0
    least = int(_SHARE * (len(values) - 1))
    low, high = values[least].item(), values[len(values) - 1 - least].item()
    if high <= low:  # of one value, which is shown as gray
        return low - 0.5, low + 0.5
    return low, high
