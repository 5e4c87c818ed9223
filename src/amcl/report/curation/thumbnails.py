"""Small pictures of images, as `data:` addresses within a page."""

import base64
import io
from collections.abc import Sequence

import torch
from PIL import Image, features

from amcl.data import Images, stream
from amcl.data.display import Display
from amcl.progress import Progress
from amcl.report.blocks import check_pixels

SIDE = 96
"""Pixels of the longer side of a thumbnail, at most."""
_CHUNK = 64
_WEBP = features.check("webp")  # as Pillow was built


def thumbnail(pixels: torch.Tensor, shape: tuple[int, int] | None = None) -> Image.Image:
    """Return a small picture of an image.

    Args:
        pixels: The image, uint8 (3, H, W), which may have been squashed.
        shape: Its true height and width; None for those of `pixels`.

    Returns:
        The picture in the true proportions, at most `SIDE` pixels a side.

    Example:
        >>> thumbnail(torch.zeros(3, 96, 96, dtype=torch.uint8), (300, 600)).size
        (96, 48)
    """
    check_pixels("pixels", pixels, 3)
    height, width = pixels.shape[1:] if shape is None else shape
    scale = min(1.0, SIDE / max(height, width))
    picture = Image.fromarray(pixels.permute(1, 2, 0).contiguous().cpu().numpy())
    return picture.resize((max(1, round(width * scale)), max(1, round(height * scale))))


def thumbnail_uris(
    images: Images,
    indices: Sequence[int],
    budget: int,
    workers: int = 0,
    bands: Sequence[int] | None = None,
) -> list[str]:
    """Return thumbnails as `data:` addresses.

    Args:
        images: Images in memory, or files, best on a canvas of `SIDE` pixels.
        indices: Indices of the images, the most important first.
        budget: Characters that all addresses may have together: the images beyond it have none.
        workers: Processes that decode files.
        bands: Channels to show, of images that are not RGB; see `Display.of`, which is made of the
            first images, so that all are stretched alike.

    Returns:
        The address of each image; "" for one that cannot be read or is beyond the budget.
    """
    uris: dict[int, str] = {}
    steps = torch.tensor(indices, dtype=torch.long).split(_CHUNK)
    batches = stream(images, steps, workers=workers, replace=False)
    display: Display | None = None
    with Progress("thumbnails", len(indices)) as progress:
        for step, batch in zip(steps, batches, strict=True):
            shapes = [None] * len(batch.pixels) if batch.shapes is None else batch.shapes.tolist()
            if display is None and len(batch.pixels):
                display = Display.of(batch.pixels, bands)
            shown = batch.pixels if display is None else display(batch.pixels)
            for index, pixels, shape in zip(
                batch.select(step).tolist(), shown, shapes, strict=True
            ):
                uri = _encoded(thumbnail(pixels, shape))
                budget -= len(uri)
                if budget < 0:
                    break
                uris[index] = uri
            progress.advance(len(step))
            if budget < 0:
                break
    batches.close()
    return [uris.get(index, "") for index in indices]


def _encoded(picture: Image.Image) -> str:
    file = io.BytesIO()
    kind = "webp" if _WEBP else "jpeg"
    # Small pictures are shown enlarged, where compression is seen.
    picture.save(file, kind, quality=75 if max(picture.size) > SIDE // 2 else 90)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
