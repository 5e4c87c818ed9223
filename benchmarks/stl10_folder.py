"""STL-10's labeled training images as a folder of class folders, in two splits.

    python benchmarks/stl10_folder.py stl10_binary/train_X.bin stl10_binary/train_y.bin data/stl10

The folder `train` gets the first 400 images of each class and `test` the other 100, as PNG: a set
of the size of a small private collection, with labels to evaluate on. The two files are those of
the official archive (`amcl data stl10` fetches it).
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from amcl.data.sets.stl10 import CLASSES

IMAGES = 5000
SIZE = 96
TRAINING_IMAGES = 400
"""Number of training images of each class; the others are test images."""


def write(pixels: Path, labels: Path, folder: Path) -> int:
    """Write the folder, which must not exist, and return the number of its images."""
    for file in (pixels, labels):
        if not file.is_file():
            sys.exit(f"there is no {file}: `amcl data stl10` fetches STL-10's files.")
    images = np.fromfile(pixels, dtype=np.uint8)
    classes = np.fromfile(labels, dtype=np.uint8)
    if images.size != IMAGES * 3 * SIZE * SIZE or classes.size != IMAGES:
        sys.exit(f"{pixels} and {labels} must hold {IMAGES} images and labels of STL-10.")
    if folder.exists():
        sys.exit(f"{folder} exists already: choose another folder, or remove it.")
    images = images.reshape(IMAGES, 3, SIZE, SIZE).transpose(0, 3, 2, 1)  # stored by columns
    for number, name in enumerate(CLASSES, start=1):
        for position, index in enumerate(np.flatnonzero(classes == number)):
            split = "train" if position < TRAINING_IMAGES else "test"
            target = folder / split / name / f"{index:04}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(images[index]).save(target)
    return IMAGES


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pixels", type=Path, help="train_X.bin")
    parser.add_argument("labels", type=Path, help="train_y.bin")
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    print(f"{write(args.pixels, args.labels, args.folder)} images are in {args.folder}")


if __name__ == "__main__":
    main()
