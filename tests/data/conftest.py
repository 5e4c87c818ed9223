"""Made-up pictures."""

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def picture():
    """Write a picture of random pixels, the same for the same seed, and return its path."""

    def write(path, seed=0, width=40, height=40, **settings):
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path, **settings)
        return path

    return write


@pytest.fixture
def class_folders(picture):
    """Write `each` pictures into each of the folders; every picture is different."""

    def write(root, classes, each, first=0, **settings):
        for number, name in enumerate(classes):
            for index in range(each):
                seed = first + number * each + index
                picture(root / name / f"{index:03}.png", seed, **settings)
        return root

    return write
