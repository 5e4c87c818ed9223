"""Sets of images as tensors of bytes: in memory, or files decoded on demand."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from amcl.data.decode import DECODING, decode
from amcl.files import digest
from amcl.settings import whole_number

Rgb = tuple[float, float, float]
Unreadable = tuple[tuple[str, str], ...]  # (path, reason) of each file that is no picture


class MemoryImages:
    """N images of one size, uint8 (N, 3, H, W).

    `shapes` (N, 2) holds the true heights and widths of pictures that were squashed onto the
    canvas, so that crops can be drawn in their proportions; None where none was squashed.

    >>> images = MemoryImages(torch.zeros(10, 3, 32, 32, dtype=torch.uint8))
    >>> images[torch.tensor([7, 1])].shape
    torch.Size([2, 3, 32, 32])
    >>> len(images.subset(torch.arange(4)))
    4
    """

    def __init__(self, pixels: torch.Tensor, shapes: torch.Tensor | None = None) -> None:
        if pixels.dtype != torch.uint8 or pixels.dim() != 4 or pixels.shape[1] != 3:
            raise ValueError(
                f"pixels must be uint8 (N, 3, H, W), got {pixels.dtype} {tuple(pixels.shape)}: "
                "give RGB bytes, channels first."
            )
        if shapes is not None and shapes.shape != (len(pixels), 2):
            raise ValueError(
                f"shapes must be (N, 2) with N = {len(pixels)}, got {tuple(shapes.shape)}: "
                "give the height and width of each image."
            )
        self._pixels, self._shapes = pixels, shapes
        self._chosen: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self._pixels) if self._chosen is None else len(self._chosen)

    @property
    def canvas(self) -> tuple[int, int]:
        """(H, W)."""
        return self._pixels.shape[2], self._pixels.shape[3]

    @property
    def shapes(self) -> torch.Tensor | None:
        if self._shapes is None or self._chosen is None:
            return self._shapes
        return self._shapes[self._chosen]

    def __getitem__(self, indices: torch.Tensor) -> torch.Tensor:
        if self._chosen is not None:
            indices = self._chosen[indices]
        return self._pixels[indices].contiguous()

    def fingerprint(self) -> str:
        """Changes with any pixel, any shape and the order."""
        parts = torch.arange(len(self)).split(4096)
        pixels = (self[part].numpy().data for part in parts)
        shapes = b"" if self.shapes is None else self.shapes.contiguous().numpy().data
        return digest(itertools.chain([str(self.canvas).encode()], pixels, [shapes]))

    def identity(self) -> str:
        """The same wherever the images lie: here, the fingerprint."""
        return self.fingerprint()

    def subset(self, indices: torch.Tensor) -> "MemoryImages":
        """Those images, in that order; the bytes are shared, not copied."""
        images = MemoryImages(self._pixels, self._shapes)
        images._chosen = indices if self._chosen is None else self._chosen[indices]
        return images


class FileImages:
    """N image files, each decoded to uint8 (3, canvas, canvas) when it is asked for.

    True heights and widths are known once a file is decoded: `stream` gives them by the batch.
    """

    shapes: None = None

    def __init__(self, paths: Sequence[str], canvas: int) -> None:
        self._side = whole_number("canvas", canvas, "give the side of the square in pixels")
        # One block of bytes: worker processes share it, where a list of strings would be copied
        # into each of them as reference counts change.
        self._paths = np.array([os.fsencode(path) for path in paths], dtype=np.bytes_)

    def __len__(self) -> int:
        return len(self._paths)

    @property
    def canvas(self) -> tuple[int, int]:
        """(H, W)."""
        return self._side, self._side

    def path(self, index: int) -> str:
        return os.fsdecode(bytes(self._paths[index]))

    def decode(self, index: int) -> tuple[torch.Tensor, tuple[int, int]]:
        """Pixels (3, H, W) and the true (height, width), or `UnreadableImage`."""
        return decode(self.path(index), self._side)

    def __getitem__(self, indices: torch.Tensor) -> torch.Tensor:
        pixels = torch.empty(len(indices), 3, *self.canvas, dtype=torch.uint8)
        for row, index in zip(pixels, indices.tolist(), strict=True):
            row.copy_(self.decode(index)[0])
        return pixels

    def fingerprint(self) -> str:
        """Changes with any path, size or time of change, the canvas, the order, and how files are
        decoded."""
        paths = map(self.path, range(len(self)))
        times = (f"{path} {_status(path, 'st_size', 'st_mtime_ns')}\n" for path in paths)
        return digest([f"{DECODING} {self._side}".encode(), *map(os.fsencode, times)])

    def identity(self) -> str:
        """The same wherever the files lie: of their names below a common folder, and sizes."""
        paths = [self.path(index) for index in range(len(self))]
        root = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
        sizes = (f"{os.path.relpath(p, root or '.')} {_status(p, 'st_size')}\n" for p in paths)
        return digest([str(self._side).encode(), *map(os.fsencode, sizes)])

    def subset(self, indices: torch.Tensor) -> "FileImages":
        """Those files, in that order."""
        images = FileImages((), self._side)
        images._paths = self._paths[indices.numpy()]
        return images


def _status(path: str, *names: str) -> str:
    try:
        status = os.stat(path)
    except OSError:  # found to be missing when it is read
        return "missing"
    return " ".join(str(getattr(status, name)) for name in names)


Images = MemoryImages | FileImages


@dataclass(frozen=True)
class Labeled:
    """Images with their classes (N,)."""

    images: Images
    labels: torch.Tensor

    def __post_init__(self) -> None:
        if self.labels.shape != (len(self.images),):
            raise ValueError(
                f"labels must be (N,) with N = {len(self.images)}, got "
                f"{tuple(self.labels.shape)}: give one class for each image."
            )

    def subset(self, indices: torch.Tensor) -> "Labeled":
        """Those images with their labels, in that order."""
        return Labeled(self.images.subset(indices), self.labels[indices])


@dataclass(frozen=True)
class Probe:
    """What features are judged on: `queries` are classified with the help of the `bank`."""

    bank: Labeled
    queries: Labeled
    classes: tuple[str, ...]
    split: Literal["validation", "test"]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Images to pre-train on, and what is known about them. Labels play no part in training.

    - `image_size`: the side of the views;
    - `mean`, `std`: of the channels, for values in [0, 1];
    - `unreadable`: files that were found to be no pictures, with the reason;
    - `notes`: what was chosen on the user's behalf, said in `describe()`;
    - `warnings`: what may not be as the user means it, said loudly.
    """

    name: str
    train: Images
    probe: Probe | None
    image_size: int
    mean: Rgb
    std: Rgb
    unreadable: Unreadable = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def describe(self) -> str:
        """A few lines for people: how many images, which labels, what could not be read."""
        height, width = self.train.canvas
        place = "in memory" if isinstance(self.train, MemoryImages) else "decoded as they are used"
        lines = [
            f"{self.name}: {counted(len(self.train), 'image')} to pre-train on, "
            f"{height}×{width} pixels, {place}; views of {self.image_size}×{self.image_size}"
        ]
        if self.probe is None:
            lines.append("no labels in use: no accuracy is shown")
        else:
            queries, bank = self.probe.queries, self.probe.bank
            lines.append(
                f"{len(self.probe.classes)} classes: probed with "
                f"{counted(len(queries.images), 'image')} held out ({self.probe.split}) against a "
                f"bank of {len(bank.images):,}"
            )
        lines += self.notes
        if self.unreadable:
            path, reason = self.unreadable[0]
            lines.append(
                f"{counted(len(self.unreadable), 'unreadable file')} skipped, "
                f"the first: {path} ({reason})"
            )
        return "\n".join(lines)


def counted(number: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "image"), counted(1200, "image")
    ('1 image', '1,200 images')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
