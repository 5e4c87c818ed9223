"""Orientation of images by EXIF: which way up a camera was held."""

from typing import Any

from numpy.typing import NDArray
from PIL import Image

UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
SWAPS_SIDES = (5, 6, 7, 8)
REVERSES_ROWS = (3, 4, 7, 8)
_REVERSES_COLUMNS = (2, 3, 6, 7)
ORIENTATION = 0x0112  # tag of EXIF


def orientation_of(image: Image.Image) -> int:
    """Return the orientation that an image states; 1 is upright."""
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # an image with a broken EXIF block does not say how it was held
        return 1


def upright(values: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Return values (H, W, C) turned upright, as a view.

    >>> import numpy as np
    >>> upright(np.array([[[1], [2]]]), 6).tolist()
    [[[1]], [[2]]]
    """
    if orientation in SWAPS_SIDES:
        values = values.swapaxes(0, 1)
    if orientation in REVERSES_ROWS:
        values = values[::-1]
    return values[:, ::-1] if orientation in _REVERSES_COLUMNS else values
