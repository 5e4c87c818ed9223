"""Sets of images as tensors: in memory, or files that are decoded on demand."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from amcl.data.decode import DECODING, decode, decode_whole
from amcl.data.pixel_format import DTYPES, RGB, PixelFormat, format_of
from amcl.data.records import FileRecords, Records
from amcl.files import digest
from amcl.printable import counted
from amcl.settings import whole_number

PerChannel = tuple[float, ...]  # a number for each channel
Unreadable = tuple[tuple[str, str], ...]  # (path, reason) of each file that is no image


class MemoryImages:
    """N images of one size in memory.

    Args:
        pixels: uint8, uint16 or float32 (N, C, H, W): 255, 65,535 and 1 are the brightest.
        shapes: True heights and widths (N, 2) of images that were squashed onto the canvas, so
            that crops can be drawn in their proportions; None if none was squashed.

    Example:
        >>> images = MemoryImages(torch.zeros(10, 3, 32, 32, dtype=torch.uint8))
        >>> images[torch.tensor([7, 1])].shape
        torch.Size([2, 3, 32, 32])
        >>> len(images.subset(torch.arange(4)))
        4
    """

    def __init__(self, pixels: torch.Tensor, shapes: torch.Tensor | None = None) -> None:
        if pixels.dtype not in DTYPES.values() or pixels.dim() != 4 or _is_channels_last(pixels):
            raise ValueError(
                f"pixels must be uint8, uint16 or float32 (N, C, H, W), got {pixels.dtype} "
                f"{tuple(pixels.shape)}: give a plane for each channel, of RGB as uint8."
            )
        if shapes is not None and shapes.shape != (len(pixels), 2):
            raise ValueError(
                f"shapes must be (N, 2) with N = {len(pixels)}, got {tuple(shapes.shape)}: "
                "give the height and width of each image."
            )
        self._pixels = pixels
        self._shapes = shapes
        self._indices: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self._pixels) if self._indices is None else len(self._indices)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self._pixels.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """Type of the pixels."""
        return self._pixels.dtype

    @property
    def canvas(self) -> tuple[int, int]:
        """Height and width of the stored images."""
        return self._pixels.shape[2], self._pixels.shape[3]

    @property
    def shapes(self) -> torch.Tensor | None:
        """True heights and widths (N, 2); None if no image was squashed."""
        if self._shapes is None or self._indices is None:
            return self._shapes
        return self._shapes[self._indices]

    def __getitem__(self, indices: torch.Tensor) -> torch.Tensor:
        if self._indices is not None:
            indices = self._indices[indices]
        if self._pixels.dtype == torch.uint16:  # torch 2.6 indexes int16, but no uint16
            return self._pixels.view(torch.int16)[indices].contiguous().view(torch.uint16)
        return self._pixels[indices].contiguous()

    def fingerprint(self) -> str:
        """Return a hash that changes with any pixel, any shape and the order."""
        parts = torch.arange(len(self)).split(4096)
        pixels = (self[part].numpy().data for part in parts)
        shapes = b"" if self.shapes is None else self.shapes.contiguous().numpy().data
        first = str(self.canvas)
        if (self.channels, self.dtype) != (RGB.channels, RGB.dtype):
            first += f" {self.channels} {self.dtype}"
        return digest(itertools.chain([first.encode()], pixels, [shapes]))

    def identity(self) -> str:
        """Return a hash that does not depend on where images are stored: the fingerprint."""
        return self.fingerprint()

    def subset(self, indices: torch.Tensor) -> "MemoryImages":
        """Return the images with these indices, in their order, without a copy."""
        images = MemoryImages(self._pixels, self._shapes)
        images._indices = indices if self._indices is None else self._indices[indices]
        return images


class FileImages:
    """N encoded images, each decoded to (C, canvas, canvas) when it is used.

    True heights and widths are known once an image is decoded: batches of `stream` have them.

    Args:
        files: Paths of files, or encoded images that are stored in another way.
        canvas: Side in pixels of the square that images are squashed onto.
        pixels: Format that they are decoded to.

    Example:
        >>> files = FileImages(["a.png", "b.png"], canvas=32)
        >>> len(files), files.canvas, files.path(1)
        (2, (32, 32), 'b.png')
    """

    shapes: None = None

    def __init__(
        self, files: Sequence[str] | Records, canvas: int, pixels: PixelFormat = RGB
    ) -> None:
        self.pixels = pixels
        self._side = whole_number("canvas", canvas, "give the side of the square in pixels")
        self._records = FileRecords(files) if isinstance(files, Sequence) else files

    def __len__(self) -> int:
        return len(self._records)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.pixels.channels

    @property
    def dtype(self) -> torch.dtype:
        """Type of the pixels."""
        return self.pixels.dtype

    @property
    def canvas(self) -> tuple[int, int]:
        """Height and width of the stored images."""
        return self._side, self._side

    @property
    def records(self) -> Records:
        """The encoded images."""
        return self._records

    def path(self, index: int) -> str:
        """Return the path of a file, or shard and name of an image in a shard."""
        return self._records[index].name

    def decode(self, index: int) -> tuple[torch.Tensor, tuple[int, int]]:
        """Return pixels (C, H, W) and the true (height, width), or raise `UnreadableImage`."""
        return decode(self._records[index], self._side, self.pixels)

    def decode_whole(self, index: int, size: tuple[int, int]) -> torch.Tensor:
        """Return pixels (C, H, W) in the image's own size, or raise `UnreadableImage`."""
        return decode_whole(self._records[index], size, self.pixels)

    def __getitem__(self, indices: torch.Tensor) -> torch.Tensor:
        pixels = torch.empty(len(indices), self.channels, *self.canvas, dtype=self.dtype)
        for row, index in zip(pixels, indices.tolist(), strict=True):
            row.copy_(self.decode(index)[0])
        return pixels

    def fingerprint(self) -> str:
        """Return a hash of files, canvas, order and way of decoding."""
        first = f"{DECODING} {self._form}".encode()
        return digest(itertools.chain([first], self._records.fingerprint()))

    def identity(self) -> str:
        """Return a hash that does not depend on where the files are: the same after a move."""
        return digest(itertools.chain([self._form.encode()], self._records.identity()))

    def subset(self, indices: torch.Tensor) -> "FileImages":
        """Return the images with these indices, in their order."""
        return FileImages(self._records.select(indices), self._side, self.pixels)

    @property
    def _form(self) -> str:
        """The canvas and, unless it is 8-bit RGB, the format of the pixels."""
        return str(self._side) if self.pixels == RGB else f"{self._side} {self.pixels}"


