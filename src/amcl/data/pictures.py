"""Listed image files → a data set: sizes chosen, pictures read, some held out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import torch

from amcl.data.decode import UnreadableImage, size
from amcl.data.images import (
    DataSet,
    FileImages,
    Images,
    Labeled,
    MemoryImages,
    Probe,
    Rgb,
    Unreadable,
    counted,
)
from amcl.data.options import Options
from amcl.data.split import parted, sample, subset
from amcl.data.stream import read_into_memory

# Those of ImageNet: photographs of nearly any kind come close to them.
MEAN: Rgb = (0.485, 0.456, 0.406)
STD: Rgb = (0.229, 0.224, 0.225)

VIEW_SIZES = (32, 64, 96, 128, 224)
HEADERS = 100  # looked at to choose sizes
CHECKED_AT = 8  # pixels: enough to see whether a file can be read
UNEQUAL = 10  # times: classes that differ in size by more are told
CANVAS_RATIO = 1.5  # a crop of 44 % of a picture still has a pixel for each of the view's


@dataclass(frozen=True)
class Listing:
    """Image files in a fixed order, with their classes if they have any."""

    paths: list[str]
    labels: torch.Tensor | None = None
    classes: tuple[str, ...] = ()
    unreadable: Unreadable = ()
    warnings: tuple[str, ...] = ()
    """What a user should know about files that are not listed."""

    def with_labels(self, labels: Sequence[int], classes: tuple[str, ...]) -> "Listing":
        return replace(self, labels=torch.tensor(labels, dtype=torch.long), classes=classes)

    def only(self, indices: torch.Tensor) -> "Listing":
        """Those files, in that order."""
        labels = None if self.labels is None else self.labels[indices]
        return replace(self, paths=[self.paths[i] for i in indices.tolist()], labels=labels)

    def without_labels(self) -> "Listing":
        return replace(self, labels=None, classes=())


def read_pictures(
    name: str,
    train: Listing,
    queries: Listing | None,
    options: Options,
    *,
    notes: Sequence[str] = (),
    mean: Rgb = MEAN,
    std: Rgb = STD,
) -> DataSet:
    """The data set of listed files: in memory if they fit, else decoded as they are used.

    With labels and without `queries`, these are held out of `train`.
    """
    image_size, canvas, size_notes = choose_sizes(train.paths, options)
    reader = _Reader(canvas, options)
    more_notes = _unequal(train)
    # Of all files, before it is known which can be read: where images are kept must not change
    # which of them are held out. Only a subset has to be of files that can be read.
    train, kept, out = _parts(train, queries, options, reader.usable(train))
    images, present = reader.read(train)
    probe = None
    if train.labels is not None:
        labeled = Labeled(images, train.labels[present])
        if queries is not None:
            held = reader.labeled(queries)
        else:
            held = reader.into_memory(labeled.subset(_places(out, present)))
            labeled = labeled.subset(_places(kept, present))
        images = labeled.images
        if len(held.images) == 0:
            more_notes.append("too few labeled images to hold any out")
        else:
            count = len(labeled.labels)
            chosen = sample(count, options.bank_of(count), options.seed)
            bank = reader.into_memory(labeled.subset(chosen))
            split: Literal["validation", "test"]
            split = "test" if options.probe == "test" else "validation"
            probe = Probe(bank, held, train.classes, split)
    return DataSet(
        name=name,
        train=images,
        probe=probe,
        image_size=image_size,
        mean=mean,
        std=std,
        unreadable=tuple(dict(reader.unreadable).items()),
        notes=(*notes, *size_notes, *more_notes),
    )


def choose_sizes(paths: Sequence[str], options: Options) -> tuple[int, int, list[str]]:
    """The views' side, the canvas's side, and how they were chosen."""
    shapes = _some_shapes(paths)
    notes = []
    image_size = options.image_size
    if image_size is None:
        short = median(min(shape) for shape in shapes)
        image_size = max((side for side in VIEW_SIZES if side <= short), default=VIEW_SIZES[0])
        notes.append(
            f"views of {image_size}: chosen for a median short side of {short:g} pixels in "
            f"{len(shapes)} pictures"
        )
    if options.canvas is not None:
        return image_size, options.canvas, notes
    canvas = round(CANVAS_RATIO * image_size)
    (height, width), *others = set(shapes)
    if not others and height == width <= canvas:
        return image_size, height, notes
    notes.append(f"pictures squashed onto {canvas}×{canvas}, {CANVAS_RATIO} times the views")
    return image_size, canvas, notes


def _unequal(train: Listing) -> list[str]:
    """A note where one class is far larger than another."""
    if train.labels is None:
        return []
    sizes = train.labels.bincount(minlength=len(train.classes)).tolist()
    named = sorted(zip(sizes, train.classes, strict=True))
    (least, smallest), (most, largest) = named[0], named[-1]
    if most <= UNEQUAL * least:
        return []
    return [
        f"classes differ in size: {largest} has {counted(most, 'image')}, {smallest} has {least}"
    ]


def _parts(
    train: Listing, queries: Listing | None, options: Options, usable: torch.Tensor | None
) -> tuple[Listing, torch.Tensor, torch.Tensor]:
    """The files that are used, and which of them are trained on and which held out."""
    labels = torch.zeros(len(train.paths)) if train.labels is None else train.labels
    if train.labels is None or queries is not None:
        kept, out = subset(labels, options.subset, usable), torch.empty(0, dtype=torch.long)
    else:
        count = min(options.validation, len(labels) // 10)
        kept, out = parted(labels, count, options.seed, options.subset, usable)
    used = torch.cat([kept, out]).sort().values
    return train.only(used), torch.searchsorted(used, kept), torch.searchsorted(used, out)


def _places(chosen: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """Where the chosen files are among those present; both sorted."""
    return torch.isin(present, chosen).nonzero().squeeze(1)


def _some_shapes(paths: Sequence[str]) -> list[tuple[int, int]]:
    """(Height, width) of up to 100 readable pictures, from all over the list."""
    step = max(1, len(paths) // HEADERS)
    spread = [path for start in range(step) for path in paths[start::step]]
    shapes: list[tuple[int, int]] = []
    first: UnreadableImage | None = None
    for path in spread:
        try:
            shapes.append(size(path))
        except UnreadableImage as error:
            first = first or error
        if len(shapes) == HEADERS:
            break
    if not shapes:
        raise _none_readable(len(paths), str(first))
    return shapes


def _none_readable(count: int, first: str) -> ValueError:
    return ValueError(
        f"None of the {count} image files can be read; the first: {first}. Check that the "
        "files were copied or downloaded whole."
    )


class _Reader:
    """Files → images on one canvas, with a record of what could not be read."""

    def __init__(self, canvas: int, options: Options) -> None:
        self.canvas, self.options = canvas, options
        self.unreadable: list[tuple[str, str]] = []

    def read(self, listing: Listing) -> tuple[Images, torch.Tensor]:
        """Images, and which of the listed files they are."""
        self.unreadable += listing.unreadable
        files = FileImages(listing.paths, self.canvas)
        if not self.options.fits_memory(files):
            return files, torch.arange(len(files))
        images, kept = self._decode(files)
        if len(images) == 0:
            raise _none_readable(len(files), ": ".join(self.unreadable[-len(files)]))
        return images, kept

    def usable(self, listing: Listing) -> torch.Tensor | None:
        """Which files a subset may be chosen from: all but those of a choice that are unreadable.

        None without a subset. Only files that would be chosen are looked at, until all can be read.
        """
        count = self.options.subset
        if count is None:
            return None
        labels = torch.zeros(len(listing.paths)) if listing.labels is None else listing.labels
        usable, looked_at = (torch.full((len(labels),), value) for value in (True, False))
        while True:
            chosen = subset(labels, count, usable)
            new = chosen[~looked_at[chosen]]
            if len(new) == 0:
                return usable
            looked_at[new] = True
            paths = [listing.paths[index] for index in new.tolist()]
            _, readable, unreadable = read_into_memory(
                FileImages(paths, CHECKED_AT), workers=self.options.workers
            )
            self.unreadable += unreadable
            usable[new] = False
            usable[new[readable]] = True

    def labeled(self, listing: Listing) -> Labeled:
        images, kept = self.read(listing)
        assert listing.labels is not None
        return Labeled(images, listing.labels[kept])

    def into_memory(self, labeled: Labeled) -> Labeled:
        """Decoded, unless that takes more memory than allowed."""
        files = labeled.images
        if isinstance(files, MemoryImages) or not self.options.fits_memory(files) or not len(files):
            return labeled
        images, kept = self._decode(files)
        return Labeled(images, labeled.labels[kept])

    def _decode(self, files: FileImages) -> tuple[MemoryImages, torch.Tensor]:
        images, kept, unreadable = read_into_memory(files, workers=self.options.workers)
        self.unreadable += unreadable
        return images, kept
