"""A data set from a list of image files: sizes chosen, images decoded, some of them held out."""

from collections.abc import Collection, Sequence
from statistics import median

import torch

from amcl.data.decode import UnreadableImage
from amcl.data.decoding.planes import Header
from amcl.data.format_choice import check_follow, choose_format, sample_headers
from amcl.data.images import DataSet, FileImages, Images, Labeled, MemoryImages, PerChannel, Probe
from amcl.data.listing import Listing
from amcl.data.options import LoadOptions
from amcl.data.pixel_format import RGB, PixelFormat
from amcl.data.records import Records
from amcl.data.split import choose_subset, sample, split_train_validation
from amcl.data.statistics import measure
from amcl.data.stream import read_into_memory
from amcl.printable import counted

# Those of ImageNet: photographs of nearly any kind come close to them.
MEAN: PerChannel = (0.485, 0.456, 0.406)
STD: PerChannel = (0.229, 0.224, 0.225)

VIEW_SIZES = (32, 64, 96, 128, 224)
CHECK_SIZE = 8  # pixels: enough to see whether a file can be read
IMBALANCE = 10  # classes whose sizes differ by more than this factor are worth a note
CANVAS_RATIO = 1.5  # a crop of 44 % of an image still has a pixel for each of the view's


def dataset_from_files(
    name: str,
    train: Listing,
    queries: Listing | None,
    options: LoadOptions,
    *,
    notes: Sequence[str] = (),
    mean: PerChannel = MEAN,
    std: PerChannel = STD,
) -> DataSet:
    """Make the data set of listed files: in memory if they fit, else decoded as they are used.

    Args:
        name: Name of the data set.
        train: Files to train on.
        queries: Labeled files to probe with; None holds some out of `train` if it has labels.
        options: Options of `load_dataset`.
        notes: Notes for the user, to which those on sizes and classes are added.
        mean: Mean of the channels of RGB, for values in [0, 1]; that of others is measured.
        std: Standard deviation of the channels of RGB.

    Returns:
        The data set.
    """
    headers = read_headers(train.records, options)
    pixels, format_notes = choose_pixels(train.records, headers, options)
    image_size, canvas, size_notes = choose_sizes(headers.values(), options)
    reader = _Reader(canvas, pixels, options)
    all_notes = [*notes, *format_notes, *size_notes, *_imbalance_note(train)]
    # Of all files, before it is known which can be read: where images are kept must not change
    # which of them are held out. Only a subset has to be of files that can be read.
    train, train_indices, held_out_indices = _split(
        train, queries, options, reader.usable_files(train)
    )
    images, read_indices = reader.read(train)
    probe = None
    labels = None
    if train.labels is not None:
        labeled = Labeled(images, train.labels[read_indices])
        if queries is not None:
            held_out = reader.read_labeled(queries)
        else:
            held_out = labeled.subset(_positions(held_out_indices, read_indices))
            held_out = reader.into_memory(held_out)
            labeled = labeled.subset(_positions(train_indices, read_indices))
        images = labeled.images
        labels = labeled.labels if options.train_labels else None
        if len(held_out.images) == 0:
            if options.uses_labels:
                all_notes.append("too few labeled images to hold any out")
        else:
            count = len(labeled.labels)
            bank = labeled.subset(sample(count, options.bank_size(count), options.seed))
            probe = Probe(reader.into_memory(bank), held_out, train.classes, options.split)
    if options.normalization is not None:
        mean, std = options.normalization
    elif pixels != RGB:
        mean, std, measured = measure(images, workers=options.workers)
        all_notes.append(f"mean and deviation of channels measured in {counted(measured, 'image')}")
    return DataSet(
        name=name,
        train=images,
        labels=labels,
        probe=probe,
        image_size=image_size,
        mean=mean,
        std=std,
        pixels=pixels,
        unreadable=tuple(dict(reader.unreadable).items()),
        notes=tuple(all_notes),
    )


def read_headers(records: Records, options: LoadOptions) -> dict[int, Header]:
    """Return the headers of some images by their indices, or raise an error if there are none.

    Args:
        records: Encoded images.
        options: Options of `load_dataset`.
    """
    channels = options.channels if options.pixels is None else options.pixels.channels
    try:
        return sample_headers(records, None if channels == "auto" else channels)
    except UnreadableImage as error:
        raise _none_readable(len(records), str(error)) from None


def choose_pixels(
    records: Records, headers: dict[int, Header], options: LoadOptions
) -> tuple[PixelFormat, list[str]]:
    """Return the format of the pixels, and notes on how it was chosen.

    Args:
        records: Encoded images.
        headers: Headers of some of them, by their indices.
        options: Options of `load_dataset`.
    """
    if options.pixels is None:
        return choose_format(records, headers, options.channels, options.value_range)
    check_follow(list(headers.values()), options.pixels)
    return options.pixels, []


