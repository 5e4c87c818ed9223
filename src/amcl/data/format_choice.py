"""The pixel format of a set of files, chosen by their headers."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from amcl.data.decode import UnreadableImage, read_header, read_planes
from amcl.data.decoding.conversion import check_channels
from amcl.data.decoding.planes import Header, Planes, Values
from amcl.data.decoding.values import check_finite, count_values, depth_in_use
from amcl.data.options import Channels
from amcl.data.pixel_format import DTYPES, RGB, PixelFormat, PixelType, ValueRange
from amcl.data.records import Records
from amcl.printable import counted
from amcl.progress import Progress

HEADERS = 100  # files whose headers are read
_MEASURED = 32  # files whose values are read, for the range
_PER_FILE = 2**16  # values of a file that are kept, for the range of fractions
_PERCENTILES = (0.1, 99.9)
_PICTURES = (1, 3)  # channels of gray and RGB
_ORDER: tuple[PixelType, ...] = tuple(DTYPES)  # from narrow to wide
_BITS = {"uint8": "8 bits", "uint16": "16 bits", "float32": "float32"}


def sample_headers(records: Records, channels: int | None = None) -> dict[int, Header]:
    """Return the headers of up to 100 readable images, from all over the list, by their indices.

    Args:
        records: Encoded images.
        channels: Number of channels that they are to have; None if that is open.

    Raises:
        UnreadableImage: None of them can be read; it is the first of them.
    """
    headers: dict[int, Header] = {}
    first_error: UnreadableImage | None = None
    step = max(1, len(records) // HEADERS)
    spread = (index for start in range(step) for index in range(start, len(records), step))
    for index in spread:
        try:
            headers[index] = read_header(records[index], channels)
        except UnreadableImage as error:
            first_error = first_error or error
        if len(headers) == HEADERS:
            break
    if not headers and first_error is not None:
        raise first_error
    return headers


def choose_format(
    records: Records,
    sample: Mapping[int, Header],
    channels: Channels = "auto",
    value_range: ValueRange | None = None,
) -> tuple[PixelFormat, list[str]]:
    """Choose the format of a set: one number of channels, one type and one range for all images.

    - Channels: pictures are RGB, or gray if all are gray and some have more than 8 bits. Where most
      images have another number of channels, it is that number.
    - Type: the narrowest that holds the values of all of them.
    - Range: 0 to the largest value of the bits in use; of fractions and signed values, that which
      nearly all values lie in.

    Args:
        records: Encoded images, some of which are read to measure the range.
        sample: Headers of some of them, by their indices.
        channels: The number of channels, or "auto".
        value_range: The values that count as 0 and 1; None to measure them.

    Returns:
        The format, and notes on how it was chosen.

    Raises:
        ValueError: No image can have that many channels, or a range is set for 8-bit images.
    """
    headers = list(sample.values())
    number = _choose_channels(headers) if channels == "auto" else channels
    fitting = _following(headers, number)
    if not fitting:
        others = ", ".join(f"{n}" for n in sorted({header.channels for header in headers}))
        raise ValueError(
            f"--channels {number}: the images have {others}. Leave --channels out, or give "
            "the number that they have."
        )
    kind = max((header.type for header in fitting), key=_ORDER.index)
    if kind == "uint8":
        if value_range is not None:
            raise ValueError(
                "--value-range: these images have 8 bits, of which 0 … 255 always count as 0 … 1. "
                "Leave --value-range out."
            )
        if channels == "auto" and number in _PICTURES:
            number = RGB.channels
        pixels = PixelFormat(channels=number)
        reason = ""
    elif value_range is not None:
        pixels = PixelFormat(channels=number, type=kind, value_range=value_range)
        reason = "--value-range"
    else:
        chosen = [index for index in sample if sample[index].type == kind]
        chosen = chosen[:: max(1, len(chosen) // _MEASURED)][:_MEASURED]
        some = records.select(torch.tensor(chosen))
        measured, reason = _measure_range(some, fitting, kind, number)
        pixels = PixelFormat(channels=number, type=kind, value_range=measured)
    return pixels, _notes(pixels, headers, fitting, reason)


def check_follow(headers: Sequence[Header], pixels: PixelFormat) -> None:
    """Raise an error if no image can be given to a model that was trained on others.

    Args:
        headers: Headers of some images.
        pixels: The format of the images that the model was trained on.
    """
    if not _following(headers, pixels.channels):
        own = " or ".join(str(n) for n in sorted({header.channels for header in headers}))
        raise ValueError(
            f"the model takes images of {counted(pixels.channels, 'channel')}, and these have "
            f"{own}: give others with --data, or train a model on these with --channels "
            f"{headers[0].channels}."
        )


def _choose_channels(headers: Sequence[Header]) -> int:
    """Return the number of channels that most images have; gray and RGB count together."""
    counts = Counter(min(_PICTURES) if h.channels in _PICTURES else h.channels for h in headers)
    number, _ = max(counts.items(), key=lambda item: (item[1], -item[0]))
    if number not in _PICTURES:
        return number
    return max(header.channels for header in headers if header.channels in _PICTURES)


def _following(headers: Sequence[Header], channels: int) -> list[Header]:
    """Return the headers of images that can have so many channels."""
    return [header for header in headers if _can_follow(header, channels)]


def _can_follow(header: Header, channels: int) -> bool:
    try:
        check_channels(header, channels)
    except ValueError:
        return False
    return True


def _measure_range(
    records: Records, headers: Sequence[Header], kind: PixelType, channels: int
) -> tuple[ValueRange, str]:
    """Return the values that count as 0 and 1, and how they are known."""
    depths = [header.depth for header in headers if header.type == "uint16"]
    if kind == "uint16" and all(depths):
        bits = max(depth for depth in depths if depth is not None)
        return (0.0, 2.0**bits - 1), f"{bits} bits, as the files say"
    parts = _sample_values(records, kind, channels)
    if not parts:
        return ((0.0, 65535.0) if kind == "uint16" else (0.0, 1.0)), "no file could be measured"
    where = f"measured in {len(parts)} files"
    if kind == "uint16":
        stated = max(header.maximum or 0 for header in headers if header.type == "uint16")
        largest = max(*(int(part.max()) for part in parts), min(stated, 65535))
        bits = depth_in_use(largest, lambda: count_values(parts))
        return (0.0, 2.0**bits - 1), f"{bits} bits in use, {where}"
    values = np.concatenate([part.astype(np.float64) for part in parts])
    low, high = (float(f"{value:.4g}") for value in np.percentile(values, _PERCENTILES))
    if values.min() >= 0 and values.max() <= 1 and high >= 0.1:
        return (0.0, 1.0), f"all values lie in it, {where}"
    if not low < high:
        low, high = float(values.min()), float(values.max())
    return (low, high if low < high else low + 1), (
        f"{_PERCENTILES[0]} and {_PERCENTILES[1]} % of the values lie below, {where}"
    )


def _sample_values(records: Records, kind: PixelType, channels: int) -> list[Values]:
    """Return values of files: of 16 bits each that occurs, of others some."""
    parts: list[Values] = []
    with Progress("measuring the range of values", len(records)) as progress:
        for index in range(len(records)):
            try:
                parts.append(_values(read_planes(records[index], channels), kind))
            except (UnreadableImage, ValueError):  # named when all are decoded
                continue
            finally:
                progress.advance(1)
    return parts


def _values(planes: Planes, kind: PixelType) -> Values:
    color = (strip[..., : planes.header.channels] for _, _, strip in planes.strips())
    if kind == "uint16":
        return np.flatnonzero(count_values(color))
    height, width = planes.shape
    step = max(1, height * width * planes.header.channels // _PER_FILE)
    rows = []
    for strip in color:
        check_finite(strip)
        rows.append(strip.ravel()[::step])
    return np.concatenate(rows)


def _notes(
    pixels: PixelFormat, headers: Sequence[Header], fitting: Sequence[Header], reason: str
) -> list[str]:
    """Return what a user has to know of the format; nothing of 8-bit pictures as RGB."""
    notes = []
    extras = sorted({header.lacks for header in headers if header.lacks})
    notes += [
        f"color of more than 8 bits is narrowed to 8: pip install '.[{extra}]' keeps it"
        for extra in extras
    ]
    pages = max(header.pages for header in fitting)
    if pages not in _PICTURES and pages != pixels.channels:
        notes.append(
            f"there are TIFFs of up to {pages} pages, and the first is read: --channels {pages} "
            "takes gray pages as bands"
        )
    if pixels == RGB:
        return notes
    line = f"images of {counted(pixels.channels, 'channel')}, {_BITS[pixels.type]}"
    if reason:
        low, high = pixels.value_range
        line += f": values from {low:,g} to {high:,g} count as 0 to 1 ({reason})"
    notes.append(line)
    own = {header.channels for header in fitting}
    if own == set(_PICTURES):
        rule = "gray is repeated in each channel" if pixels.channels > 1 else "color becomes gray"
        notes.append(f"gray and RGB images: {rule}")
    if len({header.type for header in fitting}) > 1 and any(h.type == "uint8" for h in fitting):
        notes.append("images of 8 bits and of more: of those of 8 bits, 0 to 255 count as 0 to 1")
    if lost := len(headers) - len(fitting):
        notes.append(
            f"{lost} of {len(headers)} images have another number of channels and are left out"
        )
    return notes
