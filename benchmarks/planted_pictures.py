"""A folder of pictures in which copies, damaged and foreign pictures are planted.

`plant` writes it with a manifest that says what each file is: the truth that scores are measured
against.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

COPIES = ("exact", "jpeg", "resized", "cropped", "mirrored")
DAMAGED = ("blurred", "occluded")
FOREIGN = ("digits", "noise", "other set")
CLEAN = "clean"
SHARE = 1 / 40
"""Number of pictures of each kind, as a share of the clean ones; of digits and noise, half."""


@dataclass(frozen=True)
class Pictures:
    """Pictures uint8 (n, S, S, 3) with their labels (n,)."""

    pixels: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.pixels)


@dataclass(frozen=True)
class Planted:
    """What a file is."""

    name: str
    kind: str
    label: int
    """Class of the picture; −1 where it has none of the set."""
    source: str = ""
    """For a copy: the name of the file that it is a copy of."""


def plant(folder: Path, base: Pictures, others: Pictures, seed: int) -> list[Planted]:
    """Write the pictures and the manifest into a new folder, in a random order.

    Args:
        folder: The folder; pictures go to `pictures`, the truth to `manifest.json` beside it.
        base: The clean pictures. Some of them are damaged, and copies are made of some others.
        others: Pictures of another set.
        seed: Seed of everything random.

    Returns:
        What each file is, in the order of their names.
    """
    random = np.random.default_rng(seed)
    count = max(1, round(len(base) * SHARE))
    order = iter(random.permutation(len(base)).tolist())
    take = {kind: [next(order) for _ in range(count)] for kind in (*COPIES, *DAMAGED)}
    size = base.pixels.shape[1]
    made: list[tuple[Image.Image, str, int, int]] = []  # picture, kind, label, source
    damaged = {i: kind for kind in DAMAGED for i in take[kind]}
    for i, pixels in enumerate(base.pixels):
        kind = damaged.get(i, CLEAN)
        picture = Image.fromarray(pixels)
        if kind in DAMAGED:
            picture = _CHANGES[kind](picture, random)
        made.append((picture, kind, int(base.labels[i]), -1))
    for kind in COPIES:
        for i in take[kind]:
            picture = _CHANGES[kind](Image.fromarray(base.pixels[i]), random)
            made.append((picture, kind, int(base.labels[i]), i))
    half = max(1, count // 2)
    made += [(digits(size, random), "digits", -1, -1) for _ in range(half)]
    made += [(noise(size, random), "noise", -1, -1) for _ in range(half)]
    for i in random.permutation(len(others))[:count]:
        picture = Image.fromarray(others.pixels[i]).resize((size, size), Image.Resampling.BICUBIC)
        made.append((picture, "other set", -1, -1))
    return _write(folder, made, random)


def read_manifest(folder: Path) -> list[Planted]:
    """Return what each file is, in the order of their names."""
    rows = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return [Planted(**row) for row in rows]


def digits(size: int, random: np.random.Generator) -> Image.Image:
    """Draw one to three digits on a colored ground, as a house number is."""
    scale = 4
    side = size * scale
    ground, ink = random.integers(0, 256, (2, 3))
    while abs(int(ground.sum()) - int(ink.sum())) < 150:
        ground, ink = random.integers(0, 256, (2, 3))
    slope = (
        random.normal(0, 40, (2, 3))
        * (np.indices((side, side)) / side - 0.5).transpose(1, 2, 0)[..., None]
    )
    shaded = (ground + slope.sum(2)).clip(0, 255).astype(np.uint8)
    picture = Image.fromarray(shaded)
    text = "".join(str(digit) for digit in random.integers(0, 10, random.integers(1, 4)))
    font = ImageFont.load_default(side * random.uniform(0.55, 0.8))
    mask = Image.new("L", (side, side))
    center = side / 2 + random.normal(0, side / 20, 2)
    ImageDraw.Draw(mask).text(tuple(center), text, fill=255, font=font, anchor="mm")
    mask = mask.rotate(random.normal(0, 8), Image.Resampling.BICUBIC)
    picture.paste(tuple(int(value) for value in ink), mask=mask)
    picture = picture.filter(ImageFilter.GaussianBlur(random.uniform(0, 0.8) * scale))
    picture = picture.resize((size, size), Image.Resampling.BOX)
    grain = random.normal(0, 4, (size, size, 3))
    return Image.fromarray((np.asarray(picture) + grain).clip(0, 255).astype(np.uint8))


def noise(size: int, random: np.random.Generator) -> Image.Image:
    """Draw noise of pixels around a random color."""
    values = random.normal(random.uniform(60, 200, 3), random.uniform(20, 80), (size, size, 3))
    return Image.fromarray(values.clip(0, 255).astype(np.uint8))


def _same(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    return picture


def _resized(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    side = round(picture.width * random.uniform(0.5, 0.75))
    return picture.resize((side, side), Image.Resampling.BICUBIC)


def _cropped(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    """Take 60 to 85 % of the area, scaled to the whole size."""
    width = picture.width
    side = width * random.uniform(0.6, 0.85) ** 0.5
    left, top = random.uniform(0, width - side, 2)
    box = (left, top, left + side, top + side)
    return picture.resize(picture.size, Image.Resampling.BICUBIC, box=box)


def _mirrored(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def _blurred(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    """Blur by a σ of 1 to 2 pixels of 32."""
    return picture.filter(ImageFilter.GaussianBlur(random.uniform(1, 2) * picture.width / 32))


def _occluded(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    """Cover 25 to 50 % of the area by one color."""
    width = picture.width
    ratio = random.uniform(0.75, 4 / 3)
    area = random.uniform(0.25, 0.5) * width**2
    sides = np.minimum(np.array([(area * ratio) ** 0.5, (area / ratio) ** 0.5]), width).round()
    start = random.uniform(0, width - sides).round()
    covered = picture.copy()
    box = tuple(int(value) for value in (*start, *(start + sides)))
    covered.paste(tuple(int(value) for value in random.integers(0, 256, 3)), box)
    return covered


_CHANGES: dict[str, Callable[[Image.Image, np.random.Generator], Image.Image]] = {
    "exact": _same,
    "jpeg": _same,  # compressed when it is written
    "resized": _resized,
    "cropped": _cropped,
    "mirrored": _mirrored,
    "blurred": _blurred,
    "occluded": _occluded,
}


def _write(
    folder: Path, made: list[tuple[Image.Image, str, int, int]], random: np.random.Generator
) -> list[Planted]:
    pictures = folder / "pictures"
    pictures.mkdir(parents=True)
    # The names tell nothing: files are numbered in a random order.
    numbers = random.permutation(len(made)).tolist()
    stems = [f"{number:06d}" for number in numbers]
    suffixes = [".jpg" if kind == "jpeg" else ".png" for _, kind, _, _ in made]
    names = [stem + suffix for stem, suffix in zip(stems, suffixes, strict=True)]
    planted = []
    for name, (picture, kind, label, source) in zip(names, made, strict=True):
        if kind == "jpeg":
            picture.save(pictures / name, quality=int(random.integers(30, 71)))
        else:
            picture.save(pictures / name)
        planted.append(Planted(name, kind, label, names[source] if source >= 0 else ""))
    planted.sort(key=lambda row: row.name)
    text = json.dumps([asdict(row) for row in planted], indent=0)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")
    return planted