def choose_sizes(headers: Collection[Header], options: LoadOptions) -> tuple[int, int, list[str]]:
    """Choose the side of the views and that of the canvas.

    Args:
        headers: Headers of some images.
        options: Options of `load_dataset`; sizes that are set there are taken.

    Returns:
        The side of the views, the side of the canvas, and notes on how they were chosen.
    """
    shapes = [(header.height, header.width) for header in headers]
    notes = []
    image_size = options.image_size
    if image_size is None:
        short = median(min(shape) for shape in shapes)
        image_size = max((side for side in VIEW_SIZES if side <= short), default=VIEW_SIZES[0])
        notes.append(
            f"views of {image_size}: chosen for a median short side of {short:g} pixels in "
            f"{len(shapes)} images"
        )
    if options.canvas is not None:
        return image_size, options.canvas, notes
    canvas = round(CANVAS_RATIO * image_size)
    (height, width), *other_shapes = set(shapes)
    if not other_shapes and height == width <= canvas:
        return image_size, height, notes
    notes.append(f"images squashed onto {canvas}×{canvas}, {CANVAS_RATIO} times the views")
    return image_size, canvas, notes


def _imbalance_note(train: Listing) -> list[str]:
    """Return a note if one class is far larger than another."""
    if train.labels is None:
        return []
    sizes = train.labels.bincount(minlength=len(train.classes)).tolist()
    by_size = sorted(zip(sizes, train.classes, strict=True))
    least, smallest = by_size[0]
    most, largest = by_size[-1]
    if most <= IMBALANCE * least:
        return []
    return [
        f"classes differ in size: {largest} has {counted(most, 'image')}, {smallest} has {least}"
    ]


def _split(
    files: Listing, queries: Listing | None, options: LoadOptions, usable: torch.Tensor | None
) -> tuple[Listing, torch.Tensor, torch.Tensor]:
    """Return the files that are used, and among them the indices to train on and to hold out."""
    labels = files.strata
    if files.labels is None or queries is not None or not options.uses_labels:
        train = choose_subset(labels, options.subset, usable)
        held_out = torch.empty(0, dtype=torch.long)
    else:
        count = min(options.validation, len(labels) // 10)
        train, held_out = split_train_validation(
            labels, count, options.seed, options.subset, usable
        )
    used = torch.cat([train, held_out]).sort().values
    return files.select(used), torch.searchsorted(used, train), torch.searchsorted(used, held_out)


def _positions(chosen: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Return the positions of the chosen values in `indices`; both are sorted."""
    return torch.isin(indices, chosen).nonzero().squeeze(1)


def _none_readable(count: int, first: str) -> ValueError:
    return ValueError(
        f"None of the {count} image files can be read; the first: {first}. Check that the "
        "files were copied or downloaded whole."
    )


class _Reader:
    """Reads files as images on one canvas and records those that could not be read."""

    def __init__(self, canvas: int, pixels: PixelFormat, options: LoadOptions) -> None:
        self.canvas = canvas
        self.pixels = pixels
        self.options = options
        self.unreadable: list[tuple[str, str]] = []

    def read(self, listing: Listing) -> tuple[Images, torch.Tensor]:
        """Return the images, and the indices of the files they were read from."""
        self.unreadable += listing.unreadable
        files = FileImages(listing.records, self.canvas, self.pixels)
        if not self.options.fits_memory(files):
            return files, torch.arange(len(files))
        images, indices = self._decode(files)
        if len(images) == 0:
            raise _none_readable(len(files), ": ".join(self.unreadable[-len(files)]))
        return images, indices

    def read_labeled(self, listing: Listing) -> Labeled:
        """Return the images of labeled files."""
        images, indices = self.read(listing)
        assert listing.labels is not None
        return Labeled(images, listing.labels[indices])

    def into_memory(self, labeled: Labeled) -> Labeled:
        """Decode images, unless that takes more memory than allowed."""
        files = labeled.images
        if isinstance(files, MemoryImages) or not self.options.fits_memory(files) or not len(files):
            return labeled
        images, indices = self._decode(files)
        return Labeled(images, labeled.labels[indices])

    def usable_files(self, listing: Listing) -> torch.Tensor | None:
        """Return which files (N,) a subset may be chosen from; None without a subset.

        Only files that would be chosen are read, until all of them can be.
        """
        if self.options.subset is None:
            return None
        usable = torch.ones(len(listing), dtype=torch.bool)
        checked = torch.zeros(len(listing), dtype=torch.bool)
        while True:
            chosen = choose_subset(listing.strata, self.options.subset, usable)
            new = chosen[~checked[chosen]]
            if len(new) == 0:
                return usable
            checked[new] = True
            files = FileImages(listing.select(new).records, CHECK_SIZE, self.pixels)
            _, readable = self._decode(files)
            usable[new] = False
            usable[new[readable]] = True

    def _decode(self, files: FileImages) -> tuple[MemoryImages, torch.Tensor]:
        images, indices, unreadable = read_into_memory(files, workers=self.options.workers)
        self.unreadable += unreadable
        return images, indices
