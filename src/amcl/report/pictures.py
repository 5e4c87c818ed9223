"""Images as `data:` addresses within a page."""

import base64
import io
import math

import torch
from PIL import Image

LOSSLESS = 64
"""Pixels a side up to which an image is kept as it is; larger ones are compressed."""
SHOWN = 72
"""Pixels a side at which images are shown, about."""
KEPT = 144
"""Pixels a side beyond which an image is made smaller: it is shown small."""
LARGE = 640
"""Pixels across at which images are shown large, at most."""


def data_uri(image: torch.Tensor, large: bool = False) -> str:
    """Return an image, uint8 (3, H, W), as a `data:` address.

    Args:
        image: The image.
        large: Keep it large enough to read what is drawn on it.

    Example:
        >>> data_uri(torch.zeros(3, 2, 2, dtype=torch.uint8))[:30]
        'data:image/png;base64,iVBORw0K'
    """
    picture = Image.fromarray(image.permute(1, 2, 0).contiguous().cpu().numpy())
    kept = 2 * LARGE if large else KEPT
    picture.thumbnail((kept, kept))
    return _encoded(picture, lossless=max(image.shape[1:]) <= LOSSLESS)


def shown_width(image: torch.Tensor, large: bool = False) -> int:
    """Return the width that an image is shown at: small ones in whole multiples of their pixels.

    Args:
        image: The image, (3, H, W).
        large: Show it large.

    Example:
        >>> [shown_width(torch.zeros(3, size, size)) for size in (8, 28, 32, 64, 96, 224)]
        [72, 84, 64, 64, 72, 72]
    """
    height, width = image.shape[1:]
    if large:
        return min(width, LARGE)
    long = max(height, width)
    scale = max(1, round(SHOWN / long)) if long <= LOSSLESS else SHOWN / long
    return max(1, round(width * scale))


def sheet_uri(thumbs: torch.Tensor) -> tuple[str, int]:
    """Return the `data:` address of a sheet of all thumbs (N, 3, h, w), and its columns."""
    columns = math.ceil(math.sqrt(len(thumbs)))
    rows = math.ceil(len(thumbs) / columns)
    count, channels, height, width = thumbs.shape
    sheet = torch.zeros(rows * columns, channels, height, width, dtype=torch.uint8)
    sheet[:count] = thumbs
    sheet = sheet.view(rows, columns, channels, height, width).permute(0, 3, 1, 4, 2)
    pixels = sheet.reshape(rows * height, columns * width, channels)
    return _encoded(Image.fromarray(pixels.contiguous().numpy()), lossless=False), columns


def _encoded(picture: Image.Image, lossless: bool) -> str:
    file = io.BytesIO()
    if lossless:
        picture.save(file, "PNG", optimize=True)
    else:
        picture.save(file, "JPEG", quality=88, subsampling=0)
    kind = "png" if lossless else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