Images = MemoryImages | FileImages


@dataclass(frozen=True)
class Labeled:
    """Images with their classes.

    Args:
        images: N images.
        labels: Classes (N,).

    Example:
        >>> images = MemoryImages(torch.zeros(3, 3, 8, 8, dtype=torch.uint8))
        >>> Labeled(images, torch.tensor([0, 1, 1])).subset(torch.tensor([2, 0])).labels
        tensor([1, 0])
    """

    images: Images
    labels: torch.Tensor

    def __post_init__(self) -> None:
        if self.labels.shape != (len(self.images),):
            raise ValueError(
                f"labels must be (N,) with N = {len(self.images)}, got "
                f"{tuple(self.labels.shape)}: give one class for each image."
            )

    def subset(self, indices: torch.Tensor) -> "Labeled":
        """Return the images with these indices and their labels, in their order."""
        return Labeled(self.images.subset(indices), self.labels[indices])


@dataclass(frozen=True)
class Probe:
    """Labeled images that features are judged on.

    Args:
        bank: Images that `queries` are compared with.
        queries: Images that are classified.
        classes: Names of the classes.
        split: The split that `queries` are from.
    """

    bank: Labeled
    queries: Labeled
    classes: tuple[str, ...]
    split: Literal["validation", "test"]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Images to pre-train on, with what is needed to make views of them and to judge features.

    Args:
        name: Name of the data set.
        train: Images to train on.
        labels: Classes (N,) of the images to train on; None unless they were asked for, as few
            methods learn from them.
        probe: Labeled images to judge features on; None without labels.
        image_size: Side of the views in pixels.
        mean: Mean of each channel, for values in [0, 1].
        std: Standard deviation of each channel.
        pixels: Format of the stored pixels; by default that of their type, at its full range.
        unreadable: Path and reason of each file that could not be read.
        notes: Choices made on the user's behalf, shown by `describe`.
        warnings: Messages about what may not be as the user means it.

    Example:
        >>> images = MemoryImages(torch.zeros(10, 3, 32, 32, dtype=torch.uint8))
        >>> half = (0.5, 0.5, 0.5)
        >>> data = DataSet(name="toy", train=images, probe=None, image_size=32, mean=half, std=half)
        >>> print(data.describe())
        toy: 10 images to pre-train on, 32×32 pixels, in memory; views of 32×32
        no labels in use: no accuracy is shown
    """

    name: str
    train: Images
    labels: torch.Tensor | None = None
    probe: Probe | None
    image_size: int
    mean: PerChannel
    std: PerChannel
    pixels: PixelFormat | None = None
    unreadable: Unreadable = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            if len(getattr(self, name)) != self.channels:
                raise ValueError(
                    f"{name} must be {counted(self.channels, 'number')}, one for each channel of "
                    f"the images, got {len(getattr(self, name))}."
                )

    @property
    def channels(self) -> int:
        """Number of channels of the images."""
        return self.train.channels

    @property
    def pixel_format(self) -> PixelFormat:
        """Format of the images, which other images take to be given to the same model."""
        return self.pixels or format_of(self.train.channels, self.train.dtype)

    def describe(self) -> str:
        """Return a few lines on the number of images, the labels and the unreadable files."""
        height, width = self.train.canvas
        storage = (
            "in memory" if isinstance(self.train, MemoryImages) else "decoded as they are used"
        )
        use = "to pre-train on" if self.labels is None else "to pre-train on with their labels"
        lines = [
            f"{self.name}: {counted(len(self.train), 'image')} {use}, "
            f"{height}×{width} pixels, {storage}; views of {self.image_size}×{self.image_size}"
        ]
        if self.probe is None:
            missing = "labels in use" if self.labels is None else "images held out"
            lines.append(f"no {missing}: no accuracy is shown")
        else:
            lines.append(
                f"{len(self.probe.classes)} classes: probed with "
                f"{counted(len(self.probe.queries.images), 'image')} held out "
                f"({self.probe.split}) against a bank of {len(self.probe.bank.images):,}"
            )
        lines += self.notes
        if self.unreadable:
            path, reason = self.unreadable[0]
            lines.append(
                f"{counted(len(self.unreadable), 'unreadable file')} skipped, "
                f"the first: {path} ({reason})"
            )
        return "\n".join(lines)


def _is_channels_last(pixels: torch.Tensor) -> bool:
    """Return whether images seem to be (N, H, W, 3), which no picture is 3 pixels wide for."""
    return pixels.shape[3] == 3 < pixels.shape[1]
