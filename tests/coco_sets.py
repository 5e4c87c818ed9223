"""Tiny sets in COCO's format, with every oddity that files have."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CATEGORIES = [{"id": 9, "name": "dog"}, {"id": 2, "name": "cat"}, {"id": 40, "name": "bird"}]
HEIGHT, WIDTH = 20, 30


def polygon(x: float, y: float, width: float, height: float) -> list[float]:
    return [x, y, x + width, y, x + width, y + height, x, y + height]


def annotation(
    identity: int, image: int, category: int, box: list[float], **values: Any
) -> dict[str, Any]:
    """An object whose mask is its box, unless other values are given; None takes one out."""
    row: dict[str, Any] = {
        "id": identity,
        "image_id": image,
        "category_id": category,
        "bbox": box,
        "area": box[2] * box[3],
        "iscrowd": 0,
        "segmentation": [polygon(*box)],
    } | values
    return {name: value for name, value in row.items() if value is not None}


def table(first: int = 1, images: int = 4) -> dict[str, Any]:
    """Annotations of four images: of each kind, a crowd, none, and odd boxes.

    Categories are not in the order of their ids, nor objects in that of their images.
    """
    ids = [first + 10 * number for number in range(max(images, 4))]
    size = [HEIGHT, WIDTH]
    right = (WIDTH - 10) * HEIGHT  # pixels before the last ten columns
    runs = {"size": size, "counts": [right, 10 * HEIGHT]}
    rows = [
        annotation(1, ids[1], 9, [20, 0, 10, 20], iscrowd=1, segmentation=runs),
        annotation(2, ids[0], 2, [1.5, 2.25, 10, 8]),
        annotation(
            3, ids[0], 40, [0, 0, 4, 4], segmentation={"size": size, "counts": "04`000000X`0"}
        ),
        annotation(4, ids[1], 9, [5, 5, 6, 6], area=20.5),
        annotation(
            5,
            ids[0],
            9,
            [2, 2, 14, 4],
            area=None,
            segmentation=[polygon(2, 2, 4, 4), polygon(12, 2, 4, 4), [1.0, 1.0, 2.0, 2.0]],
        ),
        annotation(6, ids[3], 9, [7, 7, 0, 5], segmentation=[[7, 7, 7, 12]]),
    ]
    return {
        "images": [
            {"id": i, "file_name": f"{i:03}.png", "height": HEIGHT, "width": WIDTH}
            for i in ids[:images]
        ],
        "categories": [dict(category) for category in CATEGORIES],
        "annotations": [row for row in rows if row["image_id"] in ids[:images]],
    }


def random_table(seed: int, images: int, objects: int, *, size: int = 150) -> dict[str, Any]:
    """Random objects: crowds, boxes of no width, equal boxes, images without objects."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for number in range(images):
        for _ in range(0 if number % 5 == 4 else int(rng.integers(1, objects + 1))):
            x, y, w, h = random_box(rng, size)
            w = 0.0 if rng.random() < 0.05 else w
            box = rows[-1]["bbox"] if rows and rng.random() < 0.1 else [x, y, w, h]
            x, y, w, h = box
            rows.append(
                annotation(
                    len(rows) + 1,
                    _image_id(number),
                    CATEGORIES[rng.integers(2 if number else 3)]["id"],  # birds are few
                    box,
                    area=round(w * h * 0.8, 3),
                    iscrowd=int(rng.random() < 0.15),
                    segmentation=[[x, y, x + w, y, x + w, y + h, x + w / 4, y + h]],
                )
            )
    return {
        "images": [
            {"id": _image_id(n), "file_name": f"{n}.png", "height": size, "width": size}
            for n in range(images)
        ],
        "categories": CATEGORIES,
        "annotations": rows,
    }


def random_box(rng: np.random.Generator, size: int) -> list[float]:
    """Left, top, width and height; small, medium and large ones are about as frequent."""
    width, height = np.exp(rng.uniform(np.log(5), np.log(size * 0.95), 2))
    return [
        round(float(v), 2)
        for v in (rng.uniform(0, size - width), rng.uniform(0, size - height), width, height)
    ]


def _image_id(number: int) -> int:
    return 1000 - 7 * number  # the order of ids is not that of the file


def write_images(folder: Path, content: dict[str, Any]) -> None:
    """Write the images that annotations name, all of one color each."""
    for row in content["images"]:
        path = folder / row["file_name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (row["width"], row["height"]), (row["id"] % 256, 100, 50)).save(path)


def write_json(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def write_set(
    root: Path,
    train: dict[str, Any] | None = None,
    test: dict[str, Any] | None = None,
    layout: str = "annotations/instances_{split}2017.json",
    images: str = "{split}2017",
    test_split: str = "val",
) -> Path:
    """Write a set of two splits, and return its folder."""
    tables = {"train": train or table(), test_split: test or table(first=5, images=3)}
    for split, content in tables.items():
        write_json(root / layout.format(split=split), content)
        write_images(root / images.format(split=split), content)
    return root
